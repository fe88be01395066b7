"""What an update asks for, by numbers: all rows as they are to be, and where new labels stand in a tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import stacked, take_rows, within
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError
from sylvan.indexing import LabelTree
from sylvan.indexing.embeddings import pifa
from sylvan.matching.beam import beam_job, root_beam
from sylvan.models.label_changes import merged_labels
from sylvan.models.xr.changed_layer import RowsNow
from sylvan.models.xr.training_rows import Room, TrainingRows
from sylvan.ranking.linear import squared_norms
from sylvan.ranking.training import TreeTraining
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime import Runner


class Changes(NamedTuple):
    """What an update is asked to do, by numbers."""

    features: Csr
    labels: Csr
    weight: npt.NDArray[np.float32] | None
    forgotten: npt.NDArray[np.int64]
    merged: Mapping[int, list[int]]
    n_labels: int


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
