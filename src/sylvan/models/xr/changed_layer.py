"""Which children of a layer have to be solved again when rows have changed, and what they are solved with. A child's
dual problem (Eq. 10) loses the variables of rows that go and gains those of rows that come; the others are where the
last solution left them. Its objective on the changed rows can be above its minimum by no more than the losses of the
rows that came, since every minimum only grows with more rows: that bound says which children can wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import take_rows, within
from sylvan.arrays.validate import Csr
from sylvan.matching.beam import next_beam
from sylvan.models.xr.growth import Grown
from sylvan.ranking.linear import LANES
from sylvan.ranking.solution import STALE, LayerSolution, column_sums
from sylvan.ranking.training import TreeTraining
from sylvan.weights.layer import ClusterWeights

_Ids = npt.NDArray[np.int32]
HALF_LANES = LANES // 2


@dataclass(frozen=True)
class RowsNow:
    """The rows of an update, and which they were before it."""

    features: Csr  # shape (n, d)
    labels: Csr  # shape (n, n_labels)
    norms: npt.NDArray[np.float32]  # shape (n,): the squared length of each row
    weight: npt.NDArray[np.float32] | None  # shape (n,), or None
    was: _Ids  # shape (n,): the number that each row had, rising; -1 for one that is new
    n_before: int  # how many rows there were
    relabelled: _Ids  # rows that were there with other labels, rising
    labels_before: Csr  # shape (len(relabelled), n_labels): their labels then

    @property
    def fresh(self) -> _Ids:
        """The rows that are new or have other labels, rising."""
        changed = self.was < 0
        changed[self.relabelled] = True
        return np.flatnonzero(changed).astype(np.int32)

    def numbers_now(self) -> _Ids | None:
        """The number of each row that there was, -1 for one that is gone; None where all have the same."""
        n = self.n_before
        if np.array_equal(self.was[:n], np.arange(n)):
            return None
        now = np.full(n, -1, np.int32)
        stayed = np.flatnonzero(self.was >= 0).astype(np.int32)
        now[self.was[stayed]] = stayed
        return now


@dataclass(frozen=True)
class UpdateOptions:
    """Which children are solved again."""

    # a child waits while the losses of the rows that came since it was solved are at most this share of its objective;
    # with 0, only while none of these rows violates its optimality by more than the solver's tolerance
    share: float
    # whether all rows are searched for anew where a search brings negatives, or only those that are new
    search_all: bool


@dataclass
class ChangedCluster:
    """One cluster of a layer as it is to be: its rows, what its multipliers start from, which children are solved.
    Arrays of the layer's solution are shared: what is written here is written there."""

    number: int
    came_from: int  # its number as it is stored
    rows: _Ids
    multipliers: npt.NDArray[np.float16]
    was: _Ids  # each child's number in the stored cluster, -1 for a new one
    whole: bool  # whether the children are those of the stored cluster
    solved: npt.NDArray[np.bool_]
    came: npt.NDArray[np.bool_]  # which rows weren't there


class _Stayed(NamedTuple):
    """The rows of a cluster that stay, by the numbers that they have now, and which they are; None for all."""

    rows: _Ids
    mask: npt.NDArray[np.bool_] | None


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
        self, weights: ClusterWeights, solution: LayerSolution, grown: Grown, t: int, rows: RowsNow,
        positives: Callable[[_Ids], Csr], before: Csr, training: TreeTraining, options: UpdateOptions,
    ) -> None:  # fmt: skip
        # Shape: came_from (n_clusters,)
        self._weights, self._stored, self._rows = weights, solution, rows
        self._offsets, self._was, self.came_from = grown.tree.child_offsets[t], grown.was[t], grown.came_from[t]
        self._positives, self._before = positives, before
        self._weighted, self._linear, self._options = training.weighs(rows.labels), training.linear, options
        self._now = rows.numbers_now()  # None where all are what they were
        self._divided = np.bincount(self.came_from)[self.came_from] > 1
        known = self._was >= 0
        pending, sums = np.zeros(len(known), np.float32), np.zeros(len(known), np.float32)
        pending[known] = solution.pending[self._was[known]]
        sums[known] = np.float32(np.nan) if solution.sums is None else solution.sums[self._was[known]]
        due = pending >= STALE
        pending[due] = 0
        self.solved = ~known | due  # shape (n_nodes,): which children are to be solved, when `clusters` has been asked
        self._pending, self._sums, self.solution = pending, sums, solution

    def clusters(self, found: tuple[npt.NDArray[np.int64], _Ids], n_jobs: int) -> list[ChangedCluster]:
        """What becomes of the clusters that something has changed for, in their order; all others stay what they are.
        To each, some rows have come: all its rows with ``search_all``, else those that are fresh."""
        rows, stayed = {}, {}
        for c in self._touched(found[0]):
            rows[c], stayed[c] = self._rows_of(c, found[1][int(found[0][c]) : int(found[0][c + 1])])
        self.solution = self._stored.relaid(self._offsets, self.came_from, rows, self._now, self._pending, self._sums)
        each = [self._cluster(c, stayed[c]) for c in rows]
        entries = self._entries(each, n_jobs)
        turned = entries.turned
        if turned.any():  # what is no positive any more, or has become one, starts from nothing
            by_number = {own.number: own for own in each}
            for row, node in zip(entries.rows[turned].tolist(), entries.nodes[turned].tolist(), strict=True):
                own = by_number[int(np.searchsorted(self._offsets, node, side="right")) - 1]
                place = int(np.searchsorted(own.rows, row)), node - int(self._offsets[own.number])
                own.solved[place[1]] |= bool(own.multipliers[place] > 0)
                own.multipliers[place] = 0
        self._judge(each, entries)
        return each

    def _touched(self, found: npt.NDArray[np.int64]) -> list[int]:
        """The clusters that rows come to or go from, and those with new children or some that must be solved."""
        if self._options.search_all:
            return list(range(len(self.came_from)))
        touched = (np.diff(found) > 0) | self._divided
        begin, n_children = self._stored.child_offsets[self.came_from], np.diff(self._offsets)
        place = np.repeat(begin - self._offsets[:-1], n_children) + np.arange(len(self._was))
        cluster = np.repeat(np.arange(len(touched)), n_children)
        touched[cluster[self.solved | (self._was != place)]] = True
        other = np.zeros(self._rows.n_before, bool) if self._now is None else self._now < 0
        other[self._rows.was[self._rows.relabelled]] = True
        if other.any():
            at = np.flatnonzero(other[self._stored.rows])
            touched |= np.isin(self.came_from, np.searchsorted(self._stored.row_offsets, at, side="right") - 1)
        which: list[int] = np.flatnonzero(touched).tolist()
        return which

    def _rows_of(self, c: int, found: _Ids) -> tuple[_Ids, _Stayed]:
        """The rows of cluster ``c`` to which some come, and those that it had and that stay."""
        stored = self._stored.rows_of(int(self.came_from[c]))
        now = stored if self._now is None else self._now[stored]
        stays = None if self._now is None else now >= 0
        if self._options.search_all:
            stays = (now >= 0) & np.isin(now, found)
        elif self._divided[c]:  # one half: what it doesn't depend on goes
            stays = (now >= 0) & self._matters(c, now)
        if stays is None or stays.all():
            return (found if self._options.search_all else _union(now, found)), _Stayed(now, None)
        stayed = now[stays]
        return (found if self._options.search_all else _union(stayed, found)), _Stayed(stayed, stays)

    def _cluster(self, c: int, stayed: _Stayed) -> ChangedCluster:
        """Cluster ``c`` with its rows and where its multipliers start; children that are new, or that a row which is
        gone supported, are to be solved."""
        nodes, o = slice(int(self._offsets[c]), int(self._offsets[c + 1])), int(self.came_from[c])
        begin, old = int(self._stored.child_offsets[o]), self._stored.multipliers_of(o)
        known, solved = self._was[nodes] >= 0, self.solved[nodes]
        was = np.where(known, self._was[nodes] - begin, -1).astype(np.int32)
        n_old = old.shape[1]
        grown = len(was) >= n_old and bool((was[:n_old] == np.arange(n_old)).all())  # if it does, at its end
        rows, multipliers, n_stayed = self.solution.rows_of(c), self.solution.multipliers_of(c), len(stayed.rows)
        came = np.ones(len(rows), bool)
        if n_stayed and rows[n_stayed - 1] == stayed.rows[-1]:  # as usual, what is new comes last
            at: Any = slice(0, n_stayed)
        else:
            at = np.searchsorted(rows, stayed.rows)
        came[at] = False
        if not (grown and isinstance(at, slice)):
            multipliers[:] = 0
        multipliers[n_stayed:] = 0
        left = old if stayed.mask is None else old[stayed.mask]
        if grown:
            multipliers[at, :n_old] = left
            multipliers[at, n_old:] = 0
        else:
            multipliers[np.ix_(~came, known)] = left[:, was[known]]
        if stayed.mask is not None and old.size:
            gone = old[~stayed.mask][:, was[known]] > 0
            solved[known] |= gone.any(axis=0) | (not self._stored.known)
        if not n_stayed and (len(old) or len(rows)):
            solved[:] = True  # of no row, a child isn't a solution that others could start from
        return ChangedCluster(c, o, rows, multipliers, was, grown and len(was) == n_old, solved, came)

    def _matters(self, c: int, now: _Ids) -> npt.NDArray[np.bool_]:
        """Which rows the solution of cluster ``c`` depends on: those that support its children, and their positives."""
        first, last, o = int(self._offsets[c]), int(self._offsets[c + 1]), int(self.came_from[c])
        was, old = self._was[first:last], self._stored.multipliers_of(o)
        begin = int(self._stored.child_offsets[o])
        supports = (old[:, was[was >= 0] - begin] > 0).any(axis=1) | (not self._stored.known)
        there = np.flatnonzero(now >= 0)
        own = self._positives(now[there])
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
        for own in each:
            at = np.flatnonzero(own.came | relabelled[own.rows] if len(self._rows.relabelled) else own.came)
            clusters.append(np.full(len(at), own.number, np.int32))
            rows.append(own.rows[at])
            came.append(own.came[at])
        if not any(map(len, rows)):
            return _Entries.none()
        of, row, new = np.concatenate(clusters), np.concatenate(rows), np.concatenate(came)
        order = np.argsort(row, kind="stable")
        of, row, new = of[order], row[order], new[order]
        own_rows, counts = np.unique(row, return_counts=True)
        nodes, scores = self._scores(own_rows.astype(np.int32), self.came_from[of], counts, n_jobs)
        now = np.full(len(self._weights.intercepts), -1, np.int64)  # where each node that was there is now
        now[self._was[self._was >= 0]] = np.flatnonzero(self._was >= 0)
        filled = nodes >= 0
        at = np.repeat(np.arange(len(own_rows)), np.count_nonzero(filled, axis=1))
        node, score, entry_row = now[nodes[filled]], scores[filled], own_rows[at]
        there = node >= 0
        if not there.all():
            at, node, score, entry_row = at[there], node[there], score[there], entry_row[there]
        fresh = np.ones(len(node), bool)
        if self._divided.any() or len(self._rows.relabelled):
            same, fresh = self._asked_for(row, of, new, entry_row, node)
            at, node, score, entry_row = at[same], node[same], score[same], entry_row[same]
        relevance = _values(self._positives(own_rows), at, node)
        positive = relevance > 0
        turned = np.zeros(len(node), bool)
        if len(self._rows.relabelled):
            stayed = ~fresh
            before = _values(self._before, np.searchsorted(self._rows.relabelled, entry_row[stayed]), node[stayed])
            turned[stayed] = positive[stayed] != (before > 0)
        counts_here = fresh | turned
        if self._linear.loss != "logistic":  # behind the margin there is no loss
            counts_here &= turned | (np.where(positive, score, -score) < 1)
        return _Entries(
            entry_row[counts_here], node[counts_here], score[counts_here], positive[counts_here],
            relevance[counts_here], turned[counts_here],
        )  # fmt: skip

    def _asked_for(
        self, row: _Ids, of: _Ids, new: npt.NDArray[np.bool_], entry_row: _Ids, node: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which entries are of pairs of rows and clusters that there are, and of these, for which the row is new: a
        cluster that was divided brings entries of both its halves, and those of a half that the row is in count."""
        n_clusters = np.int64(len(self.came_from))
        cluster = np.searchsorted(self._offsets, node, side="right") - 1
        pairs, wanted = row * n_clusters + of, entry_row * n_clusters + cluster
        sort = np.argsort(pairs)
        found = np.minimum(np.searchsorted(pairs[sort], wanted), len(pairs) - 1)
        same = pairs[sort][found] == wanted
        return same, new[sort][found][same]

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
        self._pending += losses.astype(np.float32)
        if self._options.share == 0:
            worst = np.zeros(n_nodes)
            np.maximum.at(worst, entries.nodes, _violation(slack, margin, linear.loss) * (costs > 0))
            self.solved |= worst > linear.tolerance
            return
        for own in each:
            nodes = slice(int(self._offsets[own.number]), int(self._offsets[own.number + 1]))
            if losses[nodes].any():
                urgency = self._pending[nodes] / np.maximum(self._objective(own, nodes), np.float32(1e-30))
                own.solved |= urgency > self._options.share
                _fill(own.solved, urgency)

    def _objective(self, own: ChangedCluster, nodes: slice) -> npt.NDArray[np.float32]:
        """Of each child, in units of the cost: half the sum of the multipliers, at a solution with the squared hinge;
        with other losses it is more. Where they aren't known, at least what a few positives give."""
        if self._stored.known:
            sums = self._sums[nodes]
            if np.isnan(sums).any():
                sums[:] = column_sums(own.multipliers)
            result: npt.NDArray[np.float32] = 0.5 * sums
            return result
        matrix = self._positives(own.rows)
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
    if not len(b) or not len(a) or a[-1] < b[0]:
        return np.concatenate((a, b))
    every = np.sort(np.concatenate((a, b)), kind="stable")
    return every[np.diff(every, prepend=-1) > 0].astype(np.int32)


def _counting(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """0, 1, ... within each run: [2, 3] gives [0, 1, 0, 1, 2]."""
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _values(matrix: Csr, rows: npt.NDArray[Any], columns: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The values of a sparse matrix at some places, 0 where it holds none."""
    keys = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * np.int64(matrix.shape[1]) + matrix.indices
    wanted = rows.astype(np.int64) * matrix.shape[1] + columns
    if not len(keys):
        return np.zeros(len(wanted), np.float32)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    result: npt.NDArray[np.float32] = np.where(keys[at] == wanted, matrix.data[at], np.float32(0))
    return result


def _loss(slack: npt.NDArray[np.float64], margin: npt.NDArray[np.float64], loss: str) -> npt.NDArray[np.float64]:
    """The losses of Eq. 10."""
    if loss == "logistic":
        result: npt.NDArray[np.float64] = np.logaddexp(0, -margin)
        return result
    squares: npt.NDArray[np.float64] = slack**2
    return slack if loss == "hinge" else squares


def _violation(slack: npt.NDArray[np.float64], margin: npt.NDArray[np.float64], loss: str) -> npt.NDArray[np.float64]:
    """How far a row's dual variable of 0 is off its optimum: the logistic loss pulls at every row, however well it
    is answered."""
    if loss == "logistic":
        result: npt.NDArray[np.float64] = np.exp(-np.logaddexp(0, margin))
        return result
    return slack
