"""Overlapping clusters: a label that belongs to several gets a leaf in each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.indexing.shape import Placement

__all__ = ["with_overlap"]

_BLOCK_VALUES = 1 << 22  # similarities in memory at once
_SPARE = 2  # candidates a free place, as the nearest clusters may be full


def with_overlap(
    offsets: tuple[npt.NDArray[np.int64], ...],
    leaf_labels: npt.NDArray[np.int32],
    rows: sp.csr_matrix | npt.NDArray[np.float32],
    overlap: int,
    max_leaf: int,
) -> Placement:
    """A tree of disjoint clusters with each label in up to ``overlap`` of them."""
    # Shape: rows (n_labels, dimensions)
    sizes, n_labels = np.diff(offsets[-1]), leaf_labels.size
    n_clusters = sizes.size
    if overlap < 2 or n_clusters < 2:
        return offsets, leaf_labels
    home = np.empty(n_labels, np.int64)
    home[leaf_labels] = np.repeat(np.arange(n_clusters), sizes)
    labels, clusters = _candidates(rows, home, n_clusters, min(_SPARE * (overlap - 1), n_clusters - 1))
    room = (max_leaf - sizes).tolist()
    places = [overlap - 1] * n_labels
    extra: list[list[int]] = [[] for _ in range(n_clusters)]
    for label, cluster in zip(labels.tolist(), clusters.tolist(), strict=True):
        if places[label] and room[cluster] > 0:
            places[label] -= 1
            room[cluster] -= 1
            extra[cluster].append(label)
    leaves = np.split(leaf_labels, offsets[-1][1:-1])
    merged = [np.concatenate((own, np.array(more, np.int32))) for own, more in zip(leaves, extra, strict=True)]
    ends = np.concatenate(([0], np.cumsum([part.size for part in merged]))).astype(np.int64)
    return (*offsets[:-1], ends), np.concatenate(merged)


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
    results = []
    step = max(1, _BLOCK_VALUES // n_clusters)
    for start in range(0, n_labels, step):
        product: Any = rows[start : start + step] @ centres
        cosine: Any = product.toarray() if hasattr(product, "toarray") else np.array(product)
        inside = np.arange(cosine.shape[0])
        cosine[inside, home[start : start + step]] = -np.inf
        best = np.argpartition(-cosine, n_best - 1, axis=1)[:, :n_best]
        value = cosine[inside[:, None], best]
        near = value > 0
        results.append((value[near], np.broadcast_to(inside[:, None] + start, best.shape)[near], best[near]))
    values, labels, clusters = (np.concatenate(parts) for parts in zip(*results, strict=True))
    order = np.lexsort((clusters, labels, -values))
    return labels[order], clusters[order]
