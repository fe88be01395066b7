"""An update of XR-Linear: rows that come and go, labels that come and become one; from one fitted value to the next.
Only children that changed rows matter to are solved again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from sylvan.arrays.canonical import Csr, stacked, take_rows, within
from sylvan.arrays.types import Bool, Float16, Float32, Int32, Int64
from sylvan.errors import DataError
from sylvan.indexing import LabelTree
from sylvan.indexing.embeddings import pifa
from sylvan.matching.negatives import cluster_rows, layer_positives, of_root
from sylvan.metrics.tallies import hits
from sylvan.models.label_changes import merged_labels
from sylvan.models.xr.changed_layer import ChangedCluster, ChangedLayer, Grown, RowsNow
from sylvan.models.xr.fitted import FittedTrees, search_of
from sylvan.models.xr.params import Scale, tree_training
from sylvan.models.xr.training_rows import HeldOut, RowBuffer, TrainingRows
from sylvan.ranking.calibrate import DEPTH, Calibrator
from sylvan.ranking.linear import LayerProblem, block_jobs, squared_norms
from sylvan.ranking.solution import LayerSolution, SolvedBlock, column_sums
from sylvan.ranking.training import TreeTraining
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime import Job, Runner
from sylvan.weights.layer import ClusterRows, LayerWeights, with_clusters

PRECISE = 0.01  # a tolerance below it asks for every child that is off its optimum
ROOM = 1.5  # a cluster of more than this many times max_leaf labels is split, unless its parent is as crowded
ROUNDS = 2  # of the solver, where it starts near a solution and needn't be precise


class Changes(NamedTuple):
    """What an update is asked to do, by numbers."""

    features: Csr
    labels: Csr
    weight: Float32 | None
    n_labels: int
    forgotten: Int64 = np.zeros(0, np.int64)
    merged: Mapping[int, list[int]] = {}

    @classmethod
    def none(cls, n_features: int, n_labels: int) -> Changes:
        """No new rows."""
        return cls(Csr.empty(0, n_features), Csr.empty(0, n_labels), None, n_labels)


class Updated(NamedTuple):
    """What an update makes of a model."""

    fitted: FittedTrees
    label_counts: Int64
    n_rows: int
    calibrator: Calibrator | None
    gone: Int32 = np.zeros(0, np.int32)  # labels that became others


def updated(model: Any, fitted: FittedTrees, changes: Changes, precise: bool | None) -> Updated:
    """A model brought up to date: its rows, the trees, and all that was counted."""
    result = _with_changes(model, fitted, changes, precise, model.calibrator_)
    sources = [label for target, labels in changes.merged.items() for label in labels if label != target]
    if not sources:
        return result
    gone = np.unique(np.array(sources, np.int32))
    fitted = result.fitted.without(gone, model.relevance)
    if any(
        ranker.tree.layer_sizes[:-1] != before.tree.layer_sizes[:-1]
        for ranker, before in zip(fitted.rankers, result.fitted.rankers, strict=True)
    ):  # rows were sent to clusters that are no more
        nothing = Changes.none(fitted.n_features, fitted.n_labels)
        return _with_changes(model, fitted, nothing, precise, result.calibrator)._replace(gone=gone)
    return result._replace(fitted=fitted, gone=gone)


def _with_changes(
    model: Any, fitted: FittedTrees, changes: Changes, precise: bool | None, calibrator: Calibrator | None
) -> Updated:
    """With other rows and labels; labels that became others stay, without rows."""
    before, run = _rows_of(fitted), Runner(model.n_jobs)
    held_out = _held_out(model, fitted, changes)
    rows, ids, buffer = _rows_now(changes, before)
    results = [
        TreeUpdate(model, fitted, number, changes, rows, precise, run).finish() for number in range(len(fitted.rankers))
    ]
    if held_out is not None and model.calibration is not None:
        calibrator = held_out.calibrator(model.calibration)
    rows_after = TrainingRows(
        rows.features, rows.labels, rows.weight, ids, before.next_id + changes.features.shape[0], before.length,
        [solutions for _, solutions in results], held_out, rows.norms, buffer,
    )  # fmt: skip
    counts = np.bincount(rows.labels.indices, minlength=changes.n_labels).astype(np.int64)
    fitted = replace(fitted, rankers=[ranker for ranker, _ in results], rows=rows_after)
    return Updated(fitted, counts, rows.features.shape[0], calibrator)


def planned(
    model: Any, fitted: FittedTrees, changes: Changes, precise: bool | None, run: Runner
) -> tuple[list[list[int]], list[Job[SolvedBlock]]]:
    """How many nodes of each tree and layer :func:`updated` would solve, about, and the jobs that would. Rows are
    searched for by the rankers as they are, and no cluster is split."""
    rows, _, _ = _rows_now(changes, _rows_of(fitted))
    nodes: list[list[int]] = []
    jobs: list[Job[SolvedBlock]] = []
    for number, ranker in enumerate(fitted.rankers):
        update = TreeUpdate(model, fitted, number, changes, rows, precise, run, splits=False)
        nodes.append([])
        for layer, _, layer_jobs in update.layers(ranker.layers):
            nodes[-1].append(int(layer.solved.sum()))
            jobs += layer_jobs
    return nodes, jobs


def _rows_of(fitted: FittedTrees) -> TrainingRows:
    """The rows of trees that keep them."""
    assert fitted.rows is not None
    return fitted.rows


def _held_out(model: Any, fitted: FittedTrees, changes: Changes) -> HeldOut | None:
    """The answers that calibrate the model from now on: to new rows by what it knows as yet, behind the others."""
    rows = _rows_of(fitted)
    if rows.held_out is None:
        return None
    held_out = rows.held_out.without(rows.ids[changes.forgotten])
    if not changes.features.shape[0]:
        return held_out
    unchanged = [[None] * ranker.tree.depth for ranker in fitted.rankers]
    features = within(changes.features, fitted.n_features)
    top = fitted.rank_changed(features, unchanged, DEPTH, search_of(model, fitted))
    new_ids = rows.next_id + np.arange(changes.features.shape[0])
    return held_out.followed_by(HeldOut.of(new_ids, top, hits(top, changes.labels), changes.weight))


def rows_again(model: Any, fitted: FittedTrees, features: Csr, labels: Csr) -> TrainingRows:
    """The rows of a model that keeps none, given again. How layers were solved is known as far as rows say it: the
    multipliers aren't."""
    length, n_rows = Scale.of(model, features).length, features.shape[0]
    solutions: list[list[LayerSolution]] = []
    for number, (tree, layers) in enumerate((ranker.tree, ranker.layers) for ranker in fitted.rankers):
        training = tree_training(model, tree.depth, number, features, length, fitted.chosen)
        positives = layer_positives(tree, labels)
        solutions.append([])
        for t, beam in enumerate(training.beams(features, layers, Runner())):
            offsets, parents = tree.child_offsets[t], positives[t - 1] if t else of_root(positives[0])
            pairs = cluster_rows(training.negatives[t], parents, training.found(t, beam), len(offsets) - 1, n_rows)
            n_multipliers = int((np.diff(pairs[0]) * np.diff(offsets)).sum())
            multipliers, pending = np.zeros(n_multipliers, np.float16), np.zeros(int(offsets[-1]), np.float32)
            solutions[-1].append(LayerSolution(offsets, *pairs, multipliers, pending, False))
    return TrainingRows(features, labels, None, np.arange(n_rows), n_rows, length, solutions)


def _rows_now(changes: Changes, before: TrainingRows) -> tuple[RowsNow, Int64, RowBuffer]:
    """All rows as they are to be, their ids, and where their features lie."""
    n_before, n_new = len(before.ids), changes.features.shape[0]
    left = np.delete(np.arange(n_before), changes.forgotten)
    old_features, old_labels, old_weight = (
        before.taken(left) if len(changes.forgotten) else (before.features, before.labels, before.weight)
    )
    old_labels = old_labels._replace(shape=(len(left), changes.n_labels))
    merged, relabelled = merged_labels(old_labels, changes.merged)
    new_labels, _ = merged_labels(changes.labels, changes.merged)
    weight = None
    if old_weight is not None or changes.weight is not None:
        parts = ((old_weight, len(left)), (changes.weight, n_new))
        weight = np.concatenate([np.ones(n, np.float32) if part is None else part for part, n in parts])
    norms = squared_norms(old_features) if before.norms is None else before.norms[left]
    norms = np.concatenate((norms, squared_norms(changes.features)))
    was = np.concatenate((left, np.full(n_new, -1))).astype(np.int32)
    if len(relabelled) and ((merged.data != 1).any() or (new_labels.data != 1).any()):
        was[relabelled] = -1  # their costs change in all layers: as if they were others
        relabelled = relabelled[:0]
    features, buffer = before.buffer.stacked(old_features, changes.features)
    rows = RowsNow(
        features, stacked(merged, new_labels), norms, weight, was, n_before,
        relabelled.astype(np.int32), take_rows(old_labels, relabelled),
    )  # fmt: skip
    if not rows.labels.nnz:
        raise DataError("No row with a label would be left: there is nothing to learn.")
    return rows, np.concatenate((before.ids[left], before.next_id + np.arange(n_new))), buffer


class TreeUpdate:
    """The update of one tree: the data that all its layers share."""

    def __init__(
        self, model: Any, fitted: FittedTrees, number: int, changes: Changes, rows: RowsNow, precise: bool | None,
        runner: Runner, splits: bool = True,
    ) -> None:  # fmt: skip
        before, self._ranker, self._rows, self._runner = _rows_of(fitted), fitted.rankers[number], rows, runner
        self._solutions, depth = before.solutions[number], self._ranker.tree.depth
        self._training = tree_training(model, depth, number, rows.features, before.length, fitted.chosen)
        self._precise = self._training.linear.tolerance < PRECISE if precise is None else precise
        self._grown = self._growth(model, changes, splits)
        self._fresh = rows.fresh
        self._positives = _Positives(self._grown.tree, rows.labels, self._training, self._fresh)
        self._before = layer_positives(self._grown.tree, rows.labels_before)
        self._searched = rows.features if self._precise else take_rows(rows.features, self._fresh)

    def _growth(self, model: Any, changes: Changes, splits: bool) -> Grown:
        """The tree with the new labels, each in the cluster that the search sends its rows to, and split clusters."""
        grown, tree = Grown.same(self._ranker.tree), self._ranker.tree
        if changes.n_labels > tree.n_labels:
            n_rows = np.diff(self._solutions[-1].row_offsets)
            clusters = clusters_for(self._ranker, changes, self._training, n_rows, model.max_leaf, self._runner)
            grown = grown.with_labels(clusters)
        c = 0
        while splits and tree.depth > 1 and c < len(grown.tree.cluster_sizes):
            above = grown.tree.child_offsets[-2]
            parent = int(np.searchsorted(above, c, side="right")) - 1
            is_large = grown.tree.cluster_sizes[c] > ROOM * model.max_leaf
            if is_large and above[parent + 1] - above[parent] < ROOM * model.branching:
                grown = grown.split(c, _halves(grown.tree, c, self._rows))
            else:
                c += 1
        return grown

    def layers(
        self, weights: Sequence[LayerWeights]
    ) -> Iterator[tuple[ChangedLayer, list[ChangedCluster], list[Job[SolvedBlock]]]]:
        """Each layer, those of its clusters that change, and the jobs that solve children; from the first layer down,
        with the ``weights`` of those above, which needn't be there before."""
        training, rows, tree = self._training, self._rows, self._grown.tree
        for t, beam in enumerate(training.beams(self._searched, weights, self._runner)):
            above = max(t - 1, 0)
            parents = self._positives.every(above) if self._precise else self._positives.fresh[above]
            parents = parents if t else of_root(parents)
            nodes, n_clusters = training.found(t, beam), len(tree.child_offsets[t]) - 1
            pairs = cluster_rows(training.negatives[t], parents, nodes, n_clusters, self._searched.shape[0])
            if not self._precise:
                pairs = pairs[0], self._fresh[pairs[1]]
            layer = ChangedLayer(
                self._ranker.layers[t], self._solutions[t], self._grown, t, rows, partial(self._positives.of, t),
                self._before[t], training, self._precise,
            )  # fmt: skip
            clusters = layer.clusters(pairs, self._runner.n_jobs)
            jobs: list[Job[SolvedBlock]] = []
            if some := [cluster for cluster in clusters if cluster.solved.any()]:
                weighted, rounds = training.weighs(rows.labels), 0 if self._precise else ROUNDS
                problem = _problem(layer.solved, some, self._positives.every(t), weighted, rounds)
                jobs = block_jobs(rows.features, rows.norms, problem, t, training.linear, sample_weight=rows.weight)
            yield layer, clusters, jobs

    def finish(self) -> tuple[TreeRanker, list[LayerSolution]]:
        """The ranker for the changed rows, labels and tree, and how its layers were solved."""
        weights: list[LayerWeights] = []
        solutions: list[LayerSolution] = []
        for t, (layer, clusters, jobs) in enumerate(self.layers(weights)):
            blocks = self._runner.run(jobs, f"Updating layer {t + 1} of {self._grown.tree.depth}") if jobs else []
            multipliers = [part for block in blocks if (part := block.multipliers()) is not None]
            _take_in(layer.solution, clusters, np.concatenate([np.zeros(0, np.float16), *multipliers]))
            solved = list(chain.from_iterable(blocks))
            weights.append(_laid_out(layer, clusters, solved, self._ranker.layers[t], self._rows.features.shape[1]))
            solutions.append(layer.solution)
        return TreeRanker(self._grown.tree, weights), solutions


class _Positives:
    """The positives of each layer with their costs, as for a training: those of rows that are fresh at once, those of
    all rows when they are asked for."""

    def __init__(self, tree: LabelTree, labels: Csr, training: TreeTraining, fresh: Int32) -> None:
        self._tree, self._labels, self._training, self._fresh = tree, labels, training, fresh
        self.fresh = training.positives(tree, take_rows(labels, fresh))
        self._every: list[Csr] = []  # of the last layers

    def every(self, t: int) -> Csr:
        """Those of all rows in layer t."""
        if len(self._every) < self._tree.depth - t:
            self._every = self._training.positives(self._tree, self._labels, t)
        return self._every[t - self._tree.depth]

    def of(self, t: int, rows: Int32) -> Csr:
        """Those of some rows in layer t."""
        if np.isin(rows, self._fresh).all():
            return take_rows(self.fresh[t], np.searchsorted(self._fresh, rows))
        return take_rows(self.every(t), rows)


def clusters_for(
    ranker: TreeRanker, rows: Changes, training: TreeTraining, n_rows: Int64, max_leaf: int, run: Runner
) -> list[int]:
    """The cluster of each new label: one with room that the search sends its rows to; without any, the smallest. A
    place near the top of a row's beam counts for more, and less in clusters that many rows come to anyway: of those
    that each was trained on, there are ``n_rows``."""
    tree = ranker.tree
    if tree.depth == 1:
        return [0] * (rows.n_labels - tree.n_labels)
    sizes = tree.cluster_sizes.astype(np.int64)
    *_, (nodes, _) = training.beams(rows.features, ranker.layers, run)
    worth = np.log1p(n_rows.max(initial=1) / np.maximum(n_rows, 1))
    places = 1 / (1 + np.arange(nodes.shape[1]))
    columns = rows.labels.to_scipy().tocsc()
    clusters = []
    for label in range(tree.n_labels, rows.n_labels):
        reached = nodes[columns.indices[columns.indptr[label] : columns.indptr[label + 1]]]
        present = reached >= 0
        votes = np.zeros(len(sizes))
        np.add.at(votes, reached[present], np.broadcast_to(places, reached.shape)[present])
        votes *= worth
        roomy = np.where(sizes < max_leaf, votes, 0)
        best = roomy if roomy.any() else votes if votes.any() else -sizes
        clusters.append(int(best.argmax()))
        sizes[clusters[-1]] += 1
    return clusters


def _halves(tree: LabelTree, cluster: int, rows: RowsNow) -> Bool:
    """Which labels of a cluster go to the second half, by balanced 2-means of their rows' features (PIFA)."""
    first, last = (int(each) for each in tree.child_offsets[-1][cluster : cluster + 2])
    labels = tree.leaf_labels[first:last]
    columns = rows.labels.to_scipy()[:, labels]
    having = np.flatnonzero(np.diff(columns.indptr))
    if not len(having):
        return np.arange(len(labels)) >= len(labels) // 2
    features = take_rows(rows.features, having).to_scipy()
    parts = LabelTree.build(pifa(features, columns[having]), branching=2, max_leaf=-(-len(labels) // 2))
    right = np.zeros(len(labels), bool)
    right[parts.leaf_labels[int(parts.child_offsets[-1][1]) :]] = True
    return right


def _problem(chosen: Bool, some: Sequence[ChangedCluster], positives: Csr, weighted: bool, rounds: int) -> LayerProblem:
    """A layer that consists of the children that are ``chosen`` alone, of ``some`` clusters."""
    left, number = positives.where(chosen[positives.indices]), np.cumsum(chosen, dtype=np.int32) - np.int32(1)
    of_chosen = left._replace(indices=number[left.indices], shape=(positives.shape[0], int(chosen.sum())))
    offsets = np.concatenate(([0], np.cumsum([np.count_nonzero(each.solved) for each in some]))).astype(np.int64)
    multipliers = [each.multipliers.take(np.flatnonzero(each.solved), axis=1) for each in some]
    start = LayerSolution.of(offsets, [each.rows for each in some], multipliers)
    return LayerProblem(offsets, of_chosen, start.row_offsets, start.rows, weighted, True, start, rounds)


def _take_in(solution: LayerSolution, clusters: Sequence[ChangedCluster], multipliers: Float16) -> None:
    """The multipliers of the solved children at their places; nothing waits for these any more."""
    begin = 0
    for cluster in clusters:
        solved = np.flatnonzero(cluster.solved)
        new = multipliers[begin : begin + len(cluster.rows) * len(solved)].reshape(len(cluster.rows), len(solved))
        begin += new.size
        cluster.multipliers[:, solved] = new
        nodes = int(solution.child_offsets[cluster.number]) + solved
        solution.pending[nodes] = 0
        if solution.sums is not None:
            solution.sums[nodes] = column_sums(new)


def _laid_out(
    layer: ChangedLayer, clusters: Sequence[ChangedCluster], solved: Sequence[ClusterRows], before: LayerWeights,
    n_features: int,
) -> LayerWeights:  # fmt: skip
    """The layer of the clusters' stored weights and those that were solved."""
    new = dict(zip((cluster.number for cluster in clusters if cluster.solved.any()), solved, strict=True))
    changed = {
        cluster.number: with_children(
            before.sound_cluster(cluster.came_from), cluster.was, cluster.solved, new.get(cluster.number)
        )
        for cluster in clusters
        if cluster.number in new or not cluster.unchanged
    }
    codebook = before.codebook if before.weight_dtype == "uint8" else None
    if codebook is not None:
        largest = max((float(np.abs(rows.weights).max(initial=0)) for rows in solved), default=0.0)
        codebook = codebook if 0 < codebook[0] <= codebook[127] and largest <= codebook[127] else None
    return with_clusters(before, changed, layer.came_from, layer.solution.child_offsets, n_features, codebook)


def with_children(stored: ClusterRows, was: Int32, is_solved: Bool, solved: ClusterRows | None) -> ClusterRows:
    """A cluster's stored children that stay as they are, and those that were solved, as one. Of each child, ``was`` is
    the number in the stored cluster, -1 for a new one."""
    n_children = len(was)
    intercepts = np.zeros(n_children, np.float32)
    number = np.full(len(stored.intercepts), -1, np.int32)
    stays = np.flatnonzero((was >= 0) & ~is_solved)
    number[was[stays]] = stays
    children = number[stored.children]
    left = np.flatnonzero(children >= 0)
    features = np.repeat(stored.features, stored.lengths)[left]
    children, weights = children[left], stored.weights[left]
    intercepts[stays] = stored.intercepts[was[stays]]
    if solved is not None:
        again = np.flatnonzero(is_solved).astype(np.int32)
        features = np.concatenate((features, np.repeat(solved.features, solved.lengths)))
        children = np.concatenate((children, again[solved.children]))
        weights = np.concatenate((weights, solved.weights))
        intercepts[again] = solved.intercepts
    order = np.argsort(features.astype(np.int64) * n_children + children, kind="stable")  # two runs that rise: a merge
    features = features[order]
    begin = np.flatnonzero(np.diff(features, prepend=-1))
    lengths = np.diff(begin, append=len(features)).astype(np.int32)
    return ClusterRows(features[begin], lengths, children[order], weights[order], intercepts)
