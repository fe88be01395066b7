"""Tables of typed columns: Parquet through pyarrow, and datasets of Hugging Face's library."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sylvan.data.streams import PathLike, open_read, open_write, shown
from sylvan.data.text_rows import (
    Label,
    Row,
    TextData,
    collect,
    complete_rows,
    field_names,
    in_blocks,
    one_kind,
    paired,
    quoted,
    sound_weight,
)  # fmt: skip
from sylvan.errors import DataError
from sylvan.parallel import progress

__all__ = [
    "columns_of", "need_pyarrow", "read_dataset", "read_parquet", "records_as_rows", "stream_dataset", "stream_parquet",
    "write_parquet",
]  # fmt: skip

_GROUP = 4096  # rows of a row group


def columns_of(
    name: str, columns: Sequence[str], texts: Sequence[str], labels: str | None, weights: str
) -> tuple[str | None, str | None]:
    """The columns of labels and weights; every column that is asked for must be there."""
    if labels == "labels" and labels not in columns and "label" in columns:
        labels = "label"
    for wanted in (*texts, labels):
        if wanted is not None and wanted not in columns:
            raise DataError(f"{name}: there is no column {wanted!r}. Its columns are: {', '.join(columns)}.")
    return labels, weights if labels is not None and weights in columns else None


def records_as_rows(
    name: str,
    records: Iterable[Mapping[str, Any]],
    texts: Sequence[str],
    labels: str | None,
    weights: str | None,
    separator: str,
    n: int | None,
) -> Iterator[Row]:
    """Records with a column of lists as rows, their types checked."""
    kind: type | None = None
    with progress(f"reading {name}", n, "row") as bar:
        for number, record in enumerate(records):
            place = f"{name}, row {number}"
            text = separator.join(filter(None, (_text(place, record[field], field) for field in texts)))
            row = [] if labels is None else _labels(place, record[labels], labels)
            kind = one_kind(place, row, kind)
            yield text, *_weighted(place, row, None if weights is None else record[weights])
            bar.update(1)


def _text(place: str, value: Any, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{place}: the column {field!r} must hold strings. Got {quoted(value)} instead.")
    return value


def _labels(place: str, value: Any, field: str) -> list[Any]:
    listed = [] if value is None else list(value) if isinstance(value, list | tuple) else [value]
    for label in listed:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise DataError(f"{place}: the column {field!r} must hold strings or ints. Got {quoted(label)} instead.")
    return listed


def _weighted(place: str, row: list[Any], weights: Any) -> tuple[list[Any], list[float] | None]:
    if weights is None:
        return list(dict.fromkeys(row)), None
    if not isinstance(weights, list) or len(weights) != len(row):
        raise DataError(f"{place}: there must be a weight for each of the {len(row)} labels. Got {quoted(weights)}.")
    results: dict[Any, float] = {}
    for label, weight in zip(row, weights, strict=True):
        results[label] = results.get(label, 0.0) + sound_weight(place, weight)
    return list(results), list(results.values())


def read_parquet(
    path: PathLike,
    *,
    text_fields: str | Sequence[str] = "text",
    labels_field: str | None = "labels",
    weights_field: str = "weights",
    separator: str = " ",
) -> TextData:
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
    return collect(_parquet_rows(path, text_fields, labels_field, weights_field, separator))


def stream_parquet(
    path: PathLike,
    *,
    text_fields: str | Sequence[str] = "text",
    labels_field: str | None = "labels",
    weights_field: str = "weights",
    separator: str = " ",
    rows: int = 4096,
) -> Iterator[TextData]:
    """Read what :func:`read_parquet` reads, ``rows`` rows at a time; no more than a row group is in memory."""
    return in_blocks(_parquet_rows(path, text_fields, labels_field, weights_field, separator), rows)


def write_parquet(
    path: PathLike,
    texts: Iterable[str],
    labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None,
    *,
    text_field: str = "text",
    labels_field: str = "labels",
) -> None:
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

    Raises
    ------
    DataError
        When strings and ints are mixed as labels, lengths differ, the file can't be written or pyarrow is missing.
    """
    pa = need_pyarrow()
    from pyarrow import parquet as pq

    if os.fspath(path).endswith((".gz", ".xz")):
        raise DataError(f"{shown(path)}: Parquet packs its columns itself: name it without .gz or .xz.")
    kind: type | None = None
    waiting: list[TextData] = []
    writer: Any = None
    with open_write(path) as stream, progress("writing", None, "row") as bar:
        try:
            for block in in_blocks(paired(texts, labels, weights), _GROUP):
                kind = one_kind("The labels", (label for row in block.labels for label in row), kind)
                waiting.append(block)
                # The type of the labels is the file's to tell at once: rows before the first label have to wait.
                if kind is None and labels is not None and len(waiting) < 16:
                    continue
                if writer is None:
                    schema = _schema(pa, kind, labels, weights, text_field, labels_field)
                    writer = pq.ParquetWriter(stream, schema)
                for rows in waiting:
                    writer.write_table(_table(pa, rows, writer.schema))
                    bar.update(len(rows.texts))
                waiting.clear()
            if writer is None:
                writer = pq.ParquetWriter(stream, _schema(pa, kind, labels, weights, text_field, labels_field))
            for rows in waiting:
                writer.write_table(_table(pa, rows, writer.schema))
        except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
            raise DataError(f"The rows can't be written as Parquet ({error}).") from error
        finally:
            if writer is not None:
                with suppress(Exception):
                    writer.close()


def _schema(pa: Any, kind: type | None, labels: Any, weights: Any, text_field: str, labels_field: str) -> Any:
    fields = [(text_field, pa.string())]
    if labels is not None:
        fields.append((labels_field, pa.list_(pa.int64() if kind is int else pa.string())))
    if weights is not None:
        fields.append(("weights", pa.list_(pa.float64())))
    return pa.schema(fields)


def _table(pa: Any, block: TextData, schema: Any) -> Any:
    nothing: list[Any] = [None] * len(block.texts)
    columns: list[Any] = [block.texts, block.labels, block.weights or nothing][: len(schema)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def need_pyarrow() -> Any:
    """pyarrow, or how to get it.

    Raises
    ------
    DataError
        When it isn't installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise DataError(
            'Parquet needs pyarrow: pip install "sylvan[parquet]", or use another format, such as JSON lines.'
        ) from error
    return pyarrow


def _parquet_rows(
    path: PathLike, text_fields: str | Sequence[str], labels_field: str | None, weights_field: str, separator: str
) -> Iterator[Row]:
    pa = need_pyarrow()
    from pyarrow import parquet as pq

    texts = field_names(text_fields)
    with open_read(path) as stream:
        file, _ = stream.sized()
        try:
            parquet = pq.ParquetFile(file)
            fields = columns_of(stream.name, parquet.schema_arrow.names, texts, labels_field, weights_field)
            batches = parquet.iter_batches(_GROUP, columns=list(dict.fromkeys([*texts, *filter(None, fields)])))
            records = (record for batch in batches for record in batch.to_pylist())
            rows = records_as_rows(stream.name, records, texts, *fields, separator, parquet.metadata.num_rows)
            yield from complete_rows(rows, stream.name)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{stream.name}: not a Parquet file, or damaged ({str(error).strip()[:200]}).") from error


def read_dataset(
    dataset: Any,
    *,
    text_fields: str | Sequence[str] = "text",
    labels_field: str | None = "labels",
    weights_field: str = "weights",
    separator: str = " ",
) -> TextData:
    """Read texts and labels from a ``datasets.Dataset``, or from a folder that its ``save_to_disk`` wrote.

    Parameters
    ----------
    dataset : Dataset or path-like
        A folder needs the library (``pip install "sylvan[datasets]"``).
    text_fields, labels_field, weights_field, separator
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
    return collect(_dataset_rows(dataset, text_fields, labels_field, weights_field, separator))


def stream_dataset(
    dataset: Any,
    *,
    text_fields: str | Sequence[str] = "text",
    labels_field: str | None = "labels",
    weights_field: str = "weights",
    separator: str = " ",
    rows: int = 4096,
) -> Iterator[TextData]:
    """Read what :func:`read_dataset` reads, ``rows`` rows at a time; other parameters and errors as there."""
    return in_blocks(_dataset_rows(dataset, text_fields, labels_field, weights_field, separator), rows)


def _opened(folder: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            f'{folder}: reading a saved dataset needs datasets: pip install "sylvan[datasets]", or write it as Parquet.'
        ) from error
    try:
        return datasets.load_from_disk(folder)
    except Exception as error:  # of many kinds, by what is missing or damaged
        raise DataError(f"{folder}: not a saved dataset, or damaged ({str(error).strip()[:200]}).") from error


def _dataset_rows(
    dataset: Any, text_fields: str | Sequence[str], labels_field: str | None, weights_field: str, separator: str
) -> Iterator[Row]:
    texts = field_names(text_fields)
    name = "the dataset"
    if isinstance(dataset, str | os.PathLike):
        name = os.fspath(dataset)
        dataset = _opened(name)
    if isinstance(dataset, Mapping):
        parts = ", ".join(map(str, dataset))
        raise DataError(f"{name} is a dictionary of datasets: choose one of {parts}.")
    columns = getattr(dataset, "column_names", None)
    if not isinstance(columns, list):
        raise DataError(f"{name} must be a datasets.Dataset or a folder of one. Got {type(dataset).__name__} instead.")
    labels, weights = columns_of(name, columns, texts, labels_field, weights_field)
    feature = None if labels is None else (getattr(dataset, "features", None) or {}).get(labels)
    to_name = getattr(getattr(feature, "feature", feature), "int2str", None)
    records = dataset if to_name is None or labels is None else _named(dataset, labels, to_name)
    result = records_as_rows(name, records, texts, labels, weights, separator, None)
    yield from complete_rows(result, name)


def _named(dataset: Any, labels: str, to_name: Any) -> Iterator[Mapping[str, Any]]:
    for record in dataset:
        value = record[labels]
        listed = value if isinstance(value, list) else [] if value is None else [value]
        yield {**record, labels: [to_name(number) for number in listed]}
