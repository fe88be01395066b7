"""The one protocol of all formats of texts: what :mod:`sylvan.data` and the command line read and write a file by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import tee
from typing import Any, NamedTuple

from sylvan.data.label_cells import AUTO
from sylvan.data.streams import PathLike, open_read, open_write, shown
from sylvan.data.text_rows import Label, Row, TextData, collect, complete_rows, encoded, in_blocks, text_lines
from sylvan.errors import DataError
from sylvan.parallel import progress

Records = list[Mapping[str, Any]]


@dataclass(frozen=True)
class Layout:
    """How a file of texts is laid out, as far as its format leaves it open; each format takes what concerns it."""

    text_fields: Any = ("text",)  # a name or several; in tables numbers, too
    labels_field: Any = "labels"  # likewise; None where the texts alone are read
    weights_field: str = "weights"
    require_labels: bool = True
    label_separator: str | None = AUTO
    separator: str = " "  # of several fields of text
    delimiter: str | None = None
    header: bool | None = None
    quoting: bool | None = None
    prefix: str = "__label__"
    sheet: str | None = None
    items: PathLike | None = None
    subjects: Callable[[], Any] = lambda: None  # a SubjectVocabulary, read when it is needed
    # of files that are written
    output_separator: str | None = None
    guards: bool = False
    one_line: bool = False
    blanks: str | None = None


_USUAL = Layout()


class Columns(NamedTuple):
    """Texts, labels and weights as writers take them: together, so that no more than a row lies between them."""

    texts: Iterable[str]
    labels: Iterable[Sequence[Label]] | None = None
    weights: Iterable[Sequence[float] | None] | None = None

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Columns:
        """Those of rows."""
        texts, labels, weights = tee(rows, 3)
        return cls((row[0] for row in texts), (row[1] for row in labels), (row[2] for row in weights))


def _unwritten(path: PathLike, columns: Columns, layout: Layout, others: Iterable[Mapping[str, Any]] | None) -> None:
    raise DataError(f"{shown(path)}: files of this format are read, not written: write JSON lines or CSV.")


@dataclass(frozen=True)
class Format:
    """A format of texts. To ``records`` the reader appends all fields of each row, where these have names."""

    rows: Callable[[PathLike, Layout, Records | None], Iterator[Row]]
    write: Callable[[PathLike, Columns, Layout, Iterable[Mapping[str, Any]] | None], None] = _unwritten
    # the names of a file's fields, or of those of text alone, as far as the file shows them without an error
    fields: Callable[[str, Layout, bool], list[str]] = lambda path, layout, texts: []
    delimiter: str = ""  # of the cells of a table, where nothing else is said

    def read(self, path: PathLike, layout: Layout = _USUAL) -> TextData:
        """All rows of a file."""
        return collect(self.rows(path, layout, None))

    def stream(
        self, path: PathLike, rows: int, layout: Layout = _USUAL, records: Records | None = None
    ) -> Iterator[TextData]:
        """The same, so many rows at a time."""
        return in_blocks(self.rows(path, layout, records), rows)


def rows_of_lines(path: PathLike, row_of: Callable[[str, str], Row | None]) -> Iterator[Row]:
    """The rows that a function makes of a file's lines, given "file, line n" and the line; None is no row."""
    with open_read(path) as stream:
        rows = (row for place, line in text_lines(stream) if (row := row_of(place, line)) is not None)
        yield from complete_rows(rows, stream.name, "lines")


def write_lines(path: PathLike, lines: Iterable[tuple[int, str]]) -> None:
    """Write lines, each with the number of its row."""
    with open_write(path) as stream, progress("writing", None, "line") as bar:
        for number, line in lines:
            stream.write(encoded(number, line + "\n"))
            bar.update(1)
