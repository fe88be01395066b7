"""Recursive relevance against a slow recursion, and the norms of costs."""

from __future__ import annotations

import numpy as np
import pytest

from sylvan import LabelTree
from sylvan.arrays import validate
from sylvan.arrays.validate import Csr
from sylvan.ranking.training import cost_weights, relevance_layers


def slow_relevance(tree: LabelTree, values: np.ndarray, layer: int, node: int) -> np.ndarray:
    """The relevance of one node for every row: that of its label, or the sum of its children's."""
    if layer == tree.depth - 1:
        return values[:, tree.leaf_labels[node]]
    offsets = tree.child_offsets[layer + 1]
    below = range(int(offsets[node]), int(offsets[node + 1]))
    return sum(slow_relevance(tree, values, layer + 1, child) for child in below)


def some_labels(n: int, n_labels: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = (random.random((n, n_labels)) < 0.15) * random.integers(1, 4, (n, n_labels))
    values[3] = 0  # a row without a label
    return values.astype(np.float32)


@pytest.mark.parametrize("overlap", [1, 2])
@pytest.mark.parametrize("max_leaf", [3, 100])
def test_relevance_is_the_slow_recursion(overlap: int, max_leaf: int) -> None:
    n_labels = 23
    embeddings = np.random.default_rng(1).standard_normal((n_labels, 5)).astype(np.float32)
    tree = LabelTree.build(embeddings, 2, max_leaf, overlap=overlap if max_leaf < n_labels else 1)
    values = some_labels(12, n_labels)
    found = relevance_layers(tree, validate.labels(values))
    assert len(found) == tree.depth
    for layer, relevance in enumerate(found):
        expected = np.stack(
            [slow_relevance(tree, values, layer, node) for node in range(tree.layer_sizes[layer])], axis=1
        )
        np.testing.assert_allclose(relevance.to_scipy().toarray(), expected, rtol=1e-6)


def relevance() -> Csr:
    return validate.features(np.array([[3, 0, 4], [0, 0, 0], [0, 2, 0]], np.float32))


@pytest.mark.parametrize(
    ("norm", "expected"),
    [("l1", [3 / 7, 4 / 7, 1]), ("l2", [0.6, 0.8, 1]), ("max", [0.75, 1, 1]), ("none", [1, 1, 1])],
)
def test_costs_are_the_relevance_over_its_norm(norm: str, expected: list[float]) -> None:
    given = relevance()
    found = cost_weights(given, norm)
    np.testing.assert_allclose(found.data, expected, rtol=1e-6)
    assert found.data.dtype == np.float32
    assert np.array_equal(found.indices, given.indices) and np.array_equal(found.indptr, given.indptr)
    np.testing.assert_array_equal(given.data, [3, 4, 2])  # left as it was


def test_nobody_has_a_label() -> None:
    assert cost_weights(validate.features(np.zeros((3, 4), np.float32))).nnz == 0
