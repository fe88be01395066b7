"""Packed weights of wide clusters, with rows that are continued: the sums are those of the unpacked cluster."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.matching import beam as matching
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
