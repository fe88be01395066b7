"""How much a positive counts in a layer: by how many of the row's labels lie below it (XR-Transformer's costs)."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from sylvan.indexing import LabelTree
from sylvan.matching.negatives import layer_positives
from sylvan.validate import Csr

__all__ = ["COSTS", "Cost", "cost_weights", "relevance_layers"]

Cost = Literal["l1", "l2", "max", "count", "none"]
COSTS: tuple[Cost, ...] = get_args(Cost)


def relevance_layers(tree: LabelTree, labels: Csr) -> list[Csr]:
    """For each layer of the tree, how much of each row lies below each node.

    The relevance of a leaf is that of its label; that of a node is the sum of its children's, so with relevances of 1
    the number of the row's labels below it: the cluster that holds three of them matters three times as much as the
    one that holds one.

    Parameters
    ----------
    tree : LabelTree
    labels : Csr, shape (n, n_labels)

    Returns
    -------
    list of Csr
        One a layer, of shape (n, nodes of the layer).

    Notes
    -----
    Zhang, Chang, Yu & Dhillon (2021), "Fast multi-resolution transformer fine-tuning for extreme multi-label text
    classification": :math:`R^{(D)} = Y` and :math:`R^{(t-1)} = R^{(t)} C^{(t)}`. A label of several leaves counts in
    each of them.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import LabelTree, validate
    >>> from sylvan.ranking.relevance import relevance_layers
    >>> tree = LabelTree((np.array([0, 2]), np.array([0, 2, 4])), np.arange(4), 4)
    >>> clusters, leaves = relevance_layers(tree, validate.labels([[0, 1, 3]], n_labels=4))
    >>> clusters.to_scipy().toarray()
    array([[2., 1.]], dtype=float32)
    """
    return layer_positives(tree, labels, np.add)


def cost_weights(relevance: Csr, norm: str = "l1") -> Csr:
    """The factor of each positive's loss: its relevance over the size of the row's.

    Parameters
    ----------
    relevance : Csr
        Of one layer, from :func:`relevance_layers`.
    norm : {"l1", "l2", "max", "count", "none"}
        What a row is divided by: with ``"l1"`` the sum of its relevances, so that all rows weigh the same; with
        ``"l2"`` their length, with ``"max"`` the largest. ``"count"`` divides by nothing. ``"none"`` makes every factor
        1: no costs.

    Returns
    -------
    Csr
        Of the same nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import validate
    >>> from sylvan.ranking.relevance import cost_weights
    >>> cost_weights(validate.features(np.array([[2, 1, 1]]))).data
    array([0.5 , 0.25, 0.25], dtype=float32)
    """
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
