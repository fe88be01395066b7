"""The linear ranker: one linear model a node of the tree, all children of a cluster solved together (PECOS 2.3)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.indexing.rows import row_squares
from sylvan.parallel import map_parallel
from sylvan.validate import Csr
from sylvan.weights import ClusterRows

__all__ = ["LOSSES", "LayerProblem", "LinearOptions", "solve_layers"]

LOSSES = {"squared_hinge": 0, "hinge": 1, "logistic": 2}
LANES = 16  # labels solved side by side; one 64-byte line of weights a feature


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
    problems: Sequence[LayerProblem],
    options: LinearOptions,
    *,
    sample_weight: npt.NDArray[np.float32] | None = None,
    first_layer: int = 0,
    n_jobs: int = 1,
    description: str | None = None,
) -> list[list[ClusterRows]]:
    """Solve every cluster of the given layers, the dearest first; the answer doesn't depend on ``n_jobs``.

    Layers that are known together (with teacher-forced negatives, all of them) share one list of work, so that
    the single cluster of the top layer keeps one thread busy while the others go on below it.
    """
    entries = np.diff(features.indptr)
    norms = row_squares(features.indptr, features.data).astype(np.float32)
    tasks: list[tuple[int, int]] = []
    costs: list[float] = []
    for t, problem in enumerate(problems):
        for cluster in range(len(problem.child_offsets) - 1):
            rows = problem.rows[problem.row_offsets[cluster] : problem.row_offsets[cluster + 1]]
            n_children = int(problem.child_offsets[cluster + 1] - problem.child_offsets[cluster])
            tasks.append((t, cluster))
            costs.append(float(entries[rows].sum() + len(rows)) * -(-n_children // LANES) + 1.0)
    local = threading.local()

    def solve(task: tuple[int, int]) -> ClusterRows:
        if not hasattr(local, "scratch"):
            local.scratch = _Scratch()
        t, cluster = task
        seed = (options.seed * 1_000_003 + first_layer + t) * 1_000_003 + cluster
        return _solve_cluster(features, norms, problems[t], cluster, options, sample_weight, seed, local.scratch)

    solutions = map_parallel(solve, tasks, n_jobs, costs=costs, description=description)
    by_layer: list[list[ClusterRows]] = [[] for _ in problems]
    for (t, _), solution in zip(tasks, solutions, strict=True):
        by_layer[t].append(solution)
    return by_layer


def _solve_cluster(
    features: Csr,
    norms: npt.NDArray[np.float32],
    problem: LayerProblem,
    cluster: int,
    options: LinearOptions,
    sample_weight: npt.NDArray[np.float32] | None,
    seed: int,
    scratch: _Scratch,
) -> ClusterRows:
    """Renumber the cluster's features, solve its children in groups of :data:`LANES`, gather the kept weights."""
    rows = problem.rows[problem.row_offsets[cluster] : problem.row_offsets[cluster + 1]]
    first, last = int(problem.child_offsets[cluster]), int(problem.child_offsets[cluster + 1])
    if not len(rows):  # nobody reaches it: as unlikely as a node that has been seen to be wrong
        nothing = np.zeros(0, np.int32)
        intercepts = np.full(last - first, -1, np.float32)
        return ClusterRows(nothing, nothing, nothing, nothing.astype(np.float32), intercepts)
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
    intercepts = np.zeros(last - first, np.float32)
    triples: list[tuple[npt.NDArray[Any], ...]] = []
    for start in range(first, last, LANES):
        n_children = min(LANES, last - start)
        memory = scratch.take("solver", kernels.solver_scratch_floats(len(rows), len(used), LANES), np.float32)
        feature, child, weight = (scratch.take(name, len(used) * n_children, dtype) for name, dtype in _TRIPLE)
        n, _ = kernels.solve_group(
            features.indptr, features.data, norms, rows, local_ids, begin, len(used),
            problem.positives.indptr, problem.positives.indices,
            problem.positives.data if problem.weighted else None, sample_weight,
            start, n_children, LOSSES[options.loss], options.cost * options.positive_cost,
            options.cost * options.negative_cost, options.bias, options.tolerance, options.max_iterations,
            options.threshold, -1 if options.max_weights_per_label is None else options.max_weights_per_label,
            (seed * LANES + start) % (1 << 64), memory, feature, child, weight, intercepts[start - first :],
        )  # fmt: skip
        triples.append((feature[:n].copy(), child[:n] + np.int32(start - first), weight[:n].copy()))
    return _as_rows(triples, used, intercepts)


_TRIPLE = (("feature", np.int32), ("child", np.int32), ("weight", np.float32))


def _as_rows(
    triples: list[tuple[npt.NDArray[Any], ...]], used: npt.NDArray[np.int32], intercepts: npt.NDArray[np.float32]
) -> ClusterRows:
    """The groups' (feature, child, weight) triples as one list of rows in the order of features."""
    feature, child, weight = (np.concatenate(part) for part in zip(*triples, strict=True))
    n, most = len(feature), min(len(feature), len(used))
    features, lengths = np.empty(most, np.int32), np.empty(most, np.int32)
    children, weights = np.empty(n, np.int32), np.empty(n, np.float32)
    offsets = np.empty(len(used) + 1, np.int64)
    n_rows = kernels.sort_triples(feature, child, weight, len(used), offsets, features, lengths, children, weights)
    return ClusterRows(used[features[:n_rows]], lengths[:n_rows].copy(), children, weights, intercepts)
