"""Which nodes of a layer a row is trained on: below its positives, and where the matcher above looks (PECOS 2.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import take_rows
from sylvan.arrays.validate import Csr

Beam = npt.NDArray[np.int32]


class CandidateBatch(NamedTuple):
    """The candidates of some rows, as one table."""

    nodes: npt.NDArray[np.int64]  # shape (u,): every node that is a candidate of any of the rows, rising
    positive: npt.NDArray[np.bool_]  # shape (n, u): which of them are positives of which row
    # shape (n, u): the factor of each one's loss; 0 where a node is no candidate of the row
    weights: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LayerCandidates:
    """The candidates of every row in one layer of a tree."""

    # shape (n_parents + 1,): parent p's children are nodes `child_offsets[p]` to `child_offsets[p + 1] - 1`
    child_offsets: npt.NDArray[np.int64]
    costs: Csr  # shape (n, n_nodes): the positives of each row with the factors of their losses
    # shape (n, n_parents), or None: the nodes of the layer above with a positive below them, all of whose children are
    # candidates (teacher forcing); None for no such candidates
    parents: Csr | None = None
    # shape (n, width), or None: the nodes of the layer above where the matcher looks (matcher-aware); -1 for none
    beam: Beam | None = None
    negative: float = 1.0  # the factor of a negative's loss

    def with_beam(self, beam: Beam) -> LayerCandidates:
        """The same with another beam."""
        return replace(self, beam=beam)

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> CandidateBatch:
        """The candidates of some rows. Only what some row of the batch looks at is in it: its size depends on rows,
        beam and branching, not on the nodes of the layer."""
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
    """The share of pairs of a row and a positive node that the beam reaches. That is the recall of the matcher alone:
    for these nodes the candidates of the layer below need no teacher forcing."""
    # Shapes: parents (n, n_parents); beam (n, width)
    if beam is None or parents.nnz == 0:
        return 1.0
    n_parents = np.int64(parents.shape[1])
    right = np.repeat(np.arange(parents.shape[0], dtype=np.int64), np.diff(parents.indptr)) * n_parents
    row, place = np.nonzero(beam >= 0)
    reached = np.unique(row.astype(np.int64) * n_parents + beam[row, place])
    return float(np.isin(right + parents.indices, reached, assume_unique=True).mean())
