"""Which children of a layer have to be solved again when rows have changed, and what they are solved with.

A child's dual problem (Eq. 10) loses the variables of rows that go and gains those of rows that come; the others are
where the last solution left them. Its objective on the changed rows can be above its minimum by no more than the losses
of the rows that came, since every minimum only grows with more rows: that bound says which children can wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.canonical import take_rows, within
from sylvan.indexing.growth import Grown
from sylvan.matching.beam import next_beam
from sylvan.ranking.linear import LANES
from sylvan.ranking.solution import STALE, LayerSolution
from sylvan.ranking.training import TreeTraining
from sylvan.validate import Csr
from sylvan.weights import ClusterRows, ClusterWeights

__all__ = ["ChangedCluster", "ChangedLayer", "RowsNow", "UpdateOptions"]

_Ids = npt.NDArray[np.int32]
HALF_LANES = LANES // 2


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
class ChangedCluster:
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


class ChangedLayer:
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

    def clusters(self, found: tuple[npt.NDArray[np.int64], _Ids], n_jobs: int) -> list[ChangedCluster]:
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

    def _cluster(self, c: int, found: _Ids) -> ChangedCluster:
        """Cluster ``c`` with its rows and where its multipliers start; children that are new, or that a row which is
        gone supported, are to be solved."""
        first, last = int(self._offsets[c]), int(self._offsets[c + 1])
        o = int(self._came_from[c])
        begin = int(self._solution.child_offsets[o])
        now = self._now[self._solution.rows_of(o)]
        old, stays = self._solution.multipliers_of(o), now >= 0
        if self._options.search_all:
            stays &= np.isin(now, found)
            rows = found
        elif np.count_nonzero(self._came_from == o) > 1:  # one half: what it doesn't depend on goes
            stays &= self._matters(now, old, first, last, begin)
            rows = _union(now[stays], found)
        else:
            rows = _union(now[stays], found)
        known = self._was[first:last] >= 0
        was = np.where(known, self._was[first:last] - begin, -1).astype(np.int32)
        whole = bool(known.all()) and len(was) == old.shape[1] and bool((np.diff(was) == 1).all())
        pending = np.zeros(last - first, np.float32)
        pending[known] = self._solution.pending[begin + was[known]]
        due = pending >= STALE
        pending[due] = 0
        same = whole and len(rows) == len(now) and bool(stays.all()) and not due.any()
        if same and not len(self._rows.relabelled):
            nothing = np.zeros(last - first, bool), np.zeros(len(rows), bool)
            return ChangedCluster(rows, old, pending, self._weights.sound_cluster(o), was, *nothing)
        at = np.searchsorted(rows, now[stays])
        multipliers = np.zeros((len(rows), last - first), np.float16)
        if whole:
            multipliers[at] = old if stays.all() else old[stays]
        else:
            multipliers[np.ix_(at, known)] = old[np.ix_(stays, was[known])]
        solved = ~known | due
        gone = old[~stays]
        if gone.size:
            solved[known] |= (gone[:, was[known]] > 0).any(axis=0) | (not self._solution.known)
        if not len(at) and (len(now) or len(rows)):
            solved[:] = True  # of no row, a child isn't a solution that others could start from
        came = np.ones(len(rows), bool)
        came[at] = False
        return ChangedCluster(rows, multipliers, pending, self._weights.sound_cluster(o), was, solved, came)

    def _matters(
        self, now: _Ids, old: npt.NDArray[np.float16], first: int, last: int, begin: int
    ) -> npt.NDArray[np.bool_]:
        """Which rows the solution of some children depends on: those that support it, and their positives."""
        was = self._was[first:last]
        supports = (old[:, was[was >= 0] - begin] > 0).any(axis=1) | (not self._solution.known)
        there = np.flatnonzero(now >= 0)
        own = take_rows(self._positives, now[there])
        inside = (own.indices >= first) & (own.indices < last)
        positive = np.zeros(len(now), bool)
        row = np.repeat(np.arange(len(there)), np.diff(own.indptr))
        positive[there[np.unique(row[inside])]] = True
        return supports | positive

    def _entries(self, each: Sequence[ChangedCluster], n_jobs: int) -> _Entries:
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

    def _judge(self, each: Sequence[ChangedCluster], entries: _Entries) -> None:
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
        np.maximum.at(worst, entries.nodes, _violation(slack, margin, linear.loss) * (costs > 0))
        for c, own in enumerate(each):
            nodes = slice(int(self._offsets[c]), int(self._offsets[c + 1]))
            own.pending += losses[nodes].astype(np.float32)
            if self._options.share == 0:
                own.solved |= worst[nodes] > linear.tolerance
            elif losses[nodes].any():
                urgency = own.pending / np.maximum(self._objective(own, nodes), np.float32(1e-30))
                own.solved |= urgency > self._options.share
                _fill(own.solved, urgency)

    def _objective(self, own: ChangedCluster, nodes: slice) -> npt.NDArray[np.float32]:
        """Of each child, in units of the cost: half the sum of the multipliers, at a solution with the squared hinge;
        with other losses it is more. Where they aren't known, at least what a few positives give."""
        if self._solution.known:
            result: npt.NDArray[np.float32] = 0.5 * own.multipliers.sum(axis=0, dtype=np.float32)
            return result
        matrix = take_rows(self._positives, own.rows)
        counts = np.bincount(matrix.indices, minlength=int(self._offsets[-1]))[nodes]
        few: npt.NDArray[np.float32] = (0.5 * counts).astype(np.float32)
        return few


def _fill(solved: npt.NDArray[np.bool_], urgency: npt.NDArray[np.float32]) -> None:
    """Solve as many more of the most urgent children as cost nothing: they are solved side by side, in eights."""
    room = -int(solved.sum()) % HALF_LANES
    waiting = np.flatnonzero(~solved & (urgency > 0))
    solved[waiting[np.argsort(-urgency[waiting], kind="stable")[:room]]] = True


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
    result: npt.NDArray[np.float32] = np.where(keys[at] == wanted, matrix.data[at], np.float32(0))
    return result


def _loss(
    slack: npt.NDArray[np.float64], margin: npt.NDArray[np.float64], loss: str
) -> npt.NDArray[np.float64]:
    """The losses of Eq. 10."""
    if loss == "logistic":
        result: npt.NDArray[np.float64] = np.logaddexp(0, -margin)
        return result
    squares: npt.NDArray[np.float64] = slack**2
    return slack if loss == "hinge" else squares


def _violation(
    slack: npt.NDArray[np.float64], margin: npt.NDArray[np.float64], loss: str
) -> npt.NDArray[np.float64]:
    """How far a row's dual variable of 0 is off its optimum: the logistic loss pulls at every row, however well it
    is answered."""
    if loss == "logistic":
        result: npt.NDArray[np.float64] = np.exp(-np.logaddexp(0, margin))
        return result
    return slack
