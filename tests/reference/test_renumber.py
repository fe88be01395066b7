"""The small kernels around the solver against NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan import kernels
from sylvan.arrays import validate


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 12))
def test_features_are_renumbered_in_order(seed: int, n: int, d: int) -> None:
    random = np.random.default_rng(seed)
    X = validate.features(random.random((n, d)) * (random.random((n, d)) < 0.4))
    rows = np.flatnonzero(random.random(n) < 0.7).astype(np.int32)
    total = int(np.diff(X.indptr)[rows].sum())
    numbers = np.full(d, -1, np.int32)
    local, begin = np.empty(total, np.int32), np.empty(len(rows), np.int64)
    used = np.empty(min(total, d), np.int32)
    count = kernels.renumber_features(X.indptr, X.indices, rows, numbers, local, begin, used)

    entries = [X.indices[X.indptr[row] : X.indptr[row + 1]] for row in rows]
    flat = np.concatenate(entries) if entries else np.empty(0, np.int32)
    expected, inverse = np.unique(flat, return_inverse=True)
    assert count == len(expected)
    np.testing.assert_array_equal(used[:count], expected)
    np.testing.assert_array_equal(local, inverse)
    np.testing.assert_array_equal(begin, np.cumsum([0, *map(len, entries)])[:-1])
    assert (numbers == -1).all(), "ready for the next cluster"


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(0, 30), st.integers(1, 9))
def test_triples_are_sorted_by_feature(seed: int, n: int, n_features: int) -> None:
    random = np.random.default_rng(seed)
    feature = random.integers(0, n_features, n).astype(np.int32)
    child, weight = random.integers(0, 50, n).astype(np.int32), random.random(n).astype(np.float32)
    most = min(n, n_features)
    offsets = np.empty(n_features + 1, np.int64)
    rows, lengths = np.empty(most, np.int32), np.empty(most, np.int32)
    children, weights = np.empty(n, np.int32), np.empty(n, np.float32)
    count = kernels.sort_triples(feature, child, weight, n_features, offsets, rows, lengths, children, weights)
    order = np.argsort(feature, kind="stable")
    expected, sizes = np.unique(feature, return_counts=True)
    assert count == len(expected)
    np.testing.assert_array_equal(rows[:count], expected)
    np.testing.assert_array_equal(lengths[:count], sizes)
    np.testing.assert_array_equal(children, child[order])
    np.testing.assert_array_equal(weights, weight[order])
