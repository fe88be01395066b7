"""Which rows a cluster's rankers are trained on: teacher forcing, the matcher's own choice, or both (PECOS 2.3.1)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from sylvan.arrays.types import Int32, Int64
from sylvan.arrays.validate import Csr
from sylvan.indexing import LabelTree
from sylvan.runtime.jobs import Job

Negatives = Literal["tfn", "man", "tfn+man"]


def csr_bytes(n_rows: int, n_entries: int) -> int:
    """A sparse matrix in memory: the features, the labels, or the positives of one layer."""
    return 8 * (n_rows + 1) + 8 * n_entries


def pairing_bytes(n_pairs: int) -> int:
    """A layer's (row, cluster) pairs while they are sorted: for a moment, above what :func:`rows_bytes` counts."""
    return 40 * n_pairs


def rows_bytes(n_pairs: int, n_clusters: int) -> int:
    """A layer's training rows, cluster by cluster."""
    return 4 * n_pairs + 8 * (n_clusters + 1)


def layer_positives(tree: LabelTree, labels: Csr, join: np.ufunc = np.maximum, first: int = 0) -> list[Csr]:
    """For each layer of the tree from layer ``first`` on, the nodes that each row is a positive of (M of Algorithm 2,
    line 3). A row is a positive of a leaf that holds one of its labels, and of every node above it. The relevance of a
    leaf is that of its label, and that of a node the highest of its children's; or their sum, where ``join`` adds: how
    much of the row lies below it, R^(t-1) = R^(t) C^(t) (Zhang et al. 2021, XR-Transformer)."""
    results = [_leaves_of_labels(tree, labels)]
    for offsets in reversed(tree.child_offsets[first + 1 :]):
        results.append(_parents_of(results[-1], offsets, join))
    return results[::-1]


def of_root(positives: Csr) -> Csr:
    """Which rows are positives of the root, by the top layer's: those with a label, as M of Algorithm 2 has it."""
    indptr = np.concatenate(([0], np.cumsum(np.diff(positives.indptr) > 0))).astype(np.int64)
    n_found = int(indptr[-1])
    return Csr(indptr, np.zeros(n_found, np.int32), np.ones(n_found, np.float32), (positives.shape[0], 1))


def _leaves_of_labels(tree: LabelTree, labels: Csr) -> Csr:
    """Labels to leaf positions; a label of several leaves counts in each, one that was removed in none."""
    first, order = tree.leaves_of_labels()
    copies = np.diff(first)
    rows = labels.rows_of_values()
    n_leaves = copies[labels.indices]
    if copies.min(initial=1) == copies.max(initial=1) == 1:
        leaves, relevance = order[first[labels.indices]], labels.data
    else:
        leaves = order[np.repeat(first[labels.indices], n_leaves) + counting(n_leaves)]
        rows, relevance = np.repeat(rows, n_leaves), np.repeat(labels.data, n_leaves)
    keys = np.argsort(rows * np.int64(max(1, tree.n_leaves)) + leaves, kind="stable")
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=labels.shape[0])))).astype(np.int64)
    return Csr(indptr, leaves[keys], relevance[keys], (labels.shape[0], tree.n_leaves))


def counting(lengths: Int64) -> Int64:
    """0, 1, ... within each run: [2, 3] gives [0, 1, 0, 1, 2]."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def _parents_of(nodes: Csr, child_offsets: Int64, join: np.ufunc) -> Csr:
    """Nodes to their parents, each once a row; siblings are neighbours, so a row's parents come sorted."""
    n_rows, n_parents = nodes.shape[0], len(child_offsets) - 1
    parent_of = np.repeat(np.arange(n_parents, dtype=np.int32), np.diff(child_offsets))
    parents = parent_of[nodes.indices]
    rows = nodes.rows_of_values()
    new = np.ones(len(parents), bool)
    new[1:] = (parents[1:] != parents[:-1]) | (rows[1:] != rows[:-1])
    starts = np.flatnonzero(new)
    relevance = join.reduceat(nodes.data, starts) if len(starts) else nodes.data[:0]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows[starts], minlength=n_rows)))).astype(np.int64)
    return Csr(indptr, parents[starts], relevance.astype(np.float32), (n_rows, n_parents))


def rows_job(
    t: int, negatives: str, n_clusters: int, n_rows: int, parents: Csr, beam: Int32 | None
) -> Job[tuple[Int64, Int32]]:
    """:func:`cluster_rows` of layer t as a job."""
    n_pairs = len(parents.indices) + (0 if beam is None else beam.size)
    inputs = {"negatives": negatives, "parents": parents, "beam": beam, "n_clusters": n_clusters, "n_rows": n_rows}
    title = f"gathering the rows of layer {t + 1}"
    return Job(f"layer{t}.rows", cluster_rows, inputs, peak_bytes=pairing_bytes(n_pairs), title=title, shared=True)


def cluster_rows(negatives: str, parents: Csr, beam: Int32 | None, n_clusters: int, n_rows: int) -> tuple[Int64, Int32]:
    """The training rows of each cluster: offsets of shape (n_clusters + 1,) and rising row ids."""
    # Shapes: parents (n, n_clusters); beam (n, width)
    n_parents = np.diff(parents.indptr)
    if beam is None or negatives == "tfn":
        indptr, clusters = parents.indptr, parents.indices
    else:
        present = beam >= 0
        n_present = present.sum(axis=1)
        if negatives == "man":
            n_parents = np.zeros_like(n_parents)
        indptr = np.concatenate(([0], np.cumsum(n_parents + n_present)))
        clusters = np.empty(int(indptr[-1]), np.int32)
        of_beam = np.repeat(np.tile([False, True], n_rows), np.stack((n_parents, n_present), axis=1).ravel())
        clusters[of_beam] = beam[present]
        clusters[~of_beam] = parents.indices if negatives != "man" else ()
    # From rows to clusters by counting: sorting all pairs would take several times as long.
    pairs = sp.csr_matrix((np.ones(len(clusters), np.bool_), clusters, indptr), shape=(n_rows, n_clusters)).tocsc()
    rows, starts = pairs.indices, pairs.indptr
    first = np.ones(len(rows), np.bool_)  # of a row that is both a positive and found, the first pair
    first[1:] = rows[1:] != rows[:-1]
    first[starts[:-1][np.diff(starts) > 0]] = True
    offsets = np.concatenate(([0], np.cumsum(first)))[starts]
    return offsets.astype(np.int64), rows[first].astype(np.int32, copy=False)
