"""Sparse rows: their lengths, and their columns where most are empty; nothing as large as the matrix is made."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from sylvan.validate import Csr

__all__ = ["row_squares", "scale_rows", "unit_rows", "used_columns"]

_FEW_COLUMNS = 1 << 22
_BLOCK_VALUES = 1 << 18


def row_squares(indptr: npt.NDArray[np.int64], data: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Squared length of each row."""
    squares = np.zeros(indptr.size - 1)
    for first, last in _blocks(indptr):
        begin, end = int(indptr[first]), int(indptr[last])
        if begin < end:
            filled = first + np.flatnonzero(np.diff(indptr[first : last + 1]))
            block = np.square(data[begin:end], dtype=np.float64)
            squares[filled] = np.add.reduceat(block, indptr[filled] - begin)
    return squares


def scale_rows(indptr: npt.NDArray[np.int64], data: npt.NDArray[np.float32], scale: npt.NDArray[np.float64]) -> None:
    """Multiply each row's values in place."""
    for first, last in _blocks(indptr):
        lengths = np.diff(indptr[first : last + 1])
        data[int(indptr[first]) : int(indptr[last])] *= np.repeat(scale[first:last], lengths).astype(np.float32)


def unit_rows(matrix: Csr) -> Csr:
    """The rows at length 1, those of zeros as they are; the matrix itself is left alone."""
    squares = row_squares(matrix.indptr, matrix.data)
    data = matrix.data.copy()
    scale_rows(matrix.indptr, data, 1 / np.sqrt(np.where(squares > 0, squares, 1)))
    return matrix._replace(data=data)


def _blocks(indptr: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ranges of rows of about so many values, or one long row."""
    marks = np.arange(_BLOCK_VALUES, int(indptr[-1]), _BLOCK_VALUES)
    edges = np.unique(np.concatenate(([0], np.searchsorted(indptr, marks), [indptr.size - 1]))).tolist()
    return list(itertools.pairwise(edges))


def used_columns(matrix: Csr) -> tuple[Csr, npt.NDArray[np.int32] | None]:
    """A matrix of very many columns without those that are empty, and which ones are left; else as it is, and None.

    The kernels keep arrays of all columns: a hashed feature space of two thousand million must not cost gigabytes.
    """
    if matrix.shape[1] <= max(_FEW_COLUMNS, 2 * matrix.nnz):
        return matrix, None
    columns, indices = np.unique(matrix.indices, return_inverse=True)
    shape = (matrix.shape[0], max(1, columns.size))
    return Csr(matrix.indptr, indices.astype(np.int32), matrix.data, shape), columns
