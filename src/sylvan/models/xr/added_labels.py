"""Rankers of a trained tree with further labels, learned from rows of theirs alone; what was there stays as it is. The
rows of known labels are unknown here. Of each label that could be mistaken for a new one, a stand-in takes the place of
its rows: the positive part of its weights, which are a sum of rows, most of them the label's own. It is as long as a
row, and weighs as much as all rows that the label had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sylvan.arrays.canonical import Csr, stacked, take_rows, within
from sylvan.arrays.types import Array, Float32, Int32, Int64
from sylvan.indexing import LabelTree
from sylvan.matching.negatives import cluster_rows, layer_positives, of_root
from sylvan.models.xr.changed_layer import Grown
from sylvan.models.xr.fitted import FittedTrees
from sylvan.models.xr.params import Scale, tree_training
from sylvan.models.xr.updates import Changes, Updated, clusters_for, with_children
from sylvan.ranking.linear import LayerProblem, block_jobs, squared_norms
from sylvan.ranking.solution import SolvedBlock
from sylvan.ranking.training import TreeTraining
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime.jobs import Job, Runner
from sylvan.weights.layer import ClusterRows, LayerWeights
from sylvan.weights.quantized import coded, joined_codes

ANSWERS = 30  # of each new row; their labels have stand-ins, beside those of a new label's cluster


class NewRows(NamedTuple):
    """What new labels of one tree are learned from."""

    grown: Grown  # the tree with the new labels
    rows: Changes  # their rows: features as the rankers see them; all labels of each, known ones too
    length: float  # the usual length of the rows of the first training
    worth: Float32  # shape (n_known_labels,): the weight of each known label's stand-in
    training: TreeTraining


def extended_trees(model: Any, fitted: FittedTrees, rows: Changes, run: Runner) -> Iterator[NewRows]:
    """Of each tree: itself with the new labels, the rows that they are learned from, and how."""
    length = Scale.of(model, rows.features).length
    counts = np.maximum(model.label_counts_, 1)  # an imported model hasn't any
    for number, ranker in enumerate(fitted.rankers):
        tree = ranker.tree
        training = tree_training(model, tree.depth, number, rows.features, length, fitted.chosen)
        n_rows = np.add.reduceat(counts[tree.leaf_labels], tree.child_offsets[-1][:-1])
        clusters = clusters_for(ranker, rows, training, n_rows, model.max_leaf, run)
        yield NewRows(Grown.same(tree).with_labels(clusters), rows, length, counts.astype(np.float32), training)


def with_new_labels(model: Any, fitted: FittedTrees, rows: Changes) -> Updated:
    """A model that keeps no rows with the new labels of some rows."""
    run, counts = Runner(model.n_jobs), model.label_counts_
    each = zip(fitted.rankers, extended_trees(model, fitted, rows, run), strict=True)
    fitted = replace(fitted, rankers=[_with_leaves(ranker, new, run) for ranker, new in each])
    new = np.bincount(rows.labels.indices, minlength=rows.n_labels)[len(counts) :].astype(np.int64)
    return Updated(fitted, np.concatenate((counts, new)), model.n_rows_ + rows.features.shape[0], model.calibrator_)


def planned_labels(
    model: Any, fitted: FittedTrees, rows: Changes, run: Runner
) -> tuple[list[list[int]], list[Job[SolvedBlock]]]:
    """How many nodes of each tree and layer are new, and the jobs that solve them."""
    each = zip(fitted.rankers, extended_trees(model, fitted, rows, run), strict=True)
    jobs = [job for ranker, new in each for job in added_label_jobs(ranker, new, run)[1]]
    n_new = rows.n_labels - fitted.n_labels
    return [[0] * (ranker.tree.depth - 1) + [n_new] for ranker in fitted.rankers], jobs


def _with_leaves(ranker: TreeRanker, rows: NewRows, runner: Runner) -> TreeRanker:
    """The ranker with the new leaves, whose clusters are those that there were. All other leaves and inner nodes keep
    their weights, bit for bit."""
    numbers, jobs = added_label_jobs(ranker, rows, runner)
    solved = [cluster for block in runner.run(jobs, "Learning new labels") for cluster in block]
    new, n_features, tree = dict(zip(numbers, solved, strict=True)), rows.rows.features.shape[1], rows.grown.tree
    layers = []
    for t, layer in enumerate(ranker.layers):
        last = t == tree.depth - 1
        if not last and layer.n_features == n_features:
            layers.append(layer)
            continue
        clusters = [layer.sound_cluster(c) for c in range(len(layer.child_offsets) - 1)]
        if last:
            packed = layer.weight_dtype == "uint4"
            clusters = [_joined(stored, new[c], packed) if c in new else stored for c, stored in enumerate(clusters)]
        book = layer.codebook if layer.weight_dtype == "uint8" and layer.n_entries else None
        offsets = tree.child_offsets[t]
        layers.append(LayerWeights.from_clusters(clusters, offsets, n_features, layer.weight_dtype, book))
    return TreeRanker(tree, layers)


def added_label_jobs(ranker: TreeRanker, new: NewRows, runner: Runner) -> tuple[list[int], list[Job[SolvedBlock]]]:
    """The clusters that have new labels, and the jobs that solve these labels."""
    rows, training, tree = new.rows, new.training, new.grown.tree
    offsets, fresh, n_rows = tree.child_offsets[-1], new.grown.was[-1] < 0, rows.features.shape[0]
    counts = np.diff(_offsets(fresh)[offsets])
    clusters = np.flatnonzero(counts).tolist()
    # As in a training, the new rows that each cluster learns from.
    *_, beam = training.beams(rows.features, ranker.layers, runner)
    positives = layer_positives(tree, rows.labels)
    parents = positives[-2] if tree.depth > 1 else of_root(positives[0])
    nodes = training.found(tree.depth - 1, beam)
    starts, reached = cluster_rows(training.negatives[-1], parents, nodes, len(offsets) - 1, n_rows)
    cluster_of_rows = [reached[starts[c] : starts[c + 1]] for c in clusters]
    beside, places = _labels_beside(ranker, new, runner), ranker.tree.leaves_of_labels()
    leaves = [
        leaves_beside(ranker.tree, places, c, take_rows(beside, rows_in_cluster))
        for c, rows_in_cluster in zip(clusters, cluster_of_rows, strict=True)
    ]
    all_leaves = np.unique(np.concatenate(leaves))
    stand_ins = _stand_ins(ranker.layers[-1], all_leaves, rows.features.shape[1], new.length)
    learned = [
        np.concatenate((rows_in_cluster, np.searchsorted(all_leaves, these) + n_rows))
        for rows_in_cluster, these in zip(cluster_of_rows, leaves, strict=True)
    ]
    features = stacked(rows.features, stand_ins)
    # The new leaves that each row is a positive of, numbered among these; stand-ins are of none.
    every_leaf = training.positives(tree, rows.labels, tree.depth - 1)[0]
    stays = fresh[every_leaf.indices]
    indptr = np.concatenate(([0], np.cumsum(stays)))[every_leaf.indptr]
    indptr = np.concatenate((indptr, np.full(len(all_leaves), indptr[-1]))).astype(np.int64)
    numbers = (np.cumsum(fresh) - 1)[every_leaf.indices[stays]].astype(np.int32)
    problem = LayerProblem(
        _offsets(counts[clusters]), Csr(indptr, numbers, every_leaf.data[stays], (len(indptr) - 1, int(fresh.sum()))),
        _offsets(list(map(len, learned))), np.concatenate([np.zeros(0, np.int32), *learned]).astype(np.int32),
        training.weighs(rows.labels),
    )  # fmt: skip
    weight = np.ones(n_rows, np.float32) if rows.weight is None else rows.weight
    weight = np.concatenate((weight, new.worth[ranker.tree.leaf_labels[all_leaves]]))
    norms, t = squared_norms(features), tree.depth - 1
    return clusters, block_jobs(features, norms, problem, t, training.linear, sample_weight=weight)


def _labels_beside(ranker: TreeRanker, new: NewRows, runner: Runner) -> Csr:
    """The known labels that each new row has, and those that it is answered with: rows of these come near to it."""
    n_known, training = ranker.tree.n_labels, new.training
    features = within(new.rows.features, ranker.layers[0].n_features)
    options: dict[str, Any] = {"beam": training.beam, "combines": training.combines, "n_jobs": runner.n_jobs}
    answers = ranker.rank(features, min(ANSWERS, n_known), **options).to_csr(n_known)
    answers.data[:] = 1  # scores may be 0
    return Csr.of((within(new.rows.labels, n_known).to_scipy() + answers).astype(np.float32).tocsr())


def leaves_beside(tree: LabelTree, places: tuple[Int64, Int32], cluster: int, beside: Csr) -> Int64:
    """The leaves of a cluster, and those of the labels ``beside``, rising; each label's are at ``places``."""
    begin, order = places
    has = np.zeros(tree.n_labels, bool)
    has[beside.indices] = True
    first, last = tree.child_offsets[-1][cluster : cluster + 2]
    return np.union1d(np.arange(first, last), order[np.repeat(has, np.diff(begin))])


def _stand_ins(layer: LayerWeights, leaves: Int64, n_features: int, length: float) -> Csr:
    """A row for each of some leaves, rising, as long as others are."""
    features, lengths, values = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    offsets = layer.child_offsets
    of = np.searchsorted(offsets, leaves, side="right") - 1
    for c in np.unique(of).tolist():
        weights = layer.sound_cluster(c)
        wanted = np.zeros(len(weights.intercepts), bool)
        wanted[leaves[of == c] - offsets[c]] = True
        positive = (weights.weights > 0) & wanted[weights.children]
        order = np.argsort(weights.children[positive], kind="stable")  # features rise within a child
        features.append(np.repeat(weights.features, weights.lengths)[positive][order])
        values.append(weights.weights[positive][order])
        lengths.append(np.bincount(weights.children[positive], minlength=len(weights.intercepts))[wanted])
    indptr = _offsets(np.concatenate(lengths))
    rows = Csr(indptr, np.concatenate(features), np.concatenate(values), (len(indptr) - 1, n_features)).unit_rows()
    return rows._replace(data=rows.data * np.float32(length))


def _offsets(sizes: Sequence[int] | Array) -> Int64:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _joined(stored: ClusterRows, new: ClusterRows, packed: bool) -> ClusterRows:
    """A cluster with further children behind those that are stored; in four bits, with the codebook of these."""
    first = len(stored.intercepts)
    was = np.arange(first + len(new.intercepts), dtype=np.int32)
    was[first:] = -1
    both = with_children(stored, was, was < 0, new)
    if not packed or not len(stored.weights):
        return both
    old, children = stored.coded(), new.children.astype(np.int32) + np.int32(first)
    codes = coded(new.features, new.lengths, children, new.weights, old.codebook)
    return replace(both, packed=joined_codes(old, codes))
