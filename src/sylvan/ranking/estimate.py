"""What training the rankers of a tree will take, from solving a few of its clusters for real.

A cluster's time and weights are nearly proportional to its cost: entries of its rows times groups of children. So
clusters of each layer are drawn with a probability proportional to that cost, solved, and their rates carried over to
the layer (sampling with probability proportional to size; Hansen & Hurwitz, Annals of Mathematical Statistics, 1943).
What holds memory is counted from sizes, by the functions that the training itself counts with.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sylvan.canonical import Csr, take_rows
from sylvan.indexing import LabelTree
from sylvan.matching.beam import beam_bytes
from sylvan.matching.negatives import cluster_rows, csr_bytes, layer_positives, rows_bytes
from sylvan.parallel import progress
from sylvan.ranking.linear import LANES, LayerProblem, block_jobs, solved_bytes, solver_bytes, squared_norms
from sylvan.ranking.training import TreeTraining
from sylvan.runtime import Runner
from sylvan.weights import ClusterRows, laid_out_bytes

__all__ = ["RankerEstimate", "estimate_ranker"]

DRAWS = 12  # clusters drawn of each layer
SHARE = 0.02  # of a tree's cost: of a cluster beyond it a part is solved
LEAST_ROWS = 2_000  # of such a part, where it is a sample of rows
GROUPS = 48  # groups of children solved of a layer, at least, where clusters have several


@dataclass(frozen=True)
class LayerEstimate:
    """One layer of a tree.

    Attributes
    ----------
    n_clusters : int
    seconds, longest : float
        Of one thread, for all clusters and for the most expensive of them.
    n_weights, n_rows : float
        Weights, and features that have any, over all clusters.
    known, solver, laid_out : int
        Bytes: of the rows and positives, of a thread that solves the largest cluster, of the finished layer.
    magnitudes : ndarray of float32
        Absolute weights of the clusters that were solved.
    """

    n_clusters: int
    seconds: float
    longest: float
    n_weights: float
    n_rows: float
    known: int
    solver: int
    laid_out: int
    magnitudes: npt.NDArray[np.float32]

    @property
    def solved(self) -> int:
        """Bytes of the solved clusters before they are laid out."""
        return solved_bytes(int(self.n_weights), int(self.n_rows))


@dataclass(frozen=True)
class RankerEstimate:
    """The rankers of one tree.

    Attributes
    ----------
    layers : tuple of LayerEstimate
    together : bool
        Whether all layers are trained at once, or one after the other with a search between them.
    n_jobs : int
    prepared : float
        Seconds before the first cluster is solved.
    beams : int
        Bytes of the search's answers.
    """

    layers: tuple[LayerEstimate, ...]
    together: bool
    n_jobs: int
    prepared: float
    beams: int

    @property
    def seconds(self) -> float:
        """With the threads of the training, on a machine that does nothing else."""
        if self.together:
            longest = max(layer.longest for layer in self.layers)
            return self.prepared + max(sum(layer.seconds for layer in self.layers) / self.n_jobs, longest)
        return self.prepared + sum(max(layer.seconds / self.n_jobs, layer.longest) for layer in self.layers)

    @property
    def model_bytes(self) -> int:
        """Of the layers, in memory and on disk."""
        return sum(layer.laid_out for layer in self.layers)

    def peak_bytes(self, n_jobs: int | None = None, share: float = 1.0) -> int:
        """At the worst moment, beside what the process held before.

        With other threads, or only a ``share`` of the weights, if asked.
        """
        n_clusters = sum(layer.n_clusters for layer in self.layers)
        at_once = min(self.n_jobs if n_jobs is None else n_jobs, n_clusters)
        solver = max(layer.solver for layer in self.layers) * at_once
        solved = [layer.solved for layer in self.layers]
        waiting = sum(solved) if self.together else max(solved)
        known = self.beams + sum(layer.known for layer in self.layers)
        return known + max(solver, int(share * (waiting + self.model_bytes)))

    def left(self, threshold: float) -> float:
        """The share of weights that reach ``threshold``."""
        total = sum(layer.n_weights for layer in self.layers)
        left = sum(
            layer.n_weights * float((layer.magnitudes >= threshold).mean())
            for layer in self.layers
            if layer.magnitudes.size
        )
        return float(left / total) if total else 1.0


@dataclass(frozen=True)
class _Sample:
    """What solving a part of a cluster showed, for the whole cluster."""

    seconds: float
    n_weights: float
    n_rows: float
    solver: int
    magnitudes: npt.NDArray[np.float32]


def estimate_ranker(
    features: Csr,
    labels: Csr,
    tree: LabelTree,
    training: TreeTraining,
    sample_weight: npt.NDArray[np.float32] | None = None,
    n_jobs: int = 1,
) -> RankerEstimate:
    """Time, memory and size of :func:`~sylvan.ranking.training.train_rankers`, for a small part of its time.

    Rows that a search would add to a cluster (matcher-aware negatives) can't be known before the layers above are
    trained; the rows most alike to the cluster's own stand in for them.
    """
    start = time.process_time()
    estimator = _Estimator(features, labels, tree, training, sample_weight)
    prepared = time.process_time() - start
    layers = []
    with progress("Estimating", tree.depth, "layer") as bar:
        for t in range(tree.depth):
            layers.append(estimator.layer(t))
            bar.update()
    searched = any(estimator.searched(t) for t in range(tree.depth))
    beams = beam_bytes(features.shape[0], training.beam) if searched else 0
    return RankerEstimate(tuple(layers), not searched, n_jobs, prepared, beams)


class _Estimator:
    """The layers of a tree, one by one."""

    def __init__(
        self, features: Csr, labels: Csr, tree: LabelTree, training: TreeTraining,
        sample_weight: npt.NDArray[np.float32] | None,
    ) -> None:  # fmt: skip
        self.features, self.tree, self.training, self.sample_weight = features, tree, training, sample_weight
        self.entries = np.diff(features.indptr)
        self.weighted = bool((labels.data != 1).any())
        self.positives = layer_positives(tree, labels)
        self.rows = [self._teacher_forced(t) for t in range(tree.depth)]
        self.costs = [self._cluster_costs(t) for t in range(tree.depth)]
        self.random = np.random.default_rng(training.linear.seed)

    def _teacher_forced(self, t: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        above = self.positives[t - 1] if t else None
        return cluster_rows("tfn", above, None, self._n_clusters(t), self.features.shape[0])

    def _n_clusters(self, t: int) -> int:
        return len(self.tree.child_offsets[t]) - 1

    def searched(self, t: int) -> bool:
        """Whether layer t learns from rows that a search finds."""
        return t > 0 and self.training.negatives[t] != "tfn"

    def _found(self, t: int) -> float:
        """Rows that the search brings to a cluster of layer t, on average."""
        n_clusters = self._n_clusters(t)
        return self.features.shape[0] * min(self.training.beam, n_clusters) / n_clusters if self.searched(t) else 0.0

    def _cluster_costs(self, t: int) -> npt.NDArray[np.float64]:
        """Entries of each cluster's rows times its groups of children."""
        offsets, rows = self.rows[t]
        sums = np.concatenate(([0], np.cumsum(self.entries[rows] + 1)))
        groups = -(-np.diff(self.tree.child_offsets[t]) // LANES)
        result = self._found(t) * (self.entries.mean() + 1)
        costs = np.maximum(sums[offsets[1:]] - sums[offsets[:-1]], result) * groups + 1.0
        return np.asarray(costs, np.float64)

    def layer(self, t: int) -> LayerEstimate:
        """One layer, from a few of its clusters."""
        costs = self.costs[t]
        total, most = float(costs.sum()), SHARE * float(sum(cost.sum() for cost in self.costs))
        drawn, times = np.unique(self.random.choice(len(costs), DRAWS, p=costs / total), return_counts=True)
        rates, solver, magnitudes = np.zeros(3), 0, []
        for cluster, n in zip(map(int, drawn), times, strict=True):
            result = self._sample(t, cluster, min(1.0, most / costs[cluster]), GROUPS // len(drawn))
            rates += n * np.array([result.seconds, result.n_weights, result.n_rows]) / costs[cluster]
            magnitudes.append(result.magnitudes)
            solver = max(solver, result.solver)
        seconds, n_weights, n_rows = rates * (total / DRAWS)
        return LayerEstimate(
            len(costs), float(seconds), float(seconds * costs.max() / total), float(n_weights), float(n_rows),
            self._known_bytes(t), solver, self._laid_out_bytes(t, n_weights, n_rows), np.concatenate(magnitudes),
        )  # fmt: skip

    def _sample(self, t: int, cluster: int, share: float, least: int) -> _Sample:
        """Solve a ``share`` of a cluster: at least so many groups of children, or one group on some of its rows."""
        offsets, all_rows = self.rows[t]
        rows = all_rows[offsets[cluster] : offsets[cluster + 1]]
        if self.searched(t):
            rows = self._with_negatives(t, rows)
        first, last = map(int, self.tree.child_offsets[t][cluster : cluster + 2])
        starts, kept_rows = np.arange(first, last, LANES), rows
        if len(starts) > 1:
            n_groups = min(len(starts), max(least, int(share * len(starts))))
            share = n_groups / len(starts)
            starts = np.sort(self.random.choice(starts, n_groups, replace=False))
        elif share < 1:
            n_kept = min(len(rows), max(LEAST_ROWS, int(share * len(rows))))
            share = n_kept / max(1, len(rows))
            kept_rows = np.sort(self.random.choice(rows, n_kept, replace=False))
        groups = [np.array([start, min(start + LANES, last)], np.int64) for start in map(int, starts)]
        seconds, solved, used = self._solve(t, groups, kept_rows)
        # Fewer rows, and fewer children, have fewer of the rare features: about the root of their share.
        root = share**0.5
        n_weights = sum(len(group.children) for group in solved) / (share if len(groups) > 1 else root)
        n_rows = len(np.unique(np.concatenate([group.features for group in solved]))) / root
        n_entries = int(self.entries[rows].sum())
        return _Sample(
            seconds / share, n_weights, n_rows, self._solver_bytes(len(rows), n_entries, used, last - first),
            np.abs(np.concatenate([group.weights for group in solved])),
        )  # fmt: skip

    def _solve(
        self, t: int, groups: list[npt.NDArray[np.int64]], rows: npt.NDArray[np.int32]
    ) -> tuple[float, list[ClusterRows], int]:
        """Solve groups of children on some rows: seconds, weights, and how many features the rows have."""
        # Where a cluster has all rows there are, the solver leaves their features as they are numbered. That is so in
        # the top layer alone: elsewhere an empty row more keeps it from that.
        features, positives = (_taken(matrix, rows, t > 0) for matrix in (self.features, self.positives[t]))
        at, own = np.array([0, len(rows)], np.int64), np.arange(len(rows), dtype=np.int32)
        problems = [LayerProblem(children, positives, at, own, weighted=self.weighted) for children in groups]
        weight = self.sample_weight
        if weight is not None:
            weight = np.append(weight[rows], np.float32(1))[: features.shape[0]]
        start = time.thread_time()  # of the processor, whatever else it does meanwhile
        linear = self.training.linear
        norms = squared_norms(features)
        jobs = [block_jobs(features, norms, one, n, linear, sample_weight=weight) for n, one in enumerate(problems)]
        solved = [sets[0] for (sets,) in Runner().run([job for (job,) in jobs])]
        seconds = time.thread_time() - start
        return seconds, solved, len(np.unique(features.indices))

    def _with_negatives(self, t: int, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The cluster's own rows (unless negatives are ``"man"``) and as many as a search would bring."""
        matrix = self.features.to_scipy()
        centre = np.asarray(matrix[rows].sum(axis=0)).ravel()
        alike = matrix @ centre
        if self.training.negatives[t] != "man":
            alike[rows] = np.inf  # what a search brings holds nearly all of these too
        n_found = min(len(alike), max(len(rows), int(self._found(t))))
        return np.sort(np.argpartition(-alike, n_found - 1)[:n_found]).astype(np.int32)

    def _solver_bytes(self, n_rows: int, n_entries: int, n_used: int, n_children: int) -> int:
        weighted = self.weighted or self.sample_weight is not None
        return int(solver_bytes(n_rows, n_entries, n_used, self.features.shape[1], n_children, weighted))

    def _known_bytes(self, t: int) -> int:
        positives, n_pairs = self.positives[t], len(self.rows[t][1]) + int(self._found(t) * self._n_clusters(t))
        return csr_bytes(positives.shape[0], positives.nnz) + rows_bytes(n_pairs, self._n_clusters(t))

    def _laid_out_bytes(self, t: int, n_weights: float, n_rows: float) -> int:
        n_clusters, n_columns = self._n_clusters(t), self.features.shape[1]
        offsets, dtype = self.tree.child_offsets[t], self.training.weight_dtype
        most = int(np.diff(offsets).max())
        return laid_out_bytes(int(n_weights), int(n_rows), n_clusters, int(offsets[-1]), n_columns, most, dtype)


def _taken(matrix: Csr, rows: npt.NDArray[np.int32], one_more: bool) -> Csr:
    """Some rows of a matrix, and perhaps an empty one."""
    taken = take_rows(matrix, rows)
    if not one_more:
        return taken
    return Csr(np.append(taken.indptr, taken.indptr[-1]), taken.indices, taken.data, (len(rows) + 1, matrix.shape[1]))
