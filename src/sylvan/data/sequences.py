"""What users did, in order: sequences of item ids for sequential recommenders, and the files that hold them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sylvan.data.streams import PathLike, open_read, open_write
from sylvan.data.text_rows import encoded, text_lines, token, unexpected
from sylvan.errors import DataError, ParameterError, warn_data
from sylvan.labels.vocabulary import Vocabulary
from sylvan.parallel import progress
from sylvan.params.fields import Choice, Constraint, Flag, Number, check_values
from sylvan.params.wording import counted

_Ids = npt.NDArray[np.int64]
Layout = Literal["interactions", "users"]
_LAYOUTS = ("interactions", "users")
_SEPARATORS = {" ": "blanks", "\t": "tabs", ",": "commas"}
_HEAD = 1000  # lines that decide the layout
_RATINGS, _FEWEST = 11, 20  # numbers of a scale at most, lines that tell at least
_SHOWN = 20  # names of columns in an error
_WHOLE = re.compile(r"[-+]?[0-9]+")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_BREAK = re.compile(r"[\n\r]")
_MISSING = {"None", "nan", "NaT", "<NA>"}  # as str() has what data frames put in the place of a name
_RANGES: dict[str, Constraint] = {
    "min_interactions": Number(int, 1), "until_stable": Flag(), "order": Choice(("time", "line")),
    "layout": Choice(_LAYOUTS), "separator": Choice(_SEPARATORS),
}  # fmt: skip
_FOUND = {name: replace(_RANGES[name], optional=True) for name in ("layout", "separator")}  # where nothing is said
_Row = tuple[str, list[str]]
_Interaction = tuple[str, str, float | None]  # user, item and perhaps the time


@dataclass(frozen=True, eq=False)
class SequenceData:
    """Every user's items in order, as one array of ids and one of offsets.

    Items are numbered by falling number of interactions (ties in the order of their first interaction), so that
    samplers which take a low id for a frequent class fit; users in the order in which they first occur.

    Attributes
    ----------
    users, items : Vocabulary
        The names of users and items; a name's place is its id.
    ids : ndarray of int32, shape (n_interactions,)
        Item ids, user after user.
    offsets : ndarray of int64, shape (n_users + 1,)
        Where each user's items begin.

    Examples
    --------
    >>> from sylvan.data import build_sequences
    >>> found = build_sequences(["ann", "bob", "ann"], ["tea", "tea", "rice"], min_interactions=1)
    >>> len(found), found.n_items, found[0].tolist(), found.items[0]
    (2, 2, [0, 1], 'tea')
    """

    users: Vocabulary
    items: Vocabulary
    ids: npt.NDArray[np.int32]
    offsets: _Ids

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, user: int) -> npt.NDArray[np.int32]:
        """The items of one user, in order."""
        if not 0 <= user < len(self):
            raise IndexError(f"User ids must be in [0, {len(self) - 1}]. Got {user} instead.")
        return self.ids[self.offsets[user] : self.offsets[user + 1]]

    def __iter__(self) -> Iterator[npt.NDArray[np.int32]]:
        return (self[user] for user in range(len(self)))

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return len(self.items)

    @property
    def n_interactions(self) -> int:
        """How many interactions there are."""
        return len(self.ids)

    def counts(self) -> _Ids:
        """Interactions of each item, shape (n_items,)."""
        return np.bincount(self.ids, minlength=self.n_items).astype(np.int64)

    def describe(self) -> str:
        """The size in words."""
        sizes = {"user": len(self), "item": self.n_items, "interaction": self.n_interactions}
        return ", ".join(counted(n, noun) for noun, n in sizes.items())


def build_sequences(
    users: Iterable[Any], items: Iterable[Any], times: Sequence[float] | npt.NDArray[Any] | None = None, *,
    min_interactions: int = 10, until_stable: bool = True,
) -> SequenceData:  # fmt: skip
    """Sequences from interactions that lie in memory, such as the columns of a data frame.

    Parameters
    ----------
    users, items : iterable of str or int
        Who and what, one entry an interaction.
    times : sequence of int or float, optional
        When; interactions are put in this order, equal times in the order given. Without it the order is as given.
    min_interactions : int
        Users and items with fewer interactions are dropped; 1 keeps all.
    until_stable : bool
        Dropping users makes items rarer and the other way round. True repeats it until every user and item left has
        ``min_interactions`` (the "core" of the data); False counts once and drops by these counts, so that what is
        left may have fewer.

    Returns
    -------
    SequenceData

    Raises
    ------
    DataError
        When the columns are of different lengths, a user or item is missing, a time isn't finite, or no interaction is
        left.
    ParameterError
        When a parameter is out of its range.

    Examples
    --------
    >>> from sylvan.data import build_sequences
    >>> found = build_sequences([7, 7, 8], ["a", "b", "b"], times=[20, 10, 15], min_interactions=1)
    >>> [found.items[i] for i in found[0]]
    ['b', 'a']
    """
    coded_users, coded_items = _coded(users, "users"), _coded(items, "items")
    n_users, n_items = len(coded_users[1]), len(coded_items[1])
    when = None if times is None else np.asarray(times)
    if n_users != n_items or (when is not None and when.shape != (n_users,)):
        got = f"{n_users}, {n_items}{'' if when is None else f' and shape {when.shape}'}"
        raise DataError(f"users, items and times must be of one length. Got {got} instead.")
    if when is not None and (when.dtype.kind not in "iuf" or not np.isfinite(when).all()):
        raise DataError(f"times must be finite numbers. Got an array of dtype {when.dtype} instead.")
    return from_codes(coded_users, coded_items, when, min_interactions, until_stable, "The data")


def _coded(names: Iterable[Any], column: str) -> tuple[list[str], _Ids]:
    """Distinct names in the order of their first occurrence, and the place among them of each."""
    table: dict[str, int] = {}
    listed = list(names)
    codes = [table.setdefault(str(name), len(table)) for name in listed]
    for row, name in enumerate(listed if _MISSING & table.keys() else ()):
        if not isinstance(name, str) and str(name) in _MISSING:
            raise DataError(f"{column} has no name in row {row}, but {name}: leave such interactions out.")
    return list(table), np.array(codes, np.int64)


def from_codes(
    users: tuple[list[str], _Ids], items: tuple[list[str], _Ids], times: npt.NDArray[Any] | None, min_interactions: int,
    until_stable: bool, source: str,
) -> SequenceData:  # fmt: skip
    """As :func:`build_sequences`, from names and places among them; ``source`` is what messages call the data."""
    check_values(_RANGES, min_interactions=min_interactions, until_stable=until_stable)
    (user_names, user_of), (item_names, item_of) = users, items
    places = np.arange(len(user_of))  # of the interactions whose user and item have enough of them
    while len(places):
        user, item = user_of[places], item_of[places]
        enough = (np.bincount(user)[user] >= min_interactions) & (np.bincount(item)[item] >= min_interactions)
        places = places[enough]
        if enough.all() or not until_stable:
            break
    if not len(places):
        if not len(user_of):
            raise DataError(f"{source}: there are no interactions.")
        raise DataError(
            f"{source}: of {counted(len(user_of), 'interaction')} of {counted(len(user_names), 'user')} with "
            f"{counted(len(item_names), 'item')} none is left when users and items with fewer than {min_interactions} "
            "are dropped. Lower min_interactions (--min-interactions)."
        )
    user_of, item_of = user_of[places], item_of[places]
    user_rank, user_order = _renumbered(user_of, len(user_names), by_count=False)
    item_rank, item_order = _renumbered(item_of, len(item_names), by_count=True)
    user_of, item_of = user_rank[user_of], item_rank[item_of]
    # lexsort is stable: equal times stay in the order of the lines.
    order = np.argsort(user_of, kind="stable") if times is None else np.lexsort((times[places], user_of))
    offsets = np.append(0, np.cumsum(np.bincount(user_of, minlength=len(user_order))))
    return SequenceData(
        Vocabulary.verbatim(user_names[i] for i in user_order.tolist()),
        Vocabulary.verbatim(item_names[i] for i in item_order.tolist()),
        item_of[order].astype(np.int32),
        offsets.astype(np.int64),
    )


def _renumbered(codes: _Ids, n: int, *, by_count: bool) -> tuple[_Ids, _Ids]:
    """New ids of the codes that occur (-1 for others), and the codes in the order of their new ids."""
    result, first, counts = np.unique(codes, return_index=True, return_counts=True)
    order = result[np.lexsort((first, -counts))] if by_count else result[np.argsort(first)]
    rank = np.full(n, -1, np.int64)
    rank[order] = np.arange(len(order))
    return rank, order


def read_sequences(
    path: PathLike, *, layout: Layout | None = None, separator: str | None = None, header: bool = False,
    columns: Sequence[int | str] | None = None, order: Literal["time", "line"] = "time", min_interactions: int = 10,
    until_stable: bool = True,
) -> SequenceData:  # fmt: skip
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
        they are interactions; else one user stands on a line. Lines that look like a table with other columns
        besides, such as ratings, are refused until ``columns`` or ``layout`` is given.
    separator : {" ", tab, ","}, optional
        What parts fields; " " stands for any run of blanks and tabs. By default the first line decides: a tab where
        it has one, else a comma, else blanks. There is no quoting.
    header : bool
        Whether the first line names columns and is passed over.
    columns : sequence of int or str, optional
        Which fields of a line are the user, the item and, if there is a third, the timestamp: by number, counted from
        1, or by the names in the first line. All others are left out. For interactions.
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
    check_values({**_RANGES, **_FOUND}, layout=layout, separator=separator, order=order)
    if columns is not None:
        _check_columns(columns, layout)
        header, layout = header or isinstance(columns[0], str), "interactions"
    users: dict[str, int] = {}  # by first occurrence
    items: dict[str, int] = {}
    user_of, item_of, times = array("q"), array("q"), list[float]()
    with open_read(path) as stream:
        name = stream.name
        lines: Iterator[tuple[str, str]] = (each for each in text_lines(stream) if each[1].strip())
        first = list(islice(lines, 1))
        mark = separator or next((mark for mark in ("\t", ",") if first and mark in first[0][1]), " ")
        titles = _fields(first.pop()[1], mark) if header and first else []
        rows = _rows(chain(first, lines), mark, None if columns is None else _places(columns, titles, name))
        head = list(islice(rows, _HEAD))
        rows = chain(head, rows)
        of_interactions = (layout or _layout(head)) == "interactions"
        for user, item, time in (_interactions if of_interactions else _interactions_of_users)(rows):
            user_of.append(users.setdefault(user, len(users)))
            item_of.append(items.setdefault(item, len(items)))
            if time is not None:
                times.append(time)
        if of_interactions and columns is None:
            _doubt_ratings(head, name)
    stamps = None
    if times and order == "time":  # of int64 where all are whole, so that nanoseconds keep their order
        integral = all(type(time) is int and -(2**63) <= time < 2**63 for time in times)
        stamps = np.array(times, np.int64 if integral else np.float64)
    coded_users, coded_items = (list(users), np.array(user_of, np.int64)), (list(items), np.array(item_of, np.int64))
    return from_codes(coded_users, coded_items, stamps, min_interactions, until_stable, name)


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
    check_values(_RANGES, layout=layout, separator=separator)
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


def _check_columns(columns: Sequence[int | str], layout: Layout | None) -> None:
    words = "two or three different names of columns, or numbers counted from 1: of the user, the item and the time"
    kinds = {type(each) for each in columns} if isinstance(columns, list | tuple) else set()
    wrong = kinds not in ({int}, {str}) or len(columns) not in (2, 3) or len(set(columns)) < len(columns)
    if wrong or any(isinstance(each, int) and each < 1 for each in columns):
        raise ParameterError(f"The 'columns' parameter must be {words}. Got {columns!r} instead.")
    if layout == "users":
        raise ParameterError("The 'columns' parameter is for layout='interactions'. Got layout='users' instead.")


def _places(columns: Sequence[int | str], titles: list[str], name: str) -> list[int]:
    """Where in a line the chosen columns stand, counted from 0."""
    for each in columns:
        if isinstance(each, str) and titles.count(each) != 1:
            number = "two" if each in titles else "no"
            listed = ", ".join(map(repr, titles[:_SHOWN]))
            raise DataError(f"{name}: the first line names {number} column(s) {each!r}. Its names are: {listed}.")
    return [titles.index(each) if isinstance(each, str) else each - 1 for each in columns]


def _fields(line: str, separator: str) -> list[str]:
    return line.split() if separator == " " else [text.strip() for text in line.split(separator)]


def _rows(lines: Iterator[tuple[str, str]], separator: str, chosen: list[int] | None) -> Iterator[_Row]:
    """Place and fields of every line, all or those chosen."""
    for place, line in lines:
        fields = _fields(line, separator)
        if chosen is not None:
            if max(chosen) >= len(fields):
                raise DataError(
                    f"{place}: there is no column {max(chosen) + 1} in a line of {counted(len(fields), 'field')}; "
                    f"fields are parted by {_SEPARATORS[separator]}. Got {token(line.encode())} instead."
                )
            fields = [fields[column] for column in chosen]
        if "" in fields:
            number = fields.index("") if chosen is None else chosen[fields.index("")]
            rule = f"field {number + 1} is empty; fields are parted by {_SEPARATORS[separator]}"
            raise unexpected(place, rule, token(line.encode()))
        yield place, fields


def _layout(head: list[_Row]) -> Layout:
    """What lines hold; a table with further columns is refused, as its ratings would become items."""
    widths = {len(fields) for _, fields in head}
    if widths == {2} or (widths == {3} and all(_is_number(fields[2]) for _, fields in head)):
        return "interactions"
    if len(widths) > 1 or len(head) < 2:
        return "users"
    # Lines of one width are a table where users come again, a line names columns, or a column holds fractions.
    users, *columns = zip(*(fields for _, fields in head), strict=True)
    numbers = [[_is_number(text) for text in column] for column in columns]
    named = any(not flags[0] and all(flags[1:]) for flags in numbers)
    fractions = any(all(flags) and any("." in text for text in column)
                    for flags, column in zip(numbers, columns, strict=True))  # fmt: skip
    if len(set(users)) < len(head) or named or fractions:
        place, fields = head[0]
        raise DataError(
            f"{place}: every line has {counted(len(fields), 'field')}, as in a table of interactions with a line that "
            f"names columns, or with more than user, item and time. Got {token(' '.join(fields).encode())}. Say which "
            "columns these are, columns=(1, 2, 4) (--columns 1,2,4) by number, or by their names, or "
            "layout='users' (--layout users) where a line holds a user and all of their items."
        )
    return "users"


def _is_number(text: str) -> bool:
    return _DECIMAL.fullmatch(text) is not None


def _doubt_ratings(head: list[_Row], name: str) -> None:
    """Warn of a third field that holds few numbers, most of them again for the same user, as ratings are."""
    if not head or len(head[0][1]) != 3:
        return
    pairs = [(fields[0], fields[2]) for _, fields in head]
    values = {value for _, value in pairs}
    if len(values) > _RATINGS or len(head) < _FEWEST or 2 * len(set(pairs)) > len(pairs):
        return
    warn_data(
        f"{name}: the third field is read as the time, but holds only {counted(len(values), 'different number')}, such "
        f"as {pairs[0][1]}, like ratings. columns=(1, 2) (--columns 1,2) reads users and items in the order of lines.",
        3,
    )


def _interactions(rows: Iterator[_Row]) -> Iterator[_Interaction]:
    width = 0
    for place, fields in rows:
        if len(fields) not in (2, 3) or (width and len(fields) != width):
            before = f"{width} fields, as those before"  # 2 or 3
            expected = before if width else "'user item' or 'user item timestamp'"
            raise DataError(
                f"{place}: a line must be {expected}. Got {counted(len(fields), 'field')} instead. columns=(1, 2, 4) "
                "(--columns 1,2,4), or names of columns, says which of more fields are the user, the item and the time."
            )
        width = len(fields)
        yield fields[0], fields[1], _time(place, fields[2]) if width == 3 else None


def _time(place: str, text: str) -> float:
    if _WHOLE.fullmatch(text) and len(text) <= 300:
        return int(text)
    time = float(text) if _DECIMAL.fullmatch(text) else float("nan")
    if not np.isfinite(time):
        hint = " A first line that names columns is passed over with header=True (--header)."
        raise DataError(f"{place}: a timestamp must be a finite number. Got {token(text.encode())} instead.{hint}")
    return time


def _interactions_of_users(rows: Iterator[_Row]) -> Iterator[_Interaction]:
    users = set()
    for place, (user, *items) in rows:
        if not items:
            raise DataError(f"{place}: a line must be a user and at least one item. Got {token(user.encode())} alone.")
        if user in users:
            raise DataError(
                f"{place}: the user {token(user.encode())} has had a line before. Lines of one interaction each are "
                "read with columns=(1, 2, 3) (--columns 1,2,3), the third with the time, or with the first two alone."
            )
        users.add(user)
        yield from ((user, item, None) for item in items)


def _writable(name: str, noun: str, separator: str) -> str:
    split = any(letter.isspace() for letter in name) if separator == " " else separator in name
    if not name or split or name != name.strip() or _BREAK.search(name):
        raise DataError(
            f"The name of {noun} must not be empty, begin or end with a blank, or hold a line break or what parts "
            f"fields, {_SEPARATORS[separator]}. Got {name!r} instead."
        )
    return name
