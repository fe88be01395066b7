"""Rankers of a trained tree brought up to date: only children that changed rows matter to are solved again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sylvan.canonical import take_rows
from sylvan.indexing import LabelTree
from sylvan.indexing.growth import Grown
from sylvan.matching.beam import beam_job, root_beam
from sylvan.matching.negatives import cluster_rows, layer_positives, near_best, of_root
from sylvan.ranking.changed_layer import ChangedCluster, ChangedLayer, RowsNow, UpdateOptions
from sylvan.ranking.linear import LayerProblem, LinearOptions, block_jobs, squared_norms
from sylvan.ranking.relevance import cost_weights, relevance_layers
from sylvan.ranking.solution import LayerSolution
from sylvan.ranking.solved import SolvedBlock
from sylvan.ranking.training import TreeTraining
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime.jobs import Job, Runner
from sylvan.validate import Csr
from sylvan.weights import ClusterRows, ClusterWeights

__all__ = ["update_rankers"]

ROUNDS = 2  # of the solver, where it starts near a solution and needn't be precise


def update_rankers(
    ranker: TreeRanker,
    solutions: Sequence[LayerSolution],
    grown: Grown,
    rows: RowsNow,
    training: TreeTraining,
    options: UpdateOptions,
    runner: Runner,
) -> tuple[TreeRanker, list[LayerSolution], list[int]]:
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
    solved : list of int
        How many nodes of each layer were solved.
    """
    tree, fresh = grown.tree, rows.fresh
    positives = _positives(tree, rows.labels, training)
    before = layer_positives(tree, rows.labels_before)
    norms = squared_norms(rows.features)
    searched = rows.features if options.search_all else take_rows(rows.features, fresh)
    beam = root_beam(searched.shape[0])
    layers: list[ClusterWeights] = []
    result: list[LayerSolution] = []
    counts: list[int] = []
    for t, offsets in enumerate(tree.child_offsets):
        if t:
            job = beam_job(t - 1, searched, layers[-1], beam, training.beam, training.combines[t - 1], runner.n_jobs)
            beam = runner.one(job)
        nodes = beam[0] if not t else near_best(beam, training.man_threshold, training.combines[t - 1])
        parents = positives[t - 1] if t else of_root(positives[0])
        own = parents if options.search_all else take_rows(parents, fresh)
        found = cluster_rows(training.negatives[t], own, nodes, len(offsets) - 1, searched.shape[0])
        if not options.search_all:
            found = found[0], fresh[found[1]]
        layer = ChangedLayer(ranker.layers[t], solutions[t], grown, t, rows, positives[t], before[t], training, options)
        clusters = layer.clusters(found, runner.n_jobs)
        jobs, which = _jobs(rows, norms, clusters, positives[t], t, training, options)
        blocks = runner.run(jobs, f"Updating layer {t + 1} of {tree.depth}") if jobs else []
        solved = [own for block in blocks for own in block]
        multipliers = [block.multipliers() for block in blocks]
        _take_in(clusters, which, solved, np.concatenate([np.zeros(0, np.float16), *filter(_there, multipliers)]))
        layers.append(_laid_out(clusters, which, solved, offsets, ranker.layers[t], rows.features.shape[1]))
        pending = np.concatenate([cluster.pending for cluster in clusters])
        kept = [cluster.rows for cluster in clusters], [cluster.multipliers for cluster in clusters]
        result.append(LayerSolution.of(offsets, *kept, pending))
        counts.append(sum(int(cluster.solved.sum()) for cluster in clusters))
    return TreeRanker(tree, layers), result, counts


def _there(array: npt.NDArray[np.float16] | None) -> bool:
    return array is not None


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
    problem = LayerProblem(
        offsets, some, start.row_offsets, start.rows, training.weighs(rows.labels), True, start, options.share == 0
    )
    jobs = block_jobs(rows.features, norms, problem, t, _warm(training.linear, options), sample_weight=rows.weight)
    return jobs, which


def _warm(linear: LinearOptions, options: UpdateOptions) -> LinearOptions:
    """The solver's options where it starts near a solution: a few rounds bring it as near as it was."""
    return replace(linear, max_iterations=min(linear.max_iterations, ROUNDS)) if options.share else linear


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
        codebook = codebook if largest <= float(codebook[127]) else None
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
