"""Costs of positives by how much of a row lies below a node: every layer by itself, with costs made by hand."""

from typing import Any

import numpy as np
import pytest
from kit.errors import raises

from sylvan import LabelTree, XRLinear
from sylvan.errors import ParameterError

TREE = LabelTree((np.array([0, 3]), np.array([0, 4, 8, 12])), np.random.default_rng(1).permutation(12), 12)


def made() -> tuple[np.ndarray, np.ndarray]:
    """Rows with several labels, one with none, and labels of different relevance."""
    random = np.random.default_rng(0)
    Y = (random.random((90, 12)) < 0.2) * random.choice([0.5, 1.0, 2.0], (90, 12))
    Y[0] = 0
    X = random.standard_normal((90, 10)) + 2 * (Y > 0) @ random.standard_normal((12, 10))
    return X.astype(np.float32), Y


def slow_costs(below: np.ndarray, norm: str) -> np.ndarray:
    """Row by row."""
    found = np.zeros_like(below)
    for row, node in np.argwhere(below > 0):
        size = {"l1": below[row].sum(), "l2": np.sqrt((below[row] ** 2).sum()), "max": below[row].max(), "count": 1.0}
        found[row, node] = 1.0 if norm == "none" else below[row, node] / size[norm]
    return found


OPTIONS: dict[str, Any] = {
    "negatives": "tfn", "threshold": 0.0, "weight_dtype": "float32", "calibration": None, "n_jobs": 1, "cost": 0.3,
    "tolerance": 1e-4, "max_iterations": 300,
}  # fmt: skip


@pytest.mark.parametrize("norm", ["l1", "l2", "max", "count", "none"])
def test_each_layer_is_solved_with_its_own_costs(norm: str) -> None:
    X, Y = made()
    model = XRLinear(tree=TREE, relevance=norm, **OPTIONS).fit(X, Y)
    below = np.zeros((len(Y), 3))
    for leaf, label in enumerate(TREE.leaf_labels):
        below[:, leaf // 4] += Y[:, label]
    top = XRLinear(tree=LabelTree.flat(3), **OPTIONS).fit(X, slow_costs(below, norm))
    assert model.layers_[0].cluster(0).weights.tobytes() == top.layers_[0].cluster(0).weights.tobytes()
    last = XRLinear(tree=TREE, **OPTIONS).fit(X, slow_costs(Y, norm))
    for c in range(3):
        ours, theirs = (each.layers_[1].cluster(c) for each in (model, last))
        assert ours.weights.tobytes() == theirs.weights.tobytes()
    usual = XRLinear(tree=TREE, **OPTIONS).fit(X, Y)
    assert usual.layers_[1].cluster(0).weights.tobytes() != model.layers_[1].cluster(0).weights.tobytes() or (
        norm == "count"
    )


def test_without_it_relevances_count_as_they_are_given() -> None:
    X, Y = made()
    usual, counted = (XRLinear(tree=TREE, relevance=norm, **OPTIONS).fit(X, Y) for norm in (None, "count"))
    for c in range(3):  # the labels' own are the same; a node's is the highest below it, or the sum
        pair = [each.layers_[1].cluster(c).weights.tobytes() for each in (usual, counted)]
        assert pair[0] == pair[1]
    pair = [each.layers_[0].cluster(0).weights.tobytes() for each in (usual, counted)]
    assert pair[0] != pair[1]


def test_a_norm_that_there_is_not() -> None:
    with raises(ParameterError, "relevance", "XRLinear", "l1", "l2", "max"):
        XRLinear(relevance="l3").fit(*made())
