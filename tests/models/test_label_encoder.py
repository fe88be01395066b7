"""Labels known by their texts, found by a text encoder too: labels whose words no row has, files, updates, faults."""

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

pytest.importorskip("torch")

import torch
from kit.bits import bits
from kit.encoders import encoder_of_words

import sylvan
from sylvan import TextModel, TfidfVectorizer, XRLinear
from sylvan.errors import ModelError, ParameterError
from sylvan.models.encoders import ModelEncoder, encoded
from sylvan.models.label_texts.label_texts import LabelTexts
from sylvan.neural import BagTextEncoder, open_encoder

N_WORDS, N_ROWS, N_LABELS, LEARNED = 60, 400, 60, 50
UNLEARNED = [f"L{label:02d}" for label in range(LEARNED, N_LABELS)]


def made() -> tuple[list[str], list[list[str]], dict[str, str]]:
    """Rows have words of one language, and labels' texts those of another: a label's word is its number."""
    random = np.random.default_rng(0)
    described = {f"L{label:02d}": f"wort{label:02d}" for label in range(N_LABELS)}
    texts, labels = [], []
    for _ in range(N_ROWS):
        own = random.permutation(LEARNED)[:2].tolist()
        noise = random.integers(0, N_WORDS, 2).tolist()
        texts.append(" ".join(f"word{number:02d}" for number in [*own, *noise]))
        labels.append([f"L{label:02d}" for label in own])
    return texts, labels, described


TEXTS, LABELS, DESCRIBED = made()


def encoder(dim: int = 24) -> BagTextEncoder:
    """Gives a word and its translation the same vector."""
    words = [f"{kind}{number:02d}" for kind in ("word", "wort") for number in range(N_WORDS)]
    vectors = np.random.default_rng(1).normal(size=(N_WORDS, dim))
    return encoder_of_words(words, lambda word: vectors[int(word[-2:])])


def fitted(keep_rows: bool = False, given: Any = None, n_jobs: int = 1) -> TextModel:
    ranker = XRLinear(keep_rows=keep_rows, max_leaf=8, n_jobs=n_jobs)
    model = TextModel(TfidfVectorizer(n_jobs=n_jobs), ranker, encoder() if given is None else given, unlearned="answer")
    return model.fit(TEXTS, LABELS, label_texts=DESCRIBED)


@pytest.fixture(scope="module")
def _bare() -> TextModel:
    return fitted()


@pytest.fixture
def bare(_bare: TextModel) -> TextModel:
    return copy.copy(_bare)


def texts_of(model: TextModel) -> LabelTexts:
    assert model.label_texts_ is not None
    return model.label_texts_


def found(model: TextModel, labels: list[str]) -> int:
    """How many of these labels are among the first three answers to the word that is theirs."""
    top = model.rank([f"word{name[1:]}" for name in labels], k=3)
    return sum(name in names for name, names in zip(labels, top.names, strict=True))


def answers(model: TextModel) -> Any:
    return bits(model.rank([*TEXTS[:20], *(f"word{number}" for number in range(50, 60)), "", "unheard of"], k=12))


@pytest.mark.filterwarnings("ignore:The texts of:sylvan.errors.DataWarning")
def test_labels_are_found_whose_words_no_row_has(bare: TextModel) -> None:
    without = TextModel(TfidfVectorizer(), XRLinear(max_leaf=8), unlearned="answer").fit(
        TEXTS, LABELS, label_texts=DESCRIBED
    )
    assert [bare.vocabulary_[label] for label in bare.unlearned_labels_] == UNLEARNED
    assert found(without, UNLEARNED) == 0 and found(bare, UNLEARNED) >= 9


def test_a_text_without_a_known_word_has_labels_that_the_encoder_finds(bare: TextModel) -> None:
    texts = ["wort55", "wort53", "", " ", "word00"]
    assert bare.known_texts(texts).tolist() == [False, False, False, False, True]
    for unknown in ("none", "prior"):
        top = bare.rank(texts[:4], k=3, unknown=unknown)
        assert [names[0] for names in top.names[:2]] == ["L55", "L53"]
        assert unknown == "prior" or all(set(names) <= set(UNLEARNED) for names in top.names[:2])
        assert all(names if unknown == "prior" else names == [] for names in top.names[2:])


def test_an_explanation_says_the_cosine(bare: TextModel) -> None:
    explained = bare.explain("word55", "L55")
    assert explained.notes == (
        "No training row has this label yet: it is ranked by its own text, which shares no word with this one. The "
        "cosine of their vectors is 1.00.",
    )
    assert explained.score == pytest.approx(float(bare.rank(["word55"], k=1).scores[0, 0]))


def test_saved_loaded_copied_and_pickled(bare: TextModel, tmp_path: Path) -> None:
    bare.save(tmp_path / "m")
    loaded = sylvan.load(tmp_path / "m")
    for again in (loaded, copy.deepcopy(bare), pickle.loads(pickle.dumps(bare)), pickle.loads(pickle.dumps(loaded))):
        assert answers(again) == answers(bare)
    loaded.save(tmp_path / "m")  # onto the files that it reads
    assert answers(sylvan.load(tmp_path / "m")) == answers(bare)
    assert isinstance(loaded.label_encoder, BagTextEncoder)


def test_the_number_of_threads_changes_no_bit(bare: TextModel) -> None:
    assert answers(fitted(n_jobs=3)) == answers(bare)


def test_a_few_texts_are_encoded_on_one_thread() -> None:
    given, seen = encoder(), []
    given.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    assert encoded(given, TEXTS[:7], 3).shape == (7, 24) and encoded(given, TEXTS[:8], 3).shape == (8, 24)
    assert seen == [1, 3]


def test_the_model_has_an_encoder_of_its_own() -> None:
    given = encoder()
    model = fitted(given=given)
    before = answers(model)
    with torch.no_grad():
        given.bag.features.zero_()
    assert answers(model) == before


def test_an_encoder_in_a_folder(tmp_path: Path, bare: TextModel) -> None:
    encoder().save_pretrained(tmp_path / "encoder")
    model = fitted(given=str(tmp_path / "encoder"))
    assert answers(model) == answers(bare)
    model.save(tmp_path / "m")
    (tmp_path / "encoder").rename(tmp_path / "elsewhere")
    assert answers(sylvan.load(tmp_path / "m")) == answers(bare)


def test_updates_where_rows_are_kept(tmp_path: Path) -> None:
    model = fitted(keep_rows=True)
    judged = texts_of(model).judged
    assert len(judged) == 40 * 10 // 4  # a quarter of so few rows
    model.update(label_texts={"New": "wort58 wort59", "L51": "wort52"})
    assert "New" in model.rank(["word58 word59"], k=3).names[0]
    assert {"L51", "L52"} <= set(model.rank(["word52"], k=3).names[0])
    forgotten = judged[::2]
    model.update(forget=forgotten)
    left = texts_of(model)
    assert left.judged.tolist() == judged[1::2].tolist() and len(left.judged_vectors) == len(left.judged)
    curve = texts_of(model).curve
    assert curve is not None and len(curve) == 6
    model.save(tmp_path / "m")
    assert answers(sylvan.load(tmp_path / "m")) == answers(model)
    model.update(forget=left.judged)  # nobody is left to judge by
    assert texts_of(model).curve is None and len(model.unlearned_labels_) == 0
    assert len(model.rank(["word52"], k=3).names[0]) == 3


def test_the_curve_after_an_update_is_the_one_of_its_rows() -> None:
    """Labels' texts that come and go leave the curve of the rows as it was."""
    model = fitted(keep_rows=True)
    before = texts_of(model).curve
    model.update(label_texts={"New": "wort58 wort59"})
    model = model.without_labels(["New"])
    model.update(forget=[])  # whatever asks for the curve again
    model.update(TEXTS[:1], LABELS[:1]).update(forget=[int(model.model.training_rows_.ids.max())])
    assert before is not None
    np.testing.assert_allclose(texts_of(model).curve, before, rtol=0.05)


def test_updates_where_no_rows_are_kept(bare: TextModel) -> None:
    assert len(texts_of(bare).judged) == 0
    bare.update(label_texts={"New": "wort58 wort59"})
    assert "New" in bare.rank(["word58 word59"], k=3).names[0]


def test_removed_labels_have_no_vectors(bare: TextModel) -> None:
    left = bare.without_labels(["L55"])
    vectors = texts_of(left).label_vectors
    assert vectors is not None and not vectors[bare.vocabulary_.id("L55")].any()
    assert "L55" not in left.rank(["word55"], k=40).names[0]


def test_a_text_with_nothing_in_it_is_near_nothing() -> None:
    described = {**DESCRIBED, "L55": " ", "Blank": ""}
    given = encoder()
    with torch.no_grad():
        given.bag.constant.add_(0.1)  # a network's vector of nothing is something
    model = TextModel(TfidfVectorizer(), XRLinear(max_leaf=8), given, unlearned="answer").fit(
        TEXTS, LABELS, label_texts=described
    )
    assert [model.vocabulary_[label] for label in model.unlearned_labels_] == [n for n in UNLEARNED if n != "L55"]
    assert not {"L55", "Blank"} & set(model.rank(["word55", "", " "], k=5).names[0])


def test_without_labels_texts_the_encoder_is_not_used(tmp_path: Path) -> None:
    model = TextModel(TfidfVectorizer(), XRLinear(), str(tmp_path / "nowhere")).fit(TEXTS, LABELS)
    assert model.label_texts_ is None and len(model.rank(["word01"], k=2).names[0]) == 2


def test_the_plan_counts_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("xr.estimate", "text_plan"):  # what the tests' own process holds comes and goes
        monkeypatch.setattr(f"sylvan.models.{module}.resident_bytes", lambda: 10**9)
    model = TextModel(TfidfVectorizer(), XRLinear(max_leaf=8), encoder(), unlearned="answer")
    plain, more = model.plan(TEXTS, LABELS), model.plan(TEXTS, LABELS, label_texts=DESCRIBED)
    assert "encoding" not in [phase.name for phase in plain.phases]
    (phase,) = [phase for phase in more.phases if phase.name == "encoding"]
    weights = sum(weight.nbytes for weight in encoder().parameters())
    assert phase.seconds > 0 and phase.peak_bytes > weights and more.peak_bytes > weights + plain.peak_bytes
    assert more.model_bytes > plain.model_bytes + weights


def test_faults_are_sentences(bare: TextModel, tmp_path: Path) -> None:
    with raises(ParameterError, "label_encoder", "TextModel", 3):
        TextModel(label_encoder=3).fit(TEXTS, LABELS)
    before = answers(bare)
    bare.set_params(label_encoder=str(tmp_path / "nowhere"))
    with raises((ModelError, ParameterError), "nowhere"):
        bare.fit(TEXTS, LABELS, label_texts=DESCRIBED)
    assert answers(bare) == before


def test_an_encoder_of_other_dimensions_is_refused(bare: TextModel, tmp_path: Path) -> None:
    encoder(dim=5).save_pretrained(tmp_path / "other")
    made = copy.copy(bare)
    known = texts_of(made)
    assert known.encoded is not None
    other = ModelEncoder(open_encoder(tmp_path / "other"))
    made.label_texts_ = replace(known, encoded=replace(known.encoded, encoder=other))
    made.save(tmp_path / "m")
    with raises(ModelError, "dimensions", 5, 24):
        sylvan.load(tmp_path / "m").rank(["word55"], k=3)
