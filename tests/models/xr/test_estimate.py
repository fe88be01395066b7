"""Estimates of time, memory and size, against what the same training then takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.books import books

from sylvan import LabelTree, XRLinear, indexing
from sylvan.arrays import validate
from sylvan.models.xr.estimate import RankerEstimate, estimate_ranker
from sylvan.models.xr.params import tree_training
from sylvan.ranking.training import train_rankers


@pytest.fixture(scope="module")
def rows() -> tuple[validate.Csr, validate.Csr]:
    """Of the bundled sample: skewed labels, short texts."""
    return validate.pair(*books(1500, min_df=1)[:2])


def trained_and_estimated(
    X: validate.Csr, Y: validate.Csr, tree: LabelTree, weight: Any = None, **params: Any
) -> tuple[Any, RankerEstimate]:
    training = tree_training(XRLinear(n_jobs=1, **params), tree.depth, 0, X)
    return train_rankers(X, Y, tree, training, weight)[0], estimate_ranker(X, Y, tree, training, weight)


def stored_bytes(ranker: Any) -> int:
    return sum(array.nbytes for weights in ranker.layers for array in weights.to_arrays("layer").values())


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"negatives": "tfn", "weight_dtype": "float32", "threshold": 0.02},
        {"negatives": "tfn+man", "man_threshold": 0.0},
        {"max_leaf": 5000},
    ],
    ids=["default", "teacher forcing", "matcher-aware", "one layer"],
)
def test_sizes_are_near_the_real_ones(rows: Any, params: dict[str, Any]) -> None:
    X, Y = rows
    max_leaf = params.pop("max_leaf", 100)
    tree = LabelTree.build(indexing.pifa(X, Y), 16, max_leaf, seed=0) if max_leaf < Y.shape[1] else LabelTree.flat(
        Y.shape[1]
    )  # fmt: skip
    ranker, estimate = trained_and_estimated(X, Y, tree, **params)
    assert estimate.model_bytes == pytest.approx(stored_bytes(ranker), rel=0.3)
    weights = sum(layer.n_entries for layer in ranker.layers)
    assert sum(layer.n_weights for layer in estimate.layers) == pytest.approx(weights, rel=0.3)
    assert (len(estimate.stages) == 1) == (tree.depth == 1 or params.get("negatives") == "tfn")


def test_left_is_what_a_higher_threshold_leaves(rows: Any) -> None:
    X, Y = rows
    tree = LabelTree.build(indexing.pifa(X, Y), 16, 100, seed=0)
    ranker, estimate = trained_and_estimated(X, Y, tree)
    pruned, _ = trained_and_estimated(X, Y, tree, threshold=0.3)
    share = sum(layer.n_entries for layer in pruned.layers) / sum(layer.n_entries for layer in ranker.layers)
    assert estimate.left(0.3) == pytest.approx(share, rel=0.2)
    assert estimate.left(0.0) == 1.0 and estimate.left(1e9) == 0.0


def test_more_threads_take_less_time_and_more_memory(rows: Any) -> None:
    X, Y = rows
    tree = LabelTree.build(indexing.pifa(X, Y), 16, 100, seed=0)
    _, one = trained_and_estimated(X, Y, tree, negatives="tfn", threshold=0.02)
    assert one.peak_bytes(n_jobs=50) > one.peak_bytes()
    assert one.peak_bytes(share=0.1) < one.peak_bytes()
    assert 0 < one.seconds < 600


def test_hardly_any_data() -> None:
    """One row, one label, empty rows, weights of rows and of labels: nothing to divide by zero on."""
    cases = [
        (sp.csr_matrix(np.eye(1, dtype=np.float32)), [[0]], 1),
        (sp.csr_matrix((5, 3), dtype=np.float32), [[0], [], [1], [1], [0]], 2),
        (sp.csr_matrix(np.eye(40, 7, dtype=np.float32)), [[i % 9] for i in range(40)], 9),
    ]
    for X, Y, n_labels in cases:
        features, labels = validate.pair(X, Y)
        tree = LabelTree.random(n_labels, branching=2, max_leaf=2)
        for negatives in ("tfn", "man", "tfn+man"):
            weight = np.ones(features.shape[0], np.float32)
            _, estimate = trained_and_estimated(features, labels, tree, weight, negatives=negatives, beam=1)
            assert estimate.seconds >= 0 and estimate.peak_bytes() > 0 and estimate.model_bytes > 0
