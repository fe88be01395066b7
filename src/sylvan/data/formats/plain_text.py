"""Plain text without labels: a text a line, or a file that is one text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sylvan.data.formats.annif import read_document
from sylvan.data.formats.format import Columns, Format, Layout, Records, write_lines
from sylvan.data.streams import PathLike, open_read
from sylvan.data.text_rows import Row, on_one_line, text_lines, unweighted
from sylvan.errors import DataError


def _rows_of_lines(path: PathLike, layout: Layout, records: Records | None) -> Iterator[Row]:
    with open_read(path) as stream:
        for _, line in text_lines(stream):
            yield line, [], None


def _row_of_file(path: PathLike, layout: Layout, records: Records | None) -> Iterator[Row]:
    text = read_document(path)
    if records is not None:
        records.append({"file": os.path.basename(path)})
    yield text, [], None


def _write(path: PathLike, columns: Columns, layout: Layout, others: Iterable[Mapping[str, Any]] | None) -> None:
    def lines() -> Iterator[tuple[int, str]]:
        for number, text, labels in unweighted("plain text", *columns):
            if labels:
                raise DataError(
                    f"Row {number} has labels, and plain text holds none: name another format, or say --texts-only."
                )
            yield number, on_one_line(number, text, layout.one_line, "plain text")

    write_lines(path, lines())


LINES = Format(_rows_of_lines, _write)
TEXT = Format(_row_of_file, _write, lambda path, layout, texts: [] if texts else ["file"])
