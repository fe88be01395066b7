"""Trees that LightGBM grows give its own raw predictions, at the thresholds too."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

from sylvan.ranking.boosted_trees import GROWERS, NEVER, BoostedTrees, Growing, Rows, need_library

GROWING = Growing("right", n_trees=12, depth=5, learning_rate=0.3, seed=0, n_jobs=1)
OBJECTIVES = ["right", "rank"]
KINDS = [("lightgbm", "right"), ("lightgbm", "rank"), ("trees", "right")]
Raw = Callable[[np.ndarray], np.ndarray]


def drawn(n: int = 3000, seed: int = 0) -> Rows:
    """Columns of whole numbers, of tiny ones around 0, of huge ones, of any, and one that is always the same."""
    rng = np.random.default_rng(seed)
    columns = np.stack([
        rng.integers(-3, 4, n), rng.normal(0, 1e-30, n), rng.normal(0, 1e30, n), rng.normal(0, 1, n), np.full(n, 7),
    ], axis=1).astype(np.float32)  # fmt: skip
    chance = columns[:, 0] + np.sign(columns[:, 1]) + np.sign(columns[:, 2] - 1e29) * (columns[:, 3] > 0.3)
    right = chance + rng.normal(0, 1.5, n) > 1
    groups = np.append(np.tile([1, 7, 22], 99), n - 2970)  # 30 candidates in each three rows, and what is left
    return Rows(columns, right, rng.integers(1, 4, n).astype(np.float32), groups.astype(np.int64))


def grown(rows: Rows, growing: Growing, patch: pytest.MonkeyPatch) -> tuple[BoostedTrees, Raw]:
    """The trees, and the raw prediction of LightGBM's model that they were made from."""
    made: list[Any] = []
    module = pytest.importorskip("lightgbm")
    train = module.train

    def watched(*args: Any, **options: Any) -> Any:
        made.append(train(*args, **options))
        return made[-1]

    with patch.context() as here:
        here.setattr(module, "train", watched)
        trees = GROWERS["lightgbm"](rows, growing)
    return trees, lambda columns: made[0].predict(columns, raw_score=True)


def at_thresholds(trees: BoostedTrees, rows: Rows) -> np.ndarray:
    """Training rows with one value each set to a threshold, or to one of the two floats at either side of it."""
    asked = []
    splits = np.argwhere(trees.thresholds < NEVER)
    for number, (tree, node) in enumerate(splits):
        value = trees.thresholds[tree, node]
        below, above = np.nextafter(value, np.float32(-np.inf)), np.nextafter(value, np.float32(np.inf))
        for other in (value, below, above, np.nextafter(below, np.float32(-np.inf)),
                      np.nextafter(above, np.float32(np.inf))):  # fmt: skip
            for row in rows.columns[[number % len(rows.columns), (7 * number + 3) % len(rows.columns)]]:
                asked.append(row.copy())
                asked[-1][trees.features[tree, node]] = other
    return np.stack(asked)


def same(found: np.ndarray, expected: np.ndarray) -> None:
    """No leaf is another: they differ by much more than what the libraries round."""
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("depth", [1, 3, 5])
def test_scores_are_the_librarys(objective: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = drawn()
    trees, raw = grown(rows, GROWING._replace(objective=objective, depth=depth), monkeypatch)
    assert trees.features.shape == (12, 2**depth - 1)
    same(trees.scores(rows.columns), raw(rows.columns))
    asked = at_thresholds(trees, rows)
    assert len({int(column) for column in trees.features[trees.thresholds < NEVER]}) > (1 if depth > 1 else 0)
    same(trees.scores(asked), raw(asked))
    far = np.random.default_rng(1).choice(
        np.array([-3e38, -1, -1e-36, 0, -0.0, 1e-45, 1e-36, 1, 3e38, 3.4e38], np.float32), (60, 5)
    )
    same(trees.scores(far), raw(far))


@pytest.mark.parametrize(("name", "objective"), KINDS)
def test_threads_and_another_time_do_not_change_a_bit(name: str, objective: str) -> None:
    pytest.importorskip(name if name == "lightgbm" else "numpy")
    one, again, two = (
        GROWERS[name](drawn(), GROWING._replace(objective=objective, n_jobs=n_jobs)) for n_jobs in (1, 1, 2)
    )
    for other in (again, two):
        for array, same_array in zip(one.to_arrays().values(), other.to_arrays().values(), strict=True):
            assert array.tobytes() == same_array.tobytes()


@pytest.mark.parametrize(("name", "objective"), KINDS)
def test_a_tree_that_is_a_single_leaf(name: str, objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where columns say nothing, there is nothing to split."""
    rows = drawn()
    rows = rows._replace(columns=np.ones_like(rows.columns))
    growing = GROWING._replace(objective=objective, depth=2, n_trees=3)
    trees = GROWERS[name](rows, growing) if name == "trees" else grown(rows, growing, monkeypatch)[0]
    assert (trees.thresholds == NEVER).all() and trees.leaves.shape[1] == 4
    asked = np.array([[1] * 5, [-9] * 5, [3.4e38] * 5], np.float32)
    found = trees.scores(asked)
    assert (found == found[0]).all()
    if name != "trees":
        same(found, grown(rows, growing, monkeypatch)[1](asked))


@pytest.mark.parametrize(("name", "objective"), KINDS)
def test_covers_are_of_the_rows_that_came(name: str, objective: str) -> None:
    """Each leaf has those of the training rows that came to it, as the library counts or weighs them."""
    pytest.importorskip(name if name == "lightgbm" else "numpy")
    rows = drawn()
    trees = GROWERS[name](rows, GROWING._replace(objective=objective, n_trees=1, depth=2))
    assert trees.covers is not None and trees.covers.shape == trees.leaves.shape
    leaf = np.zeros(len(rows.columns), np.int64)
    for _ in range(2):
        right = rows.columns[np.arange(len(leaf)), trees.features[0, leaf]] > trees.thresholds[0, leaf]
        leaf = 2 * leaf + 1 + right
    came = np.bincount(leaf - 3, minlength=4)
    assert ((trees.covers[0] > 0) == (came > 0)).all()
    if name == "lightgbm":
        assert trees.covers[0].tolist() == came.tolist()


def test_lightgbm_is_named_with_what_installs_it_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(module: str, *args: Any) -> Any:
        raise ModuleNotFoundError(f"No module named {module!r}")

    monkeypatch.setattr(importlib, "import_module", absent)
    with raises(ImportError, "scorer='lightgbm'", "sylvan[rerank]", "scorer='trees'"):
        need_library("lightgbm")
    assert need_library("trees") is None
