"""Any array that stands for a matrix, made canonical: sorted rows, each column once, finite, no stored 0."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays.frames import numbers_of, numpy_of, rows_of_vectors
from sylvan.errors import DataError

MAX_COLUMNS = 2**31 - 1
_BLOCK_VALUES = 1 << 18  # values of rows that are squared or scaled at once
_FEW_COLUMNS = 1 << 22
_ROW_BLOCK = 1 << 20  # values of a dense matrix that are put beside a sparse one at once
_DENSE_BLOCK = 1 << 22  # values converted at once, so that a dense float64 matrix is never doubled

_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)
_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)
_OFFSETS, _RANGE, _NOT_FINITE, _UNSORTED, _ZERO, _TOO_LARGE = range(1, 7)


class Csr(NamedTuple):
    """A verified sparse matrix in canonical form: sorted rows, each column once, finite, no stored zero."""

    indptr: npt.NDArray[np.int64]  # shape (n + 1,)
    indices: npt.NDArray[np.int32]  # shape (nnz,)
    data: npt.NDArray[np.float32]  # shape (nnz,)
    shape: tuple[int, int]

    @classmethod
    def of(cls, matrix: sp.csr_matrix) -> Csr:
        """scipy's matrix, of float32 and in canonical form already."""
        return cls(matrix.indptr.astype(_INT64), matrix.indices.astype(_INT32, copy=False), matrix.data, matrix.shape)

    @classmethod
    def empty(cls, n_rows: int, n_columns: int) -> Csr:
        """Zeros."""
        return cls(np.zeros(n_rows + 1, _INT64), np.zeros(0, _INT32), np.zeros(0, _FLOAT32), (n_rows, n_columns))

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return int(self.indptr[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.indptr.nbytes + self.indices.nbytes + self.data.nbytes

    def to_scipy(self) -> sp.csr_matrix:
        """The same matrix as scipy's, sharing the values."""
        return sp.csr_matrix((self.data, self.indices, self.indptr), shape=self.shape)

    def row_squares(self) -> npt.NDArray[np.float64]:
        """Squared length of each row; nothing as large as the matrix is made."""
        squares = np.zeros(self.shape[0])
        for first, last in self.ranges():
            begin, end = int(self.indptr[first]), int(self.indptr[last])
            if begin < end:
                filled = first + np.flatnonzero(np.diff(self.indptr[first : last + 1]))
                block = np.square(self.data[begin:end], dtype=np.float64)
                squares[filled] = np.add.reduceat(block, self.indptr[filled] - begin)
        return squares

    def column_squares(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """The sum of the squares of each column's values, and how many it holds."""
        squares, counts = np.zeros(self.shape[1]), np.zeros(self.shape[1], np.int64)
        for first, last in self.ranges():
            values = slice(int(self.indptr[first]), int(self.indptr[last]))
            np.add.at(squares, self.indices[values], np.square(self.data[values], dtype=np.float64))
            np.add.at(counts, self.indices[values], 1)
        return squares, counts

    def unit_rows(self) -> Csr:
        """The matrix with its rows at length 1, those of zeros as they are."""
        squares, data = self.row_squares(), self.data.copy()
        scale = 1 / np.sqrt(np.where(squares > 0, squares, 1))
        for first, last in self.ranges():
            factors = np.repeat(scale[first:last], np.diff(self.indptr[first : last + 1])).astype(_FLOAT32)
            data[int(self.indptr[first]) : int(self.indptr[last])] *= factors
        return self._replace(data=data)

    def times_columns(self, factors: npt.NDArray[np.float32]) -> Csr:
        """The matrix with each column times its factor."""
        return self._replace(data=self.data * factors[self.indices])

    def ranges(self, n_values: int = _BLOCK_VALUES) -> list[tuple[int, int]]:
        """Ranges of rows of about so many values, or one long row."""
        marks = np.arange(n_values, self.nnz, n_values)
        edges = np.unique(np.concatenate(([0], np.searchsorted(self.indptr, marks), [self.indptr.size - 1]))).tolist()
        return list(itertools.pairwise(edges))

    def where(self, chosen: npt.NDArray[np.bool_]) -> Csr:
        """The matrix with some of its values alone, by a flag for each."""
        indptr = np.concatenate(([0], np.cumsum(chosen)))[self.indptr].astype(_INT64)
        return self._replace(indptr=indptr, indices=self.indices[chosen], data=self.data[chosen])

    def rows_of_values(self) -> npt.NDArray[np.int64]:
        """The row of each value."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Csr:
        """Some rows, in the order of ``rows``."""
        return take_rows(self, rows)

    def between(self, first: int, last: int) -> Csr:
        """The rows from ``first`` to before ``last``, sharing the values."""
        begin, end = int(self.indptr[first]), int(self.indptr[last])
        indptr = self.indptr[first : last + 1] - begin
        return Csr(indptr, self.indices[begin:end], self.data[begin:end], (last - first, self.shape[1]))

    def used_columns(self) -> tuple[Csr, npt.NDArray[np.int32] | None]:
        """A matrix of very many columns without those that are empty, and which ones are left; else as it is, and
        None. The kernels keep arrays of all columns: a hashed feature space of two thousand million must not cost
        gigabytes."""
        if self.shape[1] <= max(_FEW_COLUMNS, 2 * self.nnz):
            return self, None
        columns, indices = np.unique(self.indices, return_inverse=True)
        return Csr(self.indptr, indices.astype(_INT32), self.data, (self.shape[0], max(1, columns.size))), columns


def distinct(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The different ones of some numbers, rising: np.unique, which hashes since NumPy 2.3, takes many times as long."""
    ordered = np.sort(values)
    different = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=different[1:])
    return ordered[different]


def take_rows(matrix: Csr, rows: npt.NDArray[np.integer[Any]]) -> Csr:
    """Some rows of a matrix, in the order of ``rows``."""
    lengths = matrix.indptr[1:][rows] - matrix.indptr[rows]  # not of all rows: these may be a few of very many
    indptr = np.append(0, np.cumsum(lengths)).astype(np.int64)
    entries = runs_of(matrix.indptr[rows], lengths)
    return Csr(indptr, matrix.indices[entries], matrix.data[entries], (len(rows), matrix.shape[1]))


def runs_of(begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Every number of some runs of numbers: from 2 and 7, of lengths 2 and 1, it is [2, 3, 7]."""
    stops = np.cumsum(lengths)
    total = int(stops[-1]) if len(stops) else 0
    numbers: npt.NDArray[np.int64] = np.arange(total) + np.repeat(begins - (stops - lengths), lengths)
    return numbers


def pair_keys(matrix: Any, width: Any) -> npt.NDArray[np.int64]:
    """A number for each stored entry of a matrix by rows: that of its row times ``width``, and its column."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    keys: npt.NDArray[np.int64] = rows * np.int64(width) + matrix.indices
    return keys


def stacked(above: Csr, below: Csr, empty: Callable[[int, Any], npt.NDArray[Any]] = np.empty) -> Csr:
    """The rows of one matrix and, below them, those of another of as many columns; in arrays that ``empty`` makes."""
    if not below.shape[0]:
        return above
    indptr = np.concatenate((above.indptr, below.indptr[1:] + above.indptr[-1]))
    indices, data = (empty(int(indptr[-1]), dtype) for dtype in (_INT32, _FLOAT32))
    np.concatenate((above.indices, below.indices), out=indices)
    np.concatenate((above.data, below.data), out=data)
    return Csr(indptr, indices, data, (above.shape[0] + below.shape[0], above.shape[1]))


def within(matrix: Csr, n_columns: int) -> Csr:
    """The matrix without its columns from ``n_columns`` on."""
    if matrix.shape[1] <= n_columns:
        return matrix
    return matrix.where(matrix.indices < n_columns)._replace(shape=(matrix.shape[0], n_columns))


def beside(left: Csr, right: npt.NDArray[np.float32]) -> Csr:
    """A sparse matrix and, to its right, a dense one as one sparse matrix: neither is ever copied whole."""
    # Shapes: left (n, d); right (n, m); returns (n, d + m)
    (n_rows, width), n_dense = left.shape, right.shape[1]
    if right.shape[0] != n_rows:
        raise DataError(f"There are {n_rows} rows of features, but {right.shape[0]} dense ones.")
    if width + n_dense > MAX_COLUMNS:
        raise DataError(f"{width} and {n_dense} columns are more than the {MAX_COLUMNS} that are possible.")
    step = max(1, _ROW_BLOCK // max(1, n_dense))
    counts = np.empty(n_rows, _INT64)
    for start in range(0, n_rows, step):
        counts[start : start + step] = np.count_nonzero(right[start : start + step], axis=1)
    n_left = np.diff(left.indptr)
    indptr = np.append(0, np.cumsum(n_left + counts))
    indices, data = np.empty(indptr[-1], _INT32), np.empty(indptr[-1], _FLOAT32)
    for start in range(0, n_rows, step):
        rows = slice(start, min(start + step, n_rows))
        begins, block = indptr[rows], right[rows]
        if not np.isfinite(block).all():
            row = start + int((~np.isfinite(block)).any(axis=1).argmax())
            raise DataError(f"The dense features hold NaN or infinity (inf) in row {row}. Every value must be finite.")
        first, last = int(left.indptr[rows.start]), int(left.indptr[rows.stop])
        places = runs_of(begins, n_left[rows])
        indices[places], data[places] = left.indices[first:last], left.data[first:last]
        in_block, columns = np.nonzero(block)
        places = runs_of(begins + n_left[rows], counts[rows])
        indices[places], data[places] = columns + width, block[in_block, columns]
    return Csr(indptr, indices, data, (n_rows, width + n_dense))


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as errors show it, with plain ints."""
    return str(tuple(int(size) for size in shape))


def matrix(X: Any, name: str, axis: str) -> Csr:
    """Any matrix in canonical form, the long way round."""
    X = numbers_of(X, name)
    if sp.issparse(X):
        return _sparse(X, name)
    array = real_numbers(X, name)
    if array.ndim != 2:
        hint = " Reshape your data: a single row is X.reshape(1, -1)." if array.ndim == 1 else ""
        raise DataError(
            f"{name} must have two dimensions, (rows, {axis}). Expected 2D array, got shape "
            f"{shape_text(array.shape)} instead.{hint}"
        )
    if array.shape[1] > MAX_COLUMNS:
        raise DataError(f"{name} has shape {shape_text(array.shape)}; no more than {MAX_COLUMNS} columns are possible.")
    return _dense(array, name)


def real_numbers(values: Any, name: str) -> npt.NDArray[Any]:
    """``values`` as an array of real numbers."""
    if isinstance(values, np.ma.MaskedArray):
        raise DataError(f"{name} is a masked array; fill it first, as the mask would be lost.")
    if isinstance(values, (str, bytes)):
        raise _text_error(name)
    values = numbers_of(values, name)
    if sp.issparse(values):
        raise DataError(f"{name} must be a dense array, but is a sparse matrix.")
    array = as_array(values, name)
    if array.dtype.kind in "US":
        raise _text_error(name)
    if array.dtype.kind == "O" and array.ndim == 1 and len(array) and isinstance(array[0], (list, tuple, np.ndarray)):
        array = rows_of_vectors(array, name)
    if array.dtype.kind == "O":
        flat = array.ravel()
        if any(isinstance(value, (str, bytes)) for value in flat[:1000]):
            raise _text_error(name)
        try:
            array = array.astype(_FLOAT64)
        except (ValueError, TypeError) as error:
            kind = type(flat[0]).__name__
            raise DataError(f"{name} must hold numbers, but holds {kind} objects: {error}.") from error
    return array.astype(_FLOAT64) if needs_double(array.dtype, name) else array


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """``values`` as NumPy sees them; :class:`DataError` where it can't."""
    values = numpy_of(values, name)
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # the last of a list of tensors that require grad
        raise DataError(f"{name} is no array of numbers: {str(error).rstrip('.')}.") from error


def _text_error(name: str) -> DataError:
    way = "this model needs numbers. TextModel(TfidfVectorizer(), model) learns from texts and named labels."
    return DataError(f"{name} holds text, but {way if name == 'X' else 'must hold numbers.'}")


def needs_double(dtype: np.dtype[Any], name: str) -> bool:
    """Whether values of ``dtype`` must be made float64 first; refuses what isn't real."""
    if dtype.kind == "c":
        raise DataError(f"Complex data not supported: {name} must hold real numbers, but is of dtype {dtype}.")
    if dtype.kind not in "biuf":
        raise DataError(f"{name} must hold numbers, but is of dtype {dtype}.")
    return bool(dtype.kind == "f" and dtype.itemsize > 8) or not dtype.isnative


def _sparse(X: Any, name: str) -> Csr:
    """A scipy matrix of any format in canonical form."""
    if len(X.shape) != 2:
        raise DataError(f"{name} must have two dimensions. Expected 2D array, got shape {shape_text(X.shape)} instead.")
    n_rows, n_columns = int(X.shape[0]), int(X.shape[1])
    if n_columns > MAX_COLUMNS:
        raise DataError(f"{name} has shape {shape_text(X.shape)}; no more than {MAX_COLUMNS} columns are possible.")
    if X.format == "csr":
        return compressed(X.indptr, X.indices, X.data, n_rows, n_columns, name, "row")
    # scipy converts without looking: an index out of range would write where it likes, so look first.
    if X.format == "csc":
        by_column = compressed(X.indptr, X.indices, X.data, n_columns, n_rows, name, "column")
        rows = sp.csc_matrix((by_column.data, by_column.indices, by_column.indptr), shape=X.shape).tocsr()
    else:
        try:
            if hasattr(X, "check_format"):
                X.check_format(full_check=True)
            coo = X.tocoo()
            if not len(coo.row) == len(coo.col) == len(coo.data):
                raise DataError(f"{name} is an inconsistent coo matrix: its row, col and data differ in length.")
            for coordinates, size, axis in ((coo.row, n_rows, "row"), (coo.col, n_columns, "column")):
                if coordinates.size and (int(coordinates.min()) < 0 or int(coordinates.max()) >= size):
                    raise DataError(f"{name} of shape {shape_text(coo.shape)} holds a {axis} index out of range.")
            rows = coo.tocsr()
        except DataError:
            raise
        except Exception as error:  # scipy's own checks raise all kinds
            raise DataError(f"{name} is an inconsistent {X.format} matrix: {error}.") from error
    return compressed(rows.indptr, rows.indices, rows.data, n_rows, n_columns, name, "row")


def compressed(indptr: Any, indices: Any, data: Any, n_rows: int, n_columns: int, name: str, axis: str) -> Csr:
    """Compressed arrays in canonical form; copied unless they are in it already."""
    indptr, indices, data = np.asarray(indptr), np.asarray(indices), np.asarray(data)
    shape_read = (n_rows, n_columns) if axis == "row" else (n_columns, n_rows)
    broken = DataError(f"{name} of shape {shape_read} is an inconsistent sparse matrix: its offsets are wrong.")
    kinds = indptr.dtype.kind + indices.dtype.kind
    if indptr.ndim != 1 or indices.ndim != 1 or data.ndim != 1 or not set(kinds) <= set("iu"):
        raise broken
    if indptr.size != n_rows + 1 or int(indptr[-1]) < 0 or int(indptr[-1]) > min(indices.size, data.size):
        raise broken
    stop = int(indptr[-1])  # scipy allows arrays longer than that
    double = needs_double(data.dtype, name) or data.dtype != _FLOAT32
    is_flag = data.dtype.kind == "b"
    offsets = np.ascontiguousarray(indptr, dtype=_INT64)
    index = _INT32 if indices.dtype == _INT32 else _INT64
    columns: npt.NDArray[Any] = np.ascontiguousarray(indices[:stop], dtype=index)
    values: npt.NDArray[Any] = np.ascontiguousarray(data[:stop], dtype=_FLOAT64 if double else _FLOAT32)
    if columns.dtype == _INT32 and values.dtype == _FLOAT32:
        fault, _ = kernels.check_compressed(offsets, columns, values, n_columns)
        if fault == 0:
            return Csr(offsets, columns, values, (n_rows, n_columns))
    out_indptr, out_indices = np.empty(n_rows + 1, _INT64), np.empty(stop, _INT32)
    out_data = np.empty(stop, _FLOAT32)
    fault, row = kernels.canonical_rows(offsets, columns, values, n_columns, out_indptr, out_indices, out_data)
    if fault == _OFFSETS:
        raise broken
    if fault == _RANGE:
        raise DataError(f"{name} of shape {shape_read} holds an index out of range in {axis} {row}.")
    _raise_value_fault(fault, row, name, axis)
    n_values = int(out_indptr[-1])
    if is_flag:
        np.minimum(out_data, 1, out=out_data)  # True named twice is still True
    if n_values < stop:
        out_indices, out_data = out_indices[:n_values].copy(), out_data[:n_values].copy()
    return Csr(out_indptr, out_indices, out_data, (n_rows, n_columns))


def _raise_value_fault(fault: int, row: int, name: str, axis: str = "row") -> None:
    if fault == _NOT_FINITE:
        raise DataError(f"{name} holds NaN or infinity (inf) in {axis} {row}. Every value must be finite.")
    if fault == _TOO_LARGE:
        raise DataError(f"{name} holds a value too large for float32 in {axis} {row}. Scale it down first.")


def _dense(array: npt.NDArray[Any], name: str) -> Csr:
    """A dense matrix in canonical form, block by block unless its bytes can be read as they lie."""
    n_rows, n_columns = array.shape
    readable = array.flags.c_contiguous and array.dtype in (_FLOAT32, _FLOAT64)
    step = max(1, n_rows if readable else _DENSE_BLOCK // max(1, n_columns))
    as_type = _FLOAT32 if array.dtype == _FLOAT32 else _FLOAT64
    counts = np.zeros(n_rows, _INT64)
    parts = []
    for start in range(0, n_rows, step):
        block: npt.NDArray[Any] = np.ascontiguousarray(array[start : start + step], dtype=as_type)
        fault, row = kernels.count_dense(block, counts[start : start + step])
        _raise_value_fault(fault, start + row, name)
        offsets = np.append(0, np.cumsum(counts[start : start + step]))
        indices, data = np.empty(offsets[-1], _INT32), np.empty(offsets[-1], _FLOAT32)
        if not kernels.fill_dense(block, offsets, indices, data):
            raise DataError(f"{name} was changed while it was read.")
        parts.append((indices, data))
    indptr = np.append(0, np.cumsum(counts))
    if len(parts) != 1:
        empty = (np.empty(0, _INT32), np.empty(0, _FLOAT32))
        indices, data = (np.concatenate([p[i] for p in parts] or [empty[i]]) for i in (0, 1))
    return Csr(indptr, indices, data, (n_rows, n_columns))
