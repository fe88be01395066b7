"""Tables of typed columns: Parquet through pyarrow, and datasets of Hugging Face's library."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.arrays.frames import TEXT_TYPES
from sylvan.data.formats.format import Format, Layout, Records
from sylvan.data.formats.jsonl import labels_and_weights, read_records
from sylvan.data.label_cells import AUTO, LabelCells
from sylvan.data.other_fields import RecordColumns, arrow_column, with_others
from sylvan.data.streams import PathLike, open_read, open_write, shown, unpacked_name
from sylvan.data.text_rows import (
    Label,
    Row,
    TextData,
    complete_rows,
    field_names,
    one_kind,
    paired,
    quoted,
    refuse_repeated,
    unexpected,
)
from sylvan.errors import DataError
from sylvan.lazy import need_extra
from sylvan.parallel import progress
from sylvan.params.wording import counted

_INDICES, _VALUES = "indices", "values"
_USUAL = Layout()


def read_feature_columns(path: PathLike, labels_field: str = "labels") -> tuple[Csr, list[list[Any]]]:
    """Features, with columns up to the largest that is named, and labels; needs pyarrow."""
    with open_parquet(path) as (name, file):
        columns = file.schema_arrow.names
        refuse_repeated(name, columns)
        for column in (_INDICES, _VALUES, labels_field):
            if column not in columns:
                raise DataError(f"{name}: there is no column {column!r}. Its columns are: {', '.join(columns)}.")
        table = file.read([_INDICES, _VALUES, labels_field])
    lengths, indices = _flat(table[_INDICES], name, _INDICES, integers=True)
    n_values, values = _flat(table[_VALUES], name, _VALUES)
    if (lengths != n_values).any():
        row = int((lengths != n_values).argmax())
        raise DataError(
            f"{name}, row {row}: there must be a value for each of the {lengths[row]} indices. Got {n_values[row]}."
        )
    labels = [[] if row is None else row for row in table[labels_field].to_pylist()]
    if not all(isinstance(row, list) for row in labels):
        raise DataError(f"{name}: the column {labels_field!r} must hold lists of strings or of ints.")
    entries = values.astype(np.float32), indices.astype(np.int64), np.append(0, np.cumsum(lengths))
    features = sp.csr_matrix(entries, shape=(len(lengths), int(indices.max(initial=-1)) + 1))
    return validate.features(features, name=name), labels


def stream_features(path: str, columns: Sequence[str], n_features: int, rows: int) -> Iterator[Any]:
    """The features of a file of Parquet, or of JSON lines with lists in their fields, ``rows`` rows at a time; else as
    :func:`features_of_table`."""
    tables = (_parquet_tables if path.lower().endswith(PARQUET_ENDINGS) else _json_tables)(path, columns, rows)
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
            place = f"{path}, object {number}"
            columns_of(place, list(record), columns, None, "")
            for name in columns:
                value = record[name]
                if type(value) is not list or not {*map(type, value)} <= {int, float}:
                    raise unexpected(place, f"{name!r} must be a list of numbers", quoted(value))
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
    n_values, values = _flat(table[columns[1]], name, columns[1])
    for row in np.flatnonzero(lengths != n_values).tolist():
        rule = f"{columns[0]!r} and {columns[1]!r} must be of one length in each row"
        raise unexpected(name, rule, f"{lengths[row]} and {n_values[row]}")
    outside = numbers[(numbers < 0) | (numbers >= n_features)]
    if len(outside):
        raise DataError(f"{name}: {columns[0]!r} must be in [0, {n_features - 1}]. Got {int(outside[0])} instead.")
    entries = values, numbers.astype(np.int64), np.append(0, np.cumsum(lengths))
    return sp.csr_matrix(entries, shape=(len(lengths), n_features))


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
        items = "whole numbers" if integers else "numbers"
        raise DataError(f"{name}: the column {field!r} must hold lists of {items}. Got {kind} instead.")
    lists = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    lengths = compute.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    numbers = lists.flatten()
    if numbers.null_count:
        raise DataError(f"{name}: the column {field!r} holds a list with null.")
    return lengths, np.empty(0) if empty else numbers.to_numpy(zero_copy_only=False)


PARQUET_ENDINGS = (".parquet", ".pq")  # how a file's name ends that is written as Parquet
_GROUP = 4096  # rows of a row group
_WAITING = 16 * _GROUP  # rows, until which the type of the labels should be known


def columns_of(
    name: str, columns: Sequence[str], texts: Sequence[str], labels: str | None, weights: str, advises: bool = False
) -> tuple[str | None, str | None]:
    """The columns of labels and weights; every column that is asked for must be there, and
    none twice. With ``advises`` the error for one that isn't there says how readers are told which it is."""
    refuse_repeated(name, columns)
    if labels == "labels" and labels not in columns and "label" in columns:
        labels = "label"
    for wanted in (*texts, labels):
        if wanted is not None and wanted not in columns:
            has_labels = wanted == labels
            kind = "labels with labels_field (--labels-field)" if has_labels else "text with text_fields (--text-field)"
            advice = f" Say which has the {kind}." if advises else ""
            raise DataError(f"{name}: there is no column {wanted!r}. Its columns are: {', '.join(columns)}.{advice}")
    return labels, weights if labels is not None and weights in columns else None


def records_as_rows(
    name: str, records: Iterable[Mapping[str, Any]], texts: Sequence[str], labels: str | None, weights: str | None,
    layout: Layout = _USUAL, n: int | None = None, taken: Records | None = None,
) -> Iterator[Row]:  # fmt: skip
    """Records with a column of lists as rows, their types checked; each record is appended to ``taken``."""
    cells = LabelCells(name, layout.label_separator)
    with progress(f"reading {name}", n, "row") as bar:
        for number, record in enumerate(cells.watched(records)):
            place = f"{name}, row {number}"
            for field in texts:
                if record[field] is not None and not isinstance(record[field], str):
                    raise unexpected(place, f"the column {field!r} must hold strings", quoted(record[field]))
            text = layout.separator.join(filter(None, (record[field] for field in texts)))
            value = None if labels is None else record[labels]
            value = [] if value is None else list(value) if isinstance(value, tuple) else value
            weighted = weights is not None and record[weights] is not None
            if weighted:
                value = _pairs(place, cells.split(place, value) if isinstance(value, str) else value, record[weights])
            row, row_weights = labels_and_weights(place, value, cells, weighted)
            cells.need_one_kind(place, row)
            if taken is not None:
                taken.append(record)
            yield text, row, row_weights
            bar.update(1)


def _pairs(place: str, labels: Any, weights: Any) -> list[list[Any]]:
    """A row's labels with their weights, which stand in a column of their own."""
    labels = labels if isinstance(labels, list) else [labels]
    if not isinstance(weights, list) or len(weights) != len(labels):
        raise DataError(
            f"{place}: there must be a weight for each of the {counted(len(labels), 'label')}. Got {quoted(weights)}."
        )
    return list(map(list, zip(labels, weights, strict=True)))


def read_parquet(
    path: PathLike, *, text_fields: str | Sequence[str] = "text", labels_field: str | None = "labels",
    weights_field: str = "weights", label_separator: str | None = AUTO, separator: str = " ",
) -> TextData:  # fmt: skip
    """Read texts and labels from a Parquet file; needs pyarrow (``pip install "sylvan[parquet]"``).

    Parameters
    ----------
    path : path-like
        "-" reads stdin.
    text_fields : str or sequence of str
        The column of the text, or several, which are joined by ``separator``; empty ones and null add nothing.
    labels_field : str or None
        The column of the labels: lists of strings or of ints, or single ones. With "labels" a column "label" is taken
        where there is none. None reads the texts alone.
    weights_field : str
        The column of their relevance, lists of numbers; taken where it is there.
    label_separator : str or None
        As in :func:`read_jsonl`, for labels within a string.
    separator : str

    Returns
    -------
    TextData

    Raises
    ------
    DataError
        For a missing column or a cell of another type, with its row, counted from 0; when the file is missing, damaged
        or empty; when pyarrow is missing.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "books.parquet"
    >>> data.write_parquet(path, ["Moby Dick"], [["Whaling"]])
    >>> data.read_parquet(path)
    TextData(texts=['Moby Dick'], labels=[['Whaling']], weights=None)
    """
    return PARQUET.read(path, Layout(text_fields, labels_field, weights_field, True, label_separator, separator))


def stream_parquet(
    path: PathLike, *, text_fields: str | Sequence[str] = "text", labels_field: str | None = "labels",
    weights_field: str = "weights", label_separator: str | None = AUTO, separator: str = " ", rows: int = 4096,
    records: list[Mapping[str, Any]] | None = None,
) -> Iterator[TextData]:  # fmt: skip
    """Read what :func:`read_parquet` reads, ``rows`` rows at a time; no more than a row group is in memory.

    To ``records`` all columns of each row are appended as it is read, by their names.
    """
    layout = Layout(text_fields, labels_field, weights_field, True, label_separator, separator)
    return PARQUET.stream(path, rows, layout, records)


def need_pyarrow() -> Any:
    """pyarrow, or how to get it."""
    needs = "Parquet needs pyarrow, and other formats, such as JSON lines, don't"
    return need_extra(needs, "parquet", "pyarrow", refusal=DataError)


@contextmanager
def open_parquet(path: PathLike) -> Iterator[tuple[str, Any]]:
    """The name of a file and what pyarrow reads of it; what goes wrong meanwhile is an error of the file."""
    pa = need_pyarrow()
    from pyarrow import parquet

    with open_read(path) as stream:
        try:
            yield stream.name, parquet.ParquetFile(stream.sized()[0])
        except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
            raise DataError(f"{stream.name}: not a Parquet file, or damaged ({str(error).strip()[:200]}).") from error


def _parquet_rows(path: PathLike, layout: Layout, taken: Records | None = None) -> Iterator[Row]:
    need_pyarrow()
    texts = field_names(layout.text_fields)
    with open_parquet(path) as (name, file):
        fields = columns_of(name, file.schema_arrow.names, texts, layout.labels_field, layout.weights_field, True)
        wanted = list(dict.fromkeys([*texts, *filter(None, fields)])) if taken is None else None
        records = (record for batch in file.iter_batches(_GROUP, columns=wanted) for record in batch.to_pylist())
        rows = records_as_rows(name, records, texts, *fields, layout, file.metadata.num_rows, taken)
        yield from complete_rows(rows, name)


def read_dataset(
    dataset: Any, *, text_fields: str | Sequence[str] = "text", labels_field: str | None = "labels",
    weights_field: str = "weights", label_separator: str | None = AUTO, separator: str = " ",
) -> TextData:  # fmt: skip
    """Read texts and labels from a ``datasets.Dataset``, or from a folder that its ``save_to_disk`` wrote.

    Parameters
    ----------
    dataset : Dataset or path-like
        A folder needs the library (``pip install "sylvan[datasets]"``).
    text_fields, labels_field, weights_field, label_separator, separator
        As in :func:`read_parquet`. Numbers of classes (``ClassLabel``) become their names.

    Returns
    -------
    TextData
        After ``from datasets import Dataset``, that of
        ``read_dataset(Dataset.from_dict({"text": ["Moby Dick"], "labels": [["Whaling"]]}))`` is
        ``TextData(texts=['Moby Dick'], labels=[['Whaling']], weights=None)``.

    Raises
    ------
    DataError
        As :func:`read_parquet`; for a dictionary of datasets, of which one has to be chosen; when a folder is no
        dataset or the library is missing.
    """
    return DATASET.read(dataset, Layout(text_fields, labels_field, weights_field, True, label_separator, separator))


def stream_dataset(
    dataset: Any, *, text_fields: str | Sequence[str] = "text", labels_field: str | None = "labels",
    weights_field: str = "weights", label_separator: str | None = AUTO, separator: str = " ", rows: int = 4096,
    records: list[Mapping[str, Any]] | None = None,
) -> Iterator[TextData]:  # fmt: skip
    """Read what :func:`read_dataset` reads, ``rows`` rows at a time; other parameters and errors as there.

    To ``records`` all columns of each row are appended as it is read, by their names.
    """
    layout = Layout(text_fields, labels_field, weights_field, True, label_separator, separator)
    return DATASET.stream(dataset, rows, layout, records)


def _dataset_rows(dataset: Any, layout: Layout, taken: Records | None = None) -> Iterator[Row]:
    texts = field_names(layout.text_fields)
    name = "the dataset"
    if isinstance(dataset, str | os.PathLike):
        name = os.fspath(dataset)
        needs = f"{name}: a saved dataset needs datasets, and Parquet doesn't"
        datasets = need_extra(needs, "datasets", "datasets", refusal=DataError)
        try:
            dataset = datasets.load_from_disk(name)
        except Exception as error:  # of many kinds, by what is missing or damaged
            raise DataError(f"{name}: not a saved dataset, or damaged ({str(error).strip()[:200]}).") from error
    if isinstance(dataset, Mapping):
        parts = ", ".join(map(str, dataset))
        raise DataError(f"{name} is a dictionary of datasets: choose one of {parts}.")
    columns = getattr(dataset, "column_names", None)
    if not isinstance(columns, list):
        raise DataError(f"{name} must be a datasets.Dataset or a folder of one. Got {type(dataset).__name__} instead.")
    labels, weights = columns_of(name, columns, texts, layout.labels_field, layout.weights_field, True)
    feature = None if labels is None else (getattr(dataset, "features", None) or {}).get(labels)
    to_name: Any = getattr(getattr(feature, "feature", feature), "int2str", None)

    def named(value: Any) -> list[Any]:
        """The names of a row's classes."""
        listed = value if isinstance(value, list) else [] if value is None else [value]
        return [to_name(number) for number in listed]

    records = dataset if to_name is None else ({**record, labels: named(record[labels])} for record in dataset)
    yield from complete_rows(records_as_rows(name, records, texts, labels, weights, layout, None, taken), name)


def write_parquet(
    path: PathLike, texts: Iterable[str], labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None, *, text_field: str = "text", labels_field: str = "labels",
    others: Iterable[Mapping[str, Any]] | None = None,
) -> None:  # fmt: skip
    """Write texts and labels as Parquet, in row groups; needs pyarrow (``pip install "sylvan[parquet]"``).

    Parameters
    ----------
    path : path-like
        The file is replaced in one step at the end; "-" writes to stdout.
    texts : iterable of str
    labels : iterable of sequence of str or int, optional
        A column of lists. Labels of no row are written as strings.
    weights : iterable of sequence of float (or None), optional
        A column of lists, named "weights".
    text_field, labels_field : str
    others : iterable of mapping, optional
        Each row's other fields, which become columns behind these, those of the first rows and of their types; one of
        the same name as these is left out.

    Raises
    ------
    DataError
        When strings and ints are mixed as labels, a row has a field that the first rows don't have or of another type,
        lengths differ, the file can't be written or pyarrow is missing.
    """
    pa = need_pyarrow()
    if unpacked_name(path) != os.fspath(path).lower():
        raise DataError(f"{shown(path)}: Parquet packs its columns itself: name it without a second ending.")
    rows = with_others(paired(texts, labels, weights), others)
    waiting: list[tuple[Row, Mapping[str, Any]]] = []  # until a label tells its type, which is the whole file's
    kind: type | None = None
    with open_write(path) as stream, progress("writing", None, "row") as bar:
        tables = ParquetTables(stream, others_first=False)

        def write() -> None:
            columns: dict[str, Any] = {text_field: ([row[0] for row, _ in waiting], pa.string())}
            if labels is not None:
                of_label = pa.int64() if kind is int else pa.string()
                columns[labels_field] = [row[1] for row, _ in waiting], pa.list_(of_label)
            if weights is not None:
                columns["weights"] = [row[2] for row, _ in waiting], pa.list_(pa.float64())
            tables.write(columns, [other for _, other in waiting])
            waiting.clear()

        try:
            while block := list(islice(rows, _GROUP)):
                kind = one_kind("The labels", (label for (_, row, _), _ in block for label in row), kind)
                waiting += block
                bar.update(len(block))
                if kind is not None or labels is None or len(waiting) >= _WAITING:
                    write()
            if waiting or not tables.begun:
                write()
            tables.close(complete=True)
        except BaseException:
            tables.close(complete=False)
            raise


class ParquetTables:
    """Tables on their way out, one below the other, with other fields of their rows; the first says which columns there
    are, and of which types."""

    def __init__(self, stream: Any, others_first: bool) -> None:
        self._pa, self._stream, self._others_first = need_pyarrow(), stream, others_first
        self._fields = RecordColumns()
        self._writer: Any = None

    @property
    def begun(self) -> bool:
        """Whether there was a table."""
        return self._writer is not None

    def write(self, columns: Mapping[str, tuple[Any, Any]], records: Sequence[Mapping[str, Any]]) -> None:
        """Some rows: values and type of each column, and other fields."""
        pa = self._pa
        types = {} if self._writer is None else {field.name: field.type for field in self._writer.schema}
        try:
            arrays = {name: pa.array(values, types.get(name, kind)) for name, (values, kind) in columns.items()}
            others = {
                name: arrow_column(pa, name, [record.get(name) for record in records], types.get(name))
                for name in self._fields.take(records) if name not in columns
            }  # fmt: skip
            table = pa.table({**others, **arrays} if self._others_first else {**arrays, **others})
            if self._writer is None:
                from pyarrow import parquet

                self._writer = parquet.ParquetWriter(self._stream, table.schema)
            self._writer.write_table(table, _GROUP)
        except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
            raise DataError(f"The rows can't be written as Parquet ({error}).") from error

    def close(self, complete: bool) -> None:
        """Write the end of the file; of one that is given up, so that it isn't written to later."""
        if self._writer is not None:
            with nullcontext() if complete else suppress(Exception):
                self._writer.close()


def _fields_of_parquet(path: str, layout: Layout, texts: bool) -> list[str]:
    with suppress(Exception):  # what is wrong with it, or that pyarrow is missing, is the reader's to say
        from pyarrow import parquet

        if path != "-":
            return [field.name for field in parquet.read_schema(path) if not texts or str(field.type) in TEXT_TYPES]
    return []


def _fields_of_dataset(path: str, layout: Layout, texts: bool) -> list[str]:
    with suppress(OSError, ValueError, AttributeError):
        with open(os.path.join(path, "dataset_info.json"), encoding="utf-8") as file:
            features = json.load(file)["features"]
        return [name for name, feature in features.items() if not texts or feature.get("dtype") in TEXT_TYPES]
    return []


PARQUET = Format(
    _parquet_rows, lambda path, columns, layout, others: write_parquet(path, *columns, others=others),
    _fields_of_parquet,
)  # fmt: skip
DATASET = Format(_dataset_rows, PARQUET.write, _fields_of_dataset)
