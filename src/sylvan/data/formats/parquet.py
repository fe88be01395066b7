"""Parquet: a column of texts and a column of labels, through pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from sylvan.data.columns import columns_of, names_of, records_as_rows
from sylvan.data.streams import PathLike, open_read, open_write, shown
from sylvan.data.text_rows import Label, Row, TextData, collect, complete_rows, in_blocks, one_kind, paired
from sylvan.errors import DataError
from sylvan.parallel import progress

__all__ = ["read_parquet", "stream_parquet", "write_parquet"]

_GROUP = 4096  # rows of a row group


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
    return collect(_rows(path, text_fields, labels_field, weights_field, separator))


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
    return in_blocks(_rows(path, text_fields, labels_field, weights_field, separator), rows)


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
    pa = _pyarrow()
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


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise DataError(
            'Parquet needs pyarrow: pip install "sylvan[parquet]", or use another format, such as JSON lines.'
        ) from error
    return pyarrow


def _rows(
    path: PathLike, text_fields: str | Sequence[str], labels_field: str | None, weights_field: str, separator: str
) -> Iterator[Row]:
    pa = _pyarrow()
    from pyarrow import parquet as pq

    texts = names_of(text_fields, "text_fields")
    with open_read(path) as stream:
        file, _ = stream.sized()
        try:
            parquet = pq.ParquetFile(file)
            found = columns_of(stream.name, parquet.schema_arrow.names, texts, labels_field, weights_field)
            batches = parquet.iter_batches(_GROUP, columns=list(dict.fromkeys([*texts, *filter(None, found)])))
            records = (record for batch in batches for record in batch.to_pylist())
            yield from complete_rows(
                records_as_rows(stream.name, records, texts, *found, separator, parquet.metadata.num_rows), stream.name
            )
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{stream.name}: not a Parquet file, or damaged ({str(error).strip()[:200]}).") from error
