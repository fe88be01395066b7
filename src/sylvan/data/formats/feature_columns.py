"""Features in columns of lists of numbers, ids and values or vectors, of Parquet and of other tables of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.canonical import MAX_COLUMNS, Csr
from sylvan.data.formats.columnar import columns_of, need_pyarrow, open_parquet
from sylvan.data.formats.jsonl import read_records
from sylvan.data.formats.rankings import PARQUET
from sylvan.data.streams import PathLike
from sylvan.data.text_rows import complete_rows, quoted, refuse_repeated
from sylvan.errors import DataError
from sylvan.params.wording import counted

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
    with open_parquet(path) as (name, file):
        columns = file.schema_arrow.names
        refuse_repeated(name, columns)
        for column in (_INDICES, _VALUES, labels_field):
            if column not in columns:
                raise DataError(f"{name}: there is no column {column!r}. Its columns are: {', '.join(columns)}.")
        table = file.read([_INDICES, _VALUES, labels_field])
    lengths, indices = _flat(table[_INDICES], name, _INDICES, integers=True)
    others, values = _flat(table[_VALUES], name, _VALUES)
    if (lengths != others).any():
        row = int((lengths != others).argmax())
        raise DataError(
            f"{name}, row {row}: there must be a value for each of the {lengths[row]} indices. Got {others[row]}."
        )
    labels = [[] if row is None else row for row in table[labels_field].to_pylist()]
    if not all(isinstance(row, list) for row in labels):
        raise DataError(f"{name}: the column {labels_field!r} must hold lists of strings or of ints.")
    return FeatureRows(_offsets(lengths), indices.astype(np.int64), values.astype(np.float32), labels, name)


def _offsets(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(lengths)))


def stream_features(path: str, columns: Sequence[str], n_features: int, rows: int) -> Iterator[Any]:
    """The features of a file of Parquet, or of JSON lines with lists in their fields, ``rows`` rows at a time; else as
    :func:`features_of_table`."""
    tables = (_parquet_tables if path.lower().endswith(PARQUET) else _json_tables)(path, columns, rows)
    for place, table in complete_rows(tables, path):
        yield features_of_table(place, table, columns, n_features)


def _parquet_tables(path: str, columns: Sequence[str], rows: int) -> Iterator[tuple[str, Any]]:
    with open_parquet(path) as (_, file):
        for batch in file.iter_batches(rows):
            yield path, need_pyarrow().Table.from_batches([batch])


def _json_tables(path: str, columns: Sequence[str], rows: int) -> Iterator[tuple[str, Any]]:
    pa, first = need_pyarrow(), 0
    records = read_records(path)
    while block := list(islice(records, rows)):
        for number, record in enumerate(block, first):
            columns_of(f"{path}, object {number}", list(record), columns, None, "")
            for name in columns:
                value = record[name]
                if type(value) is not list or not {*map(type, value)} <= {int, float}:
                    place = f"{path}, object {number}"
                    raise DataError(f"{place}: {name!r} must be a list of numbers. Got {quoted(value)} instead.")
        place = f"{path}, objects {first} to {first + len(block) - 1}"
        try:
            yield place, pa.table({name: pa.array([record[name] for record in block]) for name in columns})
        except OverflowError as error:
            raise DataError(f"{place}: there is a number beyond the range of 64 bits ({error}).") from error
        first += len(block)


def features_of_table(name: str, table: Any, columns: Sequence[str], n_features: int) -> Any:
    """The features of a table's rows, of shape (n, n_features): CSR of the columns of ids and values, or dense of
    one column of vectors."""
    columns_of(name, table.column_names, columns, None, "")
    for column in columns:
        if table[column].null_count:
            raise DataError(f"{name}: the column {column!r} has no list in {counted(table[column].null_count, 'row')}.")
    lengths, numbers = _flat(table[columns[0]], name, columns[0], integers=len(columns) == 2)
    if len(columns) == 1:
        wrong = lengths[lengths != n_features]
        if len(wrong):
            has = f"has {counted(int(wrong[0]), 'feature')} in a row"
            raise DataError(f"{name}: the column {columns[0]!r} {has}, but the model was trained on {n_features}.")
        return numbers.reshape(len(lengths), n_features)
    others, values = _flat(table[columns[1]], name, columns[1])
    for row in np.flatnonzero(lengths != others).tolist():
        got = f"{lengths[row]} and {others[row]}"
        raise DataError(
            f"{name}: {columns[0]!r} and {columns[1]!r} must be of one length in each row. Got {got} instead."
        )
    outside = numbers[(numbers < 0) | (numbers >= n_features)]
    if len(outside):
        raise DataError(f"{name}: {columns[0]!r} must be in [0, {n_features - 1}]. Got {int(outside[0])} instead.")
    return sp.csr_matrix((values, numbers.astype(np.int64), _offsets(lengths)), shape=(len(lengths), n_features))


def _flat(column: Any, name: str, field: str, integers: bool = False) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """The lengths of a column's lists, or tensors of Ray Data, and their numbers one behind the other."""
    import pyarrow as pa
    from pyarrow import compute, types

    if isinstance(column.type, pa.ExtensionType):
        rows = [np.ravel(row) for chunk in column.chunks for row in chunk.to_numpy(zero_copy_only=False)]
        column = pa.chunked_array([pa.array(rows)])
    kind = column.type
    of = kind.value_type if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) else None
    empty = of is not None and types.is_null(of)  # no list has a number
    if of is None or not (empty or types.is_integer(of) or (types.is_floating(of) and not integers)):
        what = "whole numbers" if integers else "numbers"
        raise DataError(f"{name}: the column {field!r} must hold lists of {what}. Got {kind} instead.")
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    lengths = compute.list_value_length(whole).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    numbers = whole.flatten()
    if numbers.null_count:
        raise DataError(f"{name}: the column {field!r} holds a list with null.")
    return lengths, np.empty(0) if empty else numbers.to_numpy(zero_copy_only=False)
