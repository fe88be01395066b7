"""A layer with other weights in some clusters is, to the bit, what laying all of them out gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sylvan.weights.layer import WEIGHT_DTYPES, ClusterRows, LayerWeights, runs_between, with_clusters

N_FEATURES = 30


def drawn(random: np.random.Generator, n_children: int, scale: float = 1) -> ClusterRows:
    """A cluster of random weights."""
    dense = random.normal(size=(N_FEATURES, n_children)) * (random.random((N_FEATURES, n_children)) < 0.3) * scale
    rows = np.flatnonzero(dense.any(axis=1))
    at, children = np.nonzero(dense[rows])
    return ClusterRows(
        rows.astype(np.int32), np.bincount(at, minlength=len(rows)).astype(np.int32), children.astype(np.int32),
        dense[rows][at, children].astype(np.float32), random.normal(size=n_children).astype(np.float32),
    )  # fmt: skip


def offsets_of(clusters: list[ClusterRows]) -> np.ndarray:
    """Where each cluster's children begin."""
    return np.concatenate(([0], np.cumsum([len(each.intercepts) for each in clusters]))).astype(np.int64)


@given(st.integers(0, 10_000), st.sampled_from(WEIGHT_DTYPES), st.booleans(), st.sampled_from([0, 1, 400]))
def test_what_is_copied_is_what_would_be_placed(seed: int, dtype: str, keeps_codebook: bool, wider: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 5, random.integers(1, 8)).tolist()
    before = [drawn(random, size) for size in sizes]
    layer = LayerWeights.from_clusters(before, offsets_of(before), N_FEATURES, dtype)
    came_from, changed, clusters = [], {}, []
    for o in range(len(before)):
        what = random.choice(["same", "changed", "divided", "larger"])
        parts = {"same": [], "changed": sizes[o : o + 1], "divided": [1, 2], "larger": [40]}[what]
        for size in parts:
            changed[len(clusters)] = drawn(random, size, scale=random.choice([1e-3, 1, 50]))
            clusters.append(changed[len(clusters)])
        if what == "same":
            clusters.append(layer.cluster(o))
        came_from += [o] * max(1, len(parts))
    codebook = layer.codebook if dtype == "uint8" and keeps_codebook else None
    own = np.array(came_from, np.int32)
    made = with_clusters(layer, changed, own, offsets_of(clusters), N_FEATURES + wider, codebook)
    laid_out = LayerWeights.from_clusters(clusters, offsets_of(clusters), N_FEATURES + wider, dtype, codebook)
    expected, found = laid_out.to_arrays("layer"), made.to_arrays("layer")
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        assert array.dtype == found[name].dtype, name
        np.testing.assert_array_equal(array, found[name], name)


@pytest.mark.parametrize(
    ("changed", "runs"),
    [([], [(0, 6)]), ([2, 3], [(0, 2), (4, 6)]), ([5, 0], [(1, 5)]), ([0, 2], [(1, 2), (3, 6)]), (range(6), [])],
)
def test_runs_between(changed: list[int], runs: list[tuple[int, int]]) -> None:
    assert list(runs_between(changed, 6)) == runs
