"""Packed weights of wide clusters, first layers in four bits, and small kernels around the solver: beside slow sums."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan import kernels
from sylvan.arrays import validate
from sylvan.matching import beam as matching
from sylvan.models.irli import bucket_network
from sylvan.models.irli.bucket_network import CLIPPED, packed, rounded, unpacked
from sylvan.weights.layer import ClusterRows, LayerWeights


def layer_of(n_children: int, n_features: int, density: float, weight_dtype: str) -> LayerWeights:
    """One cluster; a row of every kind of length, up to all children."""
    random = np.random.default_rng(n_children)
    features = np.flatnonzero(random.random(n_features) < density).astype(np.int32)
    lengths = random.integers(1, n_children + 1, len(features)).astype(np.int32)
    lengths[::2] = random.integers(1, 4, len(lengths[::2]))
    children = [np.sort(random.choice(n_children, length, replace=False)) for length in lengths.tolist()]
    weights = random.normal(size=int(lengths.sum())) * random.lognormal(size=int(lengths.sum()))
    cluster = ClusterRows(
        features, lengths, np.concatenate(children).astype(np.int32), weights.astype(np.float32),
        random.normal(size=n_children).astype(np.float32),
    )  # fmt: skip
    return LayerWeights.from_clusters([cluster], np.array([0, n_children]), n_features, weight_dtype)


@pytest.mark.parametrize("weight_dtype", ["uint4", "uint8"])
@pytest.mark.parametrize("n_rows", [1, 700])
@pytest.mark.parametrize(
    ("n_children", "n_features", "density"), [(16, 90, 0.9), (100, 200, 0.5), (100, 9000, 0.01), (300, 500, 0.2)]
)
def test_scores_of_wide_clusters(
    n_children: int, n_features: int, density: float, n_rows: int, weight_dtype: str
) -> None:
    layer = layer_of(n_children, n_features, density, weight_dtype)
    rows = layer.cluster(0)
    assert (np.diff(rows.features) > 0).all() and rows.lengths.max() > n_children / 2
    W = np.zeros((n_features, n_children))
    W[np.repeat(rows.features, rows.lengths), rows.children] = rows.weights
    X = sp.random(n_rows, n_features, 0.3, "csr", np.float32, np.random.default_rng(0))
    top = matching.rank(
        validate.features(X), [layer], np.arange(n_children, dtype=np.int32), k=n_children, beam=1, combines=["ranker"]
    )
    expected = X.astype(np.float64) @ W + rows.intercepts
    found = np.empty_like(expected)
    np.put_along_axis(found, top.labels.astype(np.int64), top.scores, axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def slowly(layer: np.ndarray, n_repetitions: int) -> tuple[np.ndarray, list[list[list[int]]]]:
    """Rounded weights, and the whole numbers that they are of their scale."""
    hidden, values, wholes = layer.shape[1] // n_repetitions, np.zeros(layer.shape), []
    for i, row in enumerate(layer.astype(np.float64)):
        wholes.append([])
        for r in range(n_repetitions):
            own = row[r * hidden : (r + 1) * hidden]
            scale = CLIPPED * np.sqrt(sum(weight**2 for weight in own) / hidden) / 7 or 1.0
            whole = [min(max(round(weight / scale), -8), 7) for weight in own]
            values[i, r * hidden : (r + 1) * hidden] = [number * scale for number in whole]
            wholes[-1].append(whole)
    return values, wholes


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**16), st.sampled_from([2, 4096]))
def test_rounding_and_packing(n: int, n_repetitions: int, hidden: int, seed: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.choice([0, 1e-3, 1, 50], (n, 1))
    layer = (sizes * random.standard_t(3, (n, n_repetitions * hidden))).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_network, "_ROWS", rows)
        found, scales = rounded(layer, n_repetitions)
        codes = packed(found, scales)
        again = unpacked(codes, scales, layer.shape[1])
    values, wholes = slowly(layer, n_repetitions)
    np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-30)
    np.testing.assert_array_equal(again, found)
    assert codes.shape == (n, (layer.shape[1] + 1) // 2)
    for i in range(n):
        flat = [whole + 8 for own in wholes[i] for whole in own] + [0] * (layer.shape[1] % 2)
        assert codes[i].tolist() == [low + 16 * high for low, high in zip(flat[::2], flat[1::2], strict=True)]


def test_rounding_again_changes_nothing_that_is_packed() -> None:
    layer, scales = rounded(np.random.default_rng(0).normal(size=(50, 24)).astype(np.float32), 3)
    assert np.abs(layer / scales.repeat(8, axis=1)).max() <= 8
    np.testing.assert_array_equal(unpacked(packed(layer, scales), scales, 24), layer)


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
