"""Rankers of a trained tree brought up to date: only children that changed rows matter to are solved again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import take_rows, within
from sylvan.arrays.validate import Csr
from sylvan.indexing import LabelTree
from sylvan.matching.beam import beam_job, root_beam
from sylvan.matching.negatives import cluster_rows, layer_positives, near_best, of_root
from sylvan.models.xr.changed_layer import ChangedCluster, ChangedLayer, RowsNow, UpdateOptions
from sylvan.models.xr.growth import Grown
from sylvan.ranking.linear import LayerProblem, block_jobs
from sylvan.ranking.solution import LayerSolution, SolvedBlock, column_sums
from sylvan.ranking.training import TreeTraining, cost_weights, relevance_layers
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime.jobs import Job, Runner
from sylvan.weights.changed import with_clusters
from sylvan.weights.layer import ClusterRows, ClusterWeights

ROUNDS = 2  # of the solver, where it starts near a solution and needn't be precise


def solutions_of(
    ranker: TreeRanker, features: Csr, labels: Csr, training: TreeTraining, runner: Runner | None = None
) -> list[LayerSolution]:
    """How a ranker's layers were solved, as far as its rows say it: the multipliers aren't known."""
    runner = Runner() if runner is None else runner
    tree, n_rows = ranker.tree, features.shape[0]
    positives, beam = layer_positives(tree, labels), root_beam(n_rows)
    result = []
    for t, offsets in enumerate(tree.child_offsets):
        if t:
            job = beam_job(
                t - 1, features, ranker.layers[t - 1], beam, training.beam, training.combines[t - 1], runner.n_jobs
            )
            beam = runner.one(job)
        nodes = beam[0] if not t else near_best(beam, training.man_threshold, training.combines[t - 1])
        parents = positives[t - 1] if t else of_root(positives[0])
        row_offsets, rows = cluster_rows(training.negatives[t], parents, nodes, len(offsets) - 1, n_rows)
        n_multipliers = int((np.diff(row_offsets) * np.diff(offsets)).sum())
        nothing = np.zeros(int(offsets[-1]), np.float32)
        result.append(LayerSolution(offsets, row_offsets, rows, np.zeros(n_multipliers, np.float16), nothing, False))
    return result


def update_rankers(
    ranker: TreeRanker,
    solutions: Sequence[LayerSolution],
    grown: Grown,
    rows: RowsNow,
    training: TreeTraining,
    options: UpdateOptions,
    runner: Runner,
) -> tuple[TreeRanker, list[LayerSolution]]:
    """Rankers for changed rows, labels and tree, from those there are."""
    update = _Update(ranker, solutions, grown, rows, training, options, runner)
    layers: list[ClusterWeights] = []
    result: list[LayerSolution] = []
    for t in range(grown.tree.depth):
        layer, clusters, jobs = update.layer(t, layers)
        blocks = runner.run(jobs, f"Updating layer {t + 1} of {grown.tree.depth}") if jobs else []
        solved = [own for block in blocks for own in block]
        multipliers = [own for block in blocks if (own := block.multipliers()) is not None]
        _take_in(layer.solution, clusters, np.concatenate([np.zeros(0, np.float16), *multipliers]))
        layers.append(_laid_out(layer, clusters, solved, ranker.layers[t], rows.features.shape[1]))
        result.append(layer.solution)
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
    """How many nodes of each layer :func:`update_rankers` would solve, about, and the jobs that would. Rows are
    searched for by the rankers as they are. No cluster may be split: ``grown`` has new labels alone."""
    update = _Update(ranker, solutions, grown, rows, training, options, runner)
    counts, every = [], []
    for t in range(grown.tree.depth):
        layer, _, jobs = update.layer(t, ranker.layers)
        counts.append(int(layer.solved.sum()))
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
        self._positives = _Positives(grown.tree, rows.labels, training.relevance, self._fresh)
        self._before = layer_positives(grown.tree, rows.labels_before)
        self._searched = rows.features if options.search_all else take_rows(rows.features, self._fresh)
        self._beam = root_beam(self._searched.shape[0])

    def layer(
        self, t: int, above: Sequence[ClusterWeights]
    ) -> tuple[ChangedLayer, list[ChangedCluster], list[Job[SolvedBlock]]]:
        """Layer t, those of its clusters that change, and the jobs that solve children; from the first layer down,
        with the weights of those above."""
        training, offsets, n_jobs = self._training, self._grown.tree.child_offsets[t], self._runner.n_jobs
        if t:
            combine = training.combines[t - 1]
            features = within(self._searched, above[t - 1].n_features)
            job = beam_job(t - 1, features, above[t - 1], self._beam, training.beam, combine, n_jobs)
            self._beam = self._runner.one(job)
        nodes = near_best(self._beam, training.man_threshold, training.combines[t - 1]) if t else self._beam[0]
        own = self._positives.every(max(t - 1, 0)) if self._options.search_all else self._positives.fresh[max(t - 1, 0)]
        own = own if t else of_root(own)
        found = cluster_rows(training.negatives[t], own, nodes, len(offsets) - 1, self._searched.shape[0])
        if not self._options.search_all:
            found = found[0], self._fresh[found[1]]
        layer = ChangedLayer(
            self._ranker.layers[t], self._solutions[t], self._grown, t, self._rows,
            partial(self._positives.of, t), self._before[t], training, self._options,
        )  # fmt: skip
        clusters = layer.clusters(found, n_jobs)
        some = [own for own in clusters if own.solved.any()]
        if not some:
            return layer, clusters, []
        rows, linear, weighted = self._rows, training.linear, training.weighs(self._rows.labels)
        problem = _problem(layer.solved, some, self._positives.every(t), weighted, self._options)
        return layer, clusters, block_jobs(rows.features, rows.norms, problem, t, linear, sample_weight=rows.weight)


class _Positives:
    """The positives of each layer with their costs, as for a training: those of rows that are fresh at once, those of
    all rows when they are asked for."""

    def __init__(self, tree: LabelTree, labels: Csr, relevance: str | None, fresh: npt.NDArray[np.int32]) -> None:
        self._tree, self._labels, self._relevance, self._fresh = tree, labels, relevance, fresh
        self.fresh = self._made(take_rows(labels, fresh), 0)
        self._every: list[Csr] = []  # of the last layers

    def every(self, t: int) -> Csr:
        """Those of all rows in layer t."""
        if len(self._every) < self._tree.depth - t:
            self._every = self._made(self._labels, t)
        return self._every[t - self._tree.depth]

    def of(self, t: int, rows: npt.NDArray[np.int32]) -> Csr:
        """Those of some rows in layer t."""
        if np.isin(rows, self._fresh).all():
            return take_rows(self.fresh[t], np.searchsorted(self._fresh, rows))
        return take_rows(self.every(t), rows)

    def _made(self, labels: Csr, first: int) -> list[Csr]:
        if self._relevance is None:
            return layer_positives(self._tree, labels, first=first)
        return [cost_weights(layer, self._relevance) for layer in relevance_layers(self._tree, labels)[first:]]


def _problem(
    chosen: npt.NDArray[np.bool_], some: Sequence[ChangedCluster], positives: Csr, weighted: bool,
    options: UpdateOptions,
) -> LayerProblem:  # fmt: skip
    """A layer that consists of the children that are ``chosen`` alone, of ``some`` clusters."""
    number = np.cumsum(chosen) - 1
    mask = chosen[positives.indices]
    indptr = np.concatenate(([0], np.cumsum(mask)))[positives.indptr].astype(np.int64)
    of_chosen = Csr(
        indptr, number[positives.indices[mask]].astype(np.int32), positives.data[mask],
        (positives.shape[0], int(chosen.sum())),
    )  # fmt: skip
    offsets = np.concatenate(([0], np.cumsum([np.count_nonzero(own.solved) for own in some]))).astype(np.int64)
    multipliers = [own.multipliers.take(np.flatnonzero(own.solved), axis=1) for own in some]
    start = LayerSolution.of(offsets, [own.rows for own in some], multipliers)
    rounds = ROUNDS if options.share else 0
    return LayerProblem(offsets, of_chosen, start.row_offsets, start.rows, weighted, True, start, rounds)


def _take_in(solution: LayerSolution, clusters: Sequence[ChangedCluster], multipliers: npt.NDArray[np.float16]) -> None:
    """The multipliers of the solved children at their places; nothing waits for these any more."""
    begin = 0
    for own in clusters:
        at = np.flatnonzero(own.solved)
        new = multipliers[begin : begin + len(own.rows) * len(at)].reshape(len(own.rows), len(at))
        begin += new.size
        own.multipliers[:, at] = new
        nodes = int(solution.child_offsets[own.number]) + at
        solution.pending[nodes] = 0
        if solution.sums is not None:
            solution.sums[nodes] = column_sums(new)


def _laid_out(
    layer: ChangedLayer, clusters: Sequence[ChangedCluster], solved: Sequence[ClusterRows], before: ClusterWeights,
    n_features: int,
) -> ClusterWeights:  # fmt: skip
    """The layer of the clusters' stored weights and those that were solved."""
    new = dict(zip((own.number for own in clusters if own.solved.any()), solved, strict=True))
    changed = {
        own.number: _joined(own, before.sound_cluster(own.came_from), new.get(own.number))
        for own in clusters
        if own.number in new or not own.whole
    }
    codebook = before.codebook if before.weight_dtype == "uint8" else None
    if codebook is not None:
        largest = max((float(np.abs(own.weights).max(initial=0)) for own in solved), default=0.0)
        codebook = codebook if 0 < codebook[0] <= codebook[127] and largest <= codebook[127] else None
    return with_clusters(before, changed, layer.came_from, layer.solution.child_offsets, n_features, codebook)


def _joined(cluster: ChangedCluster, stored: ClusterRows, solved: ClusterRows | None) -> ClusterRows:
    """A cluster's stored children that stay as they are, and those that were solved, as one."""
    n_children = len(cluster.was)
    intercepts = np.zeros(n_children, np.float32)
    number = np.full(len(stored.intercepts), -1, np.int32)
    stays = np.flatnonzero((cluster.was >= 0) & ~cluster.solved)
    number[cluster.was[stays]] = stays
    children = number[stored.children]
    kept = np.flatnonzero(children >= 0)
    features = np.repeat(stored.features, stored.lengths)[kept]
    children, weights = children[kept], stored.weights[kept]
    intercepts[stays] = stored.intercepts[cluster.was[stays]]
    if solved is not None:
        at = np.flatnonzero(cluster.solved).astype(np.int32)
        features = np.concatenate((features, np.repeat(solved.features, solved.lengths)))
        children = np.concatenate((children, at[solved.children]))
        weights = np.concatenate((weights, solved.weights))
        intercepts[at] = solved.intercepts
    order = np.argsort(features.astype(np.int64) * n_children + children, kind="stable")  # two runs that rise: a merge
    features = features[order]
    begin = np.flatnonzero(np.diff(features, prepend=-1))
    lengths = np.diff(begin, append=len(features)).astype(np.int32)
    return ClusterRows(features[begin], lengths, children[order], weights[order], intercepts)
