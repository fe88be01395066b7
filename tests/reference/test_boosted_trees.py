"""Boosted trees: sums and scores beside NumPy's slow ones, splits beside all that there are, and what is learned."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import kernels
from sylvan.errors import ModelError
from sylvan.ranking.boosted_trees import BoostedTrees
from sylvan.store.state import State


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(1, 4), st.integers(1, 5))
def test_histograms_are_the_slow_sums(seed: int, n: int, n_features: int, n_nodes: int) -> None:
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, 6, (n, n_features), dtype=np.uint8)
    nodes = rng.integers(-1, n_nodes, n, dtype=np.int32)
    first, second = rng.integers(-9, 9, (2, n)).astype(np.float64)
    sums = np.zeros(n_nodes * n_features * 6 * 2)
    kernels.add_histograms(bins, nodes, first, second, n_nodes, 6, sums)
    expected = np.zeros((n_nodes, n_features, 6, 2))
    for row in range(n):
        for feature in range(n_features):
            if nodes[row] >= 0:
                expected[nodes[row], feature, bins[row, feature]] += first[row], second[row]
    assert (sums.reshape(expected.shape) == expected).all()


def test_bins_and_nodes_out_of_range_are_refused() -> None:
    one, sums = np.ones(1), np.zeros(4)
    for bin_, node in ((2, 0), (0, 1)):
        with raises(ValueError, "range"):
            kernels.add_histograms(np.array([[bin_]], np.uint8), np.array([node], np.int32), one, one, 1, 2, sums)


def slow_scores(trees: BoostedTrees, rows: np.ndarray) -> np.ndarray:
    results = []
    for row in rows:
        total = np.float32(trees.base)
        for features, thresholds, leaves in zip(trees.features, trees.thresholds, trees.leaves, strict=True):
            node = 0
            while node < len(features):
                node = 2 * node + 1 + int(row[features[node]] > thresholds[node])
            total = np.float32(total + leaves[node - len(features)])
        results.append(total)
    return np.array(results, np.float32)


def drawn(seed: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 20, (n, 3)).astype(np.float32)
    return X, (X[:, 0] > 9) & (X[:, 1] > 4)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_scores_are_the_slow_ones(depth: int) -> None:
    X, right = drawn(depth)
    trees = BoostedTrees.fit(X, right, np.ones(len(X), np.float32), n_trees=7, depth=depth, learning_rate=0.3)
    rows = np.random.default_rng(9).normal(8, 9, (50, 3)).astype(np.float32)
    assert trees.scores(rows).tobytes() == slow_scores(trees, rows).tobytes()
    assert trees.scores(rows[:0]).shape == (0,)


def test_the_first_split_is_the_best_of_all() -> None:
    X, right = drawn(3)
    trees = BoostedTrees.fit(X, right, np.ones(len(X), np.float32), n_trees=1, depth=1, learning_rate=1.0)
    p = right.mean()
    gradient, curvature = right - p, np.full(len(X), p * (1 - p))

    def value(rows: np.ndarray) -> float:
        return float(gradient[rows].sum() ** 2 / (curvature[rows].sum() + 1))

    gains = {
        (feature, cut): value(X[:, feature] <= cut) + value(X[:, feature] > cut)
        for feature in range(3) for cut in np.unique(X[:, feature])[:-1]
        if min(curvature[X[:, feature] <= cut].sum(), curvature[X[:, feature] > cut].sum()) >= 5
    }  # fmt: skip
    assert (trees.features[0, 0], trees.thresholds[0, 0]) == max(gains, key=lambda split: gains[split])
    left = X[:, trees.features[0, 0]] <= trees.thresholds[0, 0]
    step = gradient[left].sum() / (curvature[left].sum() + 1)
    assert trees.leaves[0, 0] == pytest.approx(step, rel=1e-5)


def test_what_two_columns_say_together_is_learned() -> None:
    X, right = drawn(0)
    trees = BoostedTrees.fit(X, right, np.ones(len(X), np.float32), n_trees=40, depth=2, learning_rate=0.3)
    test, truth = drawn(1)
    assert ((trees.scores(test) > 0) == truth).mean() > 0.97
    same = BoostedTrees.fit(X, right, np.ones(len(X), np.float32), n_trees=40, depth=2, learning_rate=0.3)
    assert trees.leaves.tobytes() == same.leaves.tobytes()


def test_rows_of_no_weight_teach_nothing() -> None:
    X, right = drawn(0)
    weight = np.ones(len(X), np.float32)
    weight[200:] = 0
    wrong = right.copy()
    wrong[200:] = ~wrong[200:]
    trees = [BoostedTrees.fit(X, y, weight, n_trees=3, depth=2, learning_rate=0.3) for y in (right, wrong)]
    assert trees[0].leaves.tobytes() == trees[1].leaves.tobytes()


@pytest.mark.parametrize(("n_trees", "depth"), [(1, 12), (10_000, 1), (1, 13), (10_001, 1), (0, 1), (1, 0)])
def test_sizes_that_a_file_may_have(n_trees: int, depth: int) -> None:
    n_splits = 2**depth - 1
    trees = BoostedTrees(
        np.zeros((n_trees, n_splits), np.int32), np.zeros((n_trees, n_splits), np.float32),
        np.zeros((n_trees, n_splits + 1), np.float32), 0.0,
    )  # fmt: skip
    state = State("trees", 1, arrays=trees.to_arrays())
    if 1 <= n_trees <= 10_000 and 1 <= depth <= 12:
        assert BoostedTrees.from_state(state, 1).leaves.shape == (n_trees, n_splits + 1)
    else:
        with raises(ModelError, n_trees, n_splits):
            BoostedTrees.from_state(state, 1)


def test_columns_that_say_nothing_leave_the_rate() -> None:
    X = np.ones((100, 2), np.float32)
    right = np.arange(100) % 4 == 0
    trees = BoostedTrees.fit(X, right, np.ones(100, np.float32), n_trees=2, depth=3, learning_rate=0.5)
    odds = trees.scores(np.array([[1, 1], [0, 5], [1e30, -3]], np.float32))
    assert odds == pytest.approx([np.log(1 / 3)] * 3, abs=1e-5)
