"""How a layer's clusters were solved: their rows, and the dual variable of each row and child. Updates start there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.errors import ModelError
from sylvan.weights.changed import runs_between

STALE = np.float32(1e30)  # waits for a node that isn't a solution for its rows any more

WIDENED = np.float32(2.0**112)

_INFINITE = 0x7C00
_LARGEST, _SMALLEST = np.float32(np.finfo(np.float16).max), np.float32(np.finfo(np.float16).smallest_subnormal)


@dataclass(frozen=True, eq=False)
class LayerSolution:
    """The rows that each cluster of a layer was solved with, and what the dual problem says of them."""

    # shape (n_clusters + 1,): cluster c's children are nodes `child_offsets[c]` to `child_offsets[c + 1] - 1`
    child_offsets: npt.NDArray[np.int64]
    # row_offsets, rows: cluster c's rows are `rows[row_offsets[c]:row_offsets[c + 1]]`, rising
    row_offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    # the dual variables, in units of the cost, of each cluster's rows and children, one cluster after the other
    multipliers: npt.NDArray[np.float16]
    # shape (n_nodes,): losses, in units of the cost, that have come to each node since it was solved; `STALE` if it
    # must be solved
    pending: npt.NDArray[np.float32]
    known: bool = True  # False when the multipliers are all 0, as nobody has kept them
    # shape (n_nodes,), or None: of each node's multipliers, NaN where nobody has asked for it yet; written where they
    # are computed
    sums: npt.NDArray[np.float32] | None = None
    _begin: Any = None

    def __post_init__(self) -> None:
        sizes = np.diff(self.row_offsets) * np.diff(self.child_offsets)
        object.__setattr__(self, "_begin", np.concatenate(([0], np.cumsum(sizes))).astype(np.int64))

    @classmethod
    def of(
        cls,
        child_offsets: npt.NDArray[np.int64],
        rows: Sequence[npt.NDArray[np.int32]],
        multipliers: Sequence[npt.NDArray[np.float16]],
        pending: npt.NDArray[np.float32] | None = None,
    ) -> LayerSolution:
        """From each cluster's rows and multipliers."""
        offsets = np.concatenate(([0], np.cumsum([len(each) for each in rows]))).astype(np.int64)
        flat = [np.zeros(0, np.float16), *(each.ravel() for each in multipliers)]
        nothing = np.zeros(int(child_offsets[-1]), np.float32)
        return cls(
            child_offsets, offsets, np.concatenate([np.zeros(0, np.int32), *rows]), np.concatenate(flat),
            nothing if pending is None else pending,
        )  # fmt: skip

    def rows_of(self, c: int) -> npt.NDArray[np.int32]:
        """The rows of cluster ``c``."""
        return self.rows[int(self.row_offsets[c]) : int(self.row_offsets[c + 1])]

    def multipliers_of(self, c: int) -> npt.NDArray[np.float16]:
        """The multipliers of cluster ``c``, of shape (its rows, its children)."""
        n_children = int(self.child_offsets[c + 1] - self.child_offsets[c])
        return self.multipliers[int(self._begin[c]) : int(self._begin[c + 1])].reshape(-1, n_children)

    def relaid(
        self, child_offsets: npt.NDArray[np.int64], came_from: npt.NDArray[np.int32],
        changed: Mapping[int, npt.NDArray[np.int32]], now: npt.NDArray[np.int32] | None,
        pending: npt.NDArray[np.float32], sums: npt.NDArray[np.float32],
    ) -> LayerSolution:  # fmt: skip
        """With other rows in some clusters, whose multipliers are yet to be written."""
        # Shape: pending, sums (n_nodes,)
        sizes = np.diff(self.row_offsets)[came_from]
        sizes[list(changed)] = [len(rows) for rows in changed.values()]
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        n_multipliers = int((sizes * np.diff(child_offsets)).sum())
        made = LayerSolution(
            child_offsets, offsets, np.empty(int(offsets[-1]), np.int32), np.empty(n_multipliers, np.float16), pending,
            self.known, sums,
        )  # fmt: skip
        for c, rows in changed.items():
            made.rows_of(c)[:] = rows
        for first, last in runs_between(changed, len(came_from)):
            begin, end = int(came_from[first]), int(came_from[last - 1]) + 1
            rows = self.rows[int(self.row_offsets[begin]) : int(self.row_offsets[end])]
            made.rows[int(offsets[first]) : int(offsets[last])] = rows if now is None else now[rows]
            multipliers = self.multipliers[int(self._begin[begin]) : int(self._begin[end])]
            made.multipliers[int(made._begin[first]) : int(made._begin[last])] = multipliers
        return made

    def without(
        self, kept: npt.NDArray[np.bool_], kept_clusters: npt.NDArray[np.bool_], child_offsets: npt.NDArray[np.int64]
    ) -> LayerSolution:
        """Without some nodes and the clusters that they leave empty; see :mod:`sylvan.ranking.tree_ranker`."""
        left = np.flatnonzero(kept_clusters).tolist()
        own = [kept[int(self.child_offsets[c]) : int(self.child_offsets[c + 1])] for c in left]
        multipliers = [self.multipliers_of(c)[:, these] for c, these in zip(left, own, strict=True)]
        result = LayerSolution.of(child_offsets, [self.rows_of(c) for c in left], multipliers, self.pending[kept])
        return replace(result, known=self.known)

    def with_other_rows(
        self, rows: npt.NDArray[np.int64], nodes: npt.NDArray[np.int64], others: npt.NDArray[np.bool_]
    ) -> LayerSolution:
        """Where rows have become negatives of nodes, which are to be solved again; so are all nodes of clusters that
        have rows of a mask ``others``."""
        cluster = np.arange(len(self.row_offsets) - 1)
        of_entry = np.repeat(cluster, np.diff(self.row_offsets))
        pending, multipliers = self.pending.copy(), self.multipliers.copy()
        pending[np.repeat(np.isin(cluster, of_entry[others[self.rows]]), np.diff(self.child_offsets))] = STALE
        clusters = np.searchsorted(self.child_offsets, nodes, side="right") - 1
        n = np.int64(len(others))
        keys, wanted = of_entry * n + self.rows, clusters * n + rows
        at = np.searchsorted(keys, wanted)
        found = at < len(keys)
        found[found] = keys[at[found]] == wanted[found]
        at, clusters, nodes = at[found], clusters[found], nodes[found]
        pending[nodes] = STALE
        begin, n_children = self.child_offsets[clusters], np.diff(self.child_offsets)[clusters]
        multipliers[self._begin[clusters] + (at - self.row_offsets[clusters]) * n_children + nodes - begin] = 0
        return replace(self, pending=pending, multipliers=multipliers, sums=None)

    def to_arrays(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """The arrays to store, named with ``prefix``; ``child_offsets`` belong to the tree."""
        names = ("row_offsets", "rows", "multipliers", "pending")
        return {f"{prefix}.{name}": getattr(self, name) for name in names}

    @classmethod
    def from_arrays(cls, state: store.State, prefix: str, child_offsets: npt.NDArray[np.int64]) -> LayerSolution:
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
        sound = {
            "multipliers": bool((self.multipliers.view(np.uint16) < _INFINITE).all()),
            "pending": bool((np.isfinite(self.pending) & (self.pending >= 0)).all()),
        }
        for name, fine in sound.items():
            if not fine:
                raise ModelError(f"{where!r} is damaged: {name} must be finite numbers of at least 0.")


def rounded(multipliers: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    """Multipliers in half the bytes: none becomes 0 that isn't, for what depends on a row must stay visible."""
    kept = np.zeros(multipliers.shape, np.float16)
    there = multipliers > 0  # of few, and the others' conversion would take as long
    kept[there] = np.clip(multipliers[there], _SMALLEST, _LARGEST)
    return kept


def widened(multipliers: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Multipliers as floats, times a power of two, 1 / :data:`WIDENED`: several times as fast as a conversion. The bits
    of a half that isn't negative are moved to where a float has them."""
    bits = multipliers.view(np.uint16).astype(np.uint32)
    bits <<= np.uint32(13)
    return bits.view(np.float32)


def column_sums(multipliers: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """The sums of the columns of a matrix of multipliers, each added row by row, whatever stands beside it."""
    floats = widened(multipliers)
    if floats.shape[1] == 1:  # a sum of one column would be by halves
        sums = np.cumsum(floats, dtype=np.float32)[-1:] if len(floats) else np.zeros(1, np.float32)
    else:
        sums = floats.sum(axis=0)
    result: npt.NDArray[np.float32] = sums * WIDENED
    return result
