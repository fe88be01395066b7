"""Overlapping clusters: a label that belongs to several gets a leaf in each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.indexing.tree import LabelTree

__all__ = ["with_overlap"]

_BLOCK_VALUES = 1 << 22  # similarities that are held at once
_SPARE = 2  # candidates a free place, as the nearest clusters may be full


def with_overlap(
    tree: LabelTree, rows: sp.csr_matrix | npt.NDArray[np.float32], overlap: int, max_leaf: int
) -> LabelTree:
    """The tree with each label in up to ``overlap`` clusters.

    Parameters
    ----------
    tree : LabelTree
        Of disjoint clusters.
    rows : csr_matrix or ndarray of float32, shape (n_labels, dimensions)
        Embeddings of length one.
    overlap : int
        Most clusters of a label, its own among them.
    max_leaf : int
        Most labels of a cluster: the pairs of highest cosine between a label and a cluster's centre are taken
        first, as long as the cluster has room. A label is never added to a cluster it has nothing in common with.
    """
    n_clusters = tree.child_offsets[-1].size - 1
    if overlap < 2 or n_clusters < 2:
        return tree
    home = np.empty(tree.n_labels, np.int64)
    home[tree.leaf_labels] = np.repeat(np.arange(n_clusters), tree.cluster_sizes)
    labels, clusters = _candidates(rows, home, n_clusters, min(_SPARE * (overlap - 1), n_clusters - 1))
    room = (max_leaf - tree.cluster_sizes).tolist()
    places = [overlap - 1] * tree.n_labels
    extra: list[list[int]] = [[] for _ in range(n_clusters)]
    for label, cluster in zip(labels.tolist(), clusters.tolist(), strict=True):
        if places[label] and room[cluster] > 0:
            places[label] -= 1
            room[cluster] -= 1
            extra[cluster].append(label)
    leaves = np.split(tree.leaf_labels, tree.child_offsets[-1][1:-1])
    merged = [np.concatenate((own, np.array(more, np.int32))) for own, more in zip(leaves, extra, strict=True)]
    offsets = np.concatenate(([0], np.cumsum([part.size for part in merged]))).astype(np.int64)
    return LabelTree((*tree.child_offsets[:-1], offsets), np.concatenate(merged), tree.n_labels)


def _candidates(
    rows: sp.csr_matrix | npt.NDArray[np.float32], home: npt.NDArray[np.int64], n_clusters: int, n_best: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pairs of a label and one of its nearest other clusters, of highest cosine first."""
    n_labels = home.size
    indicator = sp.csr_matrix((np.ones(n_labels, np.float32), (home, np.arange(n_labels))), (n_clusters, n_labels))
    sums = indicator @ rows
    if sp.issparse(sums):
        sums = sp.csr_matrix(sums)
        row_of = np.repeat(np.arange(n_clusters), np.diff(sums.indptr))
        squares = np.bincount(row_of, weights=np.square(sums.data, dtype=np.float64), minlength=n_clusters)
    else:
        squares = np.einsum("ij,ij->i", sums, sums, dtype=np.float64)
    lengths = np.sqrt(squares)
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    centres = (sp.diags_array(scale) @ sums).T
    found = []
    step = max(1, _BLOCK_VALUES // n_clusters)
    for start in range(0, n_labels, step):
        product: Any = rows[start : start + step] @ centres
        cosine: Any = product.toarray() if hasattr(product, "toarray") else np.array(product)
        inside = np.arange(cosine.shape[0])
        cosine[inside, home[start : start + step]] = -np.inf
        best = np.argpartition(-cosine, n_best - 1, axis=1)[:, :n_best]
        value = cosine[inside[:, None], best]
        near = value > 0
        found.append((value[near], np.broadcast_to(inside[:, None] + start, best.shape)[near], best[near]))
    values, labels, clusters = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((clusters, labels, -values))
    return labels[order], clusters[order]
