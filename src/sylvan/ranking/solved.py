"""Solved clusters while they wait to be laid out: a block of them in few arrays, in as few bytes as hold them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import ModelError
from sylvan.runtime.jobs import Arrays, Packing
from sylvan.weights import ClusterRows, child_dtype

__all__ = ["SolvedBlock", "block_packing", "solved_bytes"]

_ROWS, _ENTRIES = ("features", "lengths"), ("children", "weights")


@dataclass(frozen=True, eq=False)
class SolvedBlock:
    """Some clusters of a layer: of each the solution with all rows, then those without each fold.

    A large training has all weights of a layer here before it knows the codebook that makes bytes of them.

    Attributes
    ----------
    n_sets : int
        Solutions of a cluster.
    n_children : ndarray of int64, shape (n_clusters,)
    arrays : mapping
        ``features`` (int32) and ``lengths`` (less one) of the rows of all solutions, one behind the other, ``children``
        and ``weights`` (float32) of their entries, ``intercepts``, and ``ends`` (int64) of each solution's rows and
        entries. Lengths and children have the narrowest type that holds the numbers of the layer's children.
    """

    n_sets: int
    n_children: npt.NDArray[np.int64]
    arrays: Arrays

    @classmethod
    def of(cls, clusters: Sequence[Sequence[ClusterRows]], most_children: int) -> SolvedBlock:
        """The solutions of some clusters of a layer whose clusters have up to ``most_children`` children."""
        each = [rows for sets in clusters for rows in sets]
        narrow = child_dtype(most_children)
        arrays = {
            "features": _joined([rows.features for rows in each], np.dtype(np.int32)),
            "lengths": _joined([rows.lengths - np.int32(1) for rows in each], narrow),
            "children": _joined([rows.children for rows in each], narrow),
            "weights": _joined([rows.weights for rows in each], np.dtype(np.float32)),
            "intercepts": _joined([rows.intercepts for rows in each], np.dtype(np.float32)),
        }
        arrays["ends"] = np.cumsum([(len(rows.features), len(rows.children)) for rows in each], axis=0, dtype=np.int64)
        n_children = np.array([len(sets[0].intercepts) for sets in clusters], np.int64)
        return cls(len(clusters[0]), n_children, arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def sizes(self, weight_dtype: str) -> npt.NDArray[Any]:
        """What :meth:`ClusterRows.sizes` says of each solution, of shape (n_clusters, n_sets)."""
        shape = (len(self.n_children), self.n_sets)
        if weight_dtype == "uint4":
            each = [rows.sizes(weight_dtype) for sets in self for rows in sets]
            return np.array(each, ClusterRows.SIZES).reshape(shape)
        result = np.zeros(len(self.arrays["ends"]), ClusterRows.SIZES)
        result["rows"], result["entries"] = np.diff(self.arrays["ends"], axis=0, prepend=0).T
        result["least"] = np.inf
        filled = result["entries"] > 0
        if filled.any():
            starts = (self.arrays["ends"][:, 1] - result["entries"])[filled]
            magnitudes = np.abs(self.arrays["weights"])
            result["least"][filled] = np.minimum.reduceat(magnitudes, starts)
            result["largest"][filled] = np.maximum.reduceat(magnitudes, starts)
        return result.reshape(shape)

    def __iter__(self) -> Iterator[list[ClusterRows]]:
        """The solutions of one cluster after the other."""
        ends = [(0, 0), *self.arrays["ends"].tolist()]
        nodes = np.concatenate(([0], np.cumsum(np.repeat(self.n_children, self.n_sets)))).tolist()
        each = [
            self._rows(slice(*rows), slice(*entries), slice(*own))
            for rows, entries, own in zip(
                *(itertools.pairwise(part) for part in zip(*ends, strict=True)), itertools.pairwise(nodes), strict=True
            )
        ]
        for start in range(0, len(each), self.n_sets):
            yield each[start : start + self.n_sets]

    def _rows(self, rows: slice, entries: slice, nodes: slice) -> ClusterRows:
        arrays = self.arrays
        return ClusterRows(
            arrays["features"][rows], arrays["lengths"][rows].astype(np.int32) + np.int32(1),
            arrays["children"][entries], arrays["weights"][entries], arrays["intercepts"][nodes],
        )  # fmt: skip


def solved_bytes(n_weights: int, n_rows: int, n_children: int) -> int:
    """Solved clusters of up to so many children, until they are laid out; ``n_rows`` are the features with a weight."""
    return (4 + child_dtype(n_children).itemsize) * (n_weights + n_rows)


def block_packing(n_sets: int, n_children: npt.NDArray[np.int64], most_children: int) -> Packing[SolvedBlock]:
    """How a block of clusters with so many children each is stored, and what is verified of it when it is read."""

    def unpack(arrays: Arrays) -> SolvedBlock:
        return _verified(SolvedBlock(n_sets, n_children, arrays), most_children)

    return Packing(_arrays, unpack)


def _arrays(block: SolvedBlock) -> Arrays:
    return block.arrays


def _verified(block: SolvedBlock, most_children: int) -> SolvedBlock:
    """The block, when its arrays agree as far as laying it out needs it."""
    arrays, narrow = block.arrays, child_dtype(most_children)
    types: dict[str, Any] = {"features": np.dtype(np.int32), "lengths": narrow, "children": narrow}
    types |= dict.fromkeys(("weights", "intercepts"), np.dtype(np.float32))
    ends, n = arrays.get("ends", np.zeros(0, np.int64)), block.n_sets * len(block.n_children)
    whole = ends.shape == (n, 2) and ends.dtype == np.int64 and bool((np.diff(ends, axis=0, prepend=0) >= 0).all())
    sizes = {name: ends[-1, 0] if name in _ROWS else ends[-1, 1] for name in (*_ROWS, *_ENTRIES)} if whole else {}
    sizes["intercepts"] = block.n_sets * int(block.n_children.sum())
    if not whole or any(
        name not in arrays or arrays[name].dtype != dtype or arrays[name].shape != (sizes[name],)
        for name, dtype in types.items()
    ):
        raise ModelError("A stored block of clusters is damaged: its arrays don't agree.")
    return block


def _joined(parts: Sequence[npt.NDArray[Any]], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The parts, whose values the type holds, one behind the other; a single one isn't copied without need."""
    if len(parts) == 1:
        return parts[0].astype(dtype, copy=False)
    return np.concatenate(parts, dtype=dtype, casting="unsafe")
