"""How boosted trees are grown: by LightGBM, whose trees become Sylvan's own, or without any library."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.ranking.boosted_trees import NEVER, BoostedTrees

_Floats = npt.NDArray[np.float32]
_LEAST_OF_LEAF = {"right": 60, "rank": 200}  # candidates, of which the first objective is given about a third
_SHARE_OF_COLUMNS = 0.5  # that a tree looks at
_ZERO = np.float32(1e-35)  # what LightGBM takes for 0 has no greater magnitude


class Growing(NamedTuple):
    """How trees are grown."""

    # to put a row's right candidates before its wrong ones (LambdaMART), or to tell right ones from wrong ones
    objective: str
    n_trees: int
    depth: int
    learning_rate: float
    seed: int
    n_jobs: int


class Rows(NamedTuple):
    """Candidates to learn from."""

    columns: _Floats  # shape (n, n_features): finite
    right: npt.NDArray[np.bool_]  # shape (n,)
    weight: _Floats  # shape (n,)
    groups: npt.NDArray[np.int64]  # shape (n_rows,): how many consecutive candidates each row has; none has none


def _lightgbm(rows: Rows, growing: Growing) -> BoostedTrees:
    """As LightGBM grows them (Ke et al. 2017); lambdarank is LambdaMART (Burges 2010)."""
    lightgbm = need_library("lightgbm")
    parameters = {
        "objective": "lambdarank" if growing.objective == "rank" else "binary", "max_depth": growing.depth,
        "num_leaves": max(2, min(31, 2**growing.depth)), "learning_rate": growing.learning_rate,
        "min_data_in_leaf": _LEAST_OF_LEAF[growing.objective], "feature_fraction": _SHARE_OF_COLUMNS,
        "lambdarank_truncation_level": 10,
        "seed": growing.seed, "num_threads": growing.n_jobs, "deterministic": True, "force_row_wise": True,
        "use_missing": False, "verbose": -1,
    }  # fmt: skip
    groups = rows.groups if growing.objective == "rank" else None
    data = lightgbm.Dataset(rows.columns, rows.right.astype(np.int8), group=groups, weight=rows.weight,
                            params={"verbose": -1})  # fmt: skip
    booster = lightgbm.train(parameters, data, growing.n_trees)

    def read(node: Mapping[str, Any], place: _Places, at: int) -> None:
        if "leaf_value" in node:
            place.leaf(at, node["leaf_value"], node.get("leaf_count", 1))
            return
        place.split(at, node["split_feature"], _around_zero(_float_below(node["threshold"])))
        read(node["left_child"], place, 2 * at + 1)
        read(node["right_child"], place, 2 * at + 2)

    roots = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    return _complete(roots, growing.depth, read)


def _own(rows: Rows, growing: Growing) -> BoostedTrees:
    """As Sylvan grows them, without any library, on one thread; it learns what is right, not an order."""
    return BoostedTrees.fit(
        rows.columns, rows.right, rows.weight, n_trees=growing.n_trees, depth=growing.depth,
        learning_rate=growing.learning_rate,
    )  # fmt: skip


Scorer = Literal["lightgbm", "trees"]
GROWERS: Mapping[Scorer, Callable[[Rows, Growing], BoostedTrees]] = MappingProxyType(
    {"lightgbm": _lightgbm, "trees": _own}
)


class _Places:
    """The arrays of one complete tree, filled from a tree that isn't."""

    def __init__(self, depth: int) -> None:
        self.n_splits = 2**depth - 1
        self.features = np.zeros(self.n_splits, np.int32)
        self.thresholds = np.full(self.n_splits, NEVER, np.float32)
        self.leaves = np.zeros(self.n_splits + 1, np.float32)
        self.covers = np.zeros(self.n_splits + 1, np.float32)

    def split(self, at: int, feature: int, threshold: Any) -> None:
        self.features[at], self.thresholds[at] = feature, min(threshold, NEVER)

    def leaf(self, at: int, value: float, cover: float) -> None:
        """A leaf above the last layer stands in all leaves below; rows go to the leftmost."""
        first, last = at, at
        while first < self.n_splits:
            first, last = 2 * first + 1, 2 * last + 2
        self.leaves[first - self.n_splits : last - self.n_splits + 1] = value
        self.covers[first - self.n_splits] = cover


def _complete(roots: list[Any], depth: int, read: Callable[[Any, _Places, int], None]) -> BoostedTrees:
    made = []
    for root in roots:
        place = _Places(depth)
        read(root, place, 0)
        made.append(place)
    return BoostedTrees(
        np.stack([place.features for place in made]), np.stack([place.thresholds for place in made]),
        np.stack([place.leaves for place in made]), 0.0, np.stack([place.covers for place in made]),
    )  # fmt: skip


def _float_below(threshold: float) -> np.float32:
    """The greatest float32 that isn't above a threshold: float32 values lie below both or neither."""
    near = np.float32(threshold)
    below: np.float32 = np.nextafter(near, np.float32(-np.inf))
    return near if float(near) <= threshold else below


def _around_zero(threshold: np.float32) -> np.float32:
    """A threshold that has all that LightGBM takes for 0 on the side of 0."""
    if abs(threshold) > _ZERO:
        return threshold
    lowest: np.float32 = np.nextafter(-_ZERO, np.float32(-np.inf))
    return _ZERO if threshold >= 0 else lowest


def need_library(name: str) -> Any:
    """LightGBM, where it is what grows the trees; refused before anything is trained where it isn't installed."""
    if name != "lightgbm":
        return None
    try:
        return importlib.import_module("lightgbm")
    except ImportError:
        raise ImportError(
            "A Reranker with scorer='lightgbm' needs LightGBM: pip install \"sylvan[rerank]\". scorer='trees' needs "
            "nothing."
        ) from None
