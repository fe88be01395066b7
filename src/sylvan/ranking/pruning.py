"""Pruning trained weights: a share of each cluster's, the largest, perhaps stored in fewer bits."""

from __future__ import annotations

import numpy as np

from sylvan.errors import ModelError
from sylvan.parallel import map_parallel, split_ranges
from sylvan.weights import ClusterRows, ClusterWeights, Layout

__all__ = ["largest_weights", "prune_layer"]


def prune_layer(weights: ClusterWeights, share: float, weight_dtype: str, n_jobs: int = 1) -> ClusterWeights:
    """A layer with a ``share`` in [0, 1] of each cluster's weights, the largest."""
    if share >= 1 and weight_dtype == weights.weight_dtype:
        return weights
    n_clusters = len(weights.row_offsets) - 1
    sizes = np.zeros(n_clusters, ClusterRows.SIZES)

    def left(c: int) -> ClusterRows:
        try:
            return largest_weights(weights.cluster(c), share)
        except (ValueError, IndexError) as error:
            raise ModelError(f"The weights of cluster {c} in this model are damaged: {error}.") from error

    def count(clusters: tuple[int, int]) -> None:
        for c in range(*clusters):
            sizes[c] = left(c).sizes(weight_dtype)

    def place(clusters: tuple[int, int]) -> None:
        for c in range(*clusters):
            layout.place(c, left(c))

    # A cluster is unpacked twice, so that no more than a few are in memory at once.
    shares = split_ranges(n_clusters, -(-n_clusters // (4 * n_jobs)))
    map_parallel(count, shares, n_jobs)
    layout = Layout(sizes, weights.child_offsets, weights.n_features, weight_dtype)
    map_parallel(place, shares, n_jobs)
    return layout.finish()


def largest_weights(cluster: ClusterRows, share: float) -> ClusterRows:
    """The ``share`` of a cluster's weights that is largest in magnitude; among equals the first are left."""
    n_left = int(np.ceil(share * len(cluster.weights)))
    if n_left >= len(cluster.weights):
        return cluster
    magnitudes = np.abs(cluster.weights)
    cut = np.partition(magnitudes, -n_left)[-n_left] if n_left else np.inf
    stays = magnitudes > cut
    stays[np.flatnonzero(magnitudes == cut)[: n_left - int(stays.sum())]] = True
    left = np.flatnonzero(stays)
    rows = np.repeat(np.arange(len(cluster.features)), cluster.lengths)[left]
    lengths = np.bincount(rows, minlength=len(cluster.features)).astype(np.int32)
    filled = lengths > 0
    return ClusterRows(
        cluster.features[filled], lengths[filled], cluster.children[left], cluster.weights[left], cluster.intercepts
    )
