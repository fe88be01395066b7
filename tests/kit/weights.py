"""The weights of a layer as a matrix."""

from typing import Any

import numpy as np


def dense_weights(layer: Any) -> np.ndarray:
    """(n_features, n_nodes) float32; their intercepts are ``layer.intercepts``."""
    W = np.zeros((layer.n_features, len(layer.intercepts)), np.float32)
    for c, first in enumerate(layer.child_offsets[:-1]):
        rows = layer.cluster(c)
        W[np.repeat(rows.features, rows.lengths), first + rows.children] = rows.weights
    return W
