"""The linear ranker: one linear model a node of the tree, all children of a cluster solved together (PECOS 2.3)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.indexing.rows import row_squares
from sylvan.parallel import map_parallel
from sylvan.runtime.memory import LANES, Gate, solver_bytes
from sylvan.validate import Csr
from sylvan.weights import ClusterRows

__all__ = ["LOSSES", "Collector", "Folds", "LayerProblem", "LinearOptions", "solve_layers"]

LOSSES = {"squared_hinge": 0, "hinge": 1, "logistic": 2}


@dataclass(frozen=True)
class LinearOptions:
    """What Eq. 10 leaves open: the loss, the costs of its terms and when to stop.

    ``cost`` is the factor of the losses beside half the squared norm of the weights (liblinear's C), times
    ``positive_cost`` or ``negative_cost``; ``bias`` the value of a constant feature, 0 for none; a child stops when its
    projected gradients lie within ``tolerance``; weights below ``threshold`` in magnitude are dropped.
    """

    loss: str = "squared_hinge"
    cost: float = 1.0
    positive_cost: float = 1.0
    negative_cost: float = 1.0
    bias: float = 1.0
    tolerance: float = 0.1
    max_iterations: int = 10
    threshold: float = 0.1
    max_weights_per_label: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class LayerProblem:
    """One layer to train.

    Attributes
    ----------
    child_offsets : ndarray of int64, shape (n_clusters + 1,)
        Cluster c's children are nodes ``child_offsets[c]`` to ``child_offsets[c + 1] - 1``.
    positives : Csr, shape (n, n_nodes)
        The nodes that each row is a positive of, with its relevance.
    row_offsets, rows : ndarray of int64 and int32
        Cluster c's training rows are ``rows[row_offsets[c]:row_offsets[c + 1]]``, rising.
    weighted : bool
        Whether the relevance counts as a cost; otherwise each positive counts 1.
    """

    child_offsets: npt.NDArray[np.int64]
    positives: Csr
    row_offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    weighted: bool = False


class Collector(Protocol):
    """Where solved clusters go."""

    def has(self, layer: int, cluster: int) -> bool:
        """Whether this cluster needn't be solved any more."""

    def put(self, layer: int, cluster: int, rows: ClusterRows) -> None:
        """Take a solved cluster, from any thread."""


@dataclass(frozen=True)
class Folds:
    """Rows to be held out, fold by fold.

    Attributes
    ----------
    count : int
    of_row : ndarray of uint8, shape (n,), or None without folds
        The fold of each row, from 1; 0 for rows that are never held out.
    """

    count: int = 0
    of_row: npt.NDArray[np.uint8] | None = None

    @classmethod
    def of(cls, folds: Sequence[npt.NDArray[np.int32]], n_rows: int) -> Folds:
        """From the row ids of each fold."""
        of_row = np.zeros(n_rows, np.uint8)
        for number, rows in enumerate(folds, 1):
            of_row[rows] = number
        return cls(len(folds), of_row) if len(folds) else cls()


@dataclass
class _Scratch:
    """Arrays that one thread uses again from cluster to cluster; they grow and never shrink."""

    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def take(self, name: str, size: int, dtype: type, fill: int | None = None) -> npt.NDArray[Any]:
        array = self.arrays.get(name)
        if array is None or array.size < size:
            array = np.empty(size, dtype) if fill is None else np.full(size, fill, dtype)
            self.arrays[name] = array
        return array


def solve_layers(
    features: Csr,
    problems: Mapping[int, LayerProblem],
    options: LinearOptions,
    finished: Collector,
    *,
    folds: Folds | None = None,
    without: Sequence[Collector] = (),
    sample_weight: npt.NDArray[np.float32] | None = None,
    gate: Gate | None = None,
    n_jobs: int = 1,
    description: str | None = None,
) -> None:
    """Solve every cluster of the given layers, the dearest first; the answer doesn't depend on ``n_jobs``.

    Layers that are known together (with teacher-forced negatives, all of them) share one list of work, so that
    the single cluster of the top layer keeps one thread busy while the others go on below it.

    Parameters
    ----------
    problems : mapping of int to LayerProblem
        The layers by their numbers.
    finished : Collector
        Takes each solved cluster, and knows those that need no solving.
    folds : Folds, optional
        Rows to be held out: each cluster is solved without those of each fold too.
    without : sequence of Collector
        One a fold, for what is solved without it.
    gate : Gate, optional
        Lets only as many clusters be in work as there is memory for.
    """
    folds = Folds() if folds is None else folds
    collectors = (finished, *without)
    entries = np.diff(features.indptr)
    norms = row_squares(features.indptr, features.data).astype(np.float32)
    tasks: list[tuple[int, int, int]] = []
    costs: list[float] = []
    for t, problem in problems.items():
        weighted = problem.weighted or sample_weight is not None
        for cluster in range(len(problem.child_offsets) - 1):
            if all(collector.has(t, cluster) for collector in collectors):
                continue
            rows = problem.rows[problem.row_offsets[cluster] : problem.row_offsets[cluster + 1]]
            n_children = int(problem.child_offsets[cluster + 1] - problem.child_offsets[cluster])
            n_entries = int(entries[rows].sum())
            n_columns = features.shape[1]
            used = min(n_entries, n_columns)
            size = solver_bytes(len(rows), n_entries, used, n_columns, n_children, weighted, len(collectors))
            tasks.append((t, cluster, size))
            costs.append(float(n_entries + len(rows)) * -(-n_children // LANES) + 1.0)
    if gate is not None:
        gate.need(max((n_bytes for *_, n_bytes in tasks), default=0))
    local = threading.local()

    def solve(task: tuple[int, int, int]) -> None:
        t, cluster, n_bytes = task
        if not hasattr(local, "scratch"):
            local.scratch = _Scratch()
        seed = (options.seed * 1_000_003 + t) * 1_000_003 + cluster
        work = (features, norms, problems[t], cluster, options, sample_weight, seed, folds)
        with contextlib.nullcontext() if gate is None else gate.hold(n_bytes):
            sets = _solve_cluster(*work, local.scratch)
            if gate is not None and n_bytes * n_jobs > gate.capacity // 4:  # too much to sit on while others wait
                local.scratch = _Scratch()
        for collector, solved in zip(collectors, sets, strict=True):
            if not collector.has(t, cluster):
                collector.put(t, cluster, solved)

    map_parallel(solve, tasks, n_jobs, costs=costs, description=description)


def _solve_cluster(
    features: Csr,
    norms: npt.NDArray[np.float32],
    problem: LayerProblem,
    cluster: int,
    options: LinearOptions,
    sample_weight: npt.NDArray[np.float32] | None,
    seed: int,
    folds: Folds,
    scratch: _Scratch,
) -> list[ClusterRows]:
    """Renumber the cluster's features, solve its children in groups of :data:`LANES`, gather the kept weights.

    Those of all rows, then those without each fold.
    """
    rows = problem.rows[problem.row_offsets[cluster] : problem.row_offsets[cluster + 1]]
    first, last = int(problem.child_offsets[cluster]), int(problem.child_offsets[cluster + 1])
    if not len(rows):  # nobody reaches it: as unlikely as a node that has been seen to be wrong
        nothing = np.zeros(0, np.int32)
        intercepts = np.full(last - first, -1, np.float32)
        nobody = ClusterRows(nothing, nothing, nothing, nothing.astype(np.float32), intercepts)
        return [nobody] * (1 + folds.count)
    n_columns = features.shape[1]
    n_entries = int((features.indptr[rows + 1] - features.indptr[rows]).sum())
    if len(rows) == features.shape[0]:  # every row: its features are numbered well enough as they are
        begin, local_ids, used = features.indptr[:-1], features.indices, np.arange(n_columns, dtype=np.int32)
    else:
        local_ids = scratch.take("local", n_entries, np.int32)
        begin = scratch.take("begin", len(rows), np.int64)[: len(rows)]
        used = scratch.take("used", min(n_entries, n_columns), np.int32)
        numbers = scratch.take("numbers", n_columns, np.int32, fill=-1)
        n_used = kernels.renumber_features(features.indptr, features.indices, rows, numbers, local_ids, begin, used)
        used = used[:n_used]
    n_sets = 1 + folds.count
    intercepts = np.zeros((n_sets, last - first), np.float32)
    counts = np.zeros(n_sets, np.int64)
    triples: list[list[tuple[npt.NDArray[Any], ...]]] = [[] for _ in range(n_sets)]
    for start in range(first, last, LANES):
        n_children = min(LANES, last - start)
        n_floats = kernels.solver_scratch_floats(len(rows), len(used), LANES, folds.count)
        memory = scratch.take("solver", n_floats, np.float32)
        room = len(used) * n_children * n_sets
        feature, child, weight = (scratch.take(name, room, dtype) for name, dtype in _TRIPLE)
        kernels.solve_group(
            features.indptr, features.data, norms, rows, local_ids, begin, len(used),
            problem.positives.indptr, problem.positives.indices,
            problem.positives.data if problem.weighted else None, sample_weight,
            start, n_children, LOSSES[options.loss], options.cost * options.positive_cost,
            options.cost * options.negative_cost, options.bias, options.tolerance, options.max_iterations,
            options.threshold, -1 if options.max_weights_per_label is None else options.max_weights_per_label,
            (seed * LANES + start) % (1 << 64), folds.of_row, folds.count, memory, feature, child, weight,
            intercepts.reshape(-1)[start - first :], last - first, counts,
        )  # fmt: skip
        ends = np.cumsum(counts).tolist()
        for chosen, begins, n in zip(triples, [0, *ends[:-1]], ends, strict=True):
            part = slice(begins, n)
            chosen.append((feature[part].copy(), child[part] + np.int32(start - first), weight[part].copy()))
    return [_as_rows(chosen, used, intercepts[number]) for number, chosen in enumerate(triples)]


_TRIPLE = (("feature", np.int32), ("child", np.int32), ("weight", np.float32))


def _as_rows(
    triples: list[tuple[npt.NDArray[Any], ...]], used: npt.NDArray[np.int32], intercepts: npt.NDArray[np.float32]
) -> ClusterRows:
    """The groups' (feature, child, weight) triples as one list of rows in the order of features."""
    feature, child, weight = (np.concatenate(part) for part in zip(*triples, strict=True))
    triples.clear()  # of a large cluster this is as much again
    n, most = len(feature), min(len(feature), len(used))
    features, lengths = np.empty(most, np.int32), np.empty(most, np.int32)
    children, weights = np.empty(n, np.int32), np.empty(n, np.float32)
    offsets = np.empty(len(used) + 1, np.int64)
    n_rows = kernels.sort_triples(feature, child, weight, len(used), offsets, features, lengths, children, weights)
    return ClusterRows(used[features[:n_rows]], lengths[:n_rows].copy(), children, weights, intercepts)
