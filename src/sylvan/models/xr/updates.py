"""An update of XR-Linear: rows that come and go, labels that come and become one; from one fitted value to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr, stacked, take_rows, within
from sylvan.errors import DataError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.indexing.embeddings import pifa
from sylvan.matching.beam import beam_job, root_beam
from sylvan.metrics.rows import hits
from sylvan.models.label_changes import merged_labels
from sylvan.models.xr.changed_layer import RowsNow, UpdateOptions
from sylvan.models.xr.fitted import FittedTrees, search_of
from sylvan.models.xr.growth import Grown
from sylvan.models.xr.params import Scale, tree_training
from sylvan.models.xr.training_rows import HeldOut, Room, TrainingRows
from sylvan.models.xr.updating import planned_update, solutions_of, update_rankers
from sylvan.ranking.calibrate import DEPTH, Calibrator
from sylvan.ranking.linear import squared_norms
from sylvan.ranking.solution import SolvedBlock
from sylvan.ranking.training import TreeTraining
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime import Job, Runner

# A child waits to be solved again until the losses of new rows are more than this share of its objective.
WAITING = 0.1
PRECISE = 0.01  # a tolerance below it asks for every child that is off its optimum
ROOM = 1.5  # a cluster of more than this many times max_leaf labels is split, unless its parent is as crowded


def check_precise(precise: Any) -> None:
    """Refuse what says neither yes nor no, nor leaves it open."""
    if precise not in (None, True, False):
        raise ParameterError(f"The 'precise' parameter of update must be a bool or None. Got {precise!r} instead.")


class Changes(NamedTuple):
    """What an update is asked to do, by numbers."""

    features: Csr
    labels: Csr
    weight: npt.NDArray[np.float32] | None
    forgotten: npt.NDArray[np.int64]
    merged: Mapping[int, list[int]]
    n_labels: int

    @classmethod
    def none(cls, n_features: int, n_labels: int) -> Changes:
        """Nothing."""
        none = np.zeros(0, np.int64)
        return cls(Csr.empty(0, n_features), Csr.empty(0, n_labels), None, none, {}, n_labels)


class Updated(NamedTuple):
    """What an update makes of a model."""

    fitted: FittedTrees
    label_counts: npt.NDArray[np.int64]
    n_rows: int
    calibrator: Calibrator | None
    gone: npt.NDArray[np.int32] = np.zeros(0, np.int32)  # labels that became others


def updated(params: Any, fitted: FittedTrees, changes: Changes, precise: bool | None) -> Updated:
    """A model brought up to date: its rows, the trees, and all that was counted."""
    made = _with_changes(params, fitted, changes, precise, params.calibrator_)
    sources = [label for target, labels in changes.merged.items() for label in labels if label != target]
    if not sources:
        return made
    gone = np.unique(np.array(sources, np.int32))
    fitted = made.fitted.without(gone, params.relevance)
    if fitted.n_clusters != made.fitted.n_clusters:  # rows were sent to them
        nothing = Changes.none(fitted.n_features, fitted.n_labels)
        return _with_changes(params, fitted, nothing, precise, made.calibrator)._replace(gone=gone)
    return made._replace(fitted=fitted, gone=gone)


def _with_changes(
    params: Any, fitted: FittedTrees, changes: Changes, precise: bool | None, calibrator: Calibrator | None
) -> Updated:
    """With other rows and labels; labels that became others stay, without rows."""
    kept, run = _rows_of(fitted), Runner(params.n_jobs)
    held_out = _held_out(params, fitted, changes)
    rows, ids, room = rows_now(changes, kept)
    rankers, solutions = [], []
    for number, ranker in enumerate(fitted.rankers):
        training, options = _training(params, fitted, number, rows, precise)
        grown = _grown(params, ranker, kept.solutions[number][-1].row_offsets, changes, rows, training, run)
        made, solved = update_rankers(ranker, kept.solutions[number], grown, rows, training, options, run)
        rankers.append(made)
        solutions.append(solved)
    if held_out is not None and params.calibration is not None:
        calibrator = held_out.calibrator(params.calibration)
    then = TrainingRows(
        rows.features, rows.labels, rows.weight, ids, kept.next_id + changes.features.shape[0], kept.length, solutions,
        held_out, rows.norms, room,
    )  # fmt: skip
    counts = np.bincount(rows.labels.indices, minlength=changes.n_labels).astype(np.int64)
    return Updated(replace(fitted, rankers=rankers, rows=then), counts, rows.features.shape[0], calibrator)


def planned(
    params: Any, fitted: FittedTrees, changes: Changes, precise: bool | None, run: Runner
) -> tuple[list[list[int]], list[Job[SolvedBlock]]]:
    """How many nodes of each tree and layer :func:`updated` would solve, about, and the jobs that would."""
    kept = _rows_of(fitted)
    rows, _, _ = rows_now(changes, kept)
    nodes: list[list[int]] = []
    jobs: list[Job[SolvedBlock]] = []
    for number, ranker in enumerate(fitted.rankers):
        training, options = _training(params, fitted, number, rows, precise)
        offsets = kept.solutions[number][-1].row_offsets
        grown = _grown(params, ranker, offsets, changes, rows, training, run, splits=False)
        counts, own = planned_update(ranker, kept.solutions[number], grown, rows, training, options, run)
        nodes.append(counts)
        jobs += own
    return nodes, jobs


def _rows_of(fitted: FittedTrees) -> TrainingRows:
    assert fitted.rows is not None
    return fitted.rows


def _training(
    params: Any, fitted: FittedTrees, number: int, rows: RowsNow, precise: bool | None
) -> tuple[TreeTraining, UpdateOptions]:
    """How a tree was trained, and which of its children are solved again."""
    depth, length = fitted.rankers[number].tree.depth, _rows_of(fitted).length
    training = tree_training(params, depth, number, rows.features, length, fitted.chosen)
    if precise is None:
        precise = training.linear.tolerance < PRECISE
    return training, UpdateOptions(0.0 if precise else WAITING, precise)


def _held_out(params: Any, fitted: FittedTrees, changes: Changes) -> HeldOut | None:
    """The answers that calibrate the model from now on: to new rows by what it knows as yet, behind the others."""
    kept = _rows_of(fitted)
    if kept.held_out is None:
        return None
    held_out = kept.held_out.without(kept.ids[changes.forgotten])
    if not changes.features.shape[0]:
        return held_out
    features = within(changes.features, fitted.rankers[0].layers[0].n_features)
    unchanged = [[None] * ranker.tree.depth for ranker in fitted.rankers]
    top = fitted.rank_changed(features, unchanged, DEPTH, search_of(params, fitted))
    new_ids = kept.next_id + np.arange(changes.features.shape[0])
    return held_out.followed_by(HeldOut.of(new_ids, top, hits(top, changes.labels), changes.weight))


def _grown(
    params: Any, ranker: TreeRanker, row_offsets: npt.NDArray[np.int64], changes: Changes, rows: RowsNow,
    training: TreeTraining, run: Runner, splits: bool = True,
) -> Grown:  # fmt: skip
    """The tree with the new labels, each in the cluster that the search sends its rows to, and split clusters."""
    grown = Grown.same(ranker.tree)
    if changes.n_labels > ranker.tree.n_labels:
        added = (changes.features, changes.labels, changes.n_labels)
        clusters = clusters_for(ranker, *added, training, np.diff(row_offsets), params.max_leaf, run)
        grown = grown.with_labels(clusters)
    c = 0
    while splits and ranker.tree.depth > 1 and c < len(grown.tree.cluster_sizes):
        above = grown.tree.child_offsets[-2]
        parent = int(np.searchsorted(above, c, side="right")) - 1
        is_large = grown.tree.cluster_sizes[c] > ROOM * params.max_leaf
        if is_large and above[parent + 1] - above[parent] < ROOM * params.branching:
            grown = grown.split(c, halves(grown.tree, c, rows))
        else:
            c += 1
    return grown


def rows_again(params: Any, fitted: FittedTrees, features: Csr, labels: Csr) -> TrainingRows:
    """The rows of a model that keeps none, given again."""
    length = 1.0 if params.scaling == "none" else Scale.of(features, False).length
    solutions = []
    for number, ranker in enumerate(fitted.rankers):
        training = tree_training(params, ranker.tree.depth, number, features, length, fitted.chosen)
        solutions.append(solutions_of(ranker, features, labels, training))
    n_rows = features.shape[0]
    return TrainingRows(features, labels, None, np.arange(n_rows), n_rows, length, solutions)


def rows_now(changes: Changes, kept: TrainingRows) -> tuple[RowsNow, npt.NDArray[np.int64], Room]:
    """All rows as they are to be, their ids, and where their features lie."""
    n_before, n_new = len(kept.ids), changes.features.shape[0]
    stays = np.ones(n_before, bool)
    stays[changes.forgotten] = False
    left = np.flatnonzero(stays)
    old_features, old_labels, old_weight = (
        kept.taken(left) if len(changes.forgotten) else (kept.features, kept.labels, kept.weight)
    )
    old_labels = old_labels._replace(shape=(len(left), changes.n_labels))
    merged, relabelled = merged_labels(old_labels, changes.merged)
    new_labels, _ = merged_labels(changes.labels, changes.merged)
    weight = None
    if old_weight is not None or changes.weight is not None:
        ones = np.ones(n_new, np.float32), np.ones(len(left), np.float32)
        new = ones[0] if changes.weight is None else changes.weight
        weight = np.concatenate((ones[1] if old_weight is None else old_weight, new))
    norms = squared_norms(old_features) if kept.norms is None else kept.norms[left]
    norms = np.concatenate((norms, squared_norms(changes.features)))
    was = np.concatenate((left, np.full(n_new, -1))).astype(np.int32)
    if len(relabelled) and ((merged.data != 1).any() or (new_labels.data != 1).any()):
        was[relabelled] = -1  # their costs change in all layers: as if they were others
        relabelled = relabelled[:0]
    features, room = kept.room.stacked(old_features, changes.features)
    rows = RowsNow(
        features, stacked(merged, new_labels), norms, weight, was, n_before,
        relabelled.astype(np.int32), take_rows(old_labels, relabelled),
    )  # fmt: skip
    ids = np.concatenate((kept.ids[left], kept.next_id + np.arange(n_new)))
    if not rows.labels.nnz:
        raise DataError("No row with a label would be left: there is nothing to learn.")
    return rows, ids, room


def clusters_for(
    ranker: TreeRanker, features: Csr, labels: Csr, n_labels: int, training: TreeTraining,
    n_rows: npt.NDArray[np.int64], max_leaf: int, run: Runner,
) -> list[int]:  # fmt: skip
    """The cluster of each new label: one with room that the search sends its rows to; without any, the smallest. A
    place near the top of a row's beam counts for more, and less in clusters that many rows come to anyway: of those
    that each was trained on, there are ``n_rows``."""
    tree = ranker.tree
    n_new, sizes = n_labels - tree.n_labels, tree.cluster_sizes.astype(np.int64)
    if tree.depth == 1:
        return [0] * n_new
    beam = root_beam(features.shape[0])
    features = within(features, ranker.layers[0].n_features)
    for t in range(tree.depth - 1):
        job = beam_job(t, features, ranker.layers[t], beam, training.beam, training.combines[t], run.n_jobs)
        beam = run.one(job)
    nodes = beam[0]
    worth = np.log1p(n_rows.max(initial=1) / np.maximum(n_rows, 1))
    places = 1 / (1 + np.arange(nodes.shape[1]))
    columns = labels.to_scipy().tocsc()
    clusters = []
    for label in range(tree.n_labels, n_labels):
        found = nodes[columns.indices[columns.indptr[label] : columns.indptr[label + 1]]]
        there = found >= 0
        votes = np.zeros(len(sizes))
        np.add.at(votes, found[there], np.broadcast_to(places, found.shape)[there])
        votes *= worth
        roomy = np.where(sizes < max_leaf, votes, 0)
        best = roomy if roomy.any() else votes if votes.any() else -sizes
        clusters.append(int(best.argmax()))
        sizes[clusters[-1]] += 1
    return clusters


def halves(tree: LabelTree, cluster: int, rows: RowsNow) -> npt.NDArray[np.bool_]:
    """Which labels of a cluster go to the second half, by balanced 2-means of their rows' features (PIFA)."""
    first, last = (int(each) for each in tree.child_offsets[-1][cluster : cluster + 2])
    labels = tree.leaf_labels[first:last]
    own = rows.labels.to_scipy()[:, labels]
    having = np.flatnonzero(np.diff(own.indptr))
    if not len(having):
        return np.arange(len(labels)) >= len(labels) // 2
    features = take_rows(rows.features, having).to_scipy()
    parts = LabelTree.build(pifa(features, own[having]), branching=2, max_leaf=-(-len(labels) // 2))
    right = np.zeros(len(labels), bool)
    right[parts.leaf_labels[int(parts.child_offsets[-1][1]) :]] = True
    return right
