"""How much a positive counts in a layer: by how many of the row's labels lie below it (XR-Transformer's costs)."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from sylvan.arrays.validate import Csr
from sylvan.indexing import LabelTree
from sylvan.matching.negatives import layer_positives

Cost = Literal["l1", "l2", "max", "count", "none"]
COSTS: tuple[Cost, ...] = get_args(Cost)


def relevance_layers(tree: LabelTree, labels: Csr) -> list[Csr]:
    """For each layer of the tree, how much of each row lies below each node: R^(D) = Y and R^(t-1) = R^(t) C^(t) (Zhang
    et al. 2021, XR-Transformer). The relevance of a leaf is that of its label; that of a node is the sum of its
    children's. A label of several leaves counts in each of them."""
    # Shape: labels (n, n_labels)
    return layer_positives(tree, labels, np.add)


def cost_weights(relevance: Csr, norm: str = "l1") -> Csr:
    """The factor of each positive's loss: its relevance over the size of the row's."""
    if norm == "none":
        return relevance._replace(data=np.ones_like(relevance.data))
    if norm == "count":
        return relevance
    lengths = np.diff(relevance.indptr)
    if norm == "l2":
        sizes = np.sqrt(relevance.row_squares())
    else:
        sizes = np.zeros(len(lengths))
        filled = np.flatnonzero(lengths)
        total = np.add if norm == "l1" else np.maximum
        if len(filled):
            sizes[filled] = total.reduceat(relevance.data.astype(np.float64), relevance.indptr[filled])
    return relevance._replace(data=(relevance.data / np.repeat(sizes, lengths)).astype(np.float32))
