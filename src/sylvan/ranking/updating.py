"""Rankers of a trained tree brought up to date: only children that changed rows matter to are solved again.

A child's dual problem (Eq. 10) loses the variables of rows that go and gains those of rows that come; the others are
where the last solution left them. Its objective on the changed rows can be below what it is now by no more than the
losses of the rows that came, since every minimum only grows with more rows: that bound says which children can wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.canonical import take_rows, within
from sylvan.indexing import LabelTree
from sylvan.indexing.growth import Grown
from sylvan.matching.beam import beam_job, next_beam, root_beam
from sylvan.matching.negatives import cluster_rows, layer_positives, near_best, of_root
from sylvan.ranking.linear import LayerProblem, LinearOptions, block_jobs, squared_norms
from sylvan.ranking.relevance import cost_weights, relevance_layers
from sylvan.ranking.solution import LayerSolution
from sylvan.ranking.training import TreeTraining
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime.jobs import Runner
from sylvan.validate import Csr
from sylvan.weights import ClusterRows, ClusterWeights

__all__ = ["RowsNow", "UpdateOptions", "update_rankers"]

_Ids = npt.NDArray[np.int32]
ROUNDS = 3  # of the solver, where it starts near a solution and needn't be precise


@dataclass(frozen=True)
class RowsNow:
    """The rows of an update, and which they were before it.

    Attributes
    ----------
    features, labels : Csr of shape (n, d) and (n, n_labels)
    weight : ndarray of float32, shape (n,), or None
    was : ndarray of int32, shape (n,)
        The number that each row had, rising; -1 for one that is new.
    n_before : int
        How many rows there were.
    relabelled : ndarray of int32
        Rows that were there with other labels, rising.
    labels_before : Csr of shape (len(relabelled), n_labels)
        Their labels then.
    """

    features: Csr
    labels: Csr
    weight: npt.NDArray[np.float32] | None
    was: _Ids
    n_before: int
    relabelled: _Ids
    labels_before: Csr

    @property
    def fresh(self) -> _Ids:
        """The rows that are new or have other labels, rising."""
        changed = self.was < 0
        changed[self.relabelled] = True
        return np.flatnonzero(changed).astype(np.int32)

    def numbers_now(self) -> _Ids:
        """The number of each row that there was; -1 for one that is gone."""
        now = np.full(self.n_before, -1, np.int32)
        stayed = np.flatnonzero(self.was >= 0).astype(np.int32)
        now[self.was[stayed]] = stayed
        return now


@dataclass(frozen=True)
class UpdateOptions:
    """Which children are solved again.

    Attributes
    ----------
    share : float
        A child waits while the losses of the rows that came since it was solved are at most this share of its
        objective; with 0, only while none of these rows violates its optimality by more than the solver's tolerance.
    search_all : bool
        Whether all rows are searched for anew where a search brings negatives, or only those that are new.
    """

    share: float
    search_all: bool


@dataclass
class _Cluster:
    """One cluster of a layer as it is to be: its rows, what its multipliers start from, which children are solved."""

    rows: _Ids
    multipliers: npt.NDArray[np.float16]
    pending: npt.NDArray[np.float32]
    stored: ClusterRows
    was: _Ids  # each child's number in the stored cluster, -1 for a new one
    solved: npt.NDArray[np.bool_]
    came: npt.NDArray[np.bool_]  # which rows weren't there


@dataclass(frozen=True)
class _Entries:
    """Rows and nodes of a layer that have something new to do with each other."""

    rows: npt.NDArray[Any]
    nodes: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]
    positive: npt.NDArray[np.bool_]
    relevance: npt.NDArray[np.float32]
    turned: npt.NDArray[np.bool_]  # a row that was there, of which the node was a positive and isn't, or the reverse

    @classmethod
    def none(cls) -> _Entries:
        """No entries."""
        flag, number = np.zeros(0, bool), np.zeros(0, np.float32)
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), number, flag, number, flag)


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
        layer = _Layer(ranker.layers[t], solutions[t], grown, t, rows, positives[t], before[t], training, options)
        clusters = layer.clusters(found, runner.n_jobs)
        jobs, which = _jobs(rows, norms, clusters, positives[t], t, training, options)
        blocks = runner.run(jobs, f"Updating layer {t + 1} of {tree.depth}") if jobs else []
        solved = [own for block in blocks for own in block]
        multipliers = [block.multipliers() for block in blocks]
        _take_in(clusters, which, solved, np.concatenate([np.zeros(0, np.float16), *filter(_there, multipliers)]))
        layers.append(_laid_out(clusters, which, solved, offsets, ranker.layers[t]))
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


class _Layer:
    """What the clusters of one layer were, and what becomes of them."""

    def __init__(
        self, weights: ClusterWeights, solution: LayerSolution, grown: Grown, t: int, rows: RowsNow, positives: Csr,
        before: Csr, training: TreeTraining, options: UpdateOptions,
    ) -> None:  # fmt: skip
        self._weights, self._solution, self._rows = weights, solution, rows
        self._offsets, self._was, self._came_from = grown.tree.child_offsets[t], grown.was[t], grown.came_from[t]
        self._positives, self._before = positives, before
        self._weighted, self._linear, self._options = training.weighs(rows.labels), training.linear, options
        self._now = rows.numbers_now()

    def clusters(self, found: tuple[npt.NDArray[np.int64], _Ids], n_jobs: int) -> list[_Cluster]:
        """What becomes of each cluster, to which some rows have come: all its rows with ``search_all``, else those that
        are fresh."""
        n_clusters = len(self._offsets) - 1
        each = [self._cluster(c, found[1][found[0][c] : found[0][c + 1]]) for c in range(n_clusters)]
        entries = self._entries(each, n_jobs)
        turned = entries.turned
        if turned.any():  # what is no positive any more, or has become one, starts from nothing
            cluster_of = np.repeat(np.arange(n_clusters), np.diff(self._offsets))
            for row, node in zip(entries.rows[turned].tolist(), entries.nodes[turned].tolist(), strict=True):
                own = each[cluster_of[node]]
                place = int(np.searchsorted(own.rows, row)), node - int(self._offsets[cluster_of[node]])
                own.solved[place[1]] |= bool(own.multipliers[place] > 0)
                own.multipliers[place] = 0
        self._judge(each, entries)
        return each

    def _cluster(self, c: int, found: _Ids) -> _Cluster:
        """Cluster ``c`` with its rows and where its multipliers start; children that are new, or that a row which is
        gone supported, are to be solved."""
        first, last = int(self._offsets[c]), int(self._offsets[c + 1])
        o = int(self._came_from[c])
        now = self._now[self._solution.rows_of(o)]
        old, stays = self._solution.multipliers_of(o), now >= 0
        if self._options.search_all:
            stays &= np.isin(now, found)
            rows = found
        else:
            rows = _union(now[stays], found)
        begin = int(self._solution.child_offsets[o])
        known = self._was[first:last] >= 0
        was = np.where(known, self._was[first:last] - begin, -1).astype(np.int32)
        whole = bool(known.all()) and len(was) == old.shape[1] and bool((np.diff(was) == 1).all())
        at = np.searchsorted(rows, now[stays])
        multipliers = np.zeros((len(rows), last - first), np.float16)
        if whole:
            multipliers[at] = old if stays.all() else old[stays]
        else:
            multipliers[np.ix_(at, known)] = old[np.ix_(stays, was[known])]
        solved = ~known
        if not stays.all():
            gone = old[~stays]
            solved[known] |= (gone[:, was[known]] > 0).any(axis=0) | (not self._solution.known)
        came = np.ones(len(rows), bool)
        came[at] = False
        pending = np.zeros(last - first, np.float32)
        pending[known] = self._solution.pending[begin + was[known]]
        return _Cluster(rows, multipliers, pending, self._weights.cluster(o), was, solved, came)

    def _entries(self, each: Sequence[_Cluster], n_jobs: int) -> _Entries:
        """What rows that have come to a cluster, or have other labels, are to the nodes that were there before."""
        relabelled = np.zeros(self._rows.features.shape[0], bool)
        relabelled[self._rows.relabelled] = self._rows.was[self._rows.relabelled] >= 0
        clusters, rows, came = [], [], []
        for c, own in enumerate(each):
            at = np.flatnonzero(own.came | relabelled[own.rows])
            clusters.append(np.full(len(at), c, np.int32))
            rows.append(own.rows[at])
            came.append(own.came[at])
        of, row, new = np.concatenate(clusters), np.concatenate(rows), np.concatenate(came)
        if not len(row):
            return _Entries.none()
        order = np.argsort(row, kind="stable")
        of, row, new = of[order], row[order], new[order]
        own_rows, counts = np.unique(row, return_counts=True)
        nodes, scores = self._scores(own_rows.astype(np.int32), self._came_from[of], counts, n_jobs)
        now = np.full(len(self._weights.intercepts), -1, np.int64)  # where each node that was there is now
        now[self._was[self._was >= 0]] = np.flatnonzero(self._was >= 0)
        at, place = np.nonzero(nodes >= 0)
        node, score, entry_row = now[nodes[at, place]], scores[at, place], own_rows[at]
        there = node >= 0
        node, score, entry_row = node[there], score[there], entry_row[there]
        # A cluster that was divided brings entries of both its halves: those of a half that the row is in count.
        n_clusters = len(each)
        cluster = np.searchsorted(self._offsets, node, side="right") - 1
        pairs = row.astype(np.int64) * n_clusters + of
        sort = np.argsort(pairs)
        found = np.minimum(np.searchsorted(pairs[sort], entry_row * np.int64(n_clusters) + cluster), len(pairs) - 1)
        same = pairs[sort][found] == entry_row * np.int64(n_clusters) + cluster
        node, score, entry_row, fresh = node[same], score[same], entry_row[same], new[sort][found][same]
        relevance = _values(self._positives, entry_row, node)
        positive = relevance > 0
        turned = np.zeros(len(node), bool)
        if len(self._rows.relabelled):
            stayed = ~fresh
            before = _values(self._before, np.searchsorted(self._rows.relabelled, entry_row[stayed]), node[stayed])
            turned[stayed] = positive[stayed] != (before > 0)
        counts_here = fresh | turned
        return _Entries(
            entry_row[counts_here], node[counts_here], score[counts_here], positive[counts_here],
            relevance[counts_here], turned[counts_here],
        )  # fmt: skip

    def _scores(
        self, rows: _Ids, clusters: _Ids, counts: npt.NDArray[np.int64], n_jobs: int
    ) -> tuple[_Ids, npt.NDArray[np.float32]]:
        """The nodes of the clusters that each row asks for, as they are stored, and their own scores."""
        above = np.full((len(rows), int(counts.max())), -1, np.int32)
        above[np.repeat(np.arange(len(rows)), counts), _counting(counts)] = clusters
        above = np.sort(above, axis=1)[:, ::-1]  # a cluster that was divided is asked for once
        above[:, 1:][above[:, 1:] == above[:, :-1]] = -1
        sizes = np.append(np.diff(self._weights.child_offsets), 0)
        width = int(sizes[above].sum(axis=1).max())
        features = within(take_rows(self._rows.features, rows), self._weights.n_features)
        beam = np.ascontiguousarray(above), np.zeros(above.shape, np.float32)
        return next_beam(features, self._weights, beam, width, "ranker", n_jobs)

    def _judge(self, each: Sequence[_Cluster], entries: _Entries) -> None:
        """Which children the entries matter to."""
        linear, weight, n_nodes = self._linear, self._rows.weight, int(self._offsets[-1])
        margin = np.where(entries.positive, entries.scores, -entries.scores).astype(np.float64)
        costs = np.where(entries.positive, linear.positive_cost, linear.negative_cost)
        if self._weighted:
            costs = np.where(entries.positive, costs * entries.relevance, costs)
        if weight is not None:
            costs = costs * weight[entries.rows]
        slack = np.maximum(1 - margin, 0)
        losses = np.bincount(entries.nodes, costs * _loss(slack, margin, linear.loss), minlength=n_nodes)
        worst = np.zeros(n_nodes)
        np.maximum.at(worst, entries.nodes, slack * (costs > 0))
        for c, own in enumerate(each):
            nodes = slice(int(self._offsets[c]), int(self._offsets[c + 1]))
            own.pending += losses[nodes].astype(np.float32)
            if self._options.share == 0:
                own.solved |= worst[nodes] > linear.tolerance
            elif losses[nodes].any():
                own.solved |= own.pending > self._options.share * self._objective(own, nodes)

    def _objective(self, own: _Cluster, nodes: slice) -> npt.NDArray[np.float32]:
        """Of each child, in units of the cost: half the sum of the multipliers, at a solution with the squared hinge;
        with other losses it is more. Where they aren't known, at least what a few positives give."""
        if self._solution.known:
            result: npt.NDArray[np.float32] = 0.5 * own.multipliers.sum(axis=0, dtype=np.float32)
            return result
        matrix = take_rows(self._positives, own.rows)
        return 0.5 * np.bincount(matrix.indices, minlength=int(self._offsets[-1]))[nodes].astype(np.float32)


def _union(a: _Ids, b: _Ids) -> _Ids:
    """Two rising lists as one."""
    every = np.sort(np.concatenate((a, b)), kind="stable")
    return every[np.diff(every, prepend=-1) > 0].astype(np.int32)


def _counting(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """0, 1, ... within each run: [2, 3] gives [0, 1, 0, 1, 2]."""
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _values(
    matrix: Csr, rows: npt.NDArray[Any], columns: npt.NDArray[Any]
) -> npt.NDArray[np.float32]:
    """The values of a sparse matrix at some places, 0 where it holds none."""
    keys = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * np.int64(matrix.shape[1]) + matrix.indices
    wanted = rows.astype(np.int64) * matrix.shape[1] + columns
    if not len(keys):
        return np.zeros(len(wanted), np.float32)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, matrix.data[at], np.float32(0))


def _loss(
    slack: npt.NDArray[np.float64], margin: npt.NDArray[np.float64], loss: str
) -> npt.NDArray[np.float64]:
    """The losses of Eq. 10."""
    if loss == "logistic":
        result: npt.NDArray[np.float64] = np.logaddexp(0, -margin)
        return result
    return slack if loss == "hinge" else slack**2


def _jobs(
    rows: RowsNow, norms: npt.NDArray[np.float32], clusters: Sequence[_Cluster], positives: Csr, t: int,
    training: TreeTraining, options: UpdateOptions,
):  # type: ignore[no-untyped-def]  # fmt: skip
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
    clusters: Sequence[_Cluster], which: Sequence[int], solved: Sequence[ClusterRows],
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
    clusters: Sequence[_Cluster], which: Sequence[int], solved: Sequence[ClusterRows],
    offsets: npt.NDArray[np.int64], before: ClusterWeights,
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
    return ClusterWeights.from_clusters(made, offsets, before.n_features, before.weight_dtype, codebook)


def _joined(cluster: _Cluster, solved: ClusterRows | None) -> ClusterRows:
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
