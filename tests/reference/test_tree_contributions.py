"""What columns add to the answer of boosted trees, beside Shapley values by definition: all subsets of columns."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan.models.reranker.learning import contributions
from sylvan.ranking.boosted_trees import GROWERS, NEVER, BoostedTrees, Growing, Rows


def expected_answer(trees: BoostedTrees, row: np.ndarray, known: set[int]) -> float:
    """The answer when only some columns are known: elsewhere both ways are taken, by the shares of training rows."""
    assert trees.covers is not None

    def below(tree: int, node: int) -> tuple[float, float]:
        """The expected answer below a node, and how many training rows came to it."""
        features = trees.features[tree]
        if node >= len(features):
            leaf = node - len(features)
            assert trees.covers is not None
            return float(trees.leaves[tree, leaf]), float(trees.covers[tree, leaf])
        (left, n_left), (right, n_right) = below(tree, 2 * node + 1), below(tree, 2 * node + 2)
        if int(features[node]) in known:
            return right if row[features[node]] > trees.thresholds[tree, node] else left, n_left + n_right
        if n_left + n_right == 0:
            return left, 0.0
        return (left * n_left + right * n_right) / (n_left + n_right), n_left + n_right

    return float(trees.base) + sum(below(tree, 0)[0] for tree in range(len(trees.features)))


def slow_contributions(trees: BoostedTrees, row: np.ndarray) -> tuple[float, np.ndarray]:
    """The expected answer, and each column's Shapley value."""
    n = len(row)
    values = np.zeros(n)
    for column in range(n):
        others = [other for other in range(n) if other != column]
        for size in range(n):
            weight = factorial(size) * factorial(n - 1 - size) / factorial(n)
            for known in combinations(others, size):
                with_it = expected_answer(trees, row, {*known, column})
                values[column] += weight * (with_it - expected_answer(trees, row, set(known)))
    return expected_answer(trees, row, set()), values


def drawn_trees(seed: int, n_trees: int, depth: int, n_features: int) -> BoostedTrees:
    """Trees as no training makes them; with few columns, most paths ask for one of them twice."""
    rng = np.random.default_rng(seed)
    nodes = 2**depth - 1
    return BoostedTrees(
        rng.integers(0, n_features, (n_trees, nodes), dtype=np.int32),
        rng.integers(0, 5, (n_trees, nodes)).astype(np.float32),
        rng.normal(0, 1, (n_trees, nodes + 1)).astype(np.float32),
        float(rng.normal()),
        rng.integers(1, 9, (n_trees, nodes + 1)).astype(np.float32),
    )


def same(trees: BoostedTrees, row: np.ndarray) -> None:
    base, values = contributions(trees, row)
    expected_base, expected = slow_contributions(trees, row)
    assert values.shape == row.shape and values.dtype == np.float64
    assert base == pytest.approx(expected_base, abs=1e-5)
    np.testing.assert_allclose(values, expected, atol=1e-5)
    assert base + values.sum() == pytest.approx(float(trees.scores(row[None])[0]), abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
def test_contributions_are_shapley_values(seed: int, n_trees: int, depth: int, n_features: int) -> None:
    trees = drawn_trees(seed, n_trees, depth, n_features)
    same(trees, np.random.default_rng(seed + 1).integers(0, 6, n_features).astype(np.float32))


@pytest.mark.parametrize("values", [(0, 0), (2, 0), (3, 1), (2, 3)])
def test_a_column_that_occurs_twice_on_a_path(values: tuple[float, float]) -> None:
    trees = BoostedTrees(
        np.array([[0, 0, 1]], np.int32), np.array([[2, 1, 0]], np.float32),
        np.array([[1, 2, 4, 8]], np.float32), 0.5, np.array([[3, 1, 2, 6]], np.float32),
    )  # fmt: skip
    same(trees, np.array(values, np.float32))


def test_sides_that_no_training_row_came_to() -> None:
    """As below a node that sends every row to the left, or a tree that is a single leaf; a row may still come there."""
    trees = drawn_trees(4, 3, 3, 3)
    assert trees.covers is not None
    trees.thresholds[0, [1, 5]] = trees.thresholds[1, :] = NEVER
    trees.covers[0, [2, 3, 7]] = 0
    trees.covers[1, 1:] = trees.covers[2] = 0
    for seed in range(4):
        same(trees, np.random.default_rng(seed).integers(0, 6, 3).astype(np.float32))


def test_columns_that_no_tree_asks_for_add_nothing() -> None:
    trees = drawn_trees(0, 3, 3, 2)
    row = np.array([1, 3, 5, 7], np.float32)
    base, values = contributions(trees, row)
    assert values[2:].tolist() == [0, 0] and np.abs(values[:2]).min() > 0
    assert contributions(trees, row[:2])[0] == base


def growing(n_trees: int = 8, depth: int = 4, objective: str = "right") -> Growing:
    return Growing(objective, n_trees, depth, 0.3, seed=0, n_jobs=1)


def drawn_rows(seed: int = 0, n: int = 1500) -> Rows:
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 12, (n, 4)).astype(np.float32)
    right = columns[:, 0] + columns[:, 1] * (columns[:, 2] > 5) + rng.normal(0, 2, n) > 9
    return Rows(columns, right, np.ones(n, np.float32), np.full(n // 10, 10, np.int64))


@pytest.mark.parametrize("name", ["trees", "lightgbm"])
def test_those_of_grown_trees(name: str) -> None:
    pytest.importorskip("numpy" if name == "trees" else name)
    rows = drawn_rows()
    trees = GROWERS[name](rows, growing(n_trees=3, depth=3))
    for row in rows.columns[:4]:
        same(trees, row)


@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("objective", ["right", "rank"])
def test_they_are_lightgbms_own(objective: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    trained = []
    train = lightgbm.train
    monkeypatch.setattr(
        lightgbm, "train", lambda *args, **options: trained.append(train(*args, **options)) or trained[0]
    )
    rows = drawn_rows()
    trees = GROWERS["lightgbm"](rows, growing(depth=depth, objective=objective))
    (booster,) = trained
    theirs = booster.predict(rows.columns[:40].astype(np.float64), pred_contrib=True)
    assert np.abs(theirs[:, :-1]).max() > 0.1
    for row, expected in zip(rows.columns[:40], theirs, strict=True):
        base, values = contributions(trees, row)
        np.testing.assert_allclose(values, expected[:-1], atol=1e-5)
        assert base == pytest.approx(expected[-1], abs=1e-5)
