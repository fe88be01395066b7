"""Gradient-boosted trees for one yes or no: small, without dependencies, the same bits on every machine's threads."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from sylvan import kernels, store
from sylvan.arrays.types import Array, Bool, Float32, Float64, Int32, Int64, UInt8
from sylvan.errors import ModelError
from sylvan.parallel import progress

NEVER = np.float32(3e38)  # the threshold of a node that sends every row to the left
_BINS = 64
_MOST_BINNED = 200_000  # rows by which bins are chosen
_LEAST_WEIGHT = 5.0  # of a leaf, as the sum of p(1 - p)
_SMOOTHING = 1.0  # added to it
_MOST_TREES, _MOST_DEPTH = 10_000, 12
_LEAST_OF_LEAF = {"right": 60, "rank": 200}  # candidates, of which the first objective is given about a third
_SHARE_OF_COLUMNS = 0.5  # that a tree looks at
_ZERO = np.float32(1e-35)  # what LightGBM takes for 0 has no greater magnitude
Scorer = Literal["lightgbm", "trees"]


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Trees whose leaves add up to the log odds of a yes. All trees are complete: each layer's nodes split, or send
    every row to the left. They are grown by Newton's steps on the logistic loss, as Friedman (2001, "Greedy function
    approximation: a gradient boosting machine") and Chen and Guestrin (2016, "XGBoost") have them, over 64 bins of each
    column."""

    features: Int32  # shape (n_trees, 2**depth - 1): the column that each node asks for
    thresholds: Float32  # shape (n_trees, 2**depth - 1): a row goes to the right child where its value is above this
    leaves: Float32  # shape (n_trees, 2**depth)
    base: float  # the log odds before any tree
    # shape (n_trees, 2**depth): how many training rows, or what weight of them, came to each leaf
    covers: Float32 | None = None

    @classmethod
    def fit(
        cls, columns: Float32, right: Bool, weight: Float32, *, n_trees: int, depth: int, learning_rate: float
    ) -> BoostedTrees:
        """Learn from rows."""
        # Shapes: columns (n, n_features); right (n,); weight (n,)
        cuts = [_cuts(columns[:, c]) for c in range(columns.shape[1])]
        bins = np.column_stack([np.searchsorted(cut, columns[:, c]) for c, cut in enumerate(cuts)]).astype(np.uint8)
        mean = float(np.average(right, weights=weight))
        base = np.float32(np.log(mean / (1 - mean)))
        scores = np.full(len(columns), base, np.float64)
        trees: list[tuple[Array, ...]] = []
        wanted, weights = right.astype(np.float64), weight.astype(np.float64)
        with progress("Learning to rank candidates", n_trees) as bar:
            for _ in range(n_trees):
                chance = 1 / (1 + np.exp(-scores))
                first, second = (wanted - chance) * weights, chance * (1 - chance) * weights
                features, thresholds, leaf_of = _grown(bins, first, second, cuts, depth)
                sums = [np.bincount(leaf_of, values, minlength=2**depth) for values in (first, second, weight)]
                steps = np.clip(sums[0] / (sums[1] + _SMOOTHING), -20, 20)  # Newton's, of each leaf
                leaves = (steps * learning_rate).astype(np.float32)
                scores += leaves[leaf_of]
                trees.append((features, thresholds, leaves, sums[2].astype(np.float32)))
                bar.update()
        parts = [np.stack(part) for part in zip(*trees, strict=True)]
        return cls(parts[0], parts[1], parts[2], float(base), parts[3])

    def scores(self, columns: Float32) -> Float32:
        """The log odds of each row, of shape (n, n_features) as in training."""
        result = np.empty(len(columns), np.float32)
        kernels.score_forest(
            self.features, self.thresholds, self.leaves, np.ascontiguousarray(columns), self.base, result
        )
        return result

    def to_arrays(self) -> dict[str, Array]:
        """The arrays by the names that they are stored under."""
        covers = {} if self.covers is None else {"trees.covers": self.covers}
        return {
            "trees.features": self.features, "trees.thresholds": self.thresholds, "trees.leaves": self.leaves,
            "trees.base": np.array([self.base], np.float32), **covers,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: store.State, n_features: int) -> BoostedTrees:
        """From :meth:`to_arrays`' result, verified."""
        features = store.need_range(state, "trees.features", 0, n_features - 1, np.int32, (None, None))
        n_trees, n_splits = features.shape
        depth = int(n_splits + 1).bit_length() - 1
        if n_splits != 2**depth - 1 or not 1 <= depth <= _MOST_DEPTH or not 1 <= n_trees <= _MOST_TREES:
            raise ModelError(f"{state.where!r} is damaged: {n_trees} trees can't have {n_splits} nodes each.")
        thresholds = store.need_array(state, "trees.thresholds", np.float32, (n_trees, n_splits))
        leaves = store.need_range(state, "trees.leaves", -1e3, 1e3, np.float32, (n_trees, n_splits + 1))
        store.need_finite(state, "trees.thresholds")
        base = store.need_range(state, "trees.base", -1e3, 1e3, np.float32, (1,))
        has_covers = "trees.covers" in state.arrays
        covers = store.need_range(state, "trees.covers", 0, 1e30, np.float32, leaves.shape) if has_covers else None
        return cls(features, thresholds, leaves, float(base[0]), covers)


def _cuts(values: Float32) -> Float32:
    """The upper ends of the bins of one column but the last: between values that there are, about as many in each."""
    step = len(values) // _MOST_BINNED + 1
    cuts = np.unique(np.quantile(values[::step], np.linspace(0, 1, _BINS), method="lower").astype(np.float32))
    return cuts[:-1] if len(cuts) > 1 else cuts


def _grown(
    bins: UInt8, first: Float64, second: Float64, cuts: list[Float32], depth: int
) -> tuple[Int32, Float32, Int64]:
    """One tree, layer by layer: the column and threshold of each node, and the leaf of each row."""
    columns, thresholds = np.zeros(0, np.int32), np.zeros(0, np.float32)
    node, flat, begin = np.zeros(len(bins), np.int32), bins.ravel(), np.arange(len(bins)) * bins.shape[1]
    for layer in range(depth):
        shape = (2**layer, bins.shape[1], _BINS, 2)
        sums = np.zeros(int(np.prod(shape)))
        kernels.add_histograms(bins, node, first, second, 2**layer, _BINS, sums)
        features, places = _splits(sums.reshape(shape))
        chosen = [cuts[f][p] if p < len(cuts[f]) else NEVER for f, p in zip(features, places, strict=True)]
        columns = np.append(columns, features).astype(np.int32)
        thresholds = np.append(thresholds, chosen).astype(np.float32)
        node = 2 * node + (flat.take(begin + features.take(node)) > places.astype(np.uint8).take(node))
    return columns, thresholds, node.astype(np.int64)


def _splits(sums: Float64) -> tuple[Int64, Int64]:
    """The column and the bin, rows of which and below which go to the left, of each node; all where none gains."""
    left = np.cumsum(sums, axis=2)
    total = left[:, :, -1:, :]
    right = total - left
    gain = sum(part[..., 0] ** 2 / (part[..., 1] + _SMOOTHING) for part in (left, right))
    gain = gain - total[..., 0] ** 2 / (total[..., 1] + _SMOOTHING)
    light = (left[..., 1] < _LEAST_WEIGHT) | (right[..., 1] < _LEAST_WEIGHT)
    gain = np.where(light, -np.inf, gain).reshape(len(sums), -1)
    best = gain.argmax(axis=1)
    nothing = gain[np.arange(len(sums)), best] <= 1e-9
    return np.where(nothing, 0, best // _BINS), np.where(nothing, _BINS, best % _BINS)


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

    columns: Float32  # shape (n, n_features): finite
    right: Bool  # shape (n,)
    weight: Float32  # shape (n,)
    groups: Int64  # shape (n_rows,): how many consecutive candidates each row has; none has none


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

    roots = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    return _complete(roots, growing.depth)


def _own(rows: Rows, growing: Growing) -> BoostedTrees:
    """As Sylvan grows them, without any library, on one thread; it learns what is right, not an order."""
    return BoostedTrees.fit(
        rows.columns, rows.right, rows.weight, n_trees=growing.n_trees, depth=growing.depth,
        learning_rate=growing.learning_rate,
    )  # fmt: skip


GROWERS: Mapping[Scorer, Callable[[Rows, Growing], BoostedTrees]] = MappingProxyType(
    {"lightgbm": _lightgbm, "trees": _own}
)


def _complete(roots: Sequence[Mapping[str, Any]], depth: int) -> BoostedTrees:
    """Complete trees of LightGBM's, which aren't: a leaf above the last layer stands in all leaves below it, and rows
    go to the leftmost."""
    n_splits = 2**depth - 1
    features, thresholds = np.zeros((len(roots), n_splits), np.int32), np.full((len(roots), n_splits), NEVER)
    leaves, covers = np.zeros((2, len(roots), n_splits + 1), np.float32)

    def read(number: int, place: int, node: Mapping[str, Any]) -> None:
        if "leaf_value" not in node:
            threshold = min(_threshold(node["threshold"]), NEVER)
            features[number, place], thresholds[number, place] = node["split_feature"], threshold
            read(number, 2 * place + 1, node["left_child"])
            read(number, 2 * place + 2, node["right_child"])
            return
        first = last = place
        while first < n_splits:
            first, last = 2 * first + 1, 2 * last + 2
        leaves[number, first - n_splits : last - n_splits + 1] = node["leaf_value"]
        covers[number, first - n_splits] = node.get("leaf_count", 1)

    for number, root in enumerate(roots):
        read(number, 0, root)
    return BoostedTrees(features, thresholds, leaves, 0.0, covers)


def _threshold(value: float) -> np.float32:
    """The greatest float32 that isn't above a threshold of LightGBM's, so that float32 values lie below both or
    neither; and that has all that LightGBM takes for 0 on the side of 0."""
    near = np.float32(value)
    below: np.float32 = near if float(near) <= value else np.nextafter(near, np.float32(-np.inf))
    if abs(below) <= _ZERO:
        below = _ZERO if below >= 0 else np.nextafter(-_ZERO, np.float32(-np.inf))
    return below


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
