"""A row's labels where they stand in one cell: split at a separator, read as a list, or doubted with an example."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from sylvan.data.text_rows import one_kind
from sylvan.errors import ParameterError, warn_data
from sylvan.labels.vocabulary import label_name
from sylvan.params.wording import counted

AUTO = "auto"  # the label separator that is found by the format and the cells
_SAMPLE = 4096  # cells that are looked at before what they show is said
STRONG_MARKS = ("|", ";", "\t", "\n")  # marks that hardly stand in a label's name
_WEAK = (",", "/", "#", "&", " ")  # marks that stand in many: only parts that are labels elsewhere tell
_OPENING = tuple("[({")
_LIKE_LIST = re.compile(r"[\[({](?=.*['\",;]).*[\])}]", re.DOTALL)
_ITEM = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
# As Python and NumPy write lists, tuples and sets of strings: the latter without commas.
_LIST = re.compile(rf"[\[({{]\s*(?:{_ITEM})(?:(?:\s*,\s*|\s+)(?:{_ITEM}))*\s*,?\s*[\])}}]", re.DOTALL)
_ITEMS = re.compile(_ITEM, re.DOTALL)


class LabelCells:
    """What the labels are that a cell, or a JSON string, holds. ``separator`` is what the user said: a mark, ``None``
    for one label a cell, or "auto" for ``usual``, the mark of the format (None where a string is one label). A list as
    Python or JSON writes one is always a list, unless None was said. Where no cell shows the separator, and cells look
    as if another stood in them, a warning says so; and where cells are parted by the ``delimiter`` of the columns."""

    def __init__(
        self, name: str, separator: str | None, usual: str | None = None, delimiter: str | None = None
    ) -> None:
        if separator is not None and (not isinstance(separator, str) or not separator):
            raise ParameterError(
                f"The 'label_separator' parameter must be a non-empty string or None. Got {separator!r} instead."
            )
        self._name, self._plain = name, separator is None
        self._mark = usual if separator == AUTO else separator
        # Whether the columns are parted by it as well, and no one has been told yet.
        self._is_delimiter = separator == AUTO and usual is not None and usual == delimiter
        self._cells: dict[str, str] = {}  # different cells of one label, with the first place of each
        self._n_single = self._n_several = self._n_empty = 0
        self._first_empty = ""  # where
        # Whether there are lists, and the first cell that looks like one and isn't read so, behind its place.
        self._open, self._lists, self._unread = not self._plain, False, list[str]()
        self._kind: type | None = None

    def split(self, place: str, cell: str) -> list[str]:
        """The labels of a cell."""
        cell = cell.strip()
        if self._plain:
            return [label_name(cell)] if cell else []
        if cell.startswith(_OPENING) and (listed := _listed(cell)) is not None:
            self._n_several, self._lists = self._n_several + 1, True
            return self.named(place, listed)
        parts = [cell] if self._mark is None else cell.split() if self._mark == " " else cell.split(self._mark)
        names = [name for part in parts if (name := label_name(part))]
        if self._is_delimiter and len(names) > 1:
            self._is_delimiter = False
            warn_data(
                f"{place}: {cell!r:.80} is read as {len(names)} labels, though {self._mark!r} parts the columns too: "
                f'say label_separator={self._mark!r} (--label-separator "{self._mark}") if that is so, or '
                "label_separator=None (--label-separator none) if each cell is one label."
            )
        self._look(place, names)
        return names

    def named(self, place: str, labels: Iterable[Any]) -> list[Any]:
        """Labels that are apart already, without empty ones, which are counted."""
        names = [label_name(label) if isinstance(label, str) else label for label in labels]
        if n_empty := names.count(""):
            self._n_empty, self._first_empty = self._n_empty + n_empty, self._first_empty or place
        return [name for name in names if name != ""]

    def need_one_kind(self, place: str, labels: Iterable[Any]) -> None:
        """Refuse labels of another type than those before: all are strings, or all ints."""
        self._kind = one_kind(place, labels, self._kind)

    def list_of(self, place: str, labels: list[Any]) -> list[Any]:
        """The labels of a list, each of which is split only where the user named a separator."""
        if self._mark is not None and not self._plain:
            split = (self.split(place, label) if isinstance(label, str) else [label] for label in labels)
            return [part for parts in split for part in parts]
        result = self.named(place, labels)
        self._look(place, result)
        return result

    def watched(self, rows: Iterable[Any]) -> Iterator[Any]:
        """The rows; what their cells show is said once enough are read, or all."""
        for row in rows:
            yield row
            if self._open and self._n_single + self._n_several >= _SAMPLE:
                self._doubt()
        if self._open:
            self._doubt()
        if self._unread and (self._lists or self._n_several * 10 <= self._n_single):
            warn_data(
                f"{self._unread[0]}: {self._unread[1]!r:.80} is read as one label, but looks like a list of a form "
                "that isn't read: write its labels with ; between them, or say label_separator=None (--label-separator "
                "none) if each cell is one label."
            )
        if self._n_empty:
            words = f'{counted(self._n_empty, "empty label")} left out, as "" names none'
            warn_data(f"{self._name}: {words}; the first: {self._first_empty.removeprefix(self._name + ', ')}.")

    def _look(self, place: str, names: list[Any]) -> None:
        only = names[0] if len(names) == 1 and isinstance(names[0], str) else ""
        if not (self._plain or self._unread) and _LIKE_LIST.fullmatch(only):
            self._unread = [place, only]
        if not self._open or not names:
            return
        if len(names) > 1:
            self._n_several += 1
        elif isinstance(names[0], str):
            self._n_single += 1
            self._cells.setdefault(names[0], place)

    def _doubt(self) -> None:
        """Warn where cells of one label look like several; a file that shows its separator isn't doubted."""
        self._open = False
        cells, self._cells = self._cells, {}
        if self._unread or self._n_several * 10 > self._n_single:
            return
        for mark in (*STRONG_MARKS, *_WEAK):
            marked = [cell for cell in cells if mark in cell and not (mark in "/#" and "://" in cell)]
            if mark != self._mark and marked and (mark in STRONG_MARKS or looks_split(mark, marked, cells)):
                word = {"\t": "tab", "\n": "newline"}.get(mark, mark)
                warn_data(
                    f"{cells[marked[0]]}: {marked[0]!r:.80} is read as one label, but looks like several with {mark!r} "
                    f'between them: say label_separator={mark!r} (--label-separator "{word}"), or label_separator=None '
                    "(--label-separator none) if each cell is one label."
                )
                return


def _listed(cell: str) -> list[Any] | None:
    """The items of a list as Python, NumPy or JSON writes it; None for anything else."""
    try:
        items = json.loads(cell)
    except (ValueError, RecursionError):
        if not _LIST.fullmatch(cell):
            return None
        try:
            return [str(ast.literal_eval(item)) for item in _ITEMS.findall(cell)]
        except (ValueError, SyntaxError):
            return None
    sound = isinstance(items, list) and all(type(item) in (str, int) for item in items)
    return [str(item) for item in items] if sound else None


def looks_split(mark: str, marked: list[str], cells: dict[str, str]) -> bool:
    """Whether parts of cells are labels elsewhere: alone, or both first and later in cells. "Smith, John" and
    "Sports/Football" are names: their parts keep their places."""
    parted = [[part.strip() for part in cell.split(mark) if part.strip()] for cell in marked]
    parted = [parts for parts in parted if len(parts) > 1]
    first, later = Counter(parts[0] for parts in parted), Counter(part for parts in parted for part in parts[1:])
    n_found = sum(all(part in cells or (part in first and part in later) for part in parts) for parts in parted)
    lengths = {len(parts) for parts in parted}
    lists = mark == "," and len(lengths) > 1 and 2 * len(parted) > len(cells) and len(later) < len(parted)
    return bool(parted) and (2 * n_found >= len(parted) or lists)
