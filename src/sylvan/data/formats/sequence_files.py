"""Interactions in text files: ``user item [timestamp]`` lines, or one user a line with all of their items."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sylvan.data.lines import token
from sylvan.data.sequences import SequenceData, from_codes
from sylvan.data.streams import PathLike, open_read, open_write
from sylvan.data.text_rows import encoded, text_lines
from sylvan.errors import DataError, ParameterError
from sylvan.parallel import progress
from sylvan.wording import counted

__all__ = ["read_sequences", "write_sequences"]

Layout = Literal["interactions", "users"]

_LAYOUTS = ("interactions", "users")
_SEPARATORS = {" ": "blanks", "\t": "tabs", ",": "commas"}
_HEAD = 1000  # lines that decide the layout
_WHOLE = re.compile(r"[-+]?[0-9]+")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_BREAK = re.compile(r"[\n\r]")


def read_sequences(
    path: PathLike,
    *,
    layout: Layout | None = None,
    separator: str | None = None,
    header: bool = False,
    order: Literal["time", "line"] = "time",
    min_interactions: int = 10,
    until_stable: bool = True,
) -> SequenceData:
    """Read who did what in which order.

    Two layouts are known: ``"interactions"``, a line ``user item`` or ``user item timestamp`` for each interaction
    (a user's lines need not stand together), and ``"users"``, a line ``user item item …`` for each user. Names are
    any strings without the separator. Empty lines are passed over; a repeated interaction counts each time.

    Parameters
    ----------
    path : path-like
        The file, gzip or xz unpacked on the way; "-" reads stdin.
    layout : {"interactions", "users"}, optional
        By default the first 1,000 lines decide: when all have two fields, or all three with a number as the third,
        they are interactions; else one user stands on a line.
    separator : {" ", tab, ","}, optional
        What parts fields; " " stands for any run of blanks and tabs. By default the first line decides: a tab where
        it has one, else a comma, else blanks. There is no quoting.
    header : bool
        Whether the first line names columns and is passed over.
    order : {"time", "line"}
        How a user's items are put in order: by timestamp where there are timestamps (equal ones by line), or by line.
    min_interactions, until_stable
        As in :func:`~sylvan.data.build_sequences`: users and items with fewer interactions are dropped, by default
        until all that are left have so many.

    Returns
    -------
    SequenceData

    Raises
    ------
    DataError
        For the first line at fault, with its number; when the file is missing, damaged or holds no interactions, or
        none is left.
    ParameterError
        When a parameter is out of its range.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.tsv"
    >>> _ = path.write_text("ann\\tgreen tea\\t20\\nann\\trice\\t10\\nbob\\tgreen tea\\t5\\n")
    >>> found = data.read_sequences(path, min_interactions=1)
    >>> found.describe(), [found.items[i] for i in found[0]]
    ('2 users, 2 items, 3 interactions', ['rice', 'green tea'])
    """
    _one_of("layout", layout, (None, *_LAYOUTS))
    _one_of("separator", separator, (None, *_SEPARATORS))
    _one_of("order", order, ("time", "line"))
    result = _Interactions()
    with open_read(path) as stream:
        name = stream.name
        rows = _rows(text_lines(stream), separator, header)
        head = list(islice(rows, _HEAD))
        rows = chain(head, rows)
        if (layout or _layout(head)) == "interactions":
            _read_interactions(rows, result)
        else:
            _read_users(rows, result)
    times = result.stamps() if order == "time" else None
    return from_codes(
        (list(result.users), np.array(result.user_of, np.int64)),
        (list(result.items), np.array(result.item_of, np.int64)),
        times, min_interactions, until_stable, name,
    )  # fmt: skip


def write_sequences(path: PathLike, sequences: SequenceData, *, layout: Layout = "users", separator: str = " ") -> None:
    """Write sequences as :func:`read_sequences` reads them (give it the same layout and separator).

    Parameters
    ----------
    path : path-like
        Packed when it ends in .gz or .xz; "-" writes to stdout. The file is replaced in one step at the end.
    sequences : SequenceData
    layout : {"users", "interactions"}
        A user a line, or an interaction a line, in order.
    separator : {" ", tab, ","}

    Raises
    ------
    DataError
        When a name holds the separator or a line break, begins or ends with a blank, or is empty; when the file can't
        be written.
    ParameterError
        When a parameter is out of its range.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "users.txt"
    >>> data.write_sequences(path, data.build_sequences("aab", "xyx", min_interactions=1))
    >>> path.read_text()
    'a x y\\nb x\\n'
    """
    _one_of("layout", layout, _LAYOUTS)
    _one_of("separator", separator, tuple(_SEPARATORS))
    users = [_writable(name, "a user", separator) for name in sequences.users]
    items = [_writable(name, "an item", separator) for name in sequences.items]
    with open_write(path) as stream, progress("writing", len(sequences), "user") as bar:
        for number, (user, ids) in enumerate(zip(users, sequences, strict=True)):
            names = [items[i] for i in ids.tolist()]
            if layout == "users":
                stream.write(encoded(number, separator.join([user, *names]) + "\n"))
            else:
                stream.write(encoded(number, "".join(f"{user}{separator}{item}\n" for item in names)))
            bar.update(1)


@dataclass
class _Interactions:
    """What has been read so far: names by first occurrence, and a place among them an interaction."""

    users: dict[str, int] = field(default_factory=dict)
    items: dict[str, int] = field(default_factory=dict)
    user_of: array[int] = field(default_factory=lambda: array("q"))
    item_of: array[int] = field(default_factory=lambda: array("q"))
    times: list[float] = field(default_factory=list)

    def add(self, user: str, item: str) -> None:
        self.user_of.append(self.users.setdefault(user, len(self.users)))
        self.item_of.append(self.items.setdefault(item, len(self.items)))

    def stamps(self) -> npt.NDArray[Any] | None:
        """The timestamps: of int64 where all are whole, so that nanoseconds keep their order."""
        if not self.times:
            return None
        whole = all(type(time) is int and -(2**63) <= time < 2**63 for time in self.times)
        return np.array(self.times, np.int64 if whole else np.float64)


_Row = tuple[str, list[str]]


def _rows(lines: Iterator[tuple[str, str]], separator: str | None, header: bool) -> Iterator[_Row]:
    """Place and fields of every line that isn't empty."""
    for place, line in lines:
        if not line.strip():
            continue
        if separator is None:
            separator = next((mark for mark in ("\t", ",") if mark in line), " ")
        if header:
            header = False
            continue
        if separator == " ":
            yield place, line.split()
            continue
        fields = [text.strip() for text in line.split(separator)]
        if "" in fields:
            raise DataError(
                f"{place}: field {fields.index('') + 1} is empty; fields are parted by {_SEPARATORS[separator]}. "
                f"Got {token(line.encode())} instead."
            )
        yield place, fields


def _layout(head: list[_Row]) -> Layout:
    widths = {len(fields) for _, fields in head}
    if widths == {2} or (widths == {3} and all(_DECIMAL.fullmatch(fields[2]) for _, fields in head)):
        return "interactions"
    return "users"


def _read_interactions(rows: Iterator[_Row], result: _Interactions) -> None:
    width = 0
    for place, fields in rows:
        if len(fields) not in (2, 3) or (width and len(fields) != width):
            before = f"{width} fields, as those before"  # 2 or 3
            expected = before if width else "'user item' or 'user item timestamp'"
            raise DataError(
                f"{place}: a line must be {expected}. Got {counted(len(fields), 'field')} instead. Lines that hold a "
                "user and all of their items are read with layout='users' (--layout users)."
            )
        width = len(fields)
        result.add(fields[0], fields[1])
        if width == 3:
            result.times.append(_time(place, fields[2]))


def _time(place: str, text: str) -> float:
    if _WHOLE.fullmatch(text) and len(text) <= 300:
        return int(text)
    time = float(text) if _DECIMAL.fullmatch(text) else float("nan")
    if not np.isfinite(time):
        hint = " A first line that names columns is passed over with header=True (--header)."
        raise DataError(f"{place}: a timestamp must be a finite number. Got {token(text.encode())} instead.{hint}")
    return time


def _read_users(rows: Iterator[_Row], result: _Interactions) -> None:
    for place, (user, *items) in rows:
        if not items:
            raise DataError(f"{place}: a line must be a user and at least one item. Got {token(user.encode())} alone.")
        if user in result.users:
            raise DataError(
                f"{place}: the user {token(user.encode())} has had a line before. Lines of one interaction each are "
                "read with layout='interactions' (--layout interactions): two fields, or three with a timestamp."
            )
        for item in items:
            result.add(user, item)


def _writable(name: str, what: str, separator: str) -> str:
    split = any(letter.isspace() for letter in name) if separator == " " else separator in name
    if not name or split or name != name.strip() or _BREAK.search(name):
        raise DataError(
            f"The name of {what} must not be empty, begin or end with a blank, or hold a line break or what parts "
            f"fields, {_SEPARATORS[separator]}. Got {name!r} instead."
        )
    return name


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        words = ", ".join(map(repr, allowed))
        raise ParameterError(f"The {name!r} parameter must be one of {words}. Got {value!r} instead.")
