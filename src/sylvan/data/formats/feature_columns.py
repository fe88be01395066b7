"""Parquet files of features: the columns ``indices`` and ``values``, lists of numbers, and one of labels."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.canonical import MAX_COLUMNS, Csr
from sylvan.data.streams import PathLike, open_read
from sylvan.data.text_rows import refuse_repeated
from sylvan.errors import DataError

_INDICES, _VALUES = "indices", "values"


class FeatureRows(NamedTuple):
    """Rows of features as a file has them, and their labels."""

    indptr: npt.NDArray[np.int64]  # shape (n + 1,)
    indices: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]
    labels: list[list[Any]]
    name: str  # the file's, for errors

    @property
    def n_features(self) -> int:
        """The largest index and one."""
        return int(self.indices.max(initial=-1)) + 1

    def matrix(self, n_features: int) -> Csr:
        """The features as a matrix with so many columns."""
        wrong = (self.indices < 0) | (self.indices >= min(n_features, MAX_COLUMNS))
        if wrong.any():
            row = int(np.searchsorted(self.indptr, int(wrong.argmax()), "right")) - 1
            raise DataError(f"{self.name}, row {row}: {_INDICES!r} must be in [0, {n_features - 1}].")
        size = len(self.indptr) - 1, n_features
        csr = sp.csr_matrix((self.values, self.indices.astype(np.int32), self.indptr), shape=size)
        return validate.features(csr, name=self.name)


def read_feature_columns(path: PathLike, labels_field: str = "labels") -> FeatureRows:
    """Read features and labels; needs pyarrow."""
    try:
        import pyarrow as pa
        from pyarrow import parquet as pq
    except ImportError as error:
        raise DataError('Parquet needs pyarrow: pip install "sylvan[parquet]".') from error
    name = os.fspath(path)
    with open_read(path) as stream:
        file, _ = stream.sized()
        try:
            there = pq.ParquetFile(file)
            refuse_repeated(name, there.schema_arrow.names)
            for column in (_INDICES, _VALUES, labels_field):
                if column not in there.schema_arrow.names:
                    columns = ", ".join(there.schema_arrow.names)
                    raise DataError(f"{name}: there is no column {column!r}. Its columns are: {columns}.")
            table = there.read([_INDICES, _VALUES, labels_field])
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{name}: not a Parquet file, or damaged ({str(error).strip()[:200]}).") from error
    lengths, indices = _flat(table[_INDICES], name, _INDICES, pa.types.is_integer)
    others, values = _flat(table[_VALUES], name, _VALUES, _is_number)
    if not np.array_equal(lengths, others):
        row = int((lengths != others).argmax())
        raise DataError(
            f"{name}, row {row}: there must be a value for each of the {lengths[row]} indices. Got {others[row]}."
        )
    labels = [[] if row is None else row for row in table[labels_field].to_pylist()]
    if not all(isinstance(row, list) for row in labels):
        raise DataError(f"{name}: the column {labels_field!r} must hold lists of strings or of ints.")
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    return FeatureRows(indptr, indices.astype(np.int64), values.astype(np.float32), labels, name)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _flat(column: Any, name: str, field: str, right: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """The lengths of a column's lists, and their numbers one behind the other."""
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not right(kind.value_type):
        raise DataError(f"{name}: the column {field!r} must hold lists of numbers. Got {kind} instead.")
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    lengths = whole.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    numbers = whole.flatten()
    if numbers.null_count:
        raise DataError(f"{name}: the column {field!r} holds a list with null.")
    return lengths, numbers.to_numpy(zero_copy_only=False)
