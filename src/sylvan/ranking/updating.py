"""Rankers of a trained tree brought up to date: only children that changed rows matter to are solved again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sylvan.canonical import take_rows, within
from sylvan.indexing import LabelTree
from sylvan.indexing.growth import Grown
from sylvan.matching.beam import beam_job, root_beam
from sylvan.matching.negatives import cluster_rows, layer_positives, near_best, of_root
from sylvan.ranking.changed_layer import ChangedCluster, ChangedLayer, RowsNow, UpdateOptions
from sylvan.ranking.linear import LayerProblem, block_jobs, squared_norms
from sylvan.ranking.relevance import cost_weights, relevance_layers
from sylvan.ranking.solution import LayerSolution
from sylvan.ranking.solved import SolvedBlock
from sylvan.ranking.training import TreeTraining
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime.jobs import Job, Runner
from sylvan.validate import Csr
from sylvan.weights import ClusterRows, ClusterWeights

__all__ = ["planned_update", "update_rankers"]

ROUNDS = 2  # of the solver, where it starts near a solution and needn't be precise


def update_rankers(
    ranker: TreeRanker,
    solutions: Sequence[LayerSolution],
    grown: Grown,
    rows: RowsNow,
    training: TreeTraining,
    options: UpdateOptions,
    runner: Runner,
) -> tuple[TreeRanker, list[LayerSolution]]:
    """Rankers for changed rows, labels and tree, from those there are.

    Parameters
    ----------
    ranker : TreeRanker
    solutions : sequence of LayerSolution
        How each layer of it was solved.
    grown : Grown
        The tree as it is to be.
    rows : RowsNow
    training : TreeTraining
        As :func:`~sylvan.ranking.training.train_rankers` had it.
    options : UpdateOptions
    runner : Runner

    Returns
    -------
    ranker : TreeRanker
    solutions : list of LayerSolution
    """
    update = _Update(ranker, solutions, grown, rows, training, options, runner)
    layers: list[ClusterWeights] = []
    result: list[LayerSolution] = []
    for t, offsets in enumerate(grown.tree.child_offsets):
        clusters, jobs, which = update.layer(t, layers)
        blocks = runner.run(jobs, f"Updating layer {t + 1} of {grown.tree.depth}") if jobs else []
        solved = [own for block in blocks for own in block]
        multipliers = [own for block in blocks if (own := block.multipliers()) is not None]
        _take_in(clusters, which, solved, np.concatenate([np.zeros(0, np.float16), *multipliers]))
        layers.append(_laid_out(clusters, which, solved, offsets, ranker.layers[t], rows.features.shape[1]))
        pending = np.concatenate([cluster.pending for cluster in clusters])
        kept = [cluster.rows for cluster in clusters], [cluster.multipliers for cluster in clusters]
        result.append(LayerSolution.of(offsets, *kept, pending))
    return TreeRanker(grown.tree, layers), result


def planned_update(
    ranker: TreeRanker,
    solutions: Sequence[LayerSolution],
    grown: Grown,
    rows: RowsNow,
    training: TreeTraining,
    options: UpdateOptions,
    runner: Runner,
) -> tuple[list[int], list[Job[SolvedBlock]]]:
    """How many nodes of each layer :func:`update_rankers` would solve, about, and the jobs that would.

    Rows are searched for by the rankers as they are. No cluster may be split: ``grown`` has new labels
    alone.
    """
    update = _Update(ranker, solutions, grown, rows, training, options, runner)
    counts, every = [], []
    for t in range(grown.tree.depth):
        clusters, jobs, _ = update.layer(t, ranker.layers)
        counts.append(sum(int(cluster.solved.sum()) for cluster in clusters))
        every += jobs
    return counts, every


class _Update:
    """What is the same for all layers, and the beam that goes down through them."""

    def __init__(
        self, ranker: TreeRanker, solutions: Sequence[LayerSolution], grown: Grown, rows: RowsNow,
        training: TreeTraining, options: UpdateOptions, runner: Runner,
    ) -> None:  # fmt: skip
        self._ranker, self._solutions, self._grown, self._rows = ranker, solutions, grown, rows
        self._training, self._options, self._runner = training, options, runner
        self._fresh = rows.fresh
        self._positives = _positives(grown.tree, rows.labels, training)
        self._before = layer_positives(grown.tree, rows.labels_before)
        self._norms = squared_norms(rows.features)
        self._searched = rows.features if options.search_all else take_rows(rows.features, self._fresh)
        self._beam = root_beam(self._searched.shape[0])

    def layer(
        self, t: int, above: Sequence[ClusterWeights]
    ) -> tuple[list[ChangedCluster], list[Job[SolvedBlock]], list[int]]:
        """What becomes of the clusters of layer t, the jobs that solve children, and the clusters of these; from the
        first layer down, with the weights of those above."""
        training, offsets, n_jobs = self._training, self._grown.tree.child_offsets[t], self._runner.n_jobs
        if t:
            combine = training.combines[t - 1]
            features = within(self._searched, above[t - 1].n_features)
            job = beam_job(t - 1, features, above[t - 1], self._beam, training.beam, combine, n_jobs)
            self._beam = self._runner.one(job)
        nodes = near_best(self._beam, training.man_threshold, training.combines[t - 1]) if t else self._beam[0]
        parents = self._positives[t - 1] if t else of_root(self._positives[0])
        own = parents if self._options.search_all else take_rows(parents, self._fresh)
        found = cluster_rows(training.negatives[t], own, nodes, len(offsets) - 1, self._searched.shape[0])
        if not self._options.search_all:
            found = found[0], self._fresh[found[1]]
        layer = ChangedLayer(
            self._ranker.layers[t], self._solutions[t], self._grown, t, self._rows, self._positives[t],
            self._before[t], training, self._options,
        )  # fmt: skip
        clusters = layer.clusters(found, n_jobs)
        return clusters, *_jobs(self._rows, self._norms, clusters, self._positives[t], t, training, self._options)


def _positives(tree: LabelTree, labels: Csr, training: TreeTraining) -> list[Csr]:
    """The positives of each layer with their costs, as for a training."""
    if training.relevance is None:
        return layer_positives(tree, labels)
    return [cost_weights(layer, training.relevance) for layer in relevance_layers(tree, labels)]


def _jobs(
    rows: RowsNow, norms: npt.NDArray[np.float32], clusters: Sequence[ChangedCluster], positives: Csr, t: int,
    training: TreeTraining, options: UpdateOptions,
) -> tuple[list[Job[SolvedBlock]], list[int]]:  # fmt: skip
    """The children that are solved, as jobs of a layer that consists of them alone; and which clusters they are of."""
    which = [c for c, cluster in enumerate(clusters) if cluster.solved.any()]
    if not which:
        return [], which
    chosen = np.concatenate([cluster.solved for cluster in clusters])
    number = np.cumsum(chosen) - 1
    mask = chosen[positives.indices]
    indptr = np.concatenate(([0], np.cumsum(mask)))[positives.indptr].astype(np.int64)
    some = Csr(
        indptr, number[positives.indices[mask]].astype(np.int32), positives.data[mask],
        (positives.shape[0], int(chosen.sum())),
    )  # fmt: skip
    offsets = np.concatenate(([0], np.cumsum([int(clusters[c].solved.sum()) for c in which]))).astype(np.int64)
    start = LayerSolution.of(
        offsets, [clusters[c].rows for c in which], [clusters[c].multipliers[:, clusters[c].solved] for c in which]
    )
    weighted, rounds = training.weighs(rows.labels), ROUNDS if options.share else 0
    problem = LayerProblem(offsets, some, start.row_offsets, start.rows, weighted, True, start, rounds)
    return block_jobs(rows.features, norms, problem, t, training.linear, sample_weight=rows.weight), which


def _take_in(
    clusters: Sequence[ChangedCluster], which: Sequence[int], solved: Sequence[ClusterRows],
    multipliers: npt.NDArray[np.float16],
) -> None:  # fmt: skip
    """The multipliers of the solved children at their places; nothing waits for these any more."""
    begin = 0
    for c, own in zip(which, solved, strict=True):
        cluster = clusters[c]
        shape = (len(cluster.rows), len(own.intercepts))
        cluster.multipliers[:, cluster.solved] = multipliers[begin : begin + shape[0] * shape[1]].reshape(shape)
        cluster.pending[cluster.solved] = 0
        begin += shape[0] * shape[1]


def _laid_out(
    clusters: Sequence[ChangedCluster], which: Sequence[int], solved: Sequence[ClusterRows],
    offsets: npt.NDArray[np.int64], before: ClusterWeights, n_features: int,
) -> ClusterWeights:  # fmt: skip
    """The layer of the clusters' stored weights and those that were solved."""
    new = dict(zip(which, solved, strict=True))
    made = []
    for c, cluster in enumerate(clusters):
        if c not in new and np.array_equal(cluster.was, np.arange(len(cluster.stored.intercepts))):
            made.append(cluster.stored)
        else:
            made.append(_joined(cluster, new.get(c)))
    codebook = before.codebook if before.weight_dtype == "uint8" else None
    if codebook is not None:
        largest = max((float(np.abs(own.weights).max(initial=0)) for own in solved), default=0.0)
        codebook = codebook if 0 < codebook[0] <= codebook[127] and largest <= codebook[127] else None
    return ClusterWeights.from_clusters(made, offsets, n_features, before.weight_dtype, codebook)


def _joined(cluster: ChangedCluster, solved: ClusterRows | None) -> ClusterRows:
    """A cluster's stored children that stay as they are, and those that were solved, as one."""
    n_children = len(cluster.was)
    features, children, weights = [], [], []
    intercepts = np.zeros(n_children, np.float32)
    number = np.full(len(cluster.stored.intercepts), -1, np.int32)
    stays = np.flatnonzero((cluster.was >= 0) & ~cluster.solved)
    number[cluster.was[stays]] = stays
    own = number[cluster.stored.children]
    kept = own >= 0
    features.append(np.repeat(cluster.stored.features, cluster.stored.lengths)[kept])
    children.append(own[kept])
    weights.append(cluster.stored.weights[kept])
    intercepts[stays] = cluster.stored.intercepts[cluster.was[stays]]
    if solved is not None:
        at = np.flatnonzero(cluster.solved).astype(np.int32)
        features.append(np.repeat(solved.features, solved.lengths))
        children.append(at[solved.children])
        weights.append(solved.weights)
        intercepts[at] = solved.intercepts
    every = np.concatenate(features).astype(np.int64) * n_children + np.concatenate(children)
    order = np.argsort(every, kind="stable")  # two runs that rise: a merge
    every = every[order]
    used, lengths = np.unique(every // n_children, return_counts=True)
    return ClusterRows(
        used.astype(np.int32), lengths.astype(np.int32), (every % n_children).astype(np.int32),
        np.concatenate(weights)[order], intercepts,
    )  # fmt: skip
