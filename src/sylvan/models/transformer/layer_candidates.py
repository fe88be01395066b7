"""Which nodes of a layer a row is trained on, and how much each of them counts.

Below its positives, and where the matcher above looks (PECOS 2.4); by the recursive counts of XR-Transformer's
cost-sensitive loss.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.canonical import take_rows
from sylvan.indexing import LabelTree
from sylvan.matching.negatives import layer_positives
from sylvan.validate import Csr

__all__ = ["COSTS", "CandidateBatch", "LayerCandidates", "cost_weights", "coverage", "relevance_layers"]

Beam = npt.NDArray[np.int32]


class CandidateBatch(NamedTuple):
    """The candidates of some rows, as one table.

    Attributes
    ----------
    nodes : ndarray of int64, shape (u,)
        Every node that is a candidate of any of the rows, rising.
    positive : ndarray of bool, shape (n, u)
        Which of them are positives of which row.
    weights : ndarray of float32, shape (n, u)
        The factor of each one's loss; 0 where a node is no candidate of the row.
    """

    nodes: npt.NDArray[np.int64]
    positive: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LayerCandidates:
    """The candidates of every row in one layer of a tree.

    Attributes
    ----------
    child_offsets : ndarray of int64, shape (n_parents + 1,)
        Parent p's children are nodes ``child_offsets[p]`` to ``child_offsets[p + 1] - 1``.
    costs : Csr, shape (n, n_nodes)
        The positives of each row with the factors of their losses.
    parents : Csr, shape (n, n_parents), or None
        The nodes of the layer above with a positive below them, all of whose children are candidates
        (teacher forcing); None for no such candidates.
    beam : ndarray of int32, shape (n, width), or None
        The nodes of the layer above where the matcher looks (matcher-aware); -1 for none.
    negative : float
        The factor of a negative's loss.

    With neither parents nor beam every node is a candidate of every row, as in the top layer.
    """

    child_offsets: npt.NDArray[np.int64]
    costs: Csr
    parents: Csr | None = None
    beam: Beam | None = None
    negative: float = 1.0

    def with_beam(self, beam: Beam) -> LayerCandidates:
        """The same with another beam."""
        return replace(self, beam=beam)

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> CandidateBatch:
        """The candidates of some rows.

        Only what some row of the batch looks at is in it: its size depends on rows, beam and branching, not on the
        nodes of the layer.
        """
        open_parents = self._open(rows)
        if open_parents is None:
            nodes = np.arange(int(self.child_offsets[-1]), dtype=np.int64)
            weights = np.full((len(rows), len(nodes)), self.negative, np.float32)
        else:
            at, clusters = open_parents
            used, where = np.unique(clusters, return_inverse=True)
            sizes = np.diff(self.child_offsets)[used]
            starts = np.cumsum(sizes) - sizes
            nodes = np.arange(int(sizes.sum()), dtype=np.int64) + np.repeat(self.child_offsets[used] - starts, sizes)
            opened = np.zeros((len(rows), len(used)), bool)
            opened[at, where] = True
            weights = np.repeat(opened, sizes, axis=1).astype(np.float32) * np.float32(self.negative)
        positive = np.zeros(weights.shape, bool)
        costs = take_rows(self.costs, rows)
        row, place = np.repeat(np.arange(len(rows)), np.diff(costs.indptr)), np.searchsorted(nodes, costs.indices)
        here = np.zeros(len(place), bool)
        inside = place < len(nodes)
        here[inside] = nodes[place[inside]] == costs.indices[inside]
        if open_parents is not None:  # a node that another row looks at is no candidate of this one
            here[here] = opened[row[here], np.repeat(np.arange(len(used)), sizes)[place[here]]]
        positive[row[here], place[here]] = True
        weights[row[here], place[here]] = costs.data[here]
        return CandidateBatch(nodes, positive, weights)

    def mean_number(self) -> float:
        """How many candidates a row has on average."""
        n_nodes = int(self.child_offsets[-1])
        open_parents = self._open(np.arange(self.costs.shape[0], dtype=np.int64))
        if open_parents is None or self.costs.shape[0] == 0:
            return float(n_nodes)
        n_parents = len(self.child_offsets) - 1
        pairs = np.unique(open_parents[0] * np.int64(n_parents) + open_parents[1])
        return float(np.diff(self.child_offsets)[pairs % n_parents].sum() / self.costs.shape[0])

    def _open(self, rows: npt.NDArray[np.integer[Any]]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """Pairs of row (by its place in ``rows``) and parent, pairs perhaps twice; None where all are open."""
        if self.parents is None and self.beam is None:
            return None
        at: list[npt.NDArray[Any]] = []
        clusters: list[npt.NDArray[Any]] = []
        if self.parents is not None:
            above = take_rows(self.parents, rows)
            at.append(np.repeat(np.arange(len(rows)), np.diff(above.indptr)))
            clusters.append(above.indices)
        if self.beam is not None:
            beam = self.beam[rows]
            row, place = np.nonzero(beam >= 0)
            at.append(row)
            clusters.append(beam[row, place])
        return np.concatenate(at), np.concatenate(clusters)


def coverage(parents: Csr, beam: Beam | None) -> float:
    """The share of pairs of a row and a positive node that the beam reaches.

    That is the recall of the matcher alone: for these nodes the candidates of the layer below need no teacher forcing.

    Parameters
    ----------
    parents : Csr, shape (n, n_parents)
        The positives of the layer that the beam is of.
    beam : ndarray of int32, shape (n, width), or None for the root, which is always looked at

    Returns
    -------
    float in [0, 1]
        1 where there are no pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import validate
    >>> from sylvan.models.transformer.layer_candidates import coverage
    >>> coverage(validate.features(np.array([[1, 0, 1], [0, 1, 0]])), np.array([[0, 1], [1, -1]], np.int32))
    0.6666666666666666
    """
    if beam is None or parents.nnz == 0:
        return 1.0
    n_parents = np.int64(parents.shape[1])
    right = np.repeat(np.arange(parents.shape[0], dtype=np.int64), np.diff(parents.indptr)) * n_parents
    row, place = np.nonzero(beam >= 0)
    reached = np.unique(row.astype(np.int64) * n_parents + beam[row, place])
    return float(np.isin(right + parents.indices, reached, assume_unique=True).mean())


COSTS = ("l1", "l2", "max", "none")


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
    >>> from sylvan.models.transformer.layer_candidates import relevance_layers
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
    norm : {"l1", "l2", "max", "none"}
        What a row is divided by: with ``"l1"`` the sum of its relevances, so that all rows weigh the same; with
        ``"l2"`` their length, with ``"max"`` the largest. ``"none"`` makes every factor 1: no costs.

    Returns
    -------
    Csr
        Of the same nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import validate
    >>> from sylvan.models.transformer.layer_candidates import cost_weights
    >>> cost_weights(validate.features(np.array([[2, 1, 1]]))).data
    array([0.5 , 0.25, 0.25], dtype=float32)
    """
    if norm == "none":
        return relevance._replace(data=np.ones_like(relevance.data))
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
