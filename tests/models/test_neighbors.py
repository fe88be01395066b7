"""NeighborRanker: what voting and looking for neighbours give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.books import load_sample
from kit.errors import raises

import sylvan
from sylvan import NeighborRanker, TextModel, metrics
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError
from sylvan.matching import neighbors as matching
from sylvan.matching.neighbors import NeighborIndex, VectorIndex

X = np.array([[1, 0, 0], [4, 3, 0], [0, 1, 0], [0, 0, 2]], np.float32)
Y = [[0], [0, 1], [2], [1]]


@pytest.fixture(scope="module")
def model() -> NeighborRanker:
    return NeighborRanker(n_neighbors=2, power=1).fit(X, Y)


def test_neighbors_are_given_with_their_similarities(model: NeighborRanker) -> None:
    rows, similarities = model.neighbors(X[:1], n=3)
    assert rows.tolist() == [[0, 1, -1]]
    assert rows.dtype == np.int32 and similarities.dtype == np.float32
    np.testing.assert_allclose(similarities, [[1, 0.8, -np.inf]], rtol=1e-6)


def test_neighbors_with_a_label(model: NeighborRanker) -> None:
    rows, similarities = model.neighbors(X[[0, 3]], n=2, label=np.int64(1))
    assert rows.tolist() == [[1, -1], [3, -1]]
    np.testing.assert_allclose(similarities[:, 0], [0.8, 1], rtol=1e-6)
    assert model.neighbors(X[:1], label=2)[0].tolist() == [[-1] * 10], "no feature in common with any such row"


@pytest.mark.parametrize("label", [3, -1, "0", 1.0, True])
def test_a_label_that_is_none_is_refused(model: NeighborRanker, label: Any) -> None:
    with raises(ParameterError, "label", "[0, 2]", "None"):
        model.neighbors(X, label=label)


def test_wrong_calls_are_sentences(model: NeighborRanker) -> None:
    with raises(ParameterError, "'n'", 0):
        model.neighbors(X, n=0)
    with raises(DataError, "NeighborRanker", 3):
        model.neighbors(X[:, :2])
    with pytest.raises(NotFittedError):
        NeighborRanker().neighbors(X)


@pytest.mark.parametrize("mmap", [True, False])
def test_weights_and_relevances_are_saved(tmp_path: Path, mmap: bool) -> None:
    relevance = np.array([[4.0, 1.0], [0.0, 2.0], [1.0, 0.0], [3.0, 0.0]])
    model = NeighborRanker().fit(X, relevance, sample_weight=[1, 2, 3, 4])
    model.save(tmp_path / "m")
    again = sylvan.load(tmp_path / "m", mmap=mmap)
    assert (again.rank(X, k=2).scores == model.rank(X, k=2).scores).all()
    assert again.n_rows_ == 4 and again.label_counts_.tolist() == [3, 2]


def test_features_that_do_not_rise_are_refused(tmp_path: Path, model: NeighborRanker) -> None:
    state = model.to_state()
    state.arrays["frequent"] = state.arrays["frequent"][::-1].copy()
    sylvan.store.save(tmp_path / "m", state)
    with raises(ModelError, "frequent"):
        sylvan.load(tmp_path / "m")


@pytest.mark.parametrize("mmap", [True, False])
def test_vectors_are_compared_as_they_are(tmp_path: Path, mmap: bool) -> None:
    """Of rows without zeros, an index by feature would be longer and slower; answers don't change."""
    random = np.random.default_rng(0)
    vectors, labels = random.normal(size=(200, 9)).astype(np.float32), random.integers(0, 5, 200)
    weights = np.where(np.arange(200) < 3, 0, 1)
    model = NeighborRanker(n_neighbors=5).fit(vectors, labels, sample_weight=weights)
    assert isinstance(model.index_, VectorIndex)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "FULL", 2.0)
        sparse = NeighborRanker(n_neighbors=5).fit(vectors, labels, sample_weight=weights)
    assert isinstance(sparse.index_, NeighborIndex)
    for label in (None, 2):
        (rows, cosines), (expected, those) = (each.neighbors(vectors, 30, label=label) for each in (model, sparse))
        assert (rows == expected).all() and not (rows[:, 0] < 3).any() and (rows == -1).any() == (label is not None)
        np.testing.assert_allclose(cosines, those, atol=1e-6)
    np.testing.assert_allclose(model.rank(vectors, 5).scores, sparse.rank(vectors, 5).scores, atol=1e-6)
    shown, known = (each.explain(vectors[:1], 2).examples for each in (model, sparse))
    assert [one.row for one in shown] == [one.row for one in known]
    model.save(tmp_path / "m")
    again = sylvan.load(tmp_path / "m", mmap=mmap)
    assert again.rank(vectors, 5).scores.tobytes() == model.rank(vectors, 5).scores.tobytes()
    state = model.to_state()
    state.arrays["row_vectors"] = np.where(np.eye(200, 9, dtype=bool), np.float32(np.nan), model.index_.vectors)
    sylvan.store.save(tmp_path / "m", state)
    with raises(ModelError, "row_vectors"):
        sylvan.load(tmp_path / "m")


def test_texts_of_the_sample() -> None:
    train, test = load_sample()
    tagger = TextModel(model=NeighborRanker()).fit(train.texts, train.labels)
    top = tagger.rank(test.texts[:500], k=5)
    truth = tagger.vocabulary_.encode(test.labels[:500], unknown="ignore")
    assert metrics.precision(truth, top, at=1)[1] > 0.3
    assert top.names[0]


def many(n: int = 300, seed: int = 0) -> tuple[np.ndarray, list[list[int]]]:
    """Two words say a label, which is wrong for every third row."""
    random = np.random.default_rng(seed)
    labels = [[int(random.integers(12))] for _ in range(n)]
    X = np.zeros((n, 40), np.float32)
    for row, (label,) in enumerate(labels):
        shown = label if random.random() < 0.67 else int(random.integers(12))
        X[row, [2 * shown, 2 * shown + 1, *random.integers(24, 40, 3)]] = 1
    X[:20] = X[0]  # equal rows
    return X, labels


def test_votes_are_calibrated_by_default(tmp_path: Path) -> None:
    X, Y = many(1200)
    X_test, Y_test = many(600, seed=1)
    model, plain = NeighborRanker().fit(X, Y), NeighborRanker(calibration=None).fit(X, Y)
    top = model.rank(X_test, 5)
    assert top.scores.tobytes() == plain.rank(X_test, 5).scores.tobytes()
    before = metrics.calibration_error(Y_test, model.bounded(top), at=1)[1]
    after = metrics.calibration_error(Y_test, model.probabilities(top), at=1)[1]
    assert after < 0.7 * before and after < 0.08, (before, after)
    model.save(tmp_path / "m")
    assert (sylvan.load(tmp_path / "m").predict_proba(X_test) != model.predict_proba(X_test)).nnz == 0
    assert model.fit(X[:50], Y[:50]).calibrator_ is None  # too few, and the old curves are gone


def test_folders_from_before_calibration_are_read() -> None:
    state = NeighborRanker(calibration=None).fit(X, Y).to_state()
    del state.params["calibration"]
    assert NeighborRanker.from_state(state).calibration is None


def test_no_row_is_near_where_none_may_be() -> None:
    """Of vectors as of sparse rows."""
    rows = Csr.of(sp.csr_matrix(np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)))
    for index in (VectorIndex.build(rows), NeighborIndex.build(rows)):
        for only in (np.zeros(5, bool), np.arange(5) == 3):
            labels, similarities = index.nearest(rows, 9, only=only)
            assert labels.shape == similarities.shape == (5, 9)
            assert (labels == -1).sum() == 45 - ((labels == 3) & (similarities > 0)).sum()
            assert np.isinf(similarities[labels < 0]).all() and set(labels.ravel()) <= {-1, *np.flatnonzero(only)}
