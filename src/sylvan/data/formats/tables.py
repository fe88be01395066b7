"""CSV and TSV: one row a text, its labels in a cell (or several), columns by name or by number."""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from sylvan.data.formats.format import Columns, Format, Layout, Records
from sylvan.data.label_cells import AUTO, LabelCells
from sylvan.data.other_fields import RecordColumns, cell_of, with_others
from sylvan.data.streams import InputStream, PathLike, head_of, open_read, open_write, unpacked_name
from sylvan.data.text_rows import (
    CR_ENDS,
    Label,
    Row,
    TextData,
    collect,
    complete_rows,
    encoded,
    in_blocks,
    not_utf8,
    quoted,
    refuse_repeated,
    unexpected,
    unweighted,
)
from sylvan.errors import DataError, ParameterError, warn_data
from sylvan.parallel import progress
from sylvan.params.wording import counted

_LONGEST = 2**31 - 1  # characters of a cell; csv's own limit of 131072 is less than a book
_FARTHEST = 1000  # lines in which a quoted cell of TSV closes, or its quotation mark is one of the text
_DECLARED = re.compile(r"sep=(.)\r?\n?", re.IGNORECASE)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would compute
_PLAIN = "quoting=False (--no-quoting) reads quotation marks as they stand"


def declared_delimiter(line: str) -> str | None:
    """The delimiter that a first line declares as Excel does, ``sep=;``; None for any other line."""
    match = _DECLARED.fullmatch(line)
    return match[1] if match else None


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
    if "\r" in first.rstrip("\r\n") and '"' not in first:  # the whole file is one line, but to a spreadsheet
        raise unexpected(f"{stream.name}, line 1", CR_ENDS, quoted(first))
    declared = declared_delimiter(first)
    if declared is None:
        lines.put_back([first])
    rows = _cell_rows(lines, declared or delimiter, quoting)
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
        warn_data(f"{stream.name}: {counted(n_long, 'row')} with cells over several lines, {longest}: {_PLAIN}.")
    if lines.plain:
        warn_data(
            f"{stream.name}: the quotation marks of {counted(len(lines.plain), 'line')} are read as they stand, as "
            f"they don't quote cells, the first at line {lines.plain[0]}: {_PLAIN} everywhere, "
            "and quoting=True (--quoting) as quotes."
        )


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


def _cell_rows(lines: _Lines, delimiter: str, quoting: bool | None) -> Iterator[tuple[int, list[str]]]:
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
        for next_line in islice(lines, _FARTHEST - 1):
            taken.append(next_line)
            yield next_line

    fault: csv.Error | None = None
    try:
        cells = next(csv.reader(following(), delimiter="\t", strict=True))
    except csv.Error as error:
        cells, fault = plain, error
    # Lines that are whole rows by themselves were not meant as one.
    rows = len(taken) > 1 and all(row.count("\t") == width - 1 for row in taken)
    if fault is None and not rows:
        return cells
    if len(plain) != width:
        raise lines.error(number, fault or csv.Error("a quoted cell isn't closed"))
    lines.put_back(taken[1:])
    lines.plain.append(number)
    return plain


Column = str | int
Several = Column | Sequence[Column]
_BLOCK = 4096  # rows that are written together
_MARKS = (";", "\t", "|", ",")  # that may separate cells
# What to say where a column isn't there.
_TEXTS = "Say which has the text with text_columns (--text-field), by its name, or by its number where none has a name."
_LABELS = "Say which has the labels with labels_columns (--labels-field)."
_OTHER_NAMES = {"labels": ("label", "subjects", "subject_uris")}


def read_table(
    path: PathLike, *, text_columns: Several = "text", labels_columns: Several | None = "labels",
    label_separator: str | None = AUTO, delimiter: str | None = None, header: bool | None = None,
    quoting: bool | None = None, separator: str = " ",
) -> TextData:  # fmt: skip
    r"""Read texts and labels from a table in CSV or TSV.

    Cells are quoted as Python's ``csv`` has it: ``"`` around a cell that holds delimiters, line breaks or quotes,
    which are doubled inside. Blanks around labels are dropped, and so are empty labels.

    Parameters
    ----------
    path : path-like
        The file, gzip or xz unpacked on the way; "-" reads stdin.
    text_columns : str, int or sequence of them
        The column of the text, by its name in the header or by its number, counted from 1; several are joined by
        ``separator``, empty ones adding nothing.
    labels_columns : str, int, sequence of them, or None
        The column of the labels, or several. Where "labels" is asked for and missing, "label", "subjects" or
        "subject_uris" (Annif's CSV) is taken. None reads the texts alone.
    label_separator : str or None
        What parts the labels within a cell; ``" "`` stands for any run of blanks, None for one label a cell. "auto" is
        ";". A cell that holds a list as Python or JSON writes it, ``['a', 'b']``, is that list, unless None is given.
        Where cells look as if another mark parted their labels, a warning shows one.
    delimiter : str, optional
        What parts the cells: by default a tab in files named .tsv or .tab (packed or not), else a comma. A first line
        ``sep=;``, as Excel writes it, goes before.
    header : bool, optional
        Whether the first row names the columns. By default it does unless all columns are given as numbers.
    quoting : bool, optional
        Whether ``"`` around a cell quotes it. If not, quotation marks are part of the text. By default it does, but in
        tables of tabs a mark that can't be a quote, as its cell isn't closed or would swallow whole rows, is part of
        the text, with a warning.
    separator : str

    Returns
    -------
    TextData
        Labels are strings; there are no weights.

    Raises
    ------
    DataError
        For a missing column, a row of too few or too many cells, quotes that don't close, text that isn't UTF-8, with
        file and line; when the file is missing, empty or damaged.
    ParameterError
        When a parameter is out of its range, or a name is given for a file without a header.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "books.csv"
    >>> _ = path.write_text('title,author,subjects\n"Moby Dick, or The Whale",Melville,Whaling; Sea stories\n')
    >>> data.read_table(path, text_columns=("title", "author"))
    TextData(texts=['Moby Dick, or The Whale Melville'], labels=[['Whaling', 'Sea stories']], weights=None)
    """
    layout = Layout(text_columns, labels_columns, "", True, label_separator, separator, delimiter, header, quoting)
    return collect(_rows(path, checked_layout(path, layout)))


def stream_table(
    path: PathLike, *, text_columns: Several = "text", labels_columns: Several | None = "labels",
    label_separator: str | None = AUTO, delimiter: str | None = None, header: bool | None = None,
    quoting: bool | None = None, separator: str = " ", rows: int = 4096, records: list[Mapping[str, Any]] | None = None,
) -> Iterator[TextData]:  # fmt: skip
    """Read what :func:`read_table` reads, ``rows`` rows at a time; other parameters and errors as there.

    To ``records`` the cells of each row are appended as they are read, by the names of their columns, or by their
    numbers in a table without a header.
    """
    layout = Layout(text_columns, labels_columns, "", True, label_separator, separator, delimiter, header, quoting)
    return in_blocks(_rows(path, checked_layout(path, layout), records), rows)


def write_table(
    path: PathLike, texts: Iterable[str], labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None, *, text_column: str = "text",
    labels_column: str = "labels", label_separator: str = ";", delimiter: str | None = None, header: bool = True,
    guards: bool = False, others: Iterable[Mapping[str, Any]] | None = None,
) -> None:  # fmt: skip
    """Write texts and labels as CSV or TSV, which :func:`read_table` reads back.

    Parameters
    ----------
    path : path-like
        Packed when it ends in .gz or .xz; "-" writes to stdout. The file is replaced in one step at the end.
    texts : iterable of str
    labels : iterable of sequence of str or int, optional
    weights : iterable of sequence of float (or None), optional
        Any other than 1 are refused: a table holds none.
    text_column, labels_column : str
        The names in the header.
    label_separator, delimiter
        As in :func:`read_table`.
    header : bool
        Whether to write one; without it the text is column 1 and the labels column 2.
    guards : bool
        Whether a cell that a spreadsheet would compute (it begins with =, +, -, @, a tab or a CR) gets an apostrophe
        before it, which reading doesn't remove.
    others : iterable of mapping, optional
        Each row's other fields, which become columns behind text and labels, those of the first rows; one of the same
        name as these is left out.

    Raises
    ------
    DataError
        When a label holds the separator, is empty or has blanks around it; when a row has a field that the first rows
        don't have; when lengths differ or the file can't be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "books.tsv"
    >>> data.write_table(path, ["Moby Dick"], [["Whaling", "Sea stories"]])
    >>> path.read_text().splitlines()
    ['text\\tlabels', 'Moby Dick\\tWhaling;Sea stories']
    """
    mark = _delimiter(path, delimiter)
    if not isinstance(label_separator, str) or not label_separator:
        raise ParameterError(f"The 'label_separator' parameter must be a string. Got {label_separator!r} instead.")
    headings = [text_column] if labels is None else [text_column, labels_column]
    columns, begun = RecordColumns(), not header
    rows = with_others(unweighted("a table", texts, labels, weights), others)
    with open_write(path) as stream, progress("writing", None, "line") as bar:
        while block := list(islice(rows, _BLOCK)):
            names = [name for name in columns.take([other for _, other in block]) if name not in headings]
            if not begun:
                stream.write(encoded(None, cell_line((*headings, *names), mark, guards)))
            begun = True
            for (number, text, row), other in block:
                cells = [text] if labels is None else [text, _label_cell(number, row, label_separator)]
                cells += [cell_of(other.get(name)) for name in names]
                stream.write(encoded(number, cell_line(cells, mark, guards)))
                bar.update(1)
        if not begun:
            stream.write(encoded(None, cell_line(headings, mark, guards)))


def checked_layout(path: PathLike, layout: Layout) -> Layout:
    """How a table is to be read, refused before it is opened where that can't be."""
    texts = _columns(layout.text_fields, "text_columns")
    labels = () if layout.labels_field is None else _columns(layout.labels_field, "labels_columns")
    named = [column for column in (*texts, *labels) if isinstance(column, str)]
    if layout.header is False and named:
        raise ParameterError(f"A table without a header has numbers for columns, from 1. Got {named[0]!r} instead.")
    LabelCells("", layout.label_separator)  # refuses what is no separator
    header = bool(named) if layout.header is None else layout.header
    delimiter = _delimiter(path, layout.delimiter)
    return replace(layout, text_fields=texts, labels_field=labels, header=header, delimiter=delimiter)


def _columns(columns: Several, parameter: str) -> tuple[Column, ...]:
    listed = (columns,) if isinstance(columns, str | int) else tuple(columns) if isinstance(columns, Sequence) else ()
    sound = all(isinstance(c, str) or (isinstance(c, int) and not isinstance(c, bool) and c >= 1) for c in listed)
    if not listed or not sound:
        must = "must name columns or number them from 1"
        raise ParameterError(f"The {parameter!r} parameter {must}. Got {columns!r} instead.")
    return listed


def _delimiter(path: PathLike, delimiter: str | None) -> str:
    if delimiter is None:
        return "\t" if unpacked_name(path).endswith((".tsv", ".tab")) else ","
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise ParameterError(f"The 'delimiter' parameter must be one character. Got {delimiter!r} instead.")
    return delimiter


def _rows(path: PathLike, layout: Layout, records: Records | None = None) -> Iterator[Row]:
    with open_read(path) as stream:
        cells = read_cells(stream, layout.delimiter or ",", layout.quoting)
        yield from rows_of_cells(stream.name, cells, layout, records)


def rows_of_cells(
    name: str, rows: Iterator[tuple[str, list[str]]], layout: Layout, records: Records | None
) -> Iterator[Row]:
    """What a table's cells hold, given with the place of each row, under a layout that :func:`checked_layout` made."""
    place, cells = next(complete_rows(rows, name))
    width, names = len(cells), cells if layout.header else None
    if names is not None and any(isinstance(column, str) for column in (*layout.text_fields, *layout.labels_field)):
        refuse_repeated(place, names, "rename one, or give columns by their numbers")
    texts = [_position(place, column, names, width, _TEXTS) for column in layout.text_fields]
    labels = [_position(place, column, names, width, _LABELS) for column in layout.labels_field]
    numbered = names is None or names.count("") > 1
    columns = [name or (str(number) if numbered else "") for number, name in enumerate(names or [""] * width, 1)]
    label_cells, header = LabelCells(name, layout.label_separator, ";", layout.delimiter), sorted(names or ())
    rows = complete_rows(rows if layout.header else chain([(place, cells)], rows), name)
    for place, cells in label_cells.watched(rows):
        if len(cells) != width:
            raise DataError(f"{place}: the row has {len(cells)} cells, but the first has {width}.")
        first = cells[0].removeprefix("\ufeff")
        if names is not None and width > 1 and first in names and sorted((first, *cells[1:])) == header:
            raise DataError(f"{place}: the header stands here again, as where files were joined: take this line out.")
        if records is not None:
            records.append(dict(zip(columns, cells, strict=True)))
        text = layout.separator.join(filter(None, (cells[i] for i in texts)))
        names_of_row = dict.fromkeys(name for i in labels for name in label_cells.split(place, cells[i]))
        yield text, list(names_of_row), None


def _position(place: str, column: Column, names: list[str] | None, width: int, option: str) -> int:
    if isinstance(column, int):
        if column > width:
            raise DataError(f"{place}: there is no column {column}, as the first row has {width}. {option}")
        return column - 1
    assert names is not None
    for name in (column, *_OTHER_NAMES.get(column, ())):
        if name in names:
            return names.index(name)
    listed = ", ".join(repr(name[:40]) for name in names[:20])
    mark = next((mark for mark in _MARKS if len(names) == 1 and mark in names[0]), None)
    quoted = "tab" if mark == "\t" else f'"{mark}"'
    parted = "" if mark is None else f" If {mark!r} separates the cells, say delimiter={mark!r} (--delimiter {quoted})."
    raise DataError(f"{place}: there is no column {column!r}. The first row names: {listed}. {option}{parted}")


def _label_cell(number: int, row: Sequence[Label], separator: str) -> str:
    names = [str(label) for label in row]
    for name in names:
        if not name or name != name.strip():
            rule = "a label of a table must not be empty or have blanks around it"
            raise unexpected(f"Row {number}", rule, repr(name))
        if separator in name or (separator == " " and len(name.split()) > 1):
            raise DataError(
                f"Row {number}: the label {name!r} holds {separator!r}, which parts the labels: "
                "choose another with label_separator (--output-separator)."
            )
    return separator.join(names)


def first_row(path: str, delimiter: str) -> list[str]:
    """The cells of the first row, which may name the columns; none where they can't be read."""
    text = head_of(path).decode("utf-8", "replace")
    first, _, remainder = text.partition("\n")
    if (declared := declared_delimiter(first)) is not None:
        text, delimiter = remainder, declared
    with suppress(csv.Error):
        return next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row), [])
    return []


def typed_column(name: str) -> Column:
    """A column by its number where that was typed, else by its name."""
    return int(name) if name.isdecimal() else name


def typed_layout(layout: Layout) -> Layout:
    """The layout with its columns by their numbers where these were typed."""
    labels = None if layout.labels_field is None else typed_column(layout.labels_field)
    return replace(layout, text_fields=[typed_column(name) for name in layout.text_fields], labels_field=labels)


def _format(delimiter: str, labels_column: str = "labels", separator: str = ";") -> Format:
    def rows(path: PathLike, layout: Layout, records: Records | None) -> Iterator[Row]:
        usual = separator != ";" and layout.label_separator == AUTO
        typed = replace(
            typed_layout(layout), label_separator=separator if usual else layout.label_separator,
            delimiter=layout.delimiter or delimiter,
        )  # fmt: skip
        return _rows(path, checked_layout(path, typed), records)

    def write(path: PathLike, columns: Columns, layout: Layout, others: Iterable[Mapping[str, Any]] | None) -> None:
        write_table(
            path, *columns, labels_column=labels_column, label_separator=layout.output_separator or separator,
            delimiter=layout.delimiter or delimiter, header=layout.header is not False, guards=layout.guards,
            others=others,
        )  # fmt: skip

    def fields(path: str, layout: Layout, texts: bool) -> list[str]:
        return [] if layout.header is False else first_row(path, layout.delimiter or delimiter)

    return Format(rows, write, fields, delimiter)


CSV, TSV, ANNIF_CSV = _format(","), _format("\t"), _format(",", "subject_uris", " ")
