"""The linear ranker: one linear model a node of the tree, all children of a cluster solved together (PECOS 2.3)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from sylvan import kernels
from sylvan.arrays.canonical import distinct, take_rows
from sylvan.arrays.types import Array, Float16, Float32, Int32, Int64, UInt8
from sylvan.arrays.validate import Csr
from sylvan.data.parts.row_parts import LARGE, RowParts
from sylvan.parallel import scratch
from sylvan.ranking.solution import (
    CHANGES,
    WIDENED,
    LayerSolution,
    SolvedBlock,
    Triples,
    block_packing,
    rounded,
    widened,
)
from sylvan.runtime.jobs import Job
from sylvan.weights.layer import ClusterRows

LANES = 16  # labels solved side by side; one 64-byte line of weights a feature
LEAST_COST = 1 << 17  # of a block of clusters, in entries of their rows times groups of children: a few milliseconds
Loss = Literal["squared_hinge", "hinge", "logistic"]
LOSSES: dict[Loss, int] = {loss: code for code, loss in enumerate(get_args(Loss))}  # as the kernels know them


_Sizes = TypeVar("_Sizes", int, Any)


@dataclass(frozen=True)
class LinearOptions:
    """What Eq. 10 leaves open: the loss, the costs of its terms and when to stop. ``cost`` is the factor of the losses
    beside half the squared norm of the weights (liblinear's C), times ``positive_cost`` or ``negative_cost``; ``bias``
    the value of a constant feature, 0 for none; a child stops when its projected gradients lie within ``tolerance``;
    weights below ``threshold`` in magnitude are dropped."""

    loss: Loss = "squared_hinge"
    cost: float = 1.0
    positive_cost: float = 1.0
    negative_cost: float = 1.0
    bias: float = 1.0
    tolerance: float = 0.1
    max_iterations: int = 10
    threshold: float = 0.1
    max_weights_per_label: int | None = None
    seed: int = 0

    def for_rows_of(self, length: float) -> LinearOptions:
        """What these options, meant for rows of length 1, are for longer or shorter ones: the same scores are
        learned. With w = v / length, Eq. 10 in v for rows of length 1 is that in w for the rows as they are, with
        these costs."""
        return replace(self, cost=self.cost / length**2, bias=self.bias * length, threshold=self.threshold / length)


@dataclass(frozen=True)
class LayerProblem:
    """One layer to train."""

    # shape (n_clusters + 1,): cluster c's children are nodes `child_offsets[c]` to `child_offsets[c + 1] - 1`
    child_offsets: Int64
    positives: Csr  # shape (n, n_nodes): the nodes that each row is a positive of, with its relevance
    # row_offsets, rows: cluster c's training rows are `rows[row_offsets[c]:row_offsets[c + 1]]`, rising
    row_offsets: Int64
    rows: Int32
    weighted: bool = False  # whether the relevance counts as a cost; otherwise each positive counts 1
    keeps: bool = False  # whether the multipliers of the solution are asked for
    # an earlier solution of the same clusters, rows and children, to start from
    start: LayerSolution | None = None
    # rounds of the solver for children that start from ``start``, without a last look at every row; 0: as in a training
    warm_rounds: int = 0
    first: int = 0  # the number in its layer of the first cluster that is here, which seeds depend on

    def part(self, clusters: range) -> tuple[LayerProblem, Int32]:
        """Some clusters with what only they learn from, and the ids of their rows, by whose places rows now go."""
        own = slice(clusters.start, clusters.stop + 1)
        offsets, children = self.row_offsets[own], self.child_offsets[own]
        taken = self.rows[int(offsets[0]) : int(offsets[-1])]
        rows = distinct(taken)
        positives = take_rows(self.positives, rows)
        positives = positives.where((positives.indices >= children[0]) & (positives.indices < children[-1]))
        places = np.searchsorted(rows, taken).astype(np.int32)
        return LayerProblem(
            children, positives, offsets - offsets[0], places, self.weighted, first=clusters.start
        ), rows


@dataclass(frozen=True)
class Folds:
    """Rows to be held out, fold by fold."""

    # shape (n_held_out,): of all folds, rising row ids
    rows: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))
    # shape (n,), or None without folds: the fold of each row, from 1; 0 for rows that are never held out
    of_row: UInt8 | None = None
    count: int = 0

    @classmethod
    def of(cls, folds: Sequence[Int32], n_rows: int) -> Folds:
        """From the row ids of each fold."""
        if not len(folds):
            return cls()
        of_row = np.zeros(n_rows, np.uint8)
        for number, rows in enumerate(folds, 1):
            of_row[rows] = number
        return cls(np.flatnonzero(of_row).astype(np.int32), of_row, len(folds))

    def part(self, rows: Int32) -> Folds:
        """The folds of some rows alone."""
        if self.of_row is None:
            return self
        own = self.of_row[rows]
        return Folds(np.flatnonzero(own).astype(np.int32), own, self.count)


def squared_norms(features: Csr | RowParts) -> Float32:
    """The squared length of each row."""
    return features.row_squares().astype(np.float32)


def solver_bytes(
    n_rows: _Sizes, n_entries: _Sizes, n_used: _Sizes, n_columns: int, n_children: _Sizes, weighted: bool
) -> _Sizes:
    """What a thread holds while it solves one cluster, or each of several."""
    rows = (20 + 64 * (2 if weighted else 1)) * n_rows
    features = (64 + 20) * n_used + 4 * n_columns
    # Weights that stay, in the solver's room, on their way and at their place: at most two of three where everything
    # is dense, and not more than a third of the entries that they are learned from.
    stored = np.minimum(2 * n_used * n_children, n_entries) // 3
    weights = 28 * stored + 8 * stored + 8 * np.minimum(n_used, stored)
    result: _Sizes = rows + features + 4 * n_entries + weights
    return result


def block_jobs(
    features: Csr | RowParts, norms: Float32, problem: LayerProblem, layer: int, options: LinearOptions, *,
    folds: Folds | None = None, sample_weight: Float32 | None = None,
) -> list[Job[SolvedBlock]]:  # fmt: skip
    """The clusters of a layer as jobs, small ones in blocks. Layers that are known together (with teacher-forced
    negatives, all of them) are best run as one list, so that the single cluster of the top layer keeps one thread busy
    while the others go on below it. Which clusters make a block depends on the data alone."""
    # Shape: norms (n,)
    folds = Folds() if folds is None else folds
    features, columns = features.used_columns()  # each thread numbers all columns, of which very many may be empty
    n_columns = features.shape[1]
    weighted = problem.weighted or sample_weight is not None
    n_rows, n_children = np.diff(problem.row_offsets), np.diff(problem.child_offsets)
    most_children = int(n_children.max())
    before = np.concatenate(([0], np.cumsum(np.diff(features.indptr)[problem.rows])))
    n_entries = before[problem.row_offsets[1:]] - before[problem.row_offsets[:-1]]
    costs = (n_entries + n_rows) * -(-n_children // LANES) + 1.0
    peaks = solver_bytes(n_rows, n_entries, np.minimum(n_entries, n_columns), n_columns, n_children, weighted)
    cuts = np.flatnonzero(np.diff(np.cumsum(costs) // LEAST_COST)) + 1
    shared = {
        "features": features, "columns": columns, "norms": norms, "problem": problem, "options": options,
        "sample_weight": sample_weight,
        "folds": folds, "layer": layer, "most_children": most_children,
    }  # fmt: skip
    in_parts = isinstance(features, RowParts)
    held = 8 * n_entries + 24 * n_rows if in_parts else np.zeros_like(n_rows)  # the rows that a job reads
    ends = [0, *cuts.tolist(), len(costs)]
    return [
        Job(
            f"layer{layer}.clusters{first}",
            _solve_rows if in_parts else _solve_block,
            {**shared, "clusters": range(first, last)},
            float(costs[first:last].sum()),
            int(peaks[first:last].max()) + min(LARGE, int(held[first:last].sum())),
            block_packing(n_children[first:last], most_children, n_rows[first:last] if problem.keeps else None),
            "solving the largest cluster",
            cut=_own_rows if in_parts else None,
        )
        for first, last in itertools.pairwise(ends)
    ]


def _own_rows(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Of what a layer's jobs learn from, the part of one of them; features stay where they are."""
    problem, rows = inputs["problem"].part(inputs["clusters"])
    weight = inputs["sample_weight"]
    return {
        **inputs, "problem": problem, "rows": rows, "norms": inputs["norms"][rows],
        "sample_weight": None if weight is None else weight[rows], "folds": inputs["folds"].part(rows),
        "clusters": range(len(inputs["clusters"])),
    }  # fmt: skip


def _solve_rows(features: RowParts, rows: Int32, **inputs: Any) -> SolvedBlock:
    """Read the rows that some clusters learn from, and solve them."""
    block = _solve_block(features.take(rows), **inputs)
    return replace(block, arrays={**block.arrays, "changed_rows": rows[block.arrays["changed_rows"]]})


def _solve_block(
    features: Csr, columns: Int32 | None, norms: Float32, problem: LayerProblem, layer: int, clusters: range,
    options: LinearOptions, sample_weight: Float32 | None, folds: Folds, most_children: int,
) -> SolvedBlock:  # fmt: skip
    """Solve some clusters of a layer, one after the other."""
    reused, seed = scratch(), (options.seed * 1_000_003 + layer) * 1_000_003 + problem.first
    changed: list[Triples] = []
    kept: list[Float16] | None = [] if problem.keeps else None
    solve = partial(_solve_cluster, features, norms, problem, options, sample_weight, folds, reused, changed, kept)
    solved = [solve(cluster, seed + cluster) for cluster in clusters]
    if columns is not None:  # what the columns that are left are in the whole matrix
        solved = [replace(cluster, features=columns[cluster.features]) for cluster in solved]
    return SolvedBlock.of(solved, most_children, changed, kept)


def _take(reused: dict[str, Array], name: str, size: int, dtype: Any, fill: int | None = None) -> Array:
    """An array of at least ``size`` numbers, with whatever was left in it; new ones hold ``fill``."""
    array = reused.get(name)
    if array is None or array.size < size:
        array = np.empty(size, dtype) if fill is None else np.full(size, fill, dtype)
        reused[name] = array
    return array


def _solve_cluster(
    features: Csr, norms: Float32, problem: LayerProblem, options: LinearOptions, sample_weight: Float32 | None,
    folds: Folds, reused: dict[str, Array], changed: list[Triples], kept: list[Float16] | None, cluster: int, seed: int,
) -> ClusterRows:  # fmt: skip
    """Renumber the cluster's features, solve its children in groups of :data:`LANES`, gather the weights that are left.
    Changes of the scores of held-out rows are appended to ``changed``, multipliers to ``kept``."""
    rows = problem.rows[problem.row_offsets[cluster] : problem.row_offsets[cluster + 1]]
    first, last = int(problem.child_offsets[cluster]), int(problem.child_offsets[cluster + 1])
    multipliers = None if kept is None else np.zeros((len(rows), last - first), np.float16)
    if kept is not None and multipliers is not None:
        kept.append(multipliers)
    if not len(rows):  # nobody reaches it: as unlikely as a node that has been seen to be wrong
        nothing = np.zeros(0, np.int32)
        intercepts = np.full(last - first, -1, np.float32)
        return ClusterRows(nothing, nothing, nothing, nothing.astype(np.float32), intercepts)
    n_columns = features.shape[1]
    n_entries = int((features.indptr[rows + 1] - features.indptr[rows]).sum())
    if len(rows) == features.shape[0] and n_entries >= n_columns:  # its features are numbered well enough as they are
        begin, local_ids, used = features.indptr[:-1], features.indices, np.arange(n_columns, dtype=np.int32)
    else:
        local_ids = _take(reused, "local", n_entries, np.int32)
        begin = _take(reused, "begin", len(rows), np.int64)[: len(rows)]
        used = _take(reused, "used", min(n_entries, n_columns), np.int32)
        numbers = _take(reused, "numbers", n_columns, np.int32, fill=-1)
        n_used = kernels.renumber_features(features.indptr, features.indices, rows, numbers, local_ids, begin, used)
        used = used[:n_used]
    intercepts = np.zeros(last - first, np.float32)
    counts = np.zeros(2, np.int64)
    triples: list[Triples] = []
    n_held_out = 0 if folds.of_row is None else int(np.count_nonzero(folds.of_row[rows]))
    n_folds = folds.count if n_held_out else 0
    for start in range(first, last, LANES):
        n_children = min(LANES, last - start)
        n_floats = kernels.solver_scratch_floats(len(rows), len(used), LANES, n_folds, n_held_out)
        memory = _take(reused, "solver", n_floats, np.float32)
        room = len(used) * n_children
        feature, child, weight = (_take(reused, name, room, dtype) for name, dtype in _TRIPLE)
        own = _first_multipliers(problem, options, cluster, range(start - first, start - first + n_children))
        room = n_held_out * n_children
        row, node, change = (_take(reused, name, room, dtype) for name, dtype in CHANGES)
        kernels.solve_group(
            features.indptr, features.data, norms, rows, local_ids, begin, len(used),
            problem.positives.indptr, problem.positives.indices,
            problem.positives.data if problem.weighted else None, sample_weight,
            start, n_children, LOSSES[options.loss], options.cost * options.positive_cost,
            options.cost * options.negative_cost, options.bias, options.tolerance, options.max_iterations,
            options.threshold, -1 if options.max_weights_per_label is None else options.max_weights_per_label,
            (seed * LANES + start) % (1 << 64), folds.of_row, n_folds, own, problem.start is not None,
            problem.warm_rounds, memory, feature, child, weight,
            intercepts[start - first :], row, node, change, counts,
        )  # fmt: skip
        if own is not None and multipliers is not None:
            multipliers[:, start - first : start - first + n_children] = rounded(
                own.reshape(len(rows), n_children) / np.float32(options.cost)
            )
        n, n_changes = counts.tolist()
        triples.append((feature[:n].copy(), child[:n] + np.int32(start - first), weight[:n].copy()))
        if n_changes:
            changed.append((row[:n_changes].copy(), node[:n_changes] + np.int32(start), change[:n_changes].copy()))
    return _as_rows(triples, used, intercepts)


def _first_multipliers(problem: LayerProblem, options: LinearOptions, cluster: int, children: range) -> Float32 | None:
    """Where the multipliers of some of a cluster's children are written, with those that the solver starts from."""
    if problem.start is not None:
        given = problem.start.multipliers_of(cluster)[:, children.start : children.stop]
        result: Float32 = (widened(given) * WIDENED).ravel()
        result *= np.float32(options.cost)
        return result
    n_rows = int(problem.row_offsets[cluster + 1] - problem.row_offsets[cluster])
    return np.zeros(n_rows * len(children), np.float32) if problem.keeps else None


_TRIPLE = (("feature", np.int32), ("child", np.int32), ("weight", np.float32))


def _as_rows(triples: list[Triples], used: Int32, intercepts: Float32) -> ClusterRows:
    """The groups' (feature, child, weight) triples as one list of rows in the order of features."""
    feature, child, weight = (np.concatenate(part) for part in zip(*triples, strict=True))
    triples.clear()  # of a large cluster this is as much again
    n, most = len(feature), min(len(feature), len(used))
    features, lengths = np.empty(most, np.int32), np.empty(most, np.int32)
    children, weights = np.empty(n, np.int32), np.empty(n, np.float32)
    offsets = np.empty(len(used) + 1, np.int64)
    n_rows = kernels.sort_triples(feature, child, weight, len(used), offsets, features, lengths, children, weights)
    return ClusterRows(used[features[:n_rows]], lengths[:n_rows].copy(), children, weights, intercepts)
