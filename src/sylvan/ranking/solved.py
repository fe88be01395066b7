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
from sylvan.weights.layer import ClusterRows, child_dtype

_ROWS, _ENTRIES = ("features", "lengths"), ("children", "weights")
# What the scores of held-out rows would change by without their fold: ids of rows, nodes of the layer, and the changes.
_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)
CHANGES = (("changed_rows", _INT32), ("changed_nodes", _INT32), ("changes", _FLOAT32))
Triples = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class SolvedBlock:
    """Some clusters of a layer, and what the scores of held-out rows would change by without their fold. A large
    training has all weights of a layer here before it knows the codebook that makes bytes of them."""

    n_children: npt.NDArray[np.int64]  # shape (n_clusters,)
    # `features` (int32) and `lengths` (less one) of the rows of all clusters, one behind the other, `children` and
    # `weights` (float32) of their entries, `intercepts`, and `ends` (int64) of each cluster's rows and entries. Lengths
    # and children have the narrowest type that holds the numbers of the layer's children. `changed_rows`,
    # `changed_nodes` and `changes` (float32) say what is added to the score of a held-out row (by its id) for a node of
    # the layer; a row's nodes rise, and changes that are next to nothing aren't there. Where multipliers are kept,
    # `multipliers` (float16) are those of the clusters' rows and children
    arrays: Arrays

    @classmethod
    def of(
        cls, each: Sequence[ClusterRows], most_children: int, changed: Sequence[Triples] = (),
        kept: Sequence[npt.NDArray[np.float16]] | None = None,
    ) -> SolvedBlock:  # fmt: skip
        """Some clusters of a layer whose clusters have up to ``most_children`` children, ``changed`` scores, and
        multipliers that are ``kept``."""
        narrow = child_dtype(most_children)
        arrays = {
            "features": _joined([rows.features for rows in each], np.dtype(np.int32)),
            "lengths": _joined([rows.lengths - np.int32(1) for rows in each], narrow),
            "children": _joined([rows.children for rows in each], narrow),
            "weights": _joined([rows.weights for rows in each], np.dtype(np.float32)),
            "intercepts": _joined([rows.intercepts for rows in each], np.dtype(np.float32)),
        }
        arrays["ends"] = np.cumsum([(len(rows.features), len(rows.children)) for rows in each], axis=0, dtype=np.int64)
        for at, (name, dtype) in enumerate(CHANGES):
            arrays[name] = _joined([np.zeros(0, dtype), *(triples[at] for triples in changed)], dtype)
        if kept is not None:
            arrays["multipliers"] = np.concatenate([np.zeros(0, np.float16), *(own.ravel() for own in kept)])
        return cls(np.array([len(rows.intercepts) for rows in each], np.int64), arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def sizes(self, weight_dtype: str) -> npt.NDArray[Any]:
        """What :meth:`ClusterRows.sizes` says of each cluster, of shape (n_clusters,)."""
        if weight_dtype == "uint4":
            return np.array([rows.sizes(weight_dtype) for rows in self], ClusterRows.SIZES)
        result = np.zeros(len(self.arrays["ends"]), ClusterRows.SIZES)
        result["rows"], result["entries"] = np.diff(self.arrays["ends"], axis=0, prepend=0).T
        result["least"] = np.inf
        filled = result["entries"] > 0
        if filled.any():
            starts = (self.arrays["ends"][:, 1] - result["entries"])[filled]
            magnitudes = np.abs(self.arrays["weights"])
            result["least"][filled] = np.minimum.reduceat(magnitudes, starts)
            result["largest"][filled] = np.maximum.reduceat(magnitudes, starts)
        return result

    def changes(self) -> Triples:
        """Rows, nodes and changes of scores, in memory of their own."""
        rows, nodes, changes = (np.array(self.arrays[name]) for name, _ in CHANGES)
        return rows, nodes, changes

    def multipliers(self) -> npt.NDArray[np.float16] | None:
        """Those that are kept, in memory of their own."""
        kept = self.arrays.get("multipliers")
        return None if kept is None else np.array(kept)

    def __iter__(self) -> Iterator[ClusterRows]:
        """One cluster after the other."""
        ends = [(0, 0), *self.arrays["ends"].tolist()]
        nodes = np.concatenate(([0], np.cumsum(self.n_children))).tolist()
        parts = (itertools.pairwise(part) for part in zip(*ends, strict=True))
        for rows, entries, own in zip(*parts, itertools.pairwise(nodes), strict=True):
            yield self._rows(slice(*rows), slice(*entries), slice(*own))

    def _rows(self, rows: slice, entries: slice, nodes: slice) -> ClusterRows:
        arrays = self.arrays
        return ClusterRows(
            arrays["features"][rows], arrays["lengths"][rows].astype(np.int32) + np.int32(1),
            arrays["children"][entries], arrays["weights"][entries], arrays["intercepts"][nodes],
        )  # fmt: skip


def solved_bytes(n_weights: int, n_rows: int, n_children: int) -> int:
    """Solved clusters of up to so many children, until they are laid out; ``n_rows`` are the features with a weight."""
    return (4 + child_dtype(n_children).itemsize) * (n_weights + n_rows)


def block_packing(
    n_children: npt.NDArray[np.int64], most_children: int, n_rows: npt.NDArray[np.int64] | None = None
) -> Packing[SolvedBlock]:
    """How a block of clusters with so many children each is stored, and what is verified of it when it is read. With
    ``n_rows`` of each cluster, it holds multipliers."""
    n_multipliers = None if n_rows is None else int((n_rows * n_children).sum())

    def unpack(arrays: Arrays) -> SolvedBlock:
        return _verified(SolvedBlock(n_children, arrays), most_children, n_multipliers)

    return Packing(_arrays, unpack)


def _arrays(block: SolvedBlock) -> Arrays:
    return block.arrays


def _verified(block: SolvedBlock, most_children: int, n_multipliers: int | None) -> SolvedBlock:
    """The block, when its arrays agree as far as laying it out needs it."""
    arrays, narrow = block.arrays, child_dtype(most_children)
    types: dict[str, Any] = {"features": np.dtype(np.int32), "lengths": narrow, "children": narrow}
    types |= {**dict.fromkeys(("weights", "intercepts"), np.dtype(np.float32)), **dict(CHANGES)}
    ends, n = arrays.get("ends", np.zeros(0, np.int64)), len(block.n_children)
    whole = ends.shape == (n, 2) and ends.dtype == np.int64 and bool((np.diff(ends, axis=0, prepend=0) >= 0).all())
    sizes = {name: ends[-1, 0] if name in _ROWS else ends[-1, 1] for name in (*_ROWS, *_ENTRIES)} if whole else {}
    sizes["intercepts"] = int(block.n_children.sum())
    sizes |= dict.fromkeys((name for name, _ in CHANGES), len(arrays.get("changes", ())))
    if n_multipliers is not None:
        types["multipliers"], sizes["multipliers"] = np.dtype(np.float16), n_multipliers
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
