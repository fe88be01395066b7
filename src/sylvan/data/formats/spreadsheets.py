"""Spreadsheets (.xlsx) through openpyxl: the rows of a sheet as a table of texts, as the sheet shows them."""

from __future__ import annotations

import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, time
from functools import lru_cache
from itertools import islice
from typing import IO, Any

from sylvan.data.formats.format import Format, Layout, Records
from sylvan.data.formats.tables import Several, checked_layout, rows_of_cells, typed_layout
from sylvan.data.label_cells import AUTO
from sylvan.data.streams import PathLike, open_read, shown
from sylvan.data.text_rows import Row, TextData, collect, complete_rows, in_blocks, quoted
from sylvan.errors import DataError
from sylvan.lazy import need_extra
from sylvan.parallel import progress

_BLOCK = 256  # rows that are taken from openpyxl together
_MOST_ROWS = 1 << 20  # of a sheet
_EXACT = 1e15  # up to which spreadsheets know all digits
_BOMB, _MOST_TIMES = 1 << 27, 200  # bytes from which on it matters how many times its size a part unpacks to
_CODE = re.compile(r"0(?:\\?[-/ ]?0)+")  # a number format for codes of so many digits: 0000, 000\-00
_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\s[^>]*?ref=\"([^\"]+)\"")
# A cell of a formula without a value; an empty one is that of a formula that gives text.
_FORMULA = re.compile(
    rb"<(?:\w+:)?c\s([^>]*)>\s*<(?:\w+:)?f\b(?:[^>]*/>|[^>]*>[^<]*</(?:\w+:)?f>)\s*"
    rb"(<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
_SCAN, _LONGEST = 1 << 20, 1 << 16  # bytes that are looked at together, and of the longest formula


def read_spreadsheet(
    path: PathLike, *, sheet: str | None = None, text_columns: Several = "text",
    labels_columns: Several | None = "labels", label_separator: str | None = AUTO, header: bool | None = None,
    separator: str = " ",
) -> TextData:  # fmt: skip
    """Read texts and labels from a sheet of a spreadsheet (.xlsx); needs openpyxl (``pip install
    "sylvan[spreadsheet]"``).

    Cells are taken as text: numbers with all their digits and with the leading zeros that their format shows (0000),
    dates as 2024-05-31, formulas as the values that were saved with them. Empty rows are passed over.

    Parameters
    ----------
    path : path-like
        The file; "-" reads stdin.
    sheet : str, optional
        The name of the sheet; by default the only one in sight that holds anything.
    text_columns, labels_columns, label_separator, header, separator
        As in :func:`read_table`.

    Returns
    -------
    TextData
        Labels are strings; there are no weights.

    Raises
    ------
    DataError
        For a missing sheet or column; for merged cells, a formula whose value wasn't saved, a cell that shows an error
        and a row with more cells than the first, with sheet and row; when the file is missing, empty, damaged, of
        another kind or locked by a password; when openpyxl is missing.

    Examples
    --------
    >>> import tempfile, pathlib, openpyxl
    >>> from sylvan import data
    >>> path, book = pathlib.Path(tempfile.mkdtemp()) / "books.xlsx", openpyxl.Workbook()
    >>> for row in (["id", "title", "subjects"], [7, "Moby Dick", "Whaling; Sea stories"]):
    ...     book.active.append(row)
    >>> book.save(path)
    >>> data.read_spreadsheet(path, text_columns="title", labels_columns="subjects")
    TextData(texts=['Moby Dick'], labels=[['Whaling', 'Sea stories']], weights=None)
    """
    layout = Layout(text_columns, labels_columns, "", True, label_separator, separator, header=header, sheet=sheet)
    return collect(_rows(path, layout))


def stream_spreadsheet(
    path: PathLike, *, sheet: str | None = None, text_columns: Several = "text",
    labels_columns: Several | None = "labels", label_separator: str | None = AUTO, header: bool | None = None,
    separator: str = " ", rows: int = 4096, records: list[Mapping[str, Any]] | None = None,
) -> Iterator[TextData]:  # fmt: skip
    """Read what :func:`read_spreadsheet` reads, ``rows`` rows at a time; other parameters and errors as there.

    To ``records`` the cells of each row are appended as they are read, as text, by the names of their columns, or by
    their numbers in a sheet without a header. The workbook's texts are in memory as a whole, its cells aren't.
    """
    layout = Layout(text_columns, labels_columns, "", True, label_separator, separator, header=header, sheet=sheet)
    return in_blocks(_rows(path, layout, records), rows)


def _rows(path: PathLike, layout: Layout, records: Records | None = None) -> Iterator[Row]:
    checked = checked_layout(path, layout)
    yield from rows_of_cells(shown(path), _cells(path, layout.sheet), checked, records)


def _cells(path: PathLike, wanted: str | None) -> Iterator[tuple[str, list[str]]]:
    """The cells of every row that isn't empty, as many as in the first, or more, with "file, sheet 'name', row n"."""
    needs = f"{shown(path)}: a spreadsheet needs openpyxl, and a CSV doesn't"
    excel = need_extra(needs, "spreadsheet", "openpyxl", "openpyxl.reader.excel", refusal=DataError)
    with open_read(path) as stream, progress(f"reading {stream.name}", None, "row") as bar:
        try:
            file = stream.sized()[0]
            with zipfile.ZipFile(file) as archive:
                _refuse_bombs(stream.name, archive)
            reader = excel.ExcelReader(file, read_only=True, data_only=True, keep_links=False)
            with _without_warnings():
                reader.read()
            sheet = _sheet(stream.name, reader.wb, wanted)
            part = next(part.target for entry, part in reader.parser.find_sheets() if entry.name == sheet.title)
            with reader.archive.open(part) as content:
                _refuse_unclear(f"{stream.name}, sheet {quoted(sheet.title)}", content)
            width = 0
            for number, row in enumerate(_sheet_rows(sheet), 1):
                place = f"{stream.name}, sheet {quoted(sheet.title)}, row {number}"
                if number > _MOST_ROWS:
                    raise DataError(f"{place}: a sheet has at most {_MOST_ROWS:,} rows.")
                cells = [_shown(place, cell) for cell in row]
                while cells and not cells[-1]:
                    cells.pop()
                if cells:
                    cells += [""] * (width - len(cells))
                    width = width or len(cells)
                    yield place, cells
                    bar.update(1)
        except DataError:
            raise
        except Exception as error:  # of many kinds, by what is damaged
            words = " ".join(str(error).split())[:200] or type(error).__name__
            raise DataError(f"{stream.name}: not a spreadsheet (.xlsx), or damaged ({words}).") from error


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Nothing is said of what openpyxl would lose if it wrote the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _sheet_rows(sheet: Any) -> Iterator[Any]:
    rows, block = sheet.iter_rows(), [()]
    while block:
        with _without_warnings():
            block = list(islice(rows, _BLOCK))
        yield from block


def _refuse_bombs(name: str, archive: zipfile.ZipFile) -> None:
    """Refuse what would fill the memory when it is unpacked, or declares entities, which no program writes here."""
    for part in archive.infolist():
        place = f"{name}: its part {quoted(part.filename)}"
        if part.file_size > max(_BOMB, _MOST_TIMES * part.compress_size):
            times = part.file_size // max(part.compress_size, 1)
            raise DataError(f"{place} unpacks to {times:,} times its size: give a CSV.")
        if part.filename.endswith((".xml", ".rels")):
            with archive.open(part) as file:
                if b"<!DOCTYPE" in file.read(1 << 12).replace(b"\0", b""):
                    raise DataError(f"{place} declares a document type: save it again.")


def _sheet(name: str, book: Any, wanted: str | None) -> Any:
    """The sheet that is to be read."""
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    for sheet in sheets.values():
        sheet.reset_dimensions()  # which not every program writes as they are
    if wanted is not None:
        if wanted not in sheets:
            raise DataError(f"{name}: there is no sheet {wanted!r}. Its sheets are: {', '.join(map(quoted, sheets))}.")
        return sheets[wanted]
    filled = [
        sheet for sheet in sheets.values() if sheet.sheet_state == "visible"
        and any(cell.value is not None for row in sheet.iter_rows() for cell in row)
    ]  # fmt: skip
    if not filled:
        raise DataError(f"{name}: no sheet holds anything that can be read.")
    if len(filled) > 1:
        listed, last = ", ".join(quoted(sheet.title) for sheet in filled), quoted(filled[-1].title)
        raise DataError(f"{name} has several sheets, {listed}: say which, as in sheet={last} (--sheet {last}).")
    return filled[0]


def _refuse_unclear(place: str, content: IO[bytes]) -> None:
    """Refuse cells that openpyxl gives as empty ones: those merged with others, and formulas without their values."""
    before = b""
    while block := content.read(_SCAN):
        text = before + block
        before = text[-_LONGEST:]
        if merged := _MERGED.search(text):
            cells = merged[1].decode()
            raise DataError(f"{place}: the cells {cells} are merged: part them, with a value in each row.")
        for attributes, value in _FORMULA.findall(text):
            if not value or b't="str"' not in attributes:
                cell = re.search(rb"\br=\"(\w+)\"", attributes)
                where = f"cell {cell[1].decode()}" if cell else "a cell"
                raise DataError(
                    f"{place}: {where} has a formula without its value: open the file in a program that computes it, "
                    "and save it."
                )


def _shown(place: str, cell: Any) -> str:
    """A cell as text."""
    value = cell.value
    if value is None:
        return ""
    if cell.data_type == "e":
        raise DataError(f"{place}: cell {cell.coordinate} shows the error {value}: mend or empty it.")
    if isinstance(value, str):
        return value.replace("_x000D_", "")  # a line break's first half, as Excel writes it
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        whole = isinstance(value, float) and value.is_integer() and abs(value) < _EXACT
        return _number(int(value) if whole else value, cell.number_format)
    if isinstance(value, datetime) and value.time() == time():
        return str(value.date())
    return str(value)


def _number(value: float, form: str) -> str:
    """A number with all its digits, or as a code of so many digits as its format shows."""
    text = str(value)
    if not text.isdecimal() or not _CODE.fullmatch(form):
        return text
    mask = form.replace("\\", "")
    digits = text.zfill(mask.count("0"))
    first = len(digits) - mask.count("0")
    following = iter(digits[first:])
    return digits[:first] + "".join(next(following) if mark == "0" else mark for mark in mask)


def _fields(path: str, layout: Layout, texts: bool) -> list[str]:
    if path == "-" or layout.header is False:
        return []
    with suppress(DataError, OSError):  # what is wrong with it is the reader's to say
        stamp = os.stat(path)
        return list(_first_row(path, layout.sheet, (stamp.st_mtime_ns, stamp.st_size)))
    return []


@lru_cache(maxsize=4)
def _first_row(path: str, sheet: str | None, changed: tuple[int, int]) -> tuple[str, ...]:
    """The cells of the first row, for which all of a workbook's texts are read."""
    return tuple(next(complete_rows(_cells(path, sheet), path))[1])


XLSX = Format(lambda path, layout, records: _rows(path, typed_layout(layout), records), fields=_fields)
