"""NeighborRanker: what voting and looking for neighbours give."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import same_bits
from kit.errors import raises
from kit.known import known

import sylvan
from sylvan import NeighborRanker, metrics
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


def test_weights_and_relevances_are_saved(tmp_path: Path) -> None:
    relevance = np.array([[4.0, 1.0], [0.0, 2.0], [1.0, 0.0], [3.0, 0.0]])
    model = NeighborRanker().fit(X, relevance, sample_weight=[1, 2, 3, 4])
    model.save(tmp_path / "m")
    again = sylvan.load(tmp_path / "m")
    assert (again.rank(X, k=2).scores == model.rank(X, k=2).scores).all()
    assert again.n_rows_ == 4 and again.label_counts_.tolist() == [3, 2]


VECTORS = np.random.default_rng(0).normal(size=(200, 9)).astype(np.float32)


@pytest.mark.parametrize(
    ("rows", "name", "damaged"),
    [
        (X, "frequent", lambda array: array[::-1].copy()),
        (VECTORS, "row_vectors", lambda array: array * np.float32("nan")),
    ],
)
def test_damaged_arrays_are_refused(rows: np.ndarray, name: str, damaged: Any) -> None:
    state = NeighborRanker().fit(rows, np.arange(len(rows)) % 3).to_state()
    state.arrays[name] = damaged(state.arrays[name])
    with raises(ModelError, name):
        NeighborRanker.from_state(state)


def test_vectors_are_compared_as_they_are(tmp_path: Path) -> None:
    """Of rows without zeros, an index by feature would be longer and slower; answers don't change."""
    vectors, labels = VECTORS, np.random.default_rng(0).integers(0, 5, 200)
    weights = np.where(np.arange(200) < 3, 0, 1)
    model = NeighborRanker(n_neighbors=5).fit(vectors, labels, sample_weight=weights)
    assert isinstance(model.index_, VectorIndex)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "FULL", 2.0)
        sparse = NeighborRanker(n_neighbors=5).fit(vectors, labels, sample_weight=weights)
    assert isinstance(sparse.index_, NeighborIndex)
    assert (model.neighbors(vectors, 30)[0] >= 3).all(), "rows of no weight are nobody's neighbours"
    np.testing.assert_allclose(model.rank(vectors, 5).scores, sparse.rank(vectors, 5).scores, atol=1e-6)
    shown, known = (each.explain(vectors[:1], 2).examples for each in (model, sparse))
    assert [one.row for one in shown] == [one.row for one in known]
    model.save(tmp_path / "m")
    for mmap in (True, False):
        same_bits(sylvan.load(tmp_path / "m", mmap=mmap).rank(vectors, 5), model.rank(vectors, 5))


def test_votes_are_calibrated_by_default(tmp_path: Path) -> None:
    data, test = known(rows_per_label=100, most=1, wrong=0.33), known(rows_per_label=50, seed=1, most=1, wrong=0.33)
    model = NeighborRanker().fit(data.X, data.Y)
    top = model.rank(test.X, 5)
    same_bits(top, NeighborRanker(calibration=None).fit(data.X, data.Y).rank(test.X, 5))
    before = metrics.calibration_error(test.Y, model.bounded(top), at=1)[1]
    after = metrics.calibration_error(test.Y, model.probabilities(top), at=1)[1]
    assert after < 0.7 * before and after < 0.08, (before, after)
    model.save(tmp_path / "m")
    assert (sylvan.load(tmp_path / "m").predict_proba(test.X) != model.predict_proba(test.X)).nnz == 0
    assert model.fit(data.X[:50], data.Y[:50]).calibrator_ is None  # too few, and the old curves are gone


def test_folders_from_before_calibration_are_read() -> None:
    state = NeighborRanker(calibration=None).fit(X, Y).to_state()
    del state.params["calibration"]
    assert NeighborRanker.from_state(state).calibration is None


def test_no_row_is_near_where_none_may_be() -> None:
    """Of vectors as of sparse rows."""
    rows = Csr.of(sp.csr_matrix(VECTORS[:5]))
    for index in (VectorIndex.build(rows), NeighborIndex.build(rows)):
        found, similarities = index.nearest(rows, 9, only=np.zeros(5, bool))
        assert found.shape == (5, 9) and (found == -1).all() and np.isneginf(similarities).all()
