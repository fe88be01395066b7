"""The cells of tables in text: rows read with or without quotes, and written so that every reader takes them alike."""

from __future__ import annotations

import csv
import re
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from sylvan.data.streams import InputStream
from sylvan.data.text_rows import not_utf8
from sylvan.errors import DataError, DataWarning
from sylvan.parallel import progress
from sylvan.params.wording import counted

_LONGEST = 2**31 - 1  # characters of a cell; csv's own limit of 131072 is less than a book
_FARTHEST = 1000  # lines in which a quoted cell of TSV closes, or its quotation mark is one of the text
_DECLARED = re.compile(r"sep=(.)\r?\n?", re.IGNORECASE)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would compute
_PLAIN = "quoting=False (--no-quoting) reads quotation marks as they stand"


def declared_delimiter(line: str) -> str | None:
    """The delimiter that a first line declares as Excel does, ``sep=;``; None for any other line."""
    found = _DECLARED.fullmatch(line)
    return found[1] if found else None


def cell_line(cells: Iterable[str], delimiter: str, guards: bool = False) -> str:
    """A row as a line; with ``guards``, a cell that a spreadsheet would compute begins with an apostrophe."""
    texts = [f"'{cell}" if guards and cell.startswith(_FORMULA) else cell for cell in cells]
    marks = (delimiter, '"', "\n", "\r")
    line = delimiter.join(
        '"' + text.replace('"', '""') + '"' if any(mark in text for mark in marks) else text for text in texts
    )
    return f"{line}\n" if line else '""\n'  # an empty line would be no row


def read_cells(stream: InputStream, delimiter: str, quoting: bool | None) -> Iterator[tuple[str, list[str]]]:
    """The cells of every row that isn't empty, with "file, line n". Where nothing is said of ``quoting``, a quotation
    mark of a tab-separated table may be one of the text, such as an inch mark: a quoted cell that doesn't close, or
    that goes over lines which are rows by themselves, is none, which a warning says."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST))
    lines = _Lines(stream)
    first = next(lines, None)
    if first is None:
        return
    declared = declared_delimiter(first)
    if declared is None:
        lines.put_back([first])
    rows = _rows(lines, declared or delimiter, quoting)
    n_long, longest = 0, ""
    with progress(f"reading {stream.name}", stream.packed_size, "B") as bar:
        for number, cells in rows:
            place = f"{stream.name}, line {number}"
            stream.report(bar)
            if lines.number > number and not n_long:
                longest = f"the first at line {number}, {next((cell for cell in cells if chr(10) in cell), '')!r:.60}"
            n_long += lines.number > number
            if cells:
                yield place, cells
    if n_long:
        _warn(f"{stream.name}: {counted(n_long, 'row')} with cells over several lines, {longest}: {_PLAIN}.")
    if lines.plain:
        _warn(
            f"{stream.name}: the quotation marks of {counted(len(lines.plain), 'line')} are read as they stand, as "
            f"they don't quote cells, the first at line {lines.plain[0]}: {_PLAIN} everywhere, "
            "and quoting=True (--quoting) as quotes."
        )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, DataWarning, stacklevel=3)


class _Lines:
    """The lines of a file as text, which can be put back."""

    def __init__(self, stream: InputStream) -> None:
        self._name, self._lines = stream.name, stream.lines(keep_ends=True)
        self._waiting: deque[str] = deque()
        self.number = 0
        self.plain: list[int] = []  # the numbers of lines whose quotation marks quote nothing

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        self.number += 1
        if self._waiting:
            return self._waiting.popleft()
        line = next(self._lines, (0, b""))[1]
        if not line:  # which ends in a line break, as long as it is one
            self.number -= 1
            raise StopIteration
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(f"{self._name}, line {self.number}", line, error) from error

    def put_back(self, lines: list[str]) -> None:
        """Let these lines, the last that were read, come again."""
        self._waiting.extendleft(reversed(lines))
        self.number -= len(lines)

    def error(self, number: int, error: csv.Error) -> DataError:
        """What is wrong with the row that begins at a line."""
        return DataError(f"{self._name}, line {number}: not a row of CSV ({error}); {_PLAIN}.")


def _rows(lines: _Lines, delimiter: str, quoting: bool | None) -> Iterator[tuple[int, list[str]]]:
    """The number of the first line of each row, and its cells."""
    if quoting is None and delimiter == "\t":
        yield from _rows_of_tabs(lines)
        return
    style: dict[str, Any] = {"quoting": csv.QUOTE_NONE} if quoting is False else {"strict": True}
    number = lines.number + 1
    try:
        for cells in csv.reader(lines, delimiter=delimiter, **style):
            yield number, cells
            number = lines.number + 1
    except csv.Error as error:
        raise lines.error(number, error) from error


def _rows_of_tabs(lines: _Lines) -> Iterator[tuple[int, list[str]]]:
    width = 0
    for line in lines:
        number, plain = lines.number, line.rstrip("\r\n").split("\t")
        if not line.strip("\r\n"):
            continue
        cells = plain
        if any(cell.startswith('"') for cell in plain) or "\r" in line.rstrip("\r\n"):
            cells = _quoted(lines, line, plain, width or len(plain))
        width = width or len(cells)
        yield number, cells


def _quoted(lines: _Lines, line: str, plain: list[str], width: int) -> list[str]:
    """The cells of a row that begins with this line, some of which seem to be quoted."""
    number, taken = lines.number, [line]

    def following() -> Iterator[str]:
        yield line
        for more in islice(lines, _FARTHEST - 1):
            taken.append(more)
            yield more

    fault: csv.Error | None = None
    try:
        cells = next(csv.reader(following(), delimiter="\t", strict=True))
    except csv.Error as error:
        cells, fault = plain, error
    # Lines that are whole rows by themselves were not meant as one.
    rows = len(taken) > 1 and all(one.count("\t") == width - 1 for one in taken)
    if fault is None and not rows:
        return cells
    if len(plain) != width:
        raise lines.error(number, fault or csv.Error("a quoted cell isn't closed"))
    lines.put_back(taken[1:])
    lines.plain.append(number)
    return plain
