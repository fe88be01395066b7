"""A reranker with an encoder of texts: labels that are near a text by what both mean, in words that it hasn't."""

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from kit.bits import bits
from kit.encoders import encoder_of_words
from kit.errors import raises

pytest.importorskip("torch")


import sylvan
from sylvan import NeighborRanker, Reranker, TextModel, TfidfVectorizer, XRLinear
from sylvan.errors import ModelError, ParameterError
from sylvan.models.encoders import EncodedLabels, ModelEncoder
from sylvan.neural import BagTextEncoder

N_LABELS, N_VARIANTS, DIM = 24, 200, 16
NAMES = [f"wort{label:02d}" for label in range(N_LABELS)]
CODES = {f"c{label:02d}": [name, "another"] for label, name in enumerate(NAMES)}
COLUMNS = ("label_encoder: cosine", "label_encoder: below_best")
VECTORS = np.random.default_rng(1).normal(size=(N_LABELS, DIM)).astype(np.float32)


def encoder(dim: int = DIM) -> BagTextEncoder:
    """Gives all words of a label, in both languages, the same vector."""
    words = [f"word{label:02d}v{variant}" for label in range(N_LABELS) for variant in range(N_VARIANTS)]
    return encoder_of_words(words + NAMES, lambda word: VECTORS[int(word[4:6]), :dim])


def rows(n: int = 1200, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """The first word tells four labels from others; the second, of which there are so many, is known to the encoder."""
    rng = np.random.default_rng(seed)
    of_rows = rng.integers(0, N_LABELS, n).tolist()
    variants = rng.integers(0, N_VARIANTS, n).tolist()
    texts = [f"group{label // 4} word{label:02d}v{at}" for label, at in zip(of_rows, variants, strict=True)]
    return texts, [[NAMES[label]] for label in of_rows]


def members() -> list[TextModel]:
    vectorizer = {"min_df": 1, "n_jobs": 1}
    return [
        TextModel(TfidfVectorizer(**vectorizer), XRLinear(max_leaf=8, n_jobs=1)),
        TextModel(TfidfVectorizer(**vectorizer), NeighborRanker(n_neighbors=5, n_jobs=1)),
    ]


def reranker(**params: Any) -> Reranker:
    given = {"scorer": "trees", "n_trees": 10, "depth": 3, "n_jobs": 1, "label_encoder": encoder(), **params}
    return Reranker(members(), **given)


@pytest.fixture(scope="module")
def fitted() -> Reranker:
    return reranker().fit(*rows())


def near(model: Reranker, columns: np.ndarray) -> np.ndarray:
    return columns[..., [model.feature_names_.index(name) for name in COLUMNS]]


def expected(texts: list[str], labels: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Cosines one by one, from the numbers in the words."""
    result = np.zeros((*labels.shape, 2))
    for row, text in enumerate(texts):
        words = [word for word in text.split() if word.startswith("word")]
        own = sum(VECTORS[int(word[4:6])].astype(float) for word in words)
        listed = {}
        for place, label in enumerate(labels[row].tolist()):
            if label >= 0:
                of_label = vectors[label].astype(float)
                norm = np.linalg.norm(own) * np.linalg.norm(of_label)
                listed[place] = float(own @ of_label / norm) if norm else 0.0
        for place, cosine in listed.items():
            result[row, place] = cosine, max(listed.values()) - cosine
    return result


def test_columns(fitted: Reranker) -> None:
    texts, _ = rows(40, seed=1)
    candidates, columns = fitted.candidate_columns(texts)
    of_names = np.stack([VECTORS[int(name[-2:])] for name in fitted.vocabulary_])
    assert near(fitted, columns) == pytest.approx(expected(texts, candidates.labels, of_names), abs=2e-3)
    none = candidates.labels < 0
    assert not columns[none].any()
    assert fitted.candidate_columns([])[1].shape == (0, candidates.k, len(fitted.feature_names_))
    assert len(fitted.rank([], 3)) == 0


@pytest.mark.filterwarnings("ignore:No text of a label")
def test_what_labels_are_called(fitted: Reranker) -> None:
    """The first name of each label; labels without one have no vector."""
    texts, labels = rows()
    coded = [[f"c{NAMES.index(name):02d}" for name in row] for row in labels]
    named = {code: words for code, words in CODES.items() if code != "c05"}
    model = reranker().fit(texts, coded, label_texts=named)
    candidates, columns = model.candidate_columns(texts[:40])
    vectors = VECTORS.copy()
    vectors[5] = 0
    assert near(model, columns) == pytest.approx(expected(texts[:40], candidates.labels, vectors), abs=2e-3)
    with raises(ParameterError, "LexicalMatcher", "label_encoder"):
        Reranker([TextModel(model=NeighborRanker())], scorer="trees").fit(texts, coded, label_texts=named)


def test_it_counts(fitted: Reranker) -> None:
    """Trees learn from what the encoder says."""
    texts, labels = rows(300, seed=2)

    assert fitted.scorer_ is not None
    used = {fitted.feature_names_[at] for at in np.unique(fitted.scorer_.features)}  # type: ignore[attr-defined]
    assert used & set(COLUMNS)
    assert fitted.score(texts, labels) > 0.9
    assert reranker(label_encoder=None).fit(*rows()).score(texts, labels) < 0.5
    notes = fitted.explain(texts[0], labels[0][0], top=40).notes
    assert any("label_encoder" in note for note in notes)


def test_stored_with_its_encoder(fitted: Reranker, tmp_path: Path) -> None:
    texts, _ = rows(40, seed=3)
    fitted.save(tmp_path / "m")
    loaded = sylvan.load(tmp_path / "m")
    loaded.save(tmp_path / "again")
    again = sylvan.load(tmp_path / "again")
    copies = [pickle.loads(pickle.dumps(fitted)), copy.deepcopy(loaded), pickle.loads(pickle.dumps(again))]
    for other in (loaded, again, *copies):
        assert bits(other.rank(texts, 5)) == bits(fitted.rank(texts, 5))


def test_damaged(fitted: Reranker, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m")
    state = fitted.to_state()
    for change, sentence in (
        ({"encoded.vectors": state.arrays["encoded.vectors"][:-1]}, "encoded.vectors"),
        ({"encoded.vectors": np.full_like(state.arrays["encoded.vectors"], np.inf)}, "encoded.vectors"),
        ({"encoded.vectors": np.full_like(state.arrays["encoded.vectors"], np.nan)}, "encoded.vectors"),
        ({"encoded.vectors": state.arrays["encoded.vectors"] * np.float16(2)}, "encoded.vectors"),
        ({"encoded.by_name": np.array([2])}, "encoded.by_name"),
    ):
        other = fitted.to_state()
        other.arrays.update(change)
        with raises(ModelError, sentence):
            Reranker.from_state(other)
    other = copy.copy(fitted)
    assert fitted._order.encoded is not None
    encoded = EncodedLabels(ModelEncoder(encoder(5)), fitted._order.encoded.vectors, True)
    other._order = replace(fitted._order, encoded=encoded)
    other.save(tmp_path / "other")
    with raises(ModelError, "dimensions", 5, 16):
        sylvan.load(tmp_path / "other").rank(["word01v1"], 3)
    other_state = sylvan.load(tmp_path / "m").to_state()
    other_state.files.clear()
    with raises(ModelError, "encoder/config.json", "file"):
        Reranker.from_state(other_state)


def that_keeps_rows() -> Reranker:
    keeps = [TextModel(TfidfVectorizer(min_df=1, n_jobs=1), NeighborRanker(n_jobs=1))]
    return Reranker(keeps, scorer="trees", n_trees=3, n_jobs=1, label_encoder=encoder())


def test_labels_come_and_go(fitted: Reranker) -> None:
    texts, _ = rows(30, seed=4)
    gone = fitted.without_labels(["wort03"])
    assert gone._order.encoded is not None and fitted._order.encoded is not None
    at = fitted.vocabulary_.id("wort03")
    assert not gone._order.encoded.vectors[at].any() and fitted._order.encoded.vectors[at].any()
    updated = (
        that_keeps_rows()
        .fit(texts * 9, [["wort01"], ["wort02"], ["wort03"]] * 90)
        .update(["word09v1 word10v2"], [["wort09"]])
    )
    candidates, columns = updated.candidate_columns(["word09v1 word10v2"])
    of_names = np.stack([VECTORS[int(name[-2:])] for name in updated.vocabulary_])
    assert "wort09" in [updated.vocabulary_[label] for label in candidates.labels[0].tolist() if label >= 0]
    found = expected(["word09v1 word10v2"], candidates.labels, of_names)
    assert near(updated, columns) == pytest.approx(found, abs=2e-3)


def test_an_update_that_fails_changes_nothing() -> None:
    model = that_keeps_rows().fit(["word01v1", "word02v1"] * 100, [["wort01"], ["wort02"]] * 100)
    before, names, asked = model.rank(["word01v1"], 2), list(model.vocabulary_), model.members
    with (
        mock.patch.object(EncodedLabels, "moved", side_effect=ModelError("the encoder is gone")),
        raises(ModelError, "gone"),
    ):
        model.update(["word09v1"], [["wort09"]])
    assert list(model.vocabulary_) == names and model.members is asked
    assert model.rank(["word01v1"], 2).scores.tobytes() == before.scores.tobytes()


def test_of_fitted_members(fitted: Reranker) -> None:
    texts, labels = rows(300, seed=5)
    model = Reranker.of_fitted(fitted.members, scorer="trees", n_trees=5, n_jobs=1, label_encoder=encoder())
    model.fit_order(texts, labels)
    assert set(COLUMNS) <= set(model.feature_names_)
    plain = Reranker.of_fitted(fitted.members, scorer="trees", n_trees=5, n_jobs=1)
    assert not set(COLUMNS) & set(plain.feature_names_)


def test_faults_are_sentences(tmp_path: Path) -> None:
    X, y = np.eye(4, dtype=np.float32).repeat(300, axis=0), np.arange(4).repeat(300)
    model = Reranker([XRLinear(n_jobs=1)], scorer="trees", n_jobs=1, label_encoder=encoder())
    with raises(ParameterError, "label_encoder", "None", "members"):
        model.fit(X, y)
    with raises(ParameterError, "label_encoder", 3):
        reranker(label_encoder=3).fit(*rows())
    with raises((ModelError, ParameterError), "nowhere"):
        reranker(label_encoder=str(tmp_path / "nowhere")).fit(*rows())


def test_plan() -> None:
    texts, labels = rows()
    phases = {phase.name: phase for phase in reranker().plan(texts, labels).phases}
    assert phases["encoding"].seconds > 0
    assert "encoding" not in [phase.name for phase in reranker(label_encoder=None).plan(texts, labels).phases]
