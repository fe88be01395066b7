"""Boosted trees that LightGBM, XGBoost and scikit-learn grow, as Sylvan's own."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.ranking.boosted_trees import NEVER, BoostedTrees

__all__ = ["GROWERS", "Growing", "Rows", "library"]

_Floats = npt.NDArray[np.float32]
_LEAST_OF_LEAF = {"right": 60, "rank": 200}  # candidates, of which the first objective is given about a third
_SHARE_OF_COLUMNS = 0.5  # that a tree looks at
_ZERO = np.float32(1e-35)  # what LightGBM takes for 0 has no greater magnitude
_LIBRARIES = {  # the module, its name and what to install
    "lightgbm": ("lightgbm", "LightGBM", '"sylvan[rerank]"'), "xgboost": ("xgboost", "XGBoost", "xgboost"),
    "scikit-learn": ("sklearn.ensemble", "scikit-learn", "scikit-learn"),
}  # fmt: skip


class Growing(NamedTuple):
    """How trees are grown.

    Attributes
    ----------
    objective : {"rank", "right"}
        To put a row's right candidates before its wrong ones (LambdaMART), or to tell right ones from wrong ones.
    n_trees, depth : int
    learning_rate : float
    seed, n_jobs : int
    """

    objective: str
    n_trees: int
    depth: int
    learning_rate: float
    seed: int
    n_jobs: int


class Rows(NamedTuple):
    """Candidates to learn from.

    Attributes
    ----------
    columns : ndarray of float32, shape (n, n_features)
        Finite.
    right : ndarray of bool, shape (n,)
    weight : ndarray of float32, shape (n,)
    groups : ndarray of int64, shape (n_rows,)
        How many consecutive candidates each row has; none has none.
    """

    columns: _Floats
    right: npt.NDArray[np.bool_]
    weight: _Floats
    groups: npt.NDArray[np.int64]


def _lightgbm(rows: Rows, growing: Growing) -> BoostedTrees:
    """As LightGBM grows them (Ke et al. 2017); lambdarank is LambdaMART (Burges 2010)."""
    lightgbm = library("lightgbm")
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
    return _complete(roots, growing.depth, read, 0.0)


def _xgboost(rows: Rows, growing: Growing) -> BoostedTrees:
    """As XGBoost grows them (Chen & Guestrin 2016), on one thread: its sums depend on their number."""
    xgboost = library("xgboost")
    parameters = {
        "objective": "rank:ndcg" if growing.objective == "rank" else "binary:logistic", "max_depth": growing.depth,
        "eta": growing.learning_rate, "min_child_weight": 5, "seed": growing.seed, "nthread": 1, "tree_method": "hist",
        "colsample_bytree": _SHARE_OF_COLUMNS,
        "base_score": 0.5, "verbosity": 0,
    }  # fmt: skip
    if growing.objective == "rank":
        of_rows = rows.weight[np.cumsum(np.append(0, rows.groups[:-1]))]
        data = xgboost.DMatrix(rows.columns, rows.right.astype(np.float32), weight=of_rows)
        data.set_group(rows.groups)
        parameters["base_score"] = 0.0
    else:
        data = xgboost.DMatrix(rows.columns, rows.right.astype(np.float32), weight=rows.weight)
    booster = xgboost.train(parameters, data, growing.n_trees)

    def read(node: Mapping[str, Any], place: _Places, at: int) -> None:
        if "leaf" in node:
            place.leaf(at, node["leaf"], node["cover"])
            return
        below = np.nextafter(np.float32(node["split_condition"]), np.float32(-np.inf))
        place.split(at, int(node["split"].removeprefix("f")), below)
        children = {child["nodeid"]: child for child in node["children"]}
        read(children[node["yes"]], place, 2 * at + 1)
        read(children[node["no"]], place, 2 * at + 2)

    dump = [json.loads(text) for text in booster.get_dump(dump_format="json", with_stats=True)]
    return _complete(dump, growing.depth, read, 0.0)


def _scikit_learn(rows: Rows, growing: Growing) -> BoostedTrees:
    """As scikit-learn's HistGradientBoostingClassifier grows them, which learns what is right, not an order."""
    ensemble = library("scikit-learn")
    model = ensemble.HistGradientBoostingClassifier(
        max_iter=growing.n_trees, max_depth=growing.depth, learning_rate=growing.learning_rate,
        min_samples_leaf=_LEAST_OF_LEAF["right"], max_features=_SHARE_OF_COLUMNS, early_stopping=False,
        random_state=growing.seed,
    ).fit(rows.columns, rows.right, rows.weight)  # fmt: skip
    base = float(np.ravel(model._baseline_prediction)[0])
    trees = [predictors[0].nodes for predictors in model._predictors]

    def read(pair: tuple[Any, int], place: _Places, at: int) -> None:
        nodes, number = pair
        node = nodes[number]
        if node["is_leaf"]:
            place.leaf(at, float(node["value"]), int(node["count"]))
            return
        place.split(at, int(node["feature_idx"]), _float_below(float(node["num_threshold"])))
        read((nodes, int(node["left"])), place, 2 * at + 1)
        read((nodes, int(node["right"])), place, 2 * at + 2)

    return _complete([(nodes, 0) for nodes in trees], growing.depth, read, base)


def _own(rows: Rows, growing: Growing) -> BoostedTrees:
    """As Sylvan grows them, without any library, on one thread; it learns what is right, not an order."""
    return BoostedTrees.fit(
        rows.columns, rows.right, rows.weight, n_trees=growing.n_trees, depth=growing.depth,
        learning_rate=growing.learning_rate,
    )  # fmt: skip


GROWERS: Mapping[str, Callable[[Rows, Growing], BoostedTrees]] = MappingProxyType({
    "lightgbm": _lightgbm, "xgboost": _xgboost, "scikit-learn": _scikit_learn, "trees": _own,
})  # fmt: skip


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


def _complete(roots: list[Any], depth: int, read: Callable[[Any, _Places, int], None], base: float) -> BoostedTrees:
    made = []
    for root in roots:
        place = _Places(depth)
        read(root, place, 0)
        made.append(place)
    return BoostedTrees(
        np.stack([place.features for place in made]), np.stack([place.thresholds for place in made]),
        np.stack([place.leaves for place in made]), base, np.stack([place.covers for place in made]),
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


def library(name: str) -> Any:
    """The module of a kind of trees.

    Raises
    ------
    ImportError
        With what installs it.
    """
    module, words, package = _LIBRARIES[name]
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"A Reranker with scorer={name!r} needs {words}: pip install {package}.") from None
