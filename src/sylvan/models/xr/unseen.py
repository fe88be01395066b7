"""Held-out rows as new rows look: without features that no other row has, and with labels placed without them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, distinct, take_rows
from sylvan.arrays.topk import TopK, keep, resized
from sylvan.arrays.types import Bool, Int32, Int64, UInt8
from sylvan.data.parts.row_parts import RowParts, Rows
from sylvan.indexing import LabelTree
from sylvan.indexing.embeddings import pifa_rows
from sylvan.matching.beam import RowChanges
from sylvan.ranking.linear import Folds
from sylvan.runtime import Job, Runner

_NEAR_1 = 1e-3  # lengths this near to 1 are 1, but for rounding
_BLOCK, _STEP = 1 << 16, 1 << 11  # rows whose features one job looks through, and how many it holds at once
_RARE = 10  # a label with more rows is where it is without any one of them
_MOST_VALUES = 1024  # of an embedding
_LABELS_AT_ONCE, _BLOCK_VALUES = 512, 1 << 19  # whose clusters are looked for; similarities that are held


class UnseenRows:
    """Held-out rows as rows look that the model has never seen. A vectoriser drops the words of a new text that no
    training text has, and scales what is left to length 1. A held-out row has columns for such words. Rankers that are
    solved without it have no weights there, so that its scores would be lower than those of a new row that says as
    much: it is as long as a new row by :attr:`factors`."""

    def __init__(self, features: Rows, folds: Sequence[Int32], run: Runner) -> None:
        held_out = Folds.of(folds, features.shape[0])
        rows = features.take(held_out.rows)
        row_of_value = rows.rows_of_values()
        seen = _seen_elsewhere(features, held_out, rows, row_of_value, run)
        squares, n = np.square(rows.data, dtype=np.float64), len(held_out.rows)
        lengths = np.sqrt(np.bincount(row_of_value, squares, n))
        lengths_seen = np.sqrt(np.bincount(row_of_value, squares * seen, n))
        # shape (m,): whether a row has any feature of other rows. Nothing can be said of one that has none
        self.known: Bool = lengths_seen > 0
        factors = np.ones(n)
        if (np.abs(lengths[lengths > 0] - 1) < _NEAR_1).all():
            np.divide(lengths, lengths_seen, out=factors, where=self.known)
        # shape (m,): 1 where rows aren't of unit length: then nothing has scaled them
        self.factors = factors.astype(np.float32)
        self.features = rows._replace(data=rows.data * self.factors[row_of_value])  # shape (m, d): times the factors
        # shape (m, d): 1 for features that no other row has
        alone = (~seen).astype(np.float32), rows.indices, rows.indptr
        self._alone = sp.csr_matrix(alone, shape=rows.shape, copy=True)  # what follows changes it in place
        self._alone.eliminate_zeros()

    def answered(self, top: TopK, labels: Csr, texts: Csr, counts: Int64) -> TopK:
        """The answers to the rows that a new row might get, where labels' ``texts`` are rows too: no labels that only
        held-out rows have, and none whose text shares a word with the row that no other row has."""
        # Shapes: top (m, k); labels (j, L); texts (j, d); counts (L,): how many other rows each label has
        by_word = self._alone @ texts.to_scipy().T @ labels.to_scipy()
        rows, places = np.repeat(np.arange(len(top.labels)), top.k), top.labels.ravel()
        shared = np.asarray(by_word[rows, np.maximum(places, 0)]).reshape(top.labels.shape) > 0
        return resized(keep(top, (top.labels >= 0) & (counts > 0)[top.labels] & ~shared), top.k)

    def scaled(self, changes: RowChanges | None) -> RowChanges | None:
        """Changes of the rows' scores, multiplied where they are, as the rows are as many times as long. Intercepts
        aren't multiplied; what they change by without a fold is little beside the rest."""
        if changes is not None:
            np.multiply(changes.changes, np.repeat(self.factors, np.diff(changes.offsets)), out=changes.changes)
        return changes


def _seen_elsewhere(features: Rows, held_out: Folds, rows: Csr, row_of_value: Int64, run: Runner) -> Bool:
    """Of each value of the held-out rows, whether a row outside of their fold has its column too."""
    n, of_row = features.shape[0], held_out.of_row
    assert of_row is not None
    columns, ranges = distinct(rows.indices), [(first, min(n, first + _BLOCK)) for first in range(0, n, _BLOCK)]
    places, folds = np.searchsorted(columns, rows.indices), of_row[held_out.rows][row_of_value]
    arrays = {"features": features, "of_row": of_row, "columns": columns, "count": held_out.count}
    jobs = [
        Job(f"columns{first}", _columns_outside, {**arrays, "first": first, "last": last})
        for first, last in (features.ranges() if isinstance(features, RowParts) else ranges)
    ]
    seen = np.zeros((held_out.count, len(columns)), bool)
    for part in run.run(jobs, "Looking at held-out rows"):
        seen |= part
    result: Bool = seen[folds - 1, places]
    return result


def _columns_outside(features: Rows, of_row: UInt8, columns: Int32, count: int, first: int, last: int) -> Bool:
    """Which columns some rows have, of those outside of each fold, by shape (n_folds, n_columns)."""
    has_column = np.zeros((count + 1, len(columns)), bool)  # by the fold of the rows that have the column
    place_of = np.full(features.shape[1], -1, np.int32)
    place_of[columns] = np.arange(len(columns))
    for start in range(first, last, _STEP):
        stop = min(last, start + _STEP)
        block = features.take(np.arange(start, stop))
        places, fold = place_of[block.indices], np.repeat(of_row[start:stop], np.diff(block.indptr))
        is_wanted = places >= 0
        has_column[fold[is_wanted], places[is_wanted]] = True
    return np.stack([np.delete(has_column, row, axis=0).any(axis=0) for row in range(1, count + 1)])


def placed_by_own_rows(trees: Sequence[LabelTree], features: Rows, labels: Csr, rows: Int32, run: Runner) -> list[Csr]:
    """Of each tree, held-out rows' labels that would stand in another cluster without the row, by row and label. A
    label of few rows stands where its rows are, so that the search for one of these rows finds it; the search for a new
    row with this label does so less often. Such labels are no answers to the row. Those count that stand in the cluster
    whose centroid is nearest, and without the row would be nearer to another one."""
    labels_of_rows = take_rows(labels, rows)
    counts = np.bincount(labels.indices, minlength=labels.shape[1])[labels_of_rows.indices]
    rare = (counts > 1) & (counts <= _RARE)
    row, label = labels_of_rows.rows_of_values()[rare], labels_of_rows.indices[rare]
    embeddings = pifa_rows(features, labels, _MOST_VALUES, run.n_jobs, run.zeros_briefly, run).to_scipy()
    all_rows = labels.to_scipy().T.tocsr()
    moved = [np.zeros(len(row), bool) for _ in trees]
    places = [_Centroids(tree, embeddings) for tree in trees]
    step = min(_LABELS_AT_ONCE, max(1, _BLOCK_VALUES // max(len(tree.cluster_sizes) for tree in trees)))
    for first in range(0, len(row), step):
        block = slice(first, first + step)
        peers = all_rows[label[block]]
        peers.data[peers.indices == np.repeat(rows[row[block]], np.diff(peers.indptr))] = 0
        peers.eliminate_zeros()
        used = distinct(peers.indices)
        left = sp.csr_matrix(
            (peers.data, np.searchsorted(used, peers.indices), peers.indptr), shape=(peers.shape[0], len(used))
        )
        without = Csr.of(sp.csr_matrix(left @ features.take(used).to_scipy())).unit_rows().to_scipy()
        for number, centroids in enumerate(places):
            cluster, as_they_are = centroids.of_label[label[block]], embeddings[label[block]]
            before, after = (centroids.nearest(each, as_they_are, cluster) for each in (as_they_are, without))
            moved[number][block] = (before == cluster) & (after != cluster)
    ones, shape = np.ones(len(row), np.float32), labels_of_rows.shape
    return [validate.labels(sp.csr_matrix((ones[each], (row[each], label[each])), shape)) for each in moved]


class _Centroids:
    """The clusters of a tree: which one each label is in, and the sums of their labels' embeddings."""

    def __init__(self, tree: LabelTree, embeddings: sp.csr_matrix) -> None:
        n_clusters = len(tree.cluster_sizes)
        self.of_label = np.zeros(tree.n_labels, np.int64)
        self.of_label[tree.leaf_labels] = tree.parents(tree.depth - 1)
        ones, labels = np.ones(tree.n_labels, np.float32), np.arange(tree.n_labels)
        members = sp.csr_matrix((ones, (self.of_label, labels)), shape=(n_clusters, tree.n_labels))
        sums = sp.csr_matrix(members @ embeddings)
        lengths = np.sqrt(Csr.of(sums).row_squares())
        self._sums, self._lengths = sums.T.tocsr(), np.maximum(lengths, 1e-12).astype(np.float32)

    def nearest(self, vectors: sp.csr_matrix, contributions: sp.csr_matrix, clusters: Int64) -> Int64:
        """The nearest cluster of labels' vectors, where these labels' own embeddings don't count in theirs."""
        near = (vectors @ self._sums).toarray()
        near[np.arange(len(clusters)), clusters] -= np.asarray(vectors.multiply(contributions).sum(axis=1)).ravel()
        near /= self._lengths
        result: Int64 = near.argmax(axis=1)
        return result
