"""Trained layers without some of their nodes, for labels that were removed; what is left scores as before."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from sylvan.errors import ModelError
from sylvan.weights import ClusterWeights

__all__ = ["layer_without"]


def layer_without(
    layer: ClusterWeights,
    kept: npt.NDArray[np.bool_],
    kept_clusters: npt.NDArray[np.bool_],
    child_offsets: npt.NDArray[np.int64],
) -> ClusterWeights:
    """A layer without the weights of some nodes; all others stay what they are, to the bit."""
    # Shapes: kept (n_nodes,); kept_clusters (n_clusters,)
    clusters = []
    bounds = itertools.pairwise(layer.child_offsets.tolist())
    for c, (first, last) in enumerate(bounds):
        if not kept_clusters[c]:
            continue
        try:
            rows = layer.cluster(c)
            clusters.append(rows if kept[first:last].all() else rows.of_children(kept[first:last]))
        except (ValueError, IndexError) as error:
            raise ModelError(f"The weights of cluster {c} in this model are damaged: {error}.") from error
    return ClusterWeights.from_clusters(
        clusters, child_offsets, layer.n_features, layer.weight_dtype, codebook=layer.codebook
    )
