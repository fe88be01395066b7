"""Rows of tables as what models take: texts of columns of strings, features of columns of lists."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.data.formats.columnar import columns_of, records_as_rows
from sylvan.data.text_rows import quoted
from sylvan.errors import DataError, ParameterError
from sylvan.params.wording import counted

FEATURES = ("indices", "values")  # the columns of sparse features, unless others are named
_Lists = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]  # all numbers, one row behind the other, and each row's length


def checked_features(features: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names of the columns of features: one of vectors, or those of ids and values."""
    if features is None:
        return FEATURES
    if isinstance(features, str):
        return (features,)
    if len(features) != 2 or not all(isinstance(name, str) for name in features):
        raise ParameterError(
            "The 'features' parameter must be the column of the vectors, or a pair of those of ids and values. "
            f"Got {features!r} instead."
        )
    return tuple(features)


def texts_of_table(name: str, table: Any, fields: Sequence[str]) -> list[str]:
    """The texts of a table's rows: strings of columns, joined by blanks; null adds nothing."""
    columns_of(name, table.column_names, fields, None, "")
    records = table.select(list(dict.fromkeys(fields))).to_pylist()
    return [text for text, _, _ in records_as_rows(name, records, fields, None, None, " ", None)]


def features_of_table(name: str, table: Any, columns: Sequence[str], n_features: int) -> Any:
    """The features of a table's rows, of shape (n, n_features): CSR of ids and values, or dense of vectors."""
    columns_of(name, table.column_names, columns, None, "")
    return _matrix(name, columns, [_flat(name, table.column(column), column) for column in columns], n_features)


def features_of_lists(name: str, rows: Sequence[Sequence[Any]], columns: Sequence[str], n_features: int) -> Any:
    """As :func:`features_of_table`, of a list of rows for each column."""
    parts = []
    for column, lists in zip(columns, rows, strict=True):
        for one in lists:
            if not isinstance(one, list) or not all(type(value) in (int, float) for value in one):
                raise DataError(f"{name}: {column!r} must be lists of numbers. Got {quoted(one)} instead.")
        lengths = np.array([len(one) for one in lists], np.int64)
        flat = np.array(list(chain.from_iterable(lists)))
        if flat.dtype.kind not in "iuf":
            raise DataError(f"{name}: {column!r} holds numbers beyond the range of floats.")
        parts.append((flat, lengths))
    return _matrix(name, columns, parts, n_features)


def _flat(name: str, column: Any, title: str) -> _Lists:
    """The numbers of a column of lists."""
    import pyarrow as pa

    wrong = f"{name}: the column {title!r} must hold lists of numbers"
    if isinstance(column.type, pa.ExtensionType):  # tensors of Ray Data
        rows = [np.ravel(row) for chunk in column.chunks for row in chunk.to_numpy(zero_copy_only=False)]
        flat = np.concatenate(rows) if rows else np.empty(0)
        lengths = np.array([len(row) for row in rows], np.int64)
    else:
        kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        if not any(kind(column.type) for kind in kinds):
            raise DataError(f"{wrong}. It holds {column.type} instead.")
        if column.null_count:
            raise DataError(f"{wrong}, and {column.null_count} of its rows are null.")
        chunks = [chunk.flatten() for chunk in column.chunks]
        if any(chunk.null_count for chunk in chunks):
            raise DataError(f"{wrong}, and there are nulls in them.")
        flat = np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in chunks]) if chunks else np.empty(0)
        lengths = np.concatenate([_lengths(chunk) for chunk in column.chunks]) if chunks else np.empty(0, np.int64)
    if flat.dtype.kind not in "iuf":
        raise DataError(f"{wrong}. It holds {column.type} instead.")
    return flat, lengths


def _lengths(chunk: Any) -> npt.NDArray[np.int64]:
    import pyarrow.compute as pc

    return np.asarray(pc.list_value_length(chunk).to_numpy(zero_copy_only=False), np.int64)


def _matrix(name: str, columns: Sequence[str], parts: Sequence[_Lists], n_features: int) -> Any:
    if len(columns) == 1:
        (values, lengths) = parts[0]
        wrong = np.flatnonzero(lengths != n_features)
        if len(wrong):
            raise DataError(
                f"{name}: the column {columns[0]!r} has {counted(int(lengths[wrong[0]]), 'feature')} in a row, but the "
                f"model was trained on {n_features}."
            )
        return values.reshape(len(lengths), n_features)
    (ids, n_ids), (values, n_values) = parts
    wrong = np.flatnonzero(n_ids != n_values)
    if len(wrong):
        raise DataError(
            f"{name}: {columns[0]!r} and {columns[1]!r} must be of one length in each row. Got {int(n_ids[wrong[0]])} "
            f"and {int(n_values[wrong[0]])} instead."
        )
    if len(ids) and ids.dtype.kind == "f":
        raise DataError(f"{name}: {columns[0]!r} must be lists of ints, the numbers of features.")
    outside = ids[(ids < 0) | (ids >= n_features)]
    if len(outside):
        raise DataError(f"{name}: {columns[0]!r} must be in [0, {n_features - 1}]. Got {int(outside[0])} instead.")
    offsets = np.concatenate(([0], np.cumsum(n_ids)))
    return sp.csr_matrix((values, ids.astype(np.int64), offsets), shape=(len(n_ids), n_features))
