"""Nearest rows and their votes against plain matrix products."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from reference import linear_reference as reference
from sylvan import NeighborRanker, kernels
from sylvan.arrays import validate
from sylvan.matching import neighbors as matching
from sylvan.matching.neighbors import NeighborIndex, RowIndex, VectorIndex, index_rows


def matrix(random: np.random.Generator, n: int, d: int, share: float, signed: bool) -> np.ndarray:
    """Rows of which some are empty and some equal; the first features stand in nearly all of them."""
    X = random.random((n, d)) + 0.05
    X *= random.random((n, d)) < np.where(np.arange(d) < d // 4, 0.8, share)
    if signed:
        X *= random.choice([-1, 1], (n, d))
    X[random.random(n) < 0.1] = 0
    if n > 3:
        X[n // 2] = X[0]
    return X.astype(np.float32)


@settings(max_examples=30)
@given(
    st.integers(0, 2**32), st.sampled_from([1, 2, 30, 300, 700]), st.integers(1, 40), st.sampled_from([1, 3, 10, 50]),
    st.sampled_from([0, 1, 5, 10**6]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_the_nearest_rows_are_exactly_those(
    seed: int, n_rows: int, d: int, n: int, frequent: int, signed: bool, some: bool
) -> None:
    """With ``frequent`` 0, of rows that are vectors."""
    random = np.random.default_rng(seed)
    X, Q = (matrix(random, rows, d, 0.15, signed) for rows in (n_rows, 6))
    if frequent == 0:
        X = np.where(X.any(axis=1, keepdims=True), X + random.normal(0, 0.1, X.shape), 0).astype(np.float32)
    expected = reference.cosines(X, Q)
    only = random.random(n_rows) < 0.4 if some else None
    if only is not None:
        expected[:, ~only] = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "FREQUENT", max(1, frequent))
        features = validate.features(X)
        index: RowIndex = index_rows(features) if frequent == 0 else NeighborIndex.build(features)
    assert isinstance(index, NeighborIndex) or frequent == 0
    assert isinstance(index, VectorIndex) or frequent > 0 or not X.any()
    rows, similarities = index.nearest(validate.features(Q), n, only=only)
    assert rows.shape == similarities.shape == (6, n)
    for found, scores, cosines in zip(rows, similarities, expected, strict=True):
        real = found >= 0
        best = np.sort(cosines)[::-1][:n]
        assert abs(int(real.sum()) - np.count_nonzero(best > 1e-6)) <= np.count_nonzero(np.abs(best) <= 1e-6)
        assert len(set(found[real])) == real.sum()
        np.testing.assert_allclose(scores[real], best[: real.sum()], atol=2e-6)
        np.testing.assert_allclose(scores[real], cosines[found[real]], atol=2e-6)
        assert np.isneginf(scores[~real]).all() and (found[~real] == -1).all()
        assert (np.diff(scores[real]) <= 0).all()
        equal = np.flatnonzero(np.diff(scores[real]) == 0)
        assert (found[real][equal] < found[real][equal + 1]).all(), "the lower row first among equals"


@pytest.mark.filterwarnings("ignore:Y of shape")
@settings(max_examples=30)
@given(
    st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 12), st.sampled_from([0.0, 1.0, 2.5, 20.0]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_labels_get_their_share_of_the_votes(
    seed: int, n_rows: int, n_labels: int, power: float, weighted: bool, relevant: bool
) -> None:
    random = np.random.default_rng(seed)
    X, Q = matrix(random, n_rows, 15, 0.3, False), matrix(random, 5, 15, 0.3, False)
    Y = (random.random((n_rows, n_labels)) < 0.3).astype(np.float32)
    Y[0, 0] = 1
    if relevant:
        Y *= random.integers(1, 5, Y.shape)
    weight = random.choice([0.0, 0.5, 3.0], n_rows) if weighted else None
    if weight is not None:
        weight[0] = 1
        X[weight == 0] = 0  # nobody's neighbour
    model = NeighborRanker(n_neighbors=7, power=power).fit(X, Y, sample_weight=weight)
    similarities = reference.cosines(X, Q)
    ordered = np.sort(similarities, axis=1)[:, ::-1]
    clear = ordered[:, 6] - ordered[:, 7] > 1e-6 if n_rows > 7 else np.ones(5, bool)
    expected = reference.votes(similarities, Y, 7, power, weight)
    top = model.rank(Q, k=n_labels + 2)
    got = top.to_csr(n_labels).toarray()
    np.testing.assert_allclose(got[clear], expected[clear], rtol=1e-4, atol=1e-6)
    assert (got <= 1).all()


def test_what_no_float_holds_is_searched_all_the_same() -> None:
    X = np.array([[1, 2, 0], [0, 1, 1], [3, 0, 1]], np.float32)
    index = NeighborIndex.build(validate.features(X))
    rows, similarities = index.nearest(validate.features(X * np.float32(1e37)), 3)
    np.testing.assert_array_equal(rows[:, 0], [0, 1, 2])
    np.testing.assert_allclose(similarities[:, 0], 1, rtol=1e-6)


def test_hashed_features_cost_what_is_used_of_them() -> None:
    X = sp.csr_matrix((np.ones(4), ([0, 1, 2, 2], [5, 2**31 - 2, 5, 1_000_000])), shape=(3, 2**31 - 1))
    index = NeighborIndex.build(validate.features(X))
    rows, _ = index.nearest(validate.features(X), 2)
    np.testing.assert_array_equal(rows, [[0, 2], [1, -1], [2, 0]])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"posting_offsets": np.array([0, 2, 1], np.int64)}, "posting_offsets"),
        ({"row_offsets": np.array([0, 9], np.int64)}, "row_offsets"),
        ({"row_lengths": np.zeros(0, np.float32)}, "number"),
        ({"posting_values": np.zeros(9, np.float32)}, "disagree"),
    ],
)
def test_the_door_holds_the_sizes(change: dict[str, np.ndarray], sentence: str) -> None:
    index = NeighborIndex.build(validate.features(np.eye(4)))
    arrays = index.to_arrays() | change
    with raises(ValueError, sentence):
        kernels.Neighbors(*arrays.values())


def test_an_index_tells_what_its_rows_hold() -> None:
    X = matrix(np.random.default_rng(5), 40, 12, 0.2, signed=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "FREQUENT", 2)
        index = NeighborIndex.build(validate.features(X))
    assert len(index.rare) and len(index.frequent)
    found = np.array([index.values_of(row, np.arange(12, dtype=np.int32)) for row in range(40)])
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(found, X / np.where(lengths > 0, lengths, 1), rtol=1e-6)
