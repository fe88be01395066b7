"""How a layer's clusters were solved: their rows, and the dual variable of each row and child. Updates start there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from sylvan import store
from sylvan.arrays.types import Array, Bool, Float16, Float32, Int32, Int64
from sylvan.errors import ModelError
from sylvan.runtime.jobs import Arrays, Packing
from sylvan.weights.layer import ClusterRows, child_dtype, runs_between

_ROWS, _ENTRIES = ("features", "lengths"), ("children", "weights")
# What the scores of held-out rows would change by without their fold: ids of rows, nodes of the layer, and the changes.
_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)
CHANGES = (("changed_rows", _INT32), ("changed_nodes", _INT32), ("changes", _FLOAT32))
Triples = tuple[Int32, Int32, Float32]
STALE = np.float32(1e30)  # the pending loss of a node that must be solved
WIDENED = np.float32(2.0**112)
_INFINITE = 0x7C00
_LARGEST, _SMALLEST = np.float32(np.finfo(np.float16).max), np.float32(np.finfo(np.float16).smallest_subnormal)


@dataclass(frozen=True, eq=False)
class SolvedBlock:
    """Some clusters of a layer, and what the scores of held-out rows would change by without their fold. A large
    training has all weights of a layer here before it knows the codebook that makes bytes of them."""

    n_children: Int64  # shape (n_clusters,)
    # `features` (int32) and `lengths` (less one) of the rows of all clusters, one behind the other, `children` and
    # `weights` (float32) of their entries, `intercepts`, and `ends` (int64) of each cluster's rows and entries. Lengths
    # and children have the narrowest type that holds the numbers of the layer's children. `changed_rows`,
    # `changed_nodes` and `changes` (float32) say what is added to the score of a held-out row (by its id) for a node of
    # the layer; a row's nodes rise, and changes that are next to nothing aren't there. Where multipliers are kept,
    # `multipliers` (float16) are those of the clusters' rows and children
    arrays: Arrays

    @classmethod
    def of(
        cls, parts: Sequence[ClusterRows], most_children: int, changed: Sequence[Triples] = (),
        duals: Sequence[Float16] | None = None,
    ) -> SolvedBlock:  # fmt: skip
        """Some clusters of a layer whose clusters have up to ``most_children`` children, ``changed`` scores, and
        the multipliers (``duals``), where they are stored."""
        narrow = child_dtype(most_children)
        arrays: dict[str, Array] = {}
        types = {"features": _INT32, "lengths": narrow, "children": narrow, "weights": _FLOAT32, "intercepts": _FLOAT32}
        for name, dtype in types.items():
            each = [getattr(rows, name) for rows in parts]
            arrays[name] = _joined([lengths - np.int32(1) for lengths in each] if name == "lengths" else each, dtype)
        arrays["ends"] = np.cumsum([(len(rows.features), len(rows.children)) for rows in parts], axis=0, dtype=np.int64)
        for number, (name, dtype) in enumerate(CHANGES):
            arrays[name] = _joined([np.zeros(0, dtype), *(triples[number] for triples in changed)], dtype)
        if duals is not None:
            arrays["multipliers"] = np.concatenate([np.zeros(0, np.float16), *(values.ravel() for values in duals)])
        return cls(np.array([len(rows.intercepts) for rows in parts], np.int64), arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def sizes(self, weight_dtype: str) -> Array:
        """What :meth:`ClusterRows.sizes` says of each cluster, of shape (n_clusters,)."""
        if weight_dtype == "uint4":
            return np.array([rows.sizes(weight_dtype) for rows in self], ClusterRows.SIZES)
        result = np.zeros(len(self.arrays["ends"]), ClusterRows.SIZES)
        result["rows"], result["entries"] = np.diff(self.arrays["ends"], axis=0, prepend=0).T
        result["least"] = np.inf
        if (filled := result["entries"] > 0).any():
            starts = (self.arrays["ends"][:, 1] - result["entries"])[filled]
            magnitudes = np.abs(self.arrays["weights"])
            result["least"][filled] = np.minimum.reduceat(magnitudes, starts)
            result["largest"][filled] = np.maximum.reduceat(magnitudes, starts)
        return result

    def changes(self) -> Triples:
        """Rows, nodes and changes of scores, in memory of their own."""
        rows, nodes, changes = (np.array(self.arrays[name]) for name, _ in CHANGES)
        return rows, nodes, changes

    def multipliers(self) -> Float16 | None:
        """Those that are kept, in memory of their own."""
        return np.array(self.arrays["multipliers"]) if "multipliers" in self.arrays else None

    def __iter__(self) -> Iterator[ClusterRows]:
        """One cluster after the other."""
        ends = [(0, 0), *self.arrays["ends"].tolist()]
        nodes = np.concatenate(([0], np.cumsum(self.n_children))).tolist()
        parts = (itertools.pairwise(part) for part in zip(*ends, strict=True))
        features, lengths, children, weights = (self.arrays[name] for name in (*_ROWS, *_ENTRIES))
        for bounds in zip(*parts, itertools.pairwise(nodes), strict=True):
            rows, entries, span = (slice(*each) for each in bounds)
            yield ClusterRows(
                features[rows], lengths[rows].astype(np.int32) + np.int32(1), children[entries], weights[entries],
                self.arrays["intercepts"][span],
            )  # fmt: skip


def solved_bytes(n_weights: int, n_rows: int, n_children: int) -> int:
    """Solved clusters of up to so many children, until they are laid out; ``n_rows`` are the features with a weight."""
    return (4 + child_dtype(n_children).itemsize) * (n_weights + n_rows)


def block_packing(n_children: Int64, most_children: int, n_rows: Int64 | None = None) -> Packing[SolvedBlock]:
    """How a block of clusters with so many children each is stored, and what is verified of it when it is read: that
    its arrays agree as far as laying it out needs it. With ``n_rows`` of each cluster, it holds multipliers."""

    def unpack(arrays: Arrays) -> SolvedBlock:
        narrow, n = child_dtype(most_children), len(n_children)
        types: dict[str, Any] = {"features": _INT32, "lengths": narrow, "children": narrow}
        types |= {"weights": _FLOAT32, "intercepts": _FLOAT32, **dict(CHANGES)}
        sizes = {"intercepts": int(n_children.sum())}
        if n_rows is not None:
            types["multipliers"], sizes["multipliers"] = np.dtype(np.float16), int((n_rows * n_children).sum())
        ends = arrays.get("ends", np.zeros(0, np.int64))
        sound = ends.shape == (n, 2) and ends.dtype == np.int64 and bool((np.diff(ends, axis=0, prepend=0) >= 0).all())
        sizes |= dict.fromkeys((name for name, _ in CHANGES), len(arrays.get("changes", ())))
        if sound:
            sizes |= dict.fromkeys(_ROWS, int(ends[-1, 0])) | dict.fromkeys(_ENTRIES, int(ends[-1, 1]))
        if not sound or any(
            name not in arrays or arrays[name].dtype != dtype or arrays[name].shape != (sizes[name],)
            for name, dtype in types.items()
        ):
            raise ModelError("A stored block of clusters is damaged: its arrays don't agree.")
        return SolvedBlock(n_children, arrays)

    return Packing(attrgetter("arrays"), unpack)


def _joined(parts: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """The parts, whose values the type holds, one behind the other; a single one isn't copied without need."""
    if len(parts) == 1:
        return parts[0].astype(dtype, copy=False)
    return np.concatenate(parts, dtype=dtype, casting="unsafe")


@dataclass(frozen=True, eq=False)
class LayerSolution:
    """The rows that each cluster of a layer was solved with, and what the dual problem says of them."""

    # shape (n_clusters + 1,): cluster c's children are nodes `child_offsets[c]` to `child_offsets[c + 1] - 1`
    child_offsets: Int64
    # row_offsets, rows: cluster c's rows are `rows[row_offsets[c]:row_offsets[c + 1]]`, rising
    row_offsets: Int64
    rows: Int32
    # the dual variables, in units of the cost, of each cluster's rows and children, one cluster after the other
    multipliers: Float16
    # shape (n_nodes,): losses, in units of the cost, that have come to each node since it was solved; `STALE` if it
    # must be solved
    pending: Float32
    known: bool = True  # False when the multipliers are all 0, as nobody has kept them
    # shape (n_nodes,), or None: of each node's multipliers, NaN where nobody has asked for it yet; written where they
    # are computed
    sums: Float32 | None = None
    _begin: Any = None

    def __post_init__(self) -> None:
        sizes = np.diff(self.row_offsets) * np.diff(self.child_offsets)
        object.__setattr__(self, "_begin", np.concatenate(([0], np.cumsum(sizes))).astype(np.int64))

    @classmethod
    def of(
        cls, child_offsets: Int64, rows: Sequence[Int32], multipliers: Sequence[Float16], pending: Float32 | None = None
    ) -> LayerSolution:
        """From each cluster's rows and multipliers."""
        offsets = np.concatenate(([0], np.cumsum([len(part) for part in rows]))).astype(np.int64)
        flat = [np.zeros(0, np.float16), *(part.ravel() for part in multipliers)]
        nothing = np.zeros(int(child_offsets[-1]), np.float32)
        return cls(
            child_offsets, offsets, np.concatenate([np.zeros(0, np.int32), *rows]), np.concatenate(flat),
            nothing if pending is None else pending,
        )  # fmt: skip

    def rows_of(self, c: int) -> Int32:
        """The rows of cluster ``c``."""
        return self.rows[int(self.row_offsets[c]) : int(self.row_offsets[c + 1])]

    def multipliers_of(self, c: int) -> Float16:
        """The multipliers of cluster ``c``, of shape (its rows, its children)."""
        n_children = int(self.child_offsets[c + 1] - self.child_offsets[c])
        return self.multipliers[int(self._begin[c]) : int(self._begin[c + 1])].reshape(-1, n_children)

    def relaid(
        self, child_offsets: Int64, came_from: Int32, changed: Mapping[int, Int32], numbers: Int32 | None,
        pending: Float32, sums: Float32,
    ) -> LayerSolution:  # fmt: skip
        """With other rows in some clusters, whose multipliers are yet to be written."""
        # Shape: pending, sums (n_nodes,)
        sizes = np.diff(self.row_offsets)[came_from]
        sizes[list(changed)] = [len(rows) for rows in changed.values()]
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        n_multipliers = int((sizes * np.diff(child_offsets)).sum())
        solution = LayerSolution(
            child_offsets, offsets, np.empty(int(offsets[-1]), np.int32), np.empty(n_multipliers, np.float16), pending,
            self.known, sums,
        )  # fmt: skip
        for c, rows in changed.items():
            solution.rows_of(c)[:] = rows
        for first, last in runs_between(changed, len(came_from)):
            begin, end = int(came_from[first]), int(came_from[last - 1]) + 1
            rows = self.rows[int(self.row_offsets[begin]) : int(self.row_offsets[end])]
            solution.rows[int(offsets[first]) : int(offsets[last])] = rows if numbers is None else numbers[rows]
            multipliers = self.multipliers[int(self._begin[begin]) : int(self._begin[end])]
            solution.multipliers[int(solution._begin[first]) : int(solution._begin[last])] = multipliers
        return solution

    def without(self, left_nodes: Bool, kept_clusters: Bool, child_offsets: Int64) -> LayerSolution:
        """Without some nodes and the clusters that they leave empty; see :mod:`sylvan.ranking.tree_ranker`."""
        left = np.flatnonzero(kept_clusters).tolist()
        stays = [left_nodes[int(self.child_offsets[c]) : int(self.child_offsets[c + 1])] for c in left]
        multipliers = [self.multipliers_of(c)[:, these] for c, these in zip(left, stays, strict=True)]
        result = LayerSolution.of(child_offsets, [self.rows_of(c) for c in left], multipliers, self.pending[left_nodes])
        return replace(result, known=self.known)

    def with_other_rows(self, rows: Int64, nodes: Int64, mask: Bool) -> LayerSolution:
        """Where rows have become negatives of nodes, which are to be solved again; so are all nodes of clusters that
        have rows in ``mask``."""
        cluster = np.arange(len(self.row_offsets) - 1)
        of_entry = np.repeat(cluster, np.diff(self.row_offsets))
        pending, multipliers = self.pending.copy(), self.multipliers.copy()
        pending[np.repeat(np.isin(cluster, of_entry[mask[self.rows]]), np.diff(self.child_offsets))] = STALE
        clusters = np.searchsorted(self.child_offsets, nodes, side="right") - 1
        n = np.int64(len(mask))
        keys, wanted = of_entry * n + self.rows, clusters * n + rows
        places = np.searchsorted(keys, wanted)
        stored = places < len(keys)
        stored[stored] = keys[places[stored]] == wanted[stored]
        places, clusters, nodes = places[stored], clusters[stored], nodes[stored]
        pending[nodes] = STALE
        begin, n_children = self.child_offsets[clusters], np.diff(self.child_offsets)[clusters]
        multipliers[self._begin[clusters] + (places - self.row_offsets[clusters]) * n_children + nodes - begin] = 0
        return replace(self, pending=pending, multipliers=multipliers, sums=None)

    def to_arrays(self, prefix: str) -> dict[str, Array]:
        """The arrays to store, named with ``prefix``; ``child_offsets`` belong to the tree."""
        return {f"{prefix}.{name}": getattr(self, name) for name in ("row_offsets", "rows", "multipliers", "pending")}

    @classmethod
    def from_arrays(cls, state: store.State, prefix: str, child_offsets: Int64) -> LayerSolution:
        """What :meth:`to_arrays` stored; sizes and offsets are verified here, all else by :meth:`verify`."""
        n_clusters, n_nodes = len(child_offsets) - 1, int(child_offsets[-1])
        offsets = store.need_offsets(state, f"{prefix}.row_offsets", length=n_clusters + 1)
        n_multipliers = int((np.diff(offsets) * np.diff(child_offsets)).sum())
        return cls(
            child_offsets, offsets,
            store.need_array(state, f"{prefix}.rows", np.int32, (int(offsets[-1]),)),
            store.need_array(state, f"{prefix}.multipliers", np.float16, (n_multipliers,)),
            store.need_array(state, f"{prefix}.pending", np.float32, (n_nodes,)),
        )  # fmt: skip

    def verify(self, n_rows: int, where: str) -> None:
        """Make sure that rows are some of ``n_rows``, rising in each cluster, and numbers finite and not negative."""
        inner = np.ones(max(len(self.rows) - 1, 0), bool)
        edges = self.row_offsets[1:-1]
        inner[edges[(edges > 0) & (edges < len(self.rows))] - 1] = False
        sound = not len(self.rows) or (self.rows.min() >= 0 and self.rows.max() < n_rows)
        if not sound or not (np.diff(self.rows)[inner] > 0).all():
            raise ModelError(f"{where!r} is damaged: the rows of its clusters must rise, in [0, {n_rows - 1}].")
        # The bits of halfs from infinity on, and of all that are negative, are these or more.
        for name, sound in (
            ("multipliers", self.multipliers.view(np.uint16) < _INFINITE),
            ("pending", np.isfinite(self.pending) & (self.pending >= 0)),
        ):
            if not sound.all():
                raise ModelError(f"{where!r} is damaged: {name} must be finite numbers of at least 0.")


def rounded(multipliers: Float32) -> Float16:
    """Multipliers in half the bytes: none becomes 0 that isn't, for what depends on a row must stay visible."""
    halves = np.zeros(multipliers.shape, np.float16)
    positive = multipliers > 0  # of few, and the others' conversion would take as long
    halves[positive] = np.clip(multipliers[positive], _SMALLEST, _LARGEST)
    return halves


def widened(multipliers: Float16) -> Float32:
    """Multipliers as floats, times a power of two, 1 / :data:`WIDENED`: several times as fast as a conversion. The bits
    of a half that isn't negative are moved to where a float has them."""
    bits = multipliers.view(np.uint16).astype(np.uint32)
    bits <<= np.uint32(13)
    return bits.view(np.float32)


def column_sums(multipliers: Float16) -> Float32:
    """The sums of the columns of a matrix of multipliers, each added row by row, whatever stands beside it."""
    floats = widened(multipliers)
    if floats.shape[1] == 1:  # NumPy would add one column pairwise
        sums = np.cumsum(floats, dtype=np.float32)[-1:] if len(floats) else np.zeros(1, np.float32)
    else:
        sums = floats.sum(axis=0)
    return np.asarray(sums * WIDENED)
