"""What labels are called as training rows: when it is used, and what it does to a model."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits, same_bits
from kit.books import load_sample
from kit.errors import raises, warns

import sylvan
from sylvan import NeighborRanker, TextModel, TfidfVectorizer, XRLinear, data, metrics
from sylvan.arrays import validate
from sylvan.data import Vocabulary
from sylvan.errors import DataError, DataWarning, ModelError, ParameterError
from sylvan.models.blocks import training_counts
from sylvan.models.label_texts.name_rows import Likeness, likeness, readable

TRAIN, TEST = load_sample()
TEXTS, LABELS = TRAIN.texts[:1200], TRAIN.labels[:1200]
NAMES = sorted({name for row in LABELS for name in row})


def model(**options: Any) -> TextModel:
    return TextModel(TfidfVectorizer(n_jobs=1), XRLinear(n_jobs=1, **options))


@cache
def fitted() -> TextModel:
    """With the defaults, to be read alone."""
    return model().fit(TEXTS, LABELS)


def of_others() -> dict[str, str]:
    shuffled = np.random.default_rng(0).permutation(np.array(NAMES, object)).tolist()
    return dict(zip(NAMES, shuffled, strict=True))


def precision(tagger: TextModel, codes: dict[str, str] | None = None) -> float:
    """Of the answers to the test's texts, whose labels may have been given by codes."""
    labels = [[codes[name] for name in row if name in codes] for row in TEST.labels] if codes else TEST.labels
    truth = tagger.vocabulary_.encode(labels, unknown="ignore")
    return metrics.precision(truth, tagger.rank(TEST.texts, k=5), at=5)[5]


class TestDecision:
    def test_names_are_rows_by_default_and_help(self) -> None:
        without = model().fit(TEXTS, LABELS, label_texts=None)
        assert without.label_texts_ is without.label_text_likeness_ is None
        assert fitted().label_text_likeness_.helps and precision(fitted()) > precision(without) + 0.003

    def test_they_are_the_rows_that_one_would_write_by_hand(self) -> None:
        vectorizer, vocabulary = TfidfVectorizer(n_jobs=1), Vocabulary.from_labels(LABELS)
        X, Y = vectorizer.fit_transform(TEXTS), vocabulary.encode(LABELS)
        words = readable(vocabulary)
        names = [name.replace("_", " ") if name in words else "" for name in vocabulary]
        Z, one_each = vectorizer.transform(names), sp.identity(len(vocabulary), np.float32, "csr")
        has_words = np.flatnonzero(np.diff(Z.indptr))
        X, Y = sp.vstack([X, Z[has_words]]).tocsr(), sp.vstack([Y, one_each[has_words]]).tocsr()
        asked, by_hand = vectorizer.transform(TEST.texts), XRLinear(n_jobs=1, calibration=None).fit(X, Y)
        top = model(calibration=None).fit(TEXTS, LABELS).rank(TEST.texts, k=5)
        is_known = np.diff(asked.indptr) > 0  # a text without a known word has no labels
        same_bits(top.of_rows(is_known), by_hand.rank(asked[is_known], k=5))

    def test_names_of_other_labels_are_none(self) -> None:
        with warns(DataWarning, "not used as training rows"):
            refused = model().fit(TEXTS, LABELS, label_texts=of_others())
        assert refused.label_texts_ is None and not refused.label_text_likeness_.helps
        same_bits(refused.model, model().fit(TEXTS, LABELS, label_texts=None).model)
        with warns(DataWarning, "word", "nothing"):
            assert model().fit(TEXTS, LABELS, label_texts=dict.fromkeys(NAMES, "zzzz")).label_texts_ is None

    @pytest.mark.parametrize("given", [np.array(["auto", "names"]), np.array(["auto"]), 3, "automatic"])
    def test_what_is_no_mapping_is_refused(self, given: Any) -> None:
        for method in (model().fit, model().plan):
            with raises(DataError, "mapping", type(given).__name__):
                method(TEXTS, LABELS, label_texts=given)

    def test_counts_of_rows_are_without_names(self) -> None:
        counts, n_rows = training_counts(fitted())
        assert n_rows == len(TEXTS)
        assert counts.tolist() == [sum(name in row for row in LABELS) for name in fitted().vocabulary_]

    def test_in_any_case_where_labels_without_rows_are_to_be_answered(self) -> None:
        certain = model().set_params(unlearned="answer").fit(TEXTS, LABELS, label_texts=of_others())
        assert len(certain.label_texts_.labels) > len(NAMES) / 2 and certain.label_text_likeness_ is None

    def test_codes_are_no_names(self) -> None:
        number = {name: f"Q{place}" for place, name in enumerate(NAMES)}
        tagger = model().fit(TEXTS, [[number[name] for name in row] for row in LABELS])
        assert tagger.label_text_likeness_ is None is tagger.label_texts_
        for code in ("http://example.org/{}", "{}", "Q{}", "mesh:D{}", "QA76.{}"):
            assert readable(Vocabulary([code.format(place) for place in range(99)])) == {}

    def test_what_is_read_as_words(self) -> None:
        words = ["transfer_funds", "Wars, 1800-1815 -- Fiction", "öljy", "covid19", "skos:broader", "no", "http://x.org/word"]
        expected = {"transfer_funds": "transfer funds", "Wars, 1800-1815 -- Fiction": "Wars, 1800-1815 -- Fiction"}
        assert readable(Vocabulary(words[:5])) == expected | {"öljy": "öljy"}
        assert readable(Vocabulary(words)) == {}  # most are none

    def test_too_few_rows_tell_nothing(self) -> None:
        few = model().fit(TEXTS[:100], LABELS[:100])
        assert few.label_texts_ is None is few.label_text_likeness_
        given = model().fit(TEXTS[:100], LABELS[:100], label_texts="names")  # what is given is taken
        assert given.label_texts_ is not None

    def test_other_models_have_no_such_rows_unasked(self) -> None:
        """Nor has one that keeps its rows, whose ids would count those of names too."""
        assert TextModel(model=NeighborRanker(n_jobs=1)).fit(TEXTS, LABELS).label_texts_ is None
        assert len(model(keep_rows=True).fit(TEXTS, LABELS).model.row_ids_) == len(TEXTS)

    def test_held_out_rows_decide_and_are_answered(self) -> None:
        rows = np.arange(0, len(TEXTS), 10, dtype=np.int32)
        tagger = model()
        top = tagger.fit_holding_out(TEXTS, LABELS, rows)
        assert len(top.labels) == len(rows) and tagger.label_text_likeness_.n_pairs <= sum(len(LABELS[r]) for r in rows)

    def test_the_same_in_blocks_and_by_threads(self) -> None:
        blocks = ((TEXTS[first : first + 500], LABELS[first : first + 500]) for first in range(0, 1200, 500))
        same_bits(model().fit_blocks(blocks).model, fitted().model)
        threads = TextModel(TfidfVectorizer(n_jobs=2), XRLinear(n_jobs=2)).fit(TEXTS, LABELS)
        same_bits(threads.model, fitted().model)
        assert threads.label_text_likeness_ == fitted().label_text_likeness_


class TestLikeness:
    @pytest.mark.parametrize("seed", range(5))
    def test_as_one_would_count_it(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        X, Z = (sp.random(60, 20, 0.3, "csr", np.float32, random_state=seed + part) for part in (0, 9))
        Z = sp.csr_matrix(Z[:12].multiply(random.random((12, 1)) < 0.8), dtype=np.float32)  # some have no text
        Z.eliminate_zeros()
        Y = sp.csr_matrix(random.random((60, 12)) < 0.25, dtype=np.float32)
        held_out = np.sort(random.permutation(60)[:40]).astype(np.int32)
        result = likeness(*validate.pair(X, Y), validate.features(Z), held_out)
        pairs = [(row, label) for row in held_out for label in range(12) if Y[row, label] and Z[label].nnz]
        others = np.random.default_rng(0).permutation([label for _, label in pairs])
        both = [(pair, other) for pair, other in zip(pairs, others, strict=True) if not Y[pair[0], other]]
        pairs, others = [pair for pair, _ in both], [other for _, other in both]
        products = [[float((X[row] @ Z[of].T).sum()) for of in two] for (row, *two) in
                    ((row, label, other) for (row, label), other in zip(pairs, others, strict=True))]  # fmt: skip
        own, by_chance = np.array(products).T
        error = np.std(own - by_chance) / len(pairs) ** 0.5
        assert result.n_pairs == len(pairs)
        np.testing.assert_allclose([result.of_labels, result.by_chance, result.error],
                                   [own.mean(), by_chance.mean(), error], rtol=1e-5)  # fmt: skip

    def test_of_few_pairs_nothing_is_said(self) -> None:
        X, Y = validate.pair(np.eye(29, dtype=np.float32), np.arange(29))
        assert likeness(X, Y, validate.features(np.eye(29)), np.arange(29, dtype=np.int32)) is None

    @pytest.mark.parametrize(
        ("of_labels", "by_chance", "error", "helps"),
        [(0.07, 0.002, 0.001, True), (0.005, 0.002, 0.0001, False), (0.07, 0.002, 0.03, False), (0.0, 0.0, 0.0, False)],
    )
    def test_what_helps(self, of_labels: float, by_chance: float, error: float, helps: bool) -> None:
        assert Likeness(99, of_labels, by_chance, error).helps == helps


class TestLabelsWithoutRows:
    def test_they_are_no_labels_unless_asked_for(self) -> None:
        described = {**{name: name for name in NAMES}, "Volcanoes of Mars": "volcanoes of mars"}
        with warns(DataWarning, 1, "'Volcanoes of Mars'"):
            skips = model().fit(TEXTS, LABELS, label_texts=described)
        assert "Volcanoes of Mars" not in skips.vocabulary_ and len(skips.unlearned_labels_) == 0
        same_bits(skips.model, fitted().model)
        answers = model().set_params(unlearned="answer").fit(TEXTS, LABELS, label_texts=described)
        assert "Volcanoes of Mars" in answers.rank(["The volcanoes of mars"], k=5).names[0]

    def test_a_vocabulary_is_wider_than_the_rows_and_gives_no_warning(self) -> None:
        codes = {name: f"http://example.org/{place}" for place, name in enumerate([*NAMES, "Volcanoes of Mars"])}
        subjects = data.SubjectVocabulary({code: {"en": name} for name, code in codes.items()})
        tagger = model().fit(TEXTS, [[codes[name] for name in row] for row in LABELS], label_texts=subjects)
        assert tagger.label_text_likeness_.helps and codes["Volcanoes of Mars"] not in tagger.vocabulary_
        assert abs(precision(tagger, codes) - precision(fitted())) < 0.01  # in another order, another tree

    def test_an_encoder_of_labels_is_for_such_labels(self, tmp_path: Path) -> None:
        tagger = TextModel(label_encoder=str(tmp_path))
        with raises(ParameterError, "'label_encoder'", "unlearned='answer'"):
            tagger.fit(TEXTS, LABELS, label_texts="names")


class TestFilesAndUpdates:
    def test_saved_and_loaded(self, tmp_path: Path) -> None:
        fitted().save(tmp_path / "m")
        loaded = sylvan.load(tmp_path / "m")
        assert loaded.label_text_likeness_ == fitted().label_text_likeness_
        same_bits(loaded, fitted())

    def test_a_damaged_number_is_refused(self, tmp_path: Path) -> None:
        state = fitted().to_state()
        state.arrays["label_text_likeness"] = np.array([1.0, np.nan, 0, 0])
        with raises(ModelError, "label_text_likeness"):
            TextModel.from_state(state)

    def test_updates_leave_the_rows_of_names_where_they_are(self) -> None:
        tagger = model(keep_rows=True).fit(TEXTS, LABELS, label_texts="names")
        n_names = len(tagger.label_texts_.rows)
        tagger.update(["The lighthouses of Neptune"], [["Lighthouses of Neptune"]])
        assert len(tagger.label_texts_.rows) == n_names and tagger.label_texts_.curve is None
        assert "Lighthouses of Neptune" in tagger.rank(["the lighthouses of neptune"], k=5).names[0]
        assert len(tagger.unlearned_labels_) == 0

    def test_given_all_rows_again_the_names_are_rows_again(self) -> None:
        few, results = (TEXTS[:400], LABELS[:400]), []
        for keep_rows in (True, False):
            tagger = model(keep_rows=keep_rows).fit(*few, label_texts="names")
            rows = {} if keep_rows else {"rows": few}
            tagger.update(["whales"], [["Whaling of Neptune"]], **rows)
            results.append(tagger.rank(TEST.texts[:200], k=5).labels.tolist())
        same = np.mean([len({*one} & {*other}) for one, other in zip(*results, strict=True)])
        assert same > 4.8  # nodes are solved from nothing in one, and from where they were in the other

    def test_within_a_limit_too(self, tmp_path: Path) -> None:
        blocks = [(TEXTS, LABELS)]
        assert bits(model().fit_blocks(blocks, memory_limit="16GB").model) == bits(fitted().model)
        with raises(DataError, "label_texts", "memory_limit"):
            model().fit(TEXTS, LABELS, label_texts="names", memory_limit="16GB")
