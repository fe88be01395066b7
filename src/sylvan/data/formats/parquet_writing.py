"""Texts and labels as Parquet, in row groups, with the rows' other fields as further columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from sylvan.data.formats.columnar import need_pyarrow
from sylvan.data.other_fields import RecordColumns, arrow_column
from sylvan.data.streams import PathLike, open_write, shown
from sylvan.data.text_rows import Label, TextData, in_blocks, one_kind, paired
from sylvan.errors import DataError
from sylvan.parallel import progress

_GROUP = 4096  # rows of a row group
_WAITING = 16  # groups, until which the type of the labels should be known


def write_parquet(
    path: PathLike,
    texts: Iterable[str],
    labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None,
    *,
    text_field: str = "text",
    labels_field: str = "labels",
    others: Iterable[Mapping[str, Any]] | None = None,
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
    if os.fspath(path).endswith((".gz", ".xz")):
        raise DataError(f"{shown(path)}: Parquet packs its columns itself: name it without .gz or .xz.")
    fields = text_field, None if labels is None else labels_field, None if weights is None else "weights"
    rest = None if others is None else iter(others)
    with open_write(path) as stream, progress("writing", None, "row") as bar:
        groups = _Groups(pa, stream, fields)
        try:
            for block in in_blocks(paired(texts, labels, weights), _GROUP):
                groups.add(block, [] if rest is None else list(islice(rest, len(block.texts))))
                bar.update(len(block.texts))
            groups.write()
        except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
            raise DataError(f"The rows can't be written as Parquet ({error}).") from error
        finally:
            groups.close()


class _Groups:
    """Row groups on their way out; the first ones wait until a label tells its type, which is the whole file's."""

    def __init__(self, pa: Any, stream: Any, fields: tuple[str, str | None, str | None]) -> None:
        self._pa, self._stream, self._fields = pa, stream, fields
        self._kind: type | None = None
        self._waiting: list[tuple[TextData, list[Mapping[str, Any]]]] = []
        self._columns, self._writer = RecordColumns(), None

    def add(self, block: TextData, records: list[Mapping[str, Any]]) -> None:
        """Some rows and their other fields."""
        self._kind = one_kind("The labels", (label for row in block.labels for label in row), self._kind)
        self._columns.take(records)
        self._waiting.append((block, records))
        if self._kind is not None or self._fields[1] is None or len(self._waiting) == _WAITING:
            self.write()

    def write(self) -> None:
        """What has waited."""
        if self._writer is None:
            from pyarrow import parquet

            self._writer = parquet.ParquetWriter(self._stream, self._schema())
        writer: Any = self._writer
        for block, records in self._waiting:
            writer.write_table(self._table(block, records, writer.schema))
        self._waiting.clear()

    def close(self) -> None:
        """Write the end of the file, where that is possible."""
        writer: Any = self._writer
        if writer is not None:
            with suppress(Exception):
                writer.close()

    def _schema(self) -> Any:
        pa, (text, labels, weights) = self._pa, self._fields
        fields = [pa.field(text, pa.string())]
        if labels is not None:
            fields.append(pa.field(labels, pa.list_(pa.int64() if self._kind is int else pa.string())))
        if weights is not None:
            fields.append(pa.field(weights, pa.list_(pa.float64())))
        for name in self._columns.names or ():
            if name not in self._fields:
                values = [record.get(name) for _, records in self._waiting for record in records]
                fields.append(pa.field(name, arrow_column(pa, values).type))
        return pa.schema(fields)

    def _table(self, block: TextData, records: Sequence[Mapping[str, Any]], schema: Any) -> Any:
        own: tuple[Any, ...] = (block.texts, block.labels, block.weights or [None] * len(block.texts))
        given = {name: column for name, column in zip(self._fields, own, strict=True) if name is not None}
        columns = [
            self._pa.array(given[field.name], field.type)
            if field.name in given
            else arrow_column(self._pa, [one.get(field.name) for one in records], field.type)
            for field in schema
        ]
        return self._pa.table(columns, schema=schema)
