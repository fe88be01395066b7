"""Rankers of a trained tree with further labels, learned from rows of theirs alone; what was there stays as it is. The
rows of known labels are unknown here. Of each label that could be mistaken for a new one, a stand-in takes the place of
its rows: the positive part of its weights, which are a sum of rows, most of them the label's own. It is as long as a
row, and weighs as much as all rows that the label had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr, stacked, take_rows, within
from sylvan.indexing import LabelTree
from sylvan.matching.beam import beam_job, root_beam
from sylvan.matching.negatives import cluster_rows, layer_positives, near_best, of_root
from sylvan.models.base import GivenRows
from sylvan.models.xr.fitted import FittedTrees
from sylvan.models.xr.growth import Grown
from sylvan.models.xr.params import Scale, tree_training
from sylvan.models.xr.updates import Updated, clusters_for
from sylvan.ranking.linear import LayerProblem, block_jobs, squared_norms
from sylvan.ranking.solution import SolvedBlock
from sylvan.ranking.training import TreeTraining, cost_weights, relevance_layers
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime.jobs import Job, Runner
from sylvan.weights.layer import ClusterRows, ClusterWeights
from sylvan.weights.quantized import CodedRows, coded, joined_codes

_Ids = npt.NDArray[np.int32]
ANSWERS = 30  # of each new row; their labels have stand-ins, beside those of a new label's cluster


class NewRows(NamedTuple):
    """Rows of new labels."""

    features: Csr  # shape (n, d): as the rankers see them
    labels: Csr  # shape (n, n_labels): all labels of each, known ones too
    weight: npt.NDArray[np.float32] | None  # shape (n,), or None
    length: float  # the usual length of the rows of the first training
    worth: npt.NDArray[np.float32]  # shape (n_known_labels,): the weight of each known label's stand-in


def extended_trees(
    params: Any, fitted: FittedTrees, given: GivenRows, run: Runner
) -> Iterator[tuple[Grown, NewRows, TreeTraining]]:
    """Of each tree: itself with the new labels, the rows that they are learned from, and how."""
    length = 1.0 if params.scaling == "none" else Scale.of(given.features, False).length
    counts = np.maximum(params.label_counts_, 1)  # an imported model hasn't any
    rows = NewRows(given.features, given.labels, given.weight, length, counts.astype(np.float32))
    for number, ranker in enumerate(fitted.rankers):
        tree = ranker.tree
        training = tree_training(params, tree.depth, number, given.features, length, fitted.chosen)
        n_rows = np.add.reduceat(counts[tree.leaf_labels], tree.child_offsets[-1][:-1])
        added = (given.features, given.labels, given.n_labels)
        clusters = clusters_for(ranker, *added, training, n_rows, params.max_leaf, run)
        yield Grown.same(tree).with_labels(clusters), rows, training


def with_new_labels(params: Any, fitted: FittedTrees, given: GivenRows) -> Updated:
    """A model that keeps no rows with the new labels of some rows."""
    run, counts, n_rows = Runner(params.n_jobs), params.label_counts_, given.features.shape[0]
    each = zip(fitted.rankers, extended_trees(params, fitted, given, run), strict=True)
    fitted = replace(fitted, rankers=[add_labels(ranker, *parts, run) for ranker, parts in each])
    new = np.bincount(given.labels.indices, minlength=given.n_labels)[len(counts) :].astype(np.int64)
    return Updated(fitted, np.concatenate((counts, new)), params.n_rows_ + n_rows, params.calibrator_)


def planned_labels(
    params: Any, fitted: FittedTrees, given: GivenRows, run: Runner
) -> tuple[list[list[int]], list[Job[SolvedBlock]]]:
    """How many nodes of each tree and layer are new, and the jobs that solve them."""
    each = zip(fitted.rankers, extended_trees(params, fitted, given, run), strict=True)
    jobs = [job for ranker, parts in each for job in added_label_jobs(ranker, *parts, run)[1]]
    n_new = given.n_labels - fitted.n_labels
    return [[0] * (ranker.tree.depth - 1) + [n_new] for ranker in fitted.rankers], jobs


def add_labels(ranker: TreeRanker, grown: Grown, rows: NewRows, training: TreeTraining, runner: Runner) -> TreeRanker:
    """The ranker with the new leaves of ``grown``, whose clusters are those that there were. All other leaves and inner
    nodes keep their weights, to the bit."""
    which, jobs = added_label_jobs(ranker, grown, rows, training, runner)
    solved = [own for block in runner.run(jobs, "Learning new labels") for own in block]
    new, n_features = dict(zip(which, solved, strict=True)), rows.features.shape[1]
    layers = []
    for t, layer in enumerate(ranker.layers):
        last = t == grown.tree.depth - 1
        if not last and layer.n_features == n_features:
            layers.append(layer)
            continue
        clusters = [layer.sound_cluster(c) for c in range(len(layer.child_offsets) - 1)]
        if last:
            packed = layer.weight_dtype == "uint4"
            clusters = [_joined(own, new[c], packed) if c in new else own for c, own in enumerate(clusters)]
        book = layer.codebook if layer.weight_dtype == "uint8" and layer.n_entries else None
        offsets = grown.tree.child_offsets[t]
        layers.append(ClusterWeights.from_clusters(clusters, offsets, n_features, layer.weight_dtype, book))
    return TreeRanker(grown.tree, layers)


def added_label_jobs(
    ranker: TreeRanker, grown: Grown, rows: NewRows, training: TreeTraining, runner: Runner
) -> tuple[list[int], list[Job[SolvedBlock]]]:
    """The clusters that have new labels, and the jobs that solve these labels."""
    offsets, fresh = grown.tree.child_offsets[-1], grown.was[-1] < 0
    cluster_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    which = np.unique(cluster_of[fresh]).tolist()
    found = _rows_of_clusters(ranker, grown, rows, training, runner)
    beside = _labels_beside(ranker, rows, training, runner)
    own_found = [found[1][found[0][c] : found[0][c + 1]] for c in which]
    places = ranker.tree.leaves_of_labels()
    leaves = [
        leaves_beside(ranker.tree, places, c, take_rows(beside, own)) for c, own in zip(which, own_found, strict=True)
    ]
    every = np.unique(np.concatenate(leaves))
    stand_ins = _stand_ins(ranker.layers[-1], every, rows.features.shape[1], rows.length)
    n_rows = rows.features.shape[0]
    own_rows = [
        np.concatenate((own, np.searchsorted(every, these) + n_rows))
        for own, these in zip(own_found, leaves, strict=True)
    ]  # fmt: skip
    features = stacked(rows.features, stand_ins)
    positives = _new_positives(grown, rows, training, fresh, features.shape[0])
    counts = np.bincount(cluster_of[fresh], minlength=len(offsets) - 1)[which]
    problem = LayerProblem(
        _offsets(counts), positives, _offsets([len(own) for own in own_rows]),
        np.concatenate([np.zeros(0, np.int32), *own_rows]).astype(np.int32), training.weighs(rows.labels),
    )  # fmt: skip
    own_weight = np.ones(n_rows, np.float32) if rows.weight is None else rows.weight
    weight = np.concatenate((own_weight, rows.worth[ranker.tree.leaf_labels[every]]))
    norms, t = squared_norms(features), grown.tree.depth - 1
    return which, block_jobs(features, norms, problem, t, training.linear, sample_weight=weight)


def _rows_of_clusters(
    ranker: TreeRanker, grown: Grown, rows: NewRows, training: TreeTraining, runner: Runner
) -> tuple[npt.NDArray[np.int64], _Ids]:
    """The new rows that each cluster of the last layer is trained on, as in a training."""
    tree, n_rows = grown.tree, rows.features.shape[0]
    features, beam = within(rows.features, ranker.layers[0].n_features), root_beam(n_rows)
    for t in range(tree.depth - 1):
        combine, weights = training.combines[t], ranker.layers[t]
        beam = runner.one(beam_job(t, features, weights, beam, training.beam, combine, runner.n_jobs))
    if tree.depth == 1:
        nodes, parents = beam[0], of_root(layer_positives(tree, rows.labels)[0])
    else:
        nodes = near_best(beam, training.man_threshold, training.combines[-2])
        parents = layer_positives(tree, rows.labels)[-2]
    return cluster_rows(training.negatives[-1], parents, nodes, len(tree.child_offsets[-1]) - 1, n_rows)


def _new_positives(
    grown: Grown, rows: NewRows, training: TreeTraining, fresh: npt.NDArray[np.bool_], n_rows: int
) -> Csr:
    """The new leaves that each row is a positive of, numbered among these; stand-ins are of none."""
    if training.relevance is None:
        leaves = layer_positives(grown.tree, rows.labels)[-1]
    else:
        leaves = cost_weights(relevance_layers(grown.tree, rows.labels)[-1], training.relevance)
    kept, number = fresh[leaves.indices], np.cumsum(fresh) - 1
    indptr = np.concatenate(([0], np.cumsum(kept)))[leaves.indptr]
    indptr = np.concatenate((indptr, np.full(n_rows - len(rows.features.indptr) + 1, indptr[-1]))).astype(np.int64)
    own = number[leaves.indices[kept]].astype(np.int32)
    return Csr(indptr, own, leaves.data[kept], (n_rows, int(fresh.sum())))


def _labels_beside(ranker: TreeRanker, rows: NewRows, training: TreeTraining, runner: Runner) -> Csr:
    """The known labels that each new row has, and those that it is answered with: rows of these come near to it."""
    n_known = ranker.tree.n_labels
    features = within(rows.features, ranker.layers[0].n_features)
    k, combines = min(ANSWERS, n_known), training.combines
    found = ranker.rank(features, k, beam=training.beam, combines=combines, n_jobs=runner.n_jobs).to_csr(n_known)
    found.data[:] = 1  # scores may be 0
    return Csr.of((within(rows.labels, n_known).to_scipy() + found).astype(np.float32).tocsr())


def leaves_beside(
    tree: LabelTree, places: tuple[npt.NDArray[np.int64], _Ids], cluster: int, beside: Csr
) -> npt.NDArray[np.int64]:
    """The leaves of a cluster, and those of the labels ``beside``, rising; each label's are at ``places``."""
    begin, order = places
    has = np.zeros(tree.n_labels, bool)
    has[beside.indices] = True
    first, last = tree.child_offsets[-1][cluster : cluster + 2]
    return np.union1d(np.arange(first, last), order[np.repeat(has, np.diff(begin))])


def _stand_ins(layer: ClusterWeights, leaves: npt.NDArray[np.int64], n_features: int, length: float) -> Csr:
    """A row for each of some leaves, rising, as long as others are."""
    features, lengths, values = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    offsets = layer.child_offsets
    of = np.searchsorted(offsets, leaves, side="right") - 1
    for c in np.unique(of).tolist():
        own = layer.sound_cluster(c)
        wanted = np.zeros(len(own.intercepts), bool)
        wanted[leaves[of == c] - offsets[c]] = True
        positive = (own.weights > 0) & wanted[own.children]
        order = np.argsort(own.children[positive], kind="stable")  # features rise within a child
        features.append(np.repeat(own.features, own.lengths)[positive][order])
        values.append(own.weights[positive][order])
        lengths.append(np.bincount(own.children[positive], minlength=len(own.intercepts))[wanted])
    indptr = _offsets(np.concatenate(lengths))
    rows = Csr(indptr, np.concatenate(features), np.concatenate(values), (len(indptr) - 1, n_features)).unit_rows()
    return rows._replace(data=rows.data * np.float32(length))


def _offsets(sizes: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _joined(stored: ClusterRows, new: ClusterRows, packed: bool) -> ClusterRows:
    """A cluster with further children behind those that are stored."""
    first = len(stored.intercepts)
    every = [np.repeat(own.features, own.lengths).astype(np.int64) for own in (stored, new)]
    order = np.argsort(np.concatenate(every), kind="stable")  # a feature's stored entries first
    features, lengths = np.unique(np.concatenate(every), return_counts=True)
    children = np.concatenate((stored.children, new.children.astype(np.int32) + np.int32(first)))[order]
    return ClusterRows(
        features.astype(np.int32), lengths.astype(np.int32), children,
        np.concatenate((stored.weights, new.weights))[order], np.concatenate((stored.intercepts, new.intercepts)),
        _packed(stored, new, first) if packed and len(stored.weights) else None,
    )  # fmt: skip


def _packed(stored: ClusterRows, new: ClusterRows, first: int) -> CodedRows:
    """The same in four bits, with the codebook that the stored children have."""
    old = stored.coded()
    own = coded(new.features, new.lengths, new.children.astype(np.int32) + np.int32(first), new.weights, old.codebook)
    return joined_codes(old, own)
