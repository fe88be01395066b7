"""Labels known by their texts: what a person is promised, from fit to the files."""

import copy
import pickle
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import bits, same_bits
from kit.books import load_sample
from kit.errors import raises
from kit.watching import calls_of

import sylvan
from sylvan import BeamTreeClassifier, Ensemble, NeighborRanker, TextModel, XRLinear
from sylvan.errors import DataError, DataWarning
from sylvan.models.label_texts.label_texts import LabelTexts, judged_rows
from sylvan.models.xr import xr_linear
from sylvan.ranking.tail import label_gains

WORDS = [f"word{number:02d}" for number in range(40)]
N_ROWS, N_LABELS, LEARNED = 300, 36, 32  # the other four have a text alone


def made() -> tuple[list[str], list[list[str]], dict[str, str]]:
    random = np.random.default_rng(2)
    described = {f"L{label:02d}": " ".join(random.permutation(WORDS)[:3]) for label in range(N_LABELS)}
    texts, labels = [], []
    for row in range(N_ROWS):
        own = [f"L{label:02d}" for label in random.permutation(LEARNED)[:2]]
        words = [word for name in own for word in described[name].split()[: 2 + row % 2]]
        texts.append(" ".join([*words, *random.permutation(WORDS)[:3]]))
        labels.append(own)
    return texts, labels, described


TEXTS, LABELS, DESCRIBED = made()
UNLEARNED = ["L32", "L33", "L34", "L35"]


def fitted(keep_rows: bool = True, described: Any = DESCRIBED, n_jobs: int = 1) -> TextModel:
    ranker = XRLinear(keep_rows=keep_rows, max_leaf=8, n_jobs=n_jobs)
    return (
        TextModel(model=ranker, unlearned="answer")
        .set_params(vectorizer__n_jobs=n_jobs)
        .fit(TEXTS, LABELS, label_texts=described)
    )


@cache
def trained(keep_rows: bool) -> TextModel:
    return fitted(keep_rows)


@pytest.fixture
def kept() -> TextModel:
    """A model that keeps its rows."""
    return copy.copy(trained(True))


@pytest.fixture
def bare() -> TextModel:
    """A model that keeps no rows."""
    return copy.copy(trained(False))


def names_of(model: TextModel) -> list[str]:
    return [model.vocabulary_[label] for label in model.unlearned_labels_.tolist()]


def answers(model: TextModel) -> Any:
    return bits(model.rank([*TEXTS[:20], *DESCRIBED.values(), "", "unheard"], k=12))


def place(model: TextModel, text: str, name: str, k: int = 40) -> int:
    """At which place a label is answered, from 1; 0 if it isn't."""
    names = model.rank([text], k=k).names[0]
    return names.index(name) + 1 if name in names else 0


def texts_of(model: TextModel) -> LabelTexts:
    assert model.label_texts_ is not None
    return model.label_texts_


def row_of(model: TextModel, name: str) -> int:
    known = texts_of(model)
    return int(known.rows[known.labels == model.vocabulary_.id(name)][0])


def learned_from(model: TextModel, texts: list[str], labels: list[list[str]]) -> LabelTexts:
    """What these rows alone teach of the model's labels' texts."""
    known, Y = texts_of(model), model.vocabulary_.encode(labels)
    features = model.vectorizer.transform_rows(texts)
    truth = sylvan.arrays.validate.labels(Y)._replace(shape=(len(texts), model.n_labels_))
    return known.learned_from(features, truth, None, judged_rows(len(texts), None), None, 1)


@pytest.mark.filterwarnings("ignore:Nothing could be learned", "ignore:The texts of:sylvan.errors.DataWarning")
class TestFit:
    def test_labels_without_rows_are_found_by_their_texts_on_the_sample(self) -> None:
        sample = load_sample()
        texts, labels = sample.train.texts[:3000], sample.train.labels[:3000]
        counts = Counter(name for row in labels for name in row)
        hidden = set(sorted(name for name, n in counts.items() if n >= 8)[::5])
        seen = [(text, left) for text, row in zip(texts, labels, strict=True) if (left := [*{*row} - hidden])]
        given = [text for text, _ in seen], [sorted(row) for _, row in seen]
        asked = [(text, hidden & {*row}) for text, row in zip(texts, labels, strict=True) if hidden & {*row}]

        def found(model: TextModel) -> float:
            top = model.rank([text for text, _ in asked], k=10)
            return float(np.mean([bool(row & {*names}) for (_, row), names in zip(asked, top.names, strict=True)]))

        model = TextModel(unlearned="answer").fit(*given, label_texts={name: name for name in counts})
        described = np.diff(texts_of(model).texts.indptr) > 0  # a few have no word of a title
        learned = {name for row in given[1] for name in row}
        alone = [name for name in counts if described[model.vocabulary_.id(name)] and name not in learned]
        assert sorted(names_of(model)) == sorted(alone) and np.count_nonzero(described) > 0.95 * len(counts)
        as_rows = TextModel().fit([*given[0], *counts], [*given[1], *([name] for name in counts)], label_texts=None)
        assert len(hidden) >= 10 and found(model) > 0.2 > 0.1 > found(as_rows)

    def test_the_order_of_ids_and_the_labels_known_by_texts_alone(self, kept: TextModel) -> None:
        own = {name: text for name, text in DESCRIBED.items() if name not in UNLEARNED}
        more = {"Zebras": "word01 word02", "Ants": "word03", **own, "Nothing": "unheard of"}
        model = fitted(described=more)
        assert list(model.vocabulary_) == [*(f"L{label:02d}" for label in range(LEARNED)), "Ants", "Nothing", "Zebras"]
        assert names_of(model) == ["Ants", "Zebras"]  # the words of the other are not known
        assert names_of(kept) == UNLEARNED and kept.unlearned_labels_.dtype == np.int32
        assert len(fitted(described=None).unlearned_labels_) == len(fitted(described={}).unlearned_labels_) == 0

    def test_names_are_texts(self) -> None:
        names = [[DESCRIBED[name] for name in row] for row in LABELS]
        model = TextModel().fit(TEXTS, names, label_texts="names")
        given = TextModel().fit(TEXTS, names, label_texts={name: name for name in model.vocabulary_})
        assert texts_of(model).texts.nnz > 0 and answers(model) == answers(given)
        assert list(model.vocabulary_) == sorted({name for row in names for name in row})

    def test_lists_of_texts_and_numbers_for_labels(self, kept: TextModel) -> None:
        listed = fitted(described={name: text.split() for name, text in DESCRIBED.items()})
        assert answers(listed) == answers(kept)
        numbers = [[int(name[1:]) for name in row] for row in LABELS]
        described: dict[int, str] = {int(name[1:]): text for name, text in DESCRIBED.items()}
        by_number = TextModel(model=XRLinear(max_leaf=8), unlearned="answer").fit(TEXTS, numbers, label_texts=described)
        assert names_of(by_number) == ["32", "33", "34", "35"]
        by_number = TextModel(model=XRLinear(max_leaf=8, keep_rows=True)).fit(TEXTS, numbers)
        by_number.update(["word01"], [[50]], label_texts={"new": "word01", 7_000: "word02", "also": "word03"})
        assert by_number.vocabulary_[-4:] == ["50", "7000", "also", "new"]

    def test_few_labels_and_few_rows(self) -> None:
        for n in (1, 4, 5, 6):
            names = [f"L{row % n}" for row in range(200)]
            described = {**{f"L{label}": WORDS[label] for label in range(n)}, "new": WORDS[0]}
            model = TextModel(unlearned="answer").fit(
                [WORDS[row % n] for row in range(200)], names, label_texts=described
            )
            assert set(model.rank([WORDS[0]], k=2).names[0]) == {"L0", "new"}
        few = TextModel(unlearned="answer").fit(TEXTS[:2], LABELS[:2], label_texts=DESCRIBED)
        assert texts_of(few).curve is None and len(few.unlearned_labels_) == 0
        assert len(few.rank(TEXTS[:1], k=40).names[0]) == N_LABELS

    @pytest.mark.filterwarnings("ignore::sylvan.errors.RowsUnknownWarning")
    def test_labels_that_no_curve_ranks_are_said(self) -> None:
        own = {name: DESCRIBED[name] for name in UNLEARNED}
        with pytest.warns(DataWarning, match=r"without rows \(4\).*labels that have rows.*more rows") as said:
            model = TextModel(unlearned="answer").fit(TEXTS, LABELS, label_texts=own)
        with pytest.warns(DataWarning, match=r"without rows \(5\)") as said_again:
            model.update(label_texts={"New": "word01 word02"})
        assert {str(each.filename) for each in (*said, *said_again)} == {__file__}
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataWarning)
            model.update(["word03", "word01 word02"], [["Newer"], ["Newest"]], label_texts=None)
            fitted().update(label_texts={"New": "word01 word02"})
            TextModel(unlearned="answer").fit(TEXTS[:9], LABELS[:9], label_texts={name: name for name in LABELS[0]})

    def test_the_order_of_the_mapping_changes_nothing(self) -> None:
        texts, labels = [f"{word} {n}" for n in range(40) for word in ("whale", "bread", "iron")], [0, 1, 2] * 40
        given = {"0": "whale hunting", "1": "bread and cakes", "2": "iron ships", "9": "whale bread"}
        models = [
            TextModel(unlearned="answer").fit(texts, labels, label_texts=dict(order))
            for order in (given.items(), [*given.items()][::-1])
        ]
        tops = [model.rank(["whale bread", "iron"], k=4) for model in models]
        assert (tops[0].labels == tops[1].labels).all() and (tops[0].scores == tops[1].scores).all()

    def test_rows_alone_calibrate(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trainings = calls_of(monkeypatch, xr_linear, "train")
        texts, labels = [f"{word} {n}" for n in range(100) for word in ("whale", "bread")], [0, 1] * 100
        names = {str(label): "whale" for label in range(400)}
        model = TextModel(unlearned="answer").fit(texts, labels, label_texts=names)
        assert model.calibrator_ is None and model.model.calibrator_ is not None  # the texts' rows are more than half
        (held_out,) = trainings[0].args[2]
        assert len(trainings) == 1 and len(held_out) > 0 and max(held_out) < len(texts)
        with pytest.warns(DataWarning, match="more rows"):
            TextModel(unlearned="answer").fit(texts[:100], labels[:100], label_texts=names)
        assert [*trainings[1].args[2]] == []  # too few rows to hold any out, however many texts there are

    def test_any_number_of_threads_gives_the_same_bits(self, kept: TextModel) -> None:
        same_bits(texts_of(fitted(n_jobs=3)), texts_of(kept))
        assert answers(fitted(n_jobs=3)) == answers(kept)

    @pytest.mark.parametrize(
        "ranker", [NeighborRanker(), BeamTreeClassifier(), Ensemble([XRLinear(), NeighborRanker()])], ids=repr
    )
    def test_other_models(self, ranker: Any, tmp_path: Path) -> None:
        labels = [row[0] for row in LABELS] if isinstance(ranker, BeamTreeClassifier) else LABELS
        model = TextModel(model=ranker, unlearned="answer").fit(TEXTS, labels, label_texts=DESCRIBED)
        assert names_of(model) == UNLEARNED and 1 <= place(model, DESCRIBED["L33"], "L33") <= 3
        model.save(tmp_path / "m")
        assert answers(sylvan.load(tmp_path / "m")) == answers(model)
        model.update(label_texts={"Steam": "word01 word07 word09"})
        assert names_of(model) == [*UNLEARNED, "Steam"] and 1 <= place(model, "word01 word07 word09", "Steam") <= 3

    def test_members_of_an_ensemble(self) -> None:
        both = Ensemble([TextModel(model=each, unlearned="answer") for each in (XRLinear(), NeighborRanker())])
        both.fit(TEXTS, LABELS, label_texts=DESCRIBED)
        assert all(names_of(member) == UNLEARNED for member in both.members)
        assert "L33" in both.rank([DESCRIBED["L33"]], k=3).names[0]

    def test_plan_counts_the_texts(self) -> None:
        model = TextModel(unlearned="answer")
        many = {f"new {number}": "word01 word02" for number in range(600)}
        weight = np.ones(N_ROWS)
        plain, more = model.plan(TEXTS, LABELS), model.plan(TEXTS, LABELS, weight, label_texts=many)
        assert more.model_bytes > plain.model_bytes
        assert model.plan(TEXTS, LABELS, label_texts="names").fits
        with raises(DataError, "label_texts"):
            model.plan(TEXTS, LABELS, label_texts=3)


class TestAnswers:
    def test_probabilities(self, kept: TextModel) -> None:
        asked = DESCRIBED["L33"]
        top = kept.rank([asked], k=5)
        label, at = 33, top.labels[0].tolist().index(33)
        assert (np.diff(top.scores[0]) <= 0).all() and 0 < top.scores.min() <= top.scores.max() < 1
        proba = kept.predict_proba([asked], k=5)
        assert proba.shape == (1, N_LABELS) and proba[0, label] == top.scores[0, at]
        same = kept.probabilities(top)
        same_bits(same, top)
        assert kept.predict([asked], k=5)[0, label] == 1
        assert kept.predict([asked], threshold=float(top.scores[0, at]) * 0.9)[0, label] == 1
        assert "L33" in kept.choose([asked], expected="f1", allowed=UNLEARNED).names[0]
        assert "L33" in kept.choose([asked], threshold={"L33": 0.01}).names[0]
        assert "L33" not in kept.choose([asked], threshold={"L33": 0.99}).names[0]

    def test_rare_labels_may_count_more(self, kept: TextModel) -> None:
        asked = DESCRIBED["L33"]
        plain = kept.rank([asked], k=40)
        for tail in ("psp", "macro_recall"):
            gains = label_gains(tail, kept.model.label_counts_, kept.model.n_rows_)
            top = kept.rank([asked], k=5, tail=tail)
            expected = sorted(plain.scores[0] * gains[plain.labels[0]], reverse=True)[:5]
            np.testing.assert_allclose(top.scores[0], expected, rtol=1e-5)
            assert top.names[0].index("L33") <= plain.names[0].index("L33")
        assert kept.rank([asked], k=3, tail="none").names == kept.rank([asked], k=3).names
        always = copy.deepcopy(kept).set_params(model__tail="psp")
        for own, given in (({}, {"tail": "psp"}), ({"tail": "none"}, {})):
            np.testing.assert_array_equal(always.rank(TEXTS, 5, **own).scores, kept.rank(TEXTS, 5, **given).scores)

    def test_more_answers_than_labels_and_nothing_to_go_by(self, kept: TextModel) -> None:
        assert kept.rank(["", "unheard"], k=60).names == [[], []]
        top = kept.rank([DESCRIBED["L33"], "", "unheard"], k=60, unknown="prior")
        for names in top.names:
            assert len(names) == len(set(names)) and len(names) >= LEARNED
        assert set(top.names[1]) & set(UNLEARNED) == set()  # they share nothing with a text of nothing
        assert kept.rank([], k=3).names == []

    def test_explanations_have_the_place_and_the_probability_of_the_ranking(self, kept: TextModel) -> None:
        top = kept.rank([DESCRIBED["L33"]], k=3)
        for at, name in enumerate(top.names[0]):
            found = kept.explain(DESCRIBED["L33"], name)
            assert found.place == at + 1 and found.probability == pytest.approx(top.scores[0, at])
            assert bool(found.trees) == (name != "L33") and ("no word" not in found.text())
        assert "L33" in top.names[0]
        assert all(word in kept.explain(DESCRIBED["L33"], "L33").notes[0] for word in DESCRIBED["L33"].split())
        assert "shares no word" in kept.explain("", "L33").text()


class TestFiles:
    @pytest.mark.parametrize("mmap", [True, False])
    def test_saved_loaded_copied_and_pickled(self, kept: TextModel, mmap: bool, tmp_path: Path) -> None:
        kept.save(tmp_path / "m")
        again = sylvan.load(tmp_path / "m", mmap=mmap)
        for other in (again, copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
            same_bits(texts_of(other), texts_of(kept))
            assert names_of(other) == UNLEARNED and answers(other) == answers(kept)
        again.update(label_texts={"L40": "word01 word07 word09"}).save(tmp_path / "m")
        assert answers(sylvan.load(tmp_path / "m")) == answers(again)
        assert place(again, "word01 word07 word09", "L40") in (1, 2, 3) and "L40" not in kept.vocabulary_

    def test_a_copy_does_not_follow_its_original(self, kept: TextModel) -> None:
        before, other = answers(kept), copy.copy(kept)
        other.update(["word01 word02"] * 3, [["L33"]] * 3)
        assert names_of(other) == ["L32", "L34", "L35"] and names_of(kept) == UNLEARNED
        assert answers(kept) == before

    @pytest.mark.parametrize("keep_rows", [True, False])
    def test_a_removed_label_is_never_answered(self, keep_rows: bool, tmp_path: Path, request: Any) -> None:
        model = request.getfixturevalue("kept" if keep_rows else "bare")
        made, asked = model.without_labels("L33"), DESCRIBED["L33"]
        model.save(tmp_path / "before")
        for name in ("first", "again"):
            made.save(tmp_path / name)
            made = sylvan.load(tmp_path / name)
        assert names_of(made) == ["L32", "L34", "L35"] and 33 not in made.rank([asked], k=60).labels
        known, own = texts_of(made), texts_of(model).texts.to_scipy()[33]
        assert known.texts.to_scipy()[33].nnz == 0 and 33 not in known.labels
        assert not np.isin(known.contexts.words, own.indices).any()  # nor is what its rows made of its words
        features = own.data.tobytes()
        stored = [
            any(features in file.read_bytes() for file in (tmp_path / name).iterdir()) for name in ("before", "again")
        ]
        assert stored == [True, keep_rows], "its text's features lie nowhere, but in a row"
        assert names_of(model) == UNLEARNED

    def test_a_removed_name_may_come_again(self, kept: TextModel) -> None:
        made = kept.without_labels("L33")
        made.update(label_texts={"L33": DESCRIBED["L33"]})
        assert made.vocabulary_.id("L33") == N_LABELS and names_of(made) == ["L32", "L34", "L35", "L33"]
        assert 1 <= place(made, DESCRIBED["L33"], "L33") <= 3


class TestUpdate:
    def test_rows_teach_and_their_forgetting_unteaches(self, kept: TextModel) -> None:
        kept.update(["word01 word02", "word02 word03"], [["L33"], ["L33", "L35"]])
        assert names_of(kept) == ["L32", "L34"]
        kept.update(forget=kept.model.training_rows_.ids[-1:])  # type: ignore[attr-defined]
        assert names_of(kept) == ["L32", "L34", "L35"]

    def test_new_labels_where_rows_are_kept(self, kept: TextModel) -> None:
        steam = {"Steam": ["word01 word07", "word09"], "Air": "word11 word13", "Both": "word05 word06"}
        kept.update(["engine"] * 2, [["Both"], ["Rails"]], label_texts=steam)
        assert list(kept.vocabulary_)[N_LABELS:] == ["Air", "Both", "Rails", "Steam"]
        assert names_of(kept) == [*UNLEARNED, "Air", "Steam"]
        assert 1 <= place(kept, "word01 word07 word09", "Steam") <= 3
        ids = kept.model.training_rows_.ids  # type: ignore[attr-defined]
        assert ids.tolist() == list(range(N_ROWS + N_LABELS + 5)) and row_of(kept, "Air") >= N_ROWS + N_LABELS + 2
        labels = [*LABELS, ["Both"], ["Rails"]]
        same_bits(texts_of(kept), learned_from(kept, [*TEXTS, *["engine"] * 2], labels))

    def test_new_labels_where_no_rows_are_kept(self, bare: TextModel) -> None:
        bare.update(label_texts={"Steam": "word01 word07 word09"})
        assert names_of(bare) == [*UNLEARNED, "Steam"]
        words = "word01 word07 word09"
        (names,) = bare.rank([words], k=40).names
        ahead = [DESCRIBED[name] for name in names[: names.index("Steam")]]
        assert all(set(text.split()) & set(words.split()) for text in ahead) and (texts_of(bare).rows == -1).all()

    def test_another_text_replaces_the_old_one(self, kept: TextModel) -> None:
        old = row_of(kept, "L33")
        other = {**DESCRIBED, "L33": "word01 word07 word09"}
        kept.update(label_texts={"L33": other["L33"]})
        assert names_of(kept) == UNLEARNED and old not in kept.model.training_rows_.ids  # type: ignore[attr-defined]
        again = fitted(described=other)
        a, b = texts_of(kept), texts_of(again)
        np.testing.assert_array_equal(a.texts.to_scipy().toarray(), b.texts.to_scipy().toarray())
        assert a.contexts.words.tolist() == b.contexts.words.tolist() and a.curve == pytest.approx(b.curve, rel=1e-9)
        np.testing.assert_array_equal(a.contexts.means.data, b.contexts.means.data)

    @pytest.mark.parametrize("forget", [None, 3, [3, 4], np.array([3]), []])
    def test_another_text_beside_rows_to_forget(self, kept: TextModel, forget: Any) -> None:
        old = row_of(kept, "L33")
        kept.update(label_texts={"L33": "word01 word07"}, forget=forget)
        gone = {old, *([] if forget is None else np.ravel(forget).astype(int).tolist())}
        assert set(range(N_ROWS + N_LABELS)) - set(kept.model.training_rows_.ids.tolist()) == gone  # type: ignore[attr-defined]

    def test_names_as_texts_leave_removed_labels_out(self) -> None:
        names = [[DESCRIBED[name] for name in row] for row in LABELS]
        model = TextModel(model=XRLinear(keep_rows=True)).fit(TEXTS, names).without_labels(DESCRIBED["L03"])
        model.update(label_texts="names")
        described = np.flatnonzero(np.diff(texts_of(model).texts.indptr)).tolist()
        assert described == sorted({*range(LEARNED)} - set(model.removed_labels_.tolist()))

    def test_nothing_depends_on_forgotten_rows(self, kept: TextModel) -> None:
        forgotten = [0, 7, 150]
        kept.update(forget=forgotten)
        rows = [row for row in range(N_ROWS) if row not in forgotten]
        left = learned_from(kept, [TEXTS[row] for row in rows], [LABELS[row] for row in rows])
        same_bits(texts_of(kept), left)
        assert names_of(kept) == UNLEARNED

    def test_nothing_of_words_is_known_where_rows_that_were_not_kept_are_forgotten(self, bare: TextModel) -> None:
        bare.update(forget=[0, 7], rows=(TEXTS, LABELS))
        assert len(texts_of(bare).contexts.words) == 0 and names_of(bare) == UNLEARNED
        assert place(bare, DESCRIBED["L33"], "L33") > 0

    def test_a_text_whose_row_is_forgotten_goes(self, kept: TextModel) -> None:
        kept.update(forget=[row_of(kept, "L33")])
        assert names_of(kept) == ["L32", "L34", "L35"] and texts_of(kept).texts.to_scipy()[33].nnz == 0
        assert row_of(kept, "L34") == N_ROWS + 34

    @pytest.mark.parametrize("into", ["L03", "L33", "L35"])
    def test_merging_a_label_known_by_its_text(self, kept: TextModel, into: str) -> None:
        kept.update(merge={into: ["L34"]})
        left = [name for name in UNLEARNED if name != "L34"]
        assert names_of(kept) == left and "L34" not in kept.vocabulary_
        assert 34 not in kept.rank([DESCRIBED["L34"]], k=60).labels
        known = texts_of(kept)
        assert known.texts.to_scipy()[34].nnz == 0 and (known.labels == kept.vocabulary_.id(into)).sum() == 2

    def test_a_learned_label_merged_into_one_known_by_its_text(self, kept: TextModel) -> None:
        kept.update(merge={"L34": ["L03"]})
        assert names_of(kept) == ["L32", "L33", "L35"] and place(kept, DESCRIBED["L34"], "L34") > 0

    @pytest.mark.parametrize(("forgotten", "left"), [("L33", True), ("L35", False)])
    def test_of_a_merged_label_either_text_can_be_forgotten(self, kept: TextModel, forgotten: str, left: bool) -> None:
        row = row_of(kept, forgotten)
        kept.update(merge={"L35": ["L33"]}).update(forget=[row])
        assert ("L35" in names_of(kept)) == left and (texts_of(kept).texts.to_scipy()[35].nnz > 0) == left
        assert (texts_of(kept).labels == 35).sum() == kept.model.label_counts_[35] == 1

    def test_a_plan_changes_nothing(self, kept: TextModel) -> None:
        before = answers(kept)
        assert kept.plan_update(label_texts={"L40": "word01 word09"}).nodes[-1] > 0
        assert answers(kept) == before and kept.n_labels_ == N_LABELS


SENTENCES: list[tuple[Any, str]] = [
    (3, "must be a mapping of labels to texts, a SubjectVocabulary, or 'names'. Got int"),
    ("name", "must be a mapping of labels to texts, a SubjectVocabulary, or 'names'. Got str"),
    (["L01"], "Got list instead"),
    ({"L01": 3}, "Got 3 for label 'L01'"),
    ({"L01": None}, "Got None for label 'L01'"),
    ({"L01": ["a", None]}, "for label 'L01'"),
    ({None: "word01"}, "Got None instead"),
    ({1.5: "word01"}, "Got 1.5 instead"),
    ({True: "word01"}, "Got True instead"),
    ({"": "word01"}, "by ints or non-blank strings. Got ''"),
    ({"\xa0 ": "word01"}, "by ints or non-blank strings. Got '\\xa0 '"),
    ({"L33 ": "word01", "L33": "word02"}, "twice, as 'L33 ' and as 'L33'"),
]


class TestWrongInput:
    @pytest.mark.parametrize(("given", "words"), SENTENCES, ids=repr)
    def test_texts_of_another_type(self, kept: TextModel, given: Any, words: str) -> None:
        before = answers(kept)
        for call in (
            lambda: kept.update(label_texts=given),
            lambda: kept.update(["word01"], [["L01"]], label_texts=given),
            lambda: kept.fit(TEXTS, LABELS, label_texts=given),
            lambda: kept.plan(TEXTS, LABELS, label_texts=given),
        ):
            with pytest.raises(DataError) as caught:
                call()
            assert words in str(caught.value) and str(caught.value).endswith(".") and "\n" not in str(caught.value)
        assert answers(kept) == before and kept.n_labels_ == N_LABELS and names_of(kept) == UNLEARNED

    def test_what_does_not_go_together(self, kept: TextModel, bare: TextModel) -> None:
        before = answers(kept), answers(bare)
        new = {"L40": "word01 word02"}
        for call, words in (
            (lambda: kept.fit(TEXTS, LABELS, label_texts=DESCRIBED, memory_limit="1GB"), "memory_limit"),
            (lambda: kept.update(label_texts={}), "X"),
            (lambda: kept.update(["word01"], label_texts=new), ("X", "Y", "together")),
            (lambda: kept.update(["word01"], [["L01"], ["L02"]], label_texts=new), ("X", 1, "Y")),
            (lambda: kept.update(["word01"], [["L01"]], [1.0, 2.0], label_texts=new), "sample_weight"),
            (lambda: kept.update(label_texts={"L33": "word01"}, forget=[9999]), "numbered"),
            (lambda: bare.update(label_texts={"L33": "word01"}), "forget"),
        ):  # fmt: skip
            with raises(DataError, words):
                call()
        assert (answers(kept), answers(bare)) == before
        assert kept.n_labels_ == bare.n_labels_ == N_LABELS

    def test_texts_without_a_known_word_are_said(self, kept: TextModel) -> None:
        """Before an update that is left with nothing to do, too."""
        words = "The texts of {}, such as {!r}, have no word that the model knows: these labels aren't found by them."
        with pytest.warns(DataWarning) as caught, raises(DataError, "nothing to do"):
            kept.update(label_texts={"L33": "unheard of"})
        with pytest.warns(DataWarning) as others:
            kept.update(label_texts={"L40": "unheard of", "L33": "word01", "L41": ""})
        with pytest.warns(DataWarning) as fitted:
            kept.fit(TEXTS, LABELS, label_texts={**DESCRIBED, "L40": "unheard of", "L01": "unheard of"})
        assert [str(each.message) for each in (*caught, *others, *fitted)] == [
            words.format("1 label", "L33"), words.format("2 labels", "L40"), words.format("1 label", "L40")
        ]  # fmt: skip

    def test_a_stand_in_for_a_removed_name(self, kept: TextModel) -> None:
        made = kept.without_labels("L33")
        with raises(DataError, "removed"):
            made.update(label_texts={made.vocabulary_[33]: "word01"})
