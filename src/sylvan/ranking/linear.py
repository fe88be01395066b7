"""The linear ranker: one linear model a node of the tree, all children of a cluster solved together (PECOS 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.errors import ModelError
from sylvan.indexing.rows import row_squares
from sylvan.parallel import scratch
from sylvan.ranking.sizes import LANES, solver_bytes
from sylvan.runtime.job import Arrays, Job, Packing
from sylvan.validate import Csr
from sylvan.weights import ClusterRows

__all__ = ["LOSSES", "Folds", "LayerProblem", "LinearOptions", "cluster_jobs"]

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


def cluster_jobs(
    features: Csr,
    problem: LayerProblem,
    layer: int,
    options: LinearOptions,
    *,
    folds: Folds | None = None,
    sample_weight: npt.NDArray[np.float32] | None = None,
) -> list[Job[list[ClusterRows]]]:
    """One job for each cluster of a layer: all its children's models, with all rows and then without each fold.

    Layers that are known together (with teacher-forced negatives, all of them) are best run as one list, so that the
    single cluster of the top layer keeps one thread busy while the others go on below it.

    Parameters
    ----------
    problem : LayerProblem
    layer : int
        Its number, which the seeds depend on.
    folds : Folds, optional
        Rows to be held out: each cluster is solved without those of each fold too, from where the solution with all
        rows lies, at a part of the cost.
    """
    folds = Folds() if folds is None else folds
    n_columns, n_sets = features.shape[1], 1 + folds.count
    weighted = problem.weighted or sample_weight is not None
    n_rows, n_children = np.diff(problem.row_offsets), np.diff(problem.child_offsets)
    before = np.concatenate(([0], np.cumsum(np.diff(features.indptr)[problem.rows])))
    n_entries = before[problem.row_offsets[1:]] - before[problem.row_offsets[:-1]]
    costs = (n_entries + n_rows) * -(-n_children // LANES) + 1.0
    shared = {
        "features": features, "norms": row_squares(features.indptr, features.data).astype(np.float32),
        "problem": problem, "options": options, "sample_weight": sample_weight, "folds": folds,
    }  # fmt: skip
    packings = {int(n): Packing(_pack, partial(_unpack, n_sets, int(n))) for n in np.unique(n_children)}
    sizes = zip(n_rows.tolist(), n_entries.tolist(), n_children.tolist(), costs.tolist(), strict=True)
    return [
        Job(
            f"layer{layer}.cluster{cluster}",
            _solve_cluster,
            {**shared, "cluster": cluster, "seed": (options.seed * 1_000_003 + layer) * 1_000_003 + cluster},
            cost,
            solver_bytes(rows, entries, min(entries, n_columns), n_columns, children, weighted, n_sets),
            packings[children],
            "solving the largest cluster",
        )
        for cluster, (rows, entries, children, cost) in enumerate(sizes)
    ]


_ROWS, _ENTRIES = ("features", "lengths"), ("children", "weights")


def _pack(sets: list[ClusterRows]) -> dict[str, npt.NDArray[Any]]:
    """The rows of all sets, one behind the other, and where each set ends."""
    found = {
        name: np.concatenate([getattr(each, name) for each in sets]) for name in (*_ROWS, *_ENTRIES, "intercepts")
    }
    return {**found, "ends": np.cumsum([(len(each.features), len(each.children)) for each in sets], axis=0)}


def _unpack(n_sets: int, n_children: int, arrays: Arrays) -> list[ClusterRows]:
    """What :func:`_pack` gave, verified as far as laying it out needs it."""
    types = dict.fromkeys((*_ROWS, "children"), np.int32) | {"weights": np.float32, "intercepts": np.float32}
    ends = arrays.get("ends", np.zeros(0, np.int64))
    whole = ends.shape == (n_sets, 2) and ends.dtype == np.int64 and bool((np.diff(ends, axis=0, prepend=0) >= 0).all())
    sizes = {name: ends[-1, 0] if name in _ROWS else ends[-1, 1] for name in (*_ROWS, *_ENTRIES)} if whole else {}
    sizes["intercepts"] = n_sets * n_children
    if not whole or any(
        name not in arrays or arrays[name].dtype != dtype or arrays[name].shape != (sizes[name],)
        for name, dtype in types.items()
    ):
        raise ModelError("A stored cluster is damaged: its arrays don't agree.")
    begins = np.concatenate((np.zeros((1, 2), np.int64), ends))
    sets = []
    for number in range(n_sets):
        rows, entries = (slice(int(begins[number, i]), int(begins[number + 1, i])) for i in (0, 1))
        intercepts = arrays["intercepts"][number * n_children : (number + 1) * n_children]
        features, lengths = (arrays[name][rows] for name in _ROWS)
        children, weights = (arrays[name][entries] for name in _ENTRIES)
        sets.append(ClusterRows(features, lengths, children, weights, intercepts))
    return sets


def _solve_cluster(
    features: Csr,
    norms: npt.NDArray[np.float32],
    problem: LayerProblem,
    cluster: int,
    options: LinearOptions,
    sample_weight: npt.NDArray[np.float32] | None,
    seed: int,
    folds: Folds,
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
    reused, n_columns = scratch(), features.shape[1]
    n_entries = int((features.indptr[rows + 1] - features.indptr[rows]).sum())
    if len(rows) == features.shape[0]:  # every row: its features are numbered well enough as they are
        begin, local_ids, used = features.indptr[:-1], features.indices, np.arange(n_columns, dtype=np.int32)
    else:
        local_ids = reused.take("local", n_entries, np.int32)
        begin = reused.take("begin", len(rows), np.int64)[: len(rows)]
        used = reused.take("used", min(n_entries, n_columns), np.int32)
        numbers = reused.take("numbers", n_columns, np.int32, fill=-1)
        n_used = kernels.renumber_features(features.indptr, features.indices, rows, numbers, local_ids, begin, used)
        used = used[:n_used]
    n_sets = 1 + folds.count
    intercepts = np.zeros((n_sets, last - first), np.float32)
    counts = np.zeros(n_sets, np.int64)
    triples: list[list[tuple[npt.NDArray[Any], ...]]] = [[] for _ in range(n_sets)]
    for start in range(first, last, LANES):
        n_children = min(LANES, last - start)
        n_floats = kernels.solver_scratch_floats(len(rows), len(used), LANES, folds.count)
        memory = reused.take("solver", n_floats, np.float32)
        room = len(used) * n_children * n_sets
        feature, child, weight = (reused.take(name, room, dtype) for name, dtype in _TRIPLE)
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
