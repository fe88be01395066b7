"""The nearest rows by cosine, searched exactly: an inverted file of sparse rows, or a matrix of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan import kernels, store
from sylvan.arrays.types import Array, Bool, Float32, Int32, Int64
from sylvan.arrays.validate import Csr
from sylvan.parallel import map_parallel, split_ranges

FULL = 0.9  # the share of a matrix's values, empty rows aside, from which on its rows are vectors
FREQUENT = 5  # a feature is frequent when more than one row in so many has it
ROWS = 64  # queries that a thread takes at a time
_NAMES = (
    "rare", "posting_offsets", "posting_rows", "posting_values", "frequent", "row_offsets", "row_places", "row_values",
    "row_lengths",
)  # fmt: skip

Nearest = tuple[Int32, Float32]
_VECTORS = "row_vectors"
_INNER_PRODUCT = 2  # the kernel's number of this metric


@dataclass(frozen=True, eq=False)
class NeighborIndex:
    """Rows scaled to length one, by feature where few rows have it and by row where many do."""

    n_features: int
    rare: Int32  # the features with a list of postings, rising
    posting_offsets: Int64  # shape (len(rare) + 1,)
    posting_rows: Int32  # the rows of each, rising
    posting_values: Float32  # the values there
    # the features that are stored row by row, rising; a place is a position in this array
    frequent: Int32
    row_offsets: Int64  # shape (n_rows + 1,)
    row_places: Int32  # the places of each row in `frequent`, rising
    row_values: Float32  # the values there
    row_lengths: Float32  # shape (n_rows,): length of each row's frequent part, never rounded down

    @cached_property
    def handle(self) -> kernels.Neighbors:
        """The same arrays as the kernel sees them; a native object that stays out of pickles."""
        return kernels.Neighbors(*(getattr(self, name) for name in _NAMES))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "handle"}

    @property
    def n_rows(self) -> int:
        """Number of indexed rows."""
        return len(self.row_lengths)

    @classmethod
    def build(cls, features: Csr, used: Bool | None = None, *, scaled: bool = True) -> NeighborIndex:
        """Index the rows of a matrix; those not ``used`` are nobody's neighbours. Every value is stored once: in its
        feature's list, or in its row. If not ``scaled``, rows stay as long as they are, and what is searched for isn't
        the cosine but its product with a row's length."""
        n_rows, n_features = features.shape
        narrow, names = features.used_columns()
        values = features.unit_rows().data if scaled else features.data.copy()
        if used is not None:
            values[np.repeat(~used, np.diff(features.indptr))] = 0
        counts = np.bincount(narrow.indices[values != 0], minlength=narrow.shape[1])
        is_frequent, is_rare = counts > n_rows // FREQUENT, (counts > 0) & (counts <= n_rows // FREQUENT)
        names = np.arange(narrow.shape[1], dtype=np.int32) if names is None else names
        by_row = _part(narrow, values, is_frequent)
        by_feature = _part(narrow, values, is_rare).tocsc()
        exact = np.sqrt(Csr.of(by_row).row_squares())
        row_lengths = np.nextafter(exact.astype(np.float32), np.float32(np.inf))
        row_lengths[exact == 0] = 0
        return cls(
            n_features, names[is_rare].astype(np.int32), by_feature.indptr.astype(np.int64),
            by_feature.indices.astype(np.int32), by_feature.data, names[is_frequent].astype(np.int32),
            by_row.indptr.astype(np.int64), by_row.indices.astype(np.int32), by_row.data, row_lengths,
        )  # fmt: skip

    def rows(self) -> Csr:
        """The indexed rows, at length one, feature by feature again."""
        row_of_entry = np.repeat(np.arange(self.n_rows, dtype=np.int32), np.diff(self.row_offsets))
        row = np.concatenate((row_of_entry, self.posting_rows))
        names = self.frequent[self.row_places], np.repeat(self.rare, np.diff(self.posting_offsets))
        values = np.concatenate((self.row_values, self.posting_values))
        matrix = sp.csr_matrix((values, (row, np.concatenate(names))), shape=(self.n_rows, self.n_features))
        matrix.sort_indices()
        return Csr.of(matrix)

    def nearest(
        self, queries: Csr, n: int, *, only: Bool | None = None, n_jobs: int = 1, description: str | None = None
    ) -> Nearest:
        """The ``n`` rows of highest cosine with each query, best first, lower row first among equals. Only rows with a
        cosine above 0 are neighbours; -1 and -inf fill what is left. ``only`` flags the rows that may be named."""
        shape = (queries.shape[0], n)
        rows, similarities = np.empty(shape, np.int32), np.empty(shape, np.float32)
        flags = None if only is None else only.astype(np.uint8)

        def search(part: tuple[int, int]) -> None:
            kernels.nearest_rows(
                self.handle, queries.indptr, queries.indices, queries.data, *part, flags, rows, similarities
            )

        parts = split_ranges(shape[0], ROWS)
        if len(parts) == 1:
            search(parts[0])
        else:
            map_parallel(search, parts, n_jobs, description=description)
        return rows, similarities

    def values_of(self, number: int, features: Int32) -> Float32:
        """What an indexed row, scaled to length one, holds of some features; 0 where it lacks one."""
        first, last = int(self.row_offsets[number]), int(self.row_offsets[number + 1])
        names = self.frequent[self.row_places[first:last]].tolist()
        frequent = dict(zip(names, self.row_values[first:last], strict=True))
        values = np.array([frequent.get(feature, 0) for feature in features.tolist()], np.float32)
        places = np.searchsorted(self.rare, features)
        for i in np.flatnonzero(places < len(self.rare)).tolist():
            if self.rare[places[i]] == features[i]:
                begin, end = int(self.posting_offsets[places[i]]), int(self.posting_offsets[places[i] + 1])
                place = begin + int(np.searchsorted(self.posting_rows[begin:end], number))
                if place < end and self.posting_rows[place] == number:
                    values[i] = self.posting_values[place]
        return values

    def to_arrays(self) -> dict[str, Array]:
        """The arrays to be saved, by name."""
        return {name: getattr(self, name) for name in _NAMES}

    @classmethod
    def from_state(cls, state: store.State, n_features: int, n_rows: int) -> NeighborIndex:
        """From arrays that :meth:`to_arrays` gave, verified."""
        arrays: dict[str, Array] = {}
        for name in ("rare", "frequent"):
            arrays[name] = store.need_rising(state, name, 0, n_features - 1, np.int32)
        sizes = ("posting", "posting_rows", len(arrays["rare"]) + 1), ("row", "row_places", n_rows + 1)
        for prefix, ids, length in sizes:
            arrays[ids] = store.need_array(state, ids, np.int32, (None,))
            n = len(arrays[ids])
            arrays[f"{prefix}_offsets"] = store.need_offsets(state, f"{prefix}_offsets", total=n, length=length)
            arrays[f"{prefix}_values"] = store.need_array(state, f"{prefix}_values", np.float32, (n,))
        arrays["row_lengths"] = store.need_range(state, "row_lengths", 0, 2, np.float32, (n_rows,))
        return cls(n_features, **arrays)


@dataclass(frozen=True, eq=False)
class VectorIndex:
    """Rows scaled to length one as they are: with each, a query is compared in as many products as it has values."""

    vectors: Float32  # shape (n_rows, n_features); zeros for rows that are nobody's neighbours

    @property
    def n_rows(self) -> int:
        """Number of indexed rows."""
        return len(self.vectors)

    @classmethod
    def build(cls, features: Csr, used: Bool | None = None) -> VectorIndex:
        """Index the rows of a matrix; those not ``used`` are nobody's neighbours."""
        vectors = features.unit_rows().to_scipy().toarray()
        if used is not None:
            vectors[~used] = 0
        return cls(vectors)

    def rows(self) -> Csr:
        """The indexed rows, at length one."""
        return Csr.of(sp.csr_matrix(self.vectors))

    def nearest(
        self, queries: Csr, n: int, *, only: Bool | None = None, n_jobs: int = 1, description: str | None = None
    ) -> Nearest:
        """As :meth:`NeighborIndex.nearest`."""
        base = self.vectors if only is None else self.vectors[only]
        vectors, shape = queries.unit_rows().to_scipy().toarray(), (queries.shape[0], n)
        rows, similarities = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)

        def search(part: tuple[int, int]) -> None:
            kernels.nearest_vectors(vectors, base, None, *part, _INNER_PRODUCT, rows, similarities)

        map_parallel(search, split_ranges(shape[0], ROWS), n_jobs, description=description)
        near = similarities > 0
        if only is not None:
            rows[near] = np.flatnonzero(only)[rows[near]]
        return np.where(near, rows, np.int32(-1)), np.where(near, similarities, np.float32(-np.inf))

    def values_of(self, number: int, features: Int32) -> Float32:
        """As :meth:`NeighborIndex.values_of`."""
        return np.asarray(self.vectors[number, features])

    def to_arrays(self) -> dict[str, Array]:
        """The arrays to be saved, by name."""
        return {_VECTORS: self.vectors}


RowIndex = NeighborIndex | VectorIndex


def index_rows(features: Csr, used: Bool | None = None) -> RowIndex:
    """An index of the rows of a matrix as suits them; those not ``used`` are nobody's neighbours."""
    n_full = np.count_nonzero(np.diff(features.indptr)) * features.shape[1]
    return (VectorIndex if features.nnz >= FULL * n_full > 0 else NeighborIndex).build(features, used)


def index_from_state(state: store.State, n_features: int, n_rows: int) -> RowIndex:
    """From the arrays that an index gave, verified."""
    if _VECTORS not in state.arrays:
        return NeighborIndex.from_state(state, n_features, n_rows)
    return VectorIndex(store.need_range(state, _VECTORS, -1.01, 1.01, np.float32, (n_rows, n_features)))


def _part(matrix: Csr, values: Float32, chosen: Bool) -> sp.csr_matrix:
    """The chosen columns of a matrix of these values, numbered from 0; zeros are dropped."""
    numbers = np.cumsum(chosen, dtype=np.int32) - 1
    left = matrix._replace(data=values).where(chosen[matrix.indices] & (values != 0))
    return left._replace(indices=numbers[left.indices], shape=(matrix.shape[0], int(chosen.sum()))).to_scipy()
