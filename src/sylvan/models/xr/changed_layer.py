"""Which children of a layer have to be solved again when rows have changed, and what they are solved with. A child's
dual problem (Eq. 10) loses the variables of rows that go and gains those of rows that come; the others are where the
last solution left them. Its objective on the changed rows can be above its minimum by no more than the losses of the
rows that came, since every minimum only grows with more rows: that bound says which children can wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sylvan.arrays.canonical import take_rows, within
from sylvan.arrays.types import Array, Bool, Float16, Float32, Int32, Int64
from sylvan.arrays.validate import Csr
from sylvan.indexing.clustering import layer_plan, plan_offsets
from sylvan.indexing.tree import LabelTree
from sylvan.matching.beam import next_beam
from sylvan.matching.negatives import counting
from sylvan.ranking.linear import LANES
from sylvan.ranking.solution import STALE, LayerSolution, column_sums
from sylvan.ranking.training import TreeTraining
from sylvan.weights.layer import LayerWeights

HALF_LANES = LANES // 2
# A child waits to be solved again until the losses of new rows are more than this share of its objective.
WAITING = 0.1


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree, and what its nodes were in the tree that it comes from. Online probabilistic label trees (Jasinska-Kobus
    et al. 2021) grow by leaves and by nodes between; here nodes are only ever divided, so that all leaves stay in the
    last layer."""

    tree: LabelTree
    was: tuple[Int32, ...]  # of each layer's nodes, the number in the tree before; -1 for a node that is new
    came_from: tuple[Int32, ...]  # of each layer's clusters, the cluster before whose rows it takes over

    @classmethod
    def same(cls, tree: LabelTree) -> Grown:
        """The tree as it is."""
        was = tuple(np.arange(size, dtype=np.int32) for size in tree.layer_sizes)
        return cls(tree, was, tuple(np.arange(len(each) - 1, dtype=np.int32) for each in tree.child_offsets))

    def with_labels(self, clusters: Sequence[int]) -> Grown:
        """With a further label at the end of each of these clusters; their ids go on where those of the tree end."""
        tree, last = self.tree, self.tree.depth - 1
        order = np.argsort(np.asarray(clusters, np.int64), kind="stable")
        rising = np.asarray(clusters, np.int64)[order]
        leaves = tree.child_offsets[last][rising + 1]
        labels = np.insert(tree.leaf_labels, leaves, (tree.n_labels + order).astype(np.int32))
        was = np.insert(self.was[last], leaves, np.int32(-1))
        shifts = np.concatenate(([0], np.cumsum(np.bincount(rising, minlength=len(tree.child_offsets[last]) - 1))))
        offsets = (*tree.child_offsets[:last], tree.child_offsets[last] + shifts)
        grown = LabelTree(offsets, labels, tree.n_labels + len(rising), tree.removed)
        return Grown(grown, (*self.was[:last], was), self.came_from)

    def split(self, cluster: int, right: Bool) -> Grown:
        """With a cluster of the last layer divided in two siblings, the second of those children that are ``right``."""
        tree, last = self.tree, self.tree.depth - 1
        first, end = (int(each) for each in tree.child_offsets[last][cluster : cluster + 2])
        order = np.argsort(right, kind="stable") + first
        labels, was = tree.leaf_labels.copy(), self.was[last].copy()
        labels[first:end], was[first:end] = labels[order], was[order]
        below = np.insert(tree.child_offsets[last], cluster + 1, end - int(right.sum()))
        above = tree.child_offsets[last - 1].copy()
        parent = int(np.searchsorted(above, cluster, side="right")) - 1
        above[parent + 1 :] += 1
        nodes = np.insert(self.was[last - 1], cluster, np.int32(-1))
        nodes[cluster + 1] = -1
        came = np.insert(self.came_from[last], cluster, self.came_from[last][cluster])
        split_tree = LabelTree((*tree.child_offsets[: last - 1], above, below), labels, tree.n_labels, tree.removed)
        return Grown(split_tree, (*self.was[: last - 1], nodes, was), (*self.came_from[:last], came))


def saved_by_rebuilding(tree: LabelTree, branching: int, max_leaf: int, beam: int) -> float:
    """The share of a search's cost that a new tree would save, by its shape: in [0, 1). The cost is the number of nodes
    that a beam scores: in each layer, that of the nodes that it follows times the usual number of their children, where
    a cluster of many labels is met in proportion to these."""
    costs = []
    for offsets in (tree.child_offsets, plan_offsets(layer_plan(tree.n_placed, branching, max_leaf))):
        layers = [np.diff(layer).astype(np.float64) for layer in offsets]
        costs.append(sum(min(beam, len(sizes)) * float((sizes**2).sum() / sizes.sum()) for sizes in layers))
    return max(0.0, 1 - costs[1] / costs[0])


@dataclass(frozen=True)
class RowsNow:
    """The rows of an update, and which they were before it."""

    features: Csr  # shape (n, d)
    labels: Csr  # shape (n, n_labels)
    norms: Float32  # shape (n,): the squared length of each row
    weight: Float32 | None  # shape (n,), or None
    was: Int32  # shape (n,): the number that each row had, rising; -1 for one that is new
    n_before: int  # how many rows there were
    relabelled: Int32  # rows that were there with other labels, rising
    labels_before: Csr  # shape (len(relabelled), n_labels): their labels then

    @property
    def fresh(self) -> Int32:
        """The rows that are new or have other labels, rising."""
        changed = self.was < 0
        changed[self.relabelled] = True
        return np.flatnonzero(changed).astype(np.int32)


@dataclass
class ChangedCluster:
    """One cluster of a layer as it is to be: its rows, what its multipliers start from, which children are solved.
    Arrays of the layer's solution are shared: what is written here is written there."""

    number: int
    came_from: int  # its number as it is stored
    rows: Int32
    multipliers: Float16
    was: Int32  # each child's number in the stored cluster, -1 for a new one
    unchanged: bool  # whether the children are those of the stored cluster
    solved: Bool
    came: Bool  # which rows weren't there


class _Entries(NamedTuple):
    """Rows and nodes of a layer that have something new to do with each other."""

    rows: Array
    nodes: Int64
    scores: Float32
    positive: Bool
    relevance: Float32
    turned: Bool  # a row that was there, of which the node was a positive and isn't, or the reverse


class ChangedLayer:
    """What the clusters of one layer were, and what becomes of them. A child is solved again where the losses of the
    rows that came since it was solved are more than a share of its objective; if the update is ``precise``, where one
    of these rows violates its optimality by more than the solver's tolerance, and where a search brings negatives, all
    rows are searched for again."""

    def __init__(
        self, weights: LayerWeights, solution: LayerSolution, grown: Grown, t: int, rows: RowsNow,
        positives: Callable[[Int32], Csr], before: Csr, training: TreeTraining, precise: bool,
    ) -> None:  # fmt: skip
        # Shape: came_from (n_clusters,)
        self._weights, self._stored, self._rows = weights, solution, rows
        self._offsets, self._was, self.came_from = grown.tree.child_offsets[t], grown.was[t], grown.came_from[t]
        self._positives, self._before = positives, before
        self._weighted, self._linear, self._precise = training.weighs(rows.labels), training.linear, precise
        # The number of each row that there was, -1 for one that is gone; None where all have the same.
        self._now: Int32 | None = None
        if not np.array_equal(rows.was[: rows.n_before], np.arange(rows.n_before)):
            stayed = np.flatnonzero(rows.was >= 0).astype(np.int32)
            self._now = np.full(rows.n_before, -1, np.int32)
            self._now[rows.was[stayed]] = stayed
        self._divided = np.bincount(self.came_from)[self.came_from] > 1
        is_old = self._was >= 0
        pending, sums = np.zeros(len(is_old), np.float32), np.zeros(len(is_old), np.float32)
        pending[is_old] = solution.pending[self._was[is_old]]
        sums[is_old] = np.float32(np.nan) if solution.sums is None else solution.sums[self._was[is_old]]
        due = pending >= STALE
        pending[due] = 0
        self.solved = ~is_old | due  # shape (n_nodes,): which children are to be solved, when `clusters` has been asked
        self._pending, self._sums, self.solution = pending, sums, solution

    def clusters(self, pairs: tuple[Int64, Int32], n_jobs: int) -> list[ChangedCluster]:
        """What becomes of the clusters that something has changed for, in their order; all others stay what they are.
        To each, some rows have come: all its rows if the update is precise, else those that are fresh."""
        parts = {
            c: self._rows_of(c, pairs[1][int(pairs[0][c]) : int(pairs[0][c + 1])]) for c in self._touched(pairs[0])
        }
        rows = {c: part[0] for c, part in parts.items()}
        self.solution = self._stored.relaid(self._offsets, self.came_from, rows, self._now, self._pending, self._sums)
        each = [self._cluster(c, *part[1:]) for c, part in parts.items()]
        if (entries := self._entries(each, n_jobs)) is None:
            return each
        turned = entries.turned
        if turned.any():  # what is no positive any more, or has become one, starts from nothing
            by_number = {cluster.number: cluster for cluster in each}
            for row, node in zip(entries.rows[turned].tolist(), entries.nodes[turned].tolist(), strict=True):
                cluster = by_number[int(np.searchsorted(self._offsets, node, side="right")) - 1]
                place = int(np.searchsorted(cluster.rows, row)), node - int(self._offsets[cluster.number])
                cluster.solved[place[1]] |= bool(cluster.multipliers[place] > 0)
                cluster.multipliers[place] = 0
        self._judge(each, entries)
        return each

    def _touched(self, offsets: Int64) -> list[int]:
        """The clusters that rows come to or go from, and those with new children or some that must be solved."""
        if self._precise:
            return list(range(len(self.came_from)))
        touched = (np.diff(offsets) > 0) | self._divided
        begin, n_children = self._stored.child_offsets[self.came_from], np.diff(self._offsets)
        place = np.repeat(begin - self._offsets[:-1], n_children) + np.arange(len(self._was))
        cluster = np.repeat(np.arange(len(touched)), n_children)
        touched[cluster[self.solved | (self._was != place)]] = True
        other = np.zeros(self._rows.n_before, bool) if self._now is None else self._now < 0
        other[self._rows.was[self._rows.relabelled]] = True
        if other.any():
            places = np.flatnonzero(other[self._stored.rows])
            touched |= np.isin(self.came_from, np.searchsorted(self._stored.row_offsets, places, side="right") - 1)
        numbers: list[int] = np.flatnonzero(touched).tolist()
        return numbers

    def _rows_of(self, c: int, rows: Int32) -> tuple[Int32, Int32, Bool | None]:
        """The rows of cluster ``c`` to which some come; those that it had and that stay, by the numbers that they have
        now, and which they are, None for all."""
        stored = self._stored.rows_of(int(self.came_from[c]))
        positions = stored if self._now is None else self._now[stored]
        stays = None if self._now is None else positions >= 0
        if self._precise:
            stays = (positions >= 0) & np.isin(positions, rows)
        elif self._divided[c]:  # one half: what it doesn't depend on goes
            stays = (positions >= 0) & self._matters(c, positions)
        if stays is None or stays.all():
            stays = None
        else:
            positions = positions[stays]
        return (rows if self._precise else _union(positions, rows)), positions, stays

    def _cluster(self, c: int, stayed: Int32, mask: Bool | None) -> ChangedCluster:
        """Cluster ``c`` with its rows and where its multipliers start; children that are new, or that a row which is
        gone supported, are to be solved."""
        nodes, o = slice(int(self._offsets[c]), int(self._offsets[c + 1])), int(self.came_from[c])
        begin, old = int(self._stored.child_offsets[o]), self._stored.multipliers_of(o)
        is_old, solved = self._was[nodes] >= 0, self.solved[nodes]
        was = np.where(is_old, self._was[nodes] - begin, -1).astype(np.int32)
        n_old = old.shape[1]
        grown = len(was) >= n_old and bool((was[:n_old] == np.arange(n_old)).all())  # if it does, at its end
        rows, multipliers, n_stayed = self.solution.rows_of(c), self.solution.multipliers_of(c), len(stayed)
        in_front = n_stayed > 0 and rows[n_stayed - 1] == stayed[-1]  # as usual, what is new comes last
        places: Any = slice(0, n_stayed) if in_front else np.searchsorted(rows, stayed)
        came = np.ones(len(rows), bool)
        came[places] = False
        multipliers[n_stayed if grown and in_front else 0 :] = 0
        left = old if mask is None else old[mask]
        if grown:
            multipliers[places, :n_old] = left
            multipliers[places, n_old:] = 0
        else:
            multipliers[np.ix_(~came, is_old)] = left[:, was[is_old]]
        if mask is not None and old.size:
            gone = old[~mask][:, was[is_old]] > 0
            solved[is_old] |= gone.any(axis=0) | (not self._stored.known)
        if not n_stayed and (len(old) or len(rows)):
            solved[:] = True  # of no row, a child isn't a solution that others could start from
        return ChangedCluster(c, o, rows, multipliers, was, grown and len(was) == n_old, solved, came)

    def _matters(self, c: int, positions: Int32) -> Bool:
        """Which rows the solution of cluster ``c`` depends on: those that support its children, and their positives."""
        first, last, o = int(self._offsets[c]), int(self._offsets[c + 1]), int(self.came_from[c])
        was, old = self._was[first:last], self._stored.multipliers_of(o)
        begin = int(self._stored.child_offsets[o])
        supports: Bool = np.any(old[:, was[was >= 0] - begin] > 0, axis=1)
        supports |= not self._stored.known
        left = np.flatnonzero(positions >= 0)
        positives = self._positives(positions[left])
        inside = (positives.indices >= first) & (positives.indices < last)
        supports[left[positives.rows_of_values()[inside]]] = True
        return supports

    def _entries(self, each: Sequence[ChangedCluster], n_jobs: int) -> _Entries | None:
        """What rows that have come to a cluster, or have other labels, are to the nodes that were there before."""
        relabelled = np.zeros(self._rows.features.shape[0], bool)
        relabelled[self._rows.relabelled] = self._rows.was[self._rows.relabelled] >= 0
        relabels = len(self._rows.relabelled) > 0
        changed = [
            np.flatnonzero(cluster.came | relabelled[cluster.rows] if relabels else cluster.came) for cluster in each
        ]
        if not any(map(len, changed)):
            return None
        of = np.repeat(np.array([cluster.number for cluster in each], np.int32), [len(rows) for rows in changed])
        row = np.concatenate([cluster.rows[rows] for cluster, rows in zip(each, changed, strict=True)])
        new = np.concatenate([cluster.came[rows] for cluster, rows in zip(each, changed, strict=True)])
        order = np.argsort(row, kind="stable")
        of, row, new = of[order], row[order], new[order]
        numbers, counts = np.unique(row, return_counts=True)
        nodes, scores = self._scores(numbers.astype(np.int32), self.came_from[of], counts, n_jobs)
        new_node = np.full(len(self._weights.intercepts), -1, np.int64)  # where each node that was there is now
        new_node[self._was[self._was >= 0]] = np.flatnonzero(self._was >= 0)
        filled = (nodes >= 0) & (new_node[nodes] >= 0)
        place = np.nonzero(filled)[0]
        node, score, fresh = new_node[nodes[filled]], scores[filled], np.ones(len(place), bool)
        if self._divided.any() or len(self._rows.relabelled):
            # Entries of the pairs of rows and clusters that there are, and whether the row is new there: a cluster that
            # was divided brings entries of both its halves, and those of a half that the row is in count.
            n_clusters, cluster = np.int64(len(self.came_from)), np.searchsorted(self._offsets, node, side="right") - 1
            pairs, wanted = row * n_clusters + of, numbers[place] * n_clusters + cluster
            sort = np.argsort(pairs)
            pair = np.minimum(np.searchsorted(pairs[sort], wanted), len(pairs) - 1)
            same = pairs[sort][pair] == wanted
            place, node, score, fresh = place[same], node[same], score[same], new[sort][pair][same]
        relevance = _values(self._positives(numbers), place, node)
        positive, turned, entry_row = relevance > 0, np.zeros(len(node), bool), numbers[place]
        if len(self._rows.relabelled):
            before = _values(self._before, np.searchsorted(self._rows.relabelled, entry_row[~fresh]), node[~fresh])
            turned[~fresh] = positive[~fresh] != (before > 0)
        counted = fresh | turned
        if self._linear.loss != "logistic":  # behind the margin there is no loss
            counted &= turned | (np.where(positive, score, -score) < 1)
        parts: tuple[Any, ...] = (entry_row, node, score, positive, relevance, turned)
        return _Entries(*(part[counted] for part in parts))

    def _scores(self, rows: Int32, clusters: Int32, counts: Int64, n_jobs: int) -> tuple[Int32, Float32]:
        """The nodes of the clusters that each row asks for, as they are stored, and their own scores."""
        above = np.full((len(rows), int(counts.max())), -1, np.int32)
        above[np.repeat(np.arange(len(rows)), counts), counting(counts)] = clusters
        above = np.sort(above, axis=1)[:, ::-1]  # a cluster that was divided is asked for once
        above[:, 1:][above[:, 1:] == above[:, :-1]] = -1
        sizes = np.append(np.diff(self._weights.child_offsets), 0)
        width = int(sizes[above].sum(axis=1).max())
        features = within(take_rows(self._rows.features, rows), self._weights.n_features)
        beam = np.ascontiguousarray(above), np.zeros(above.shape, np.float32)
        return next_beam(features, self._weights, beam, width, "ranker", n_jobs)

    def _judge(self, clusters: Sequence[ChangedCluster], entries: _Entries) -> None:
        """Which children the entries matter to."""
        linear, weight, n_nodes = self._linear, self._rows.weight, int(self._offsets[-1])
        margin = np.where(entries.positive, entries.scores, -entries.scores).astype(np.float64)
        costs = np.where(entries.positive, linear.positive_cost, linear.negative_cost)
        if self._weighted:
            costs = np.where(entries.positive, costs * entries.relevance, costs)
        if weight is not None:
            costs = costs * weight[entries.rows]
        # The losses of Eq. 10, and how far a row's dual variable of 0 is off its optimum: the logistic loss pulls at
        # every row, however well it is answered.
        slack = violations = np.maximum(1 - margin, 0)
        each = slack**2 if linear.loss == "squared_hinge" else slack
        if linear.loss == "logistic":
            each, violations = np.logaddexp(0, -margin), np.exp(-np.logaddexp(0, margin))
        losses = np.bincount(entries.nodes, costs * each, minlength=n_nodes)
        self._pending += losses.astype(np.float32)
        if self._precise:
            worst = np.zeros(n_nodes)
            np.maximum.at(worst, entries.nodes, violations * (costs > 0))
            self.solved |= worst > linear.tolerance
            return
        for cluster in clusters:
            nodes = slice(int(self._offsets[cluster.number]), int(self._offsets[cluster.number + 1]))
            if losses[nodes].any():
                urgency = self._pending[nodes] / np.maximum(self._objective(cluster, nodes), np.float32(1e-30))
                cluster.solved |= urgency > WAITING
                # The solver fills 8 or 16 lanes: the free ones of the last 8 take the most urgent children.
                waiting = np.flatnonzero(~cluster.solved & (urgency > 0))
                most = -int(cluster.solved.sum()) % HALF_LANES
                cluster.solved[waiting[np.argsort(-urgency[waiting], kind="stable")[:most]]] = True

    def _objective(self, cluster: ChangedCluster, nodes: slice) -> Float32:
        """Of each child, in units of the cost: half the sum of the multipliers, at a solution with the squared hinge;
        with other losses it is more. Where they aren't known, at least what a few positives give."""
        if self._stored.known:
            sums = self._sums[nodes]
            if np.isnan(sums).any():
                sums[:] = column_sums(cluster.multipliers)
            result: Float32 = 0.5 * sums
            return result
        matrix = self._positives(cluster.rows)
        counts = np.bincount(matrix.indices, minlength=int(self._offsets[-1]))[nodes]
        few: Float32 = (0.5 * counts).astype(np.float32)
        return few


def _union(a: Int32, b: Int32) -> Int32:
    """Two rising lists as one."""
    if not len(b) or not len(a) or a[-1] < b[0]:
        return np.concatenate((a, b))
    merged = np.sort(np.concatenate((a, b)), kind="stable")
    return merged[np.diff(merged, prepend=-1) > 0].astype(np.int32)


def _values(matrix: Csr, rows: Array, columns: Array) -> Float32:
    """The values of a sparse matrix at some places, 0 where it holds none."""
    if not len(rows):
        return np.zeros(0, np.float32)
    return np.asarray(matrix.to_scipy()[rows, columns], np.float32).ravel()
