"""Room behind a matrix: rows can follow without a copy of those that there are."""

from __future__ import annotations

import threading

import numpy as np

from sylvan.arrays.canonical import Csr

SPARE = 1.25  # of a matrix that is copied, so much is allocated; the system gives memory when it is written


class Room:
    """The arrays that a matrix lies in, and how much of them is used. Matrices that share the room agree on the rows
    that they share: what is used once is never written again. Of two that both go on from the same rows, the second is
    copied to a room of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._indptr, self._indices = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self._data = np.zeros(0, np.float32)
        self._n_used = -1  # rows

    def __reduce__(self) -> tuple[type[Room], tuple[()]]:
        return Room, ()  # a copy of a matrix lies elsewhere

    def stacked(self, above: Csr, below: Csr) -> tuple[Csr, Room]:
        """The rows of one matrix and, below them, those of another of as many columns; and the room that they are in,
        which is this one if ``above`` is all that it holds."""
        n_above, n_rows, nnz = above.shape[0], above.shape[0] + below.shape[0], above.nnz + below.nnz
        if n_above == n_rows:
            return above, self
        with self._lock:
            fits = self._n_used == n_above and above.data.base is self._data
            fits = fits and n_rows < len(self._indptr) and nnz <= len(self._data)
            if fits:  # from here on these rows are nobody else's
                self._n_used = n_rows
        room = self if fits else Room._around(above, n_rows, nnz)
        room._indptr[n_above + 1 : n_rows + 1] = below.indptr[1:] + above.indptr[-1]
        room._indices[above.nnz : nnz], room._data[above.nnz : nnz] = below.indices, below.data
        made = Csr(room._indptr[: n_rows + 1], room._indices[:nnz], room._data[:nnz], (n_rows, above.shape[1]))
        return made, room

    @classmethod
    def _around(cls, matrix: Csr, n_rows: int, nnz: int) -> Room:
        """A copy of a matrix with room for so many rows and values, and some more."""
        room = cls()
        room._indptr = np.empty(int(SPARE * n_rows) + 1, np.int64)
        room._indices, room._data = np.empty(int(SPARE * nnz), np.int32), np.empty(int(SPARE * nnz), np.float32)
        room._indptr[: len(matrix.indptr)] = matrix.indptr
        room._indices[: matrix.nnz], room._data[: matrix.nnz] = matrix.indices, matrix.data
        room._n_used = n_rows
        return room
