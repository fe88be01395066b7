"""PECOS's text-to-text files: ``3,17<TAB>text`` a line, and the labels' names in a file of their own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from sylvan.data.lines import MAX_ID
from sylvan.data.streams import PathLike, open_read, open_write, shown
from sylvan.data.text_rows import (
    Label,
    Row,
    TextData,
    collect,
    complete_rows,
    encoded,
    in_blocks,
    on_one_line,
    paired,
    quoted,
    text_lines,
)  # fmt: skip
from sylvan.errors import DataError
from sylvan.parallel import progress


def read_pecos(path: PathLike, *, items: PathLike | None = None) -> TextData:
    """Read texts and labels as PECOS's text-to-text programs take them.

    A line is the ids of its labels, parted by commas, a tab and the text; an id may carry a relevance, ``17::0.5``.

    Parameters
    ----------
    path : path-like
        The file, gzip or xz unpacked on the way; "-" reads stdin.
    items : path-like, optional
        The file of the labels' names, line by line, the first for id 0 (PECOS's ``--output-item-path``). Without it
        labels are ints.

    Returns
    -------
    TextData

    Raises
    ------
    DataError
        For the first line that isn't of this form, an id out of range or a name that stands for two ids; when a file
        is missing, empty or damaged.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.txt").write_text("0,1\\tMoby Dick\\n1\\tTypee\\n")
    >>> _ = (folder / "items.txt").write_text("Whaling\\nSea stories\\n")
    >>> data.read_pecos(folder / "train.txt", items=folder / "items.txt").labels
    [['Whaling', 'Sea stories'], ['Sea stories']]
    """
    return collect(_rows(path, items))


def stream_pecos(path: PathLike, *, items: PathLike | None = None, rows: int = 4096) -> Iterator[TextData]:
    """Read what :func:`read_pecos` reads, ``rows`` rows at a time; other parameters and errors as there."""
    return in_blocks(_rows(path, items), rows)


def write_pecos(
    path: PathLike,
    texts: Iterable[str],
    labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None,
    *,
    items: PathLike | None = None,
    one_line: bool = False,
) -> None:
    """Write texts and labels as PECOS's text-to-text programs take them, which :func:`read_pecos` reads back.

    Parameters
    ----------
    path : path-like
        Packed when it ends in .gz or .xz; "-" writes to stdout. The file is replaced in one step at the end.
    texts : iterable of str
    labels : iterable of sequence of str or int, optional
        Ints are ids. Strings get ids in the order in which they first occur.
    weights : iterable of sequence of float (or None), optional
        Relevance of each label, written as ``id::relevance``.
    items : path-like, optional
        Where to write the names of labels that are strings, for which it is needed.
    one_line : bool
        Whether to write a blank for each line break or tab of a text; by default such texts are refused.

    Raises
    ------
    DataError
        When a label is a string and there is no ``items``, a name holds a line break, an id is out of range, a text
        holds a line break or tab, lengths differ or a file can't be written.
    """
    ids: dict[str, int] = {}
    with open_write(path) as stream, progress("writing", None, "line") as bar:
        for number, (text, row, row_weights) in enumerate(paired(texts, labels, weights)):
            numbers = [_id(number, label, ids, items) for label in row]
            if row_weights is None:
                first = ",".join(map(str, numbers))
            else:
                first = ",".join(f"{id_}::{weight!r}" for id_, weight in zip(numbers, row_weights, strict=True))
            line = on_one_line(number, text, one_line, "PECOS's format", tab=True)
            stream.write(encoded(number, f"{first}\t{line}\n"))
            bar.update(1)
        if items is not None:  # before the texts take their name: both files appear, or neither
            with open_write(items) as names:
                for name in ids:
                    names.write(encoded(-1, name + "\n"))


def _id(number: int, label: Label, ids: dict[str, int], items: PathLike | None) -> int:
    if isinstance(label, str):
        if items is None:
            raise DataError(
                f"Row {number}: PECOS's format holds the ids of labels, and {label!r} is a name: "
                "say with items (--items) where the names are to be written."
            )
        if "\n" in label or "\r" in label:
            raise DataError(f"Row {number}: a label in a file of items must stand on one line. Got {label!r} instead.")
        return ids.setdefault(label, len(ids))
    if isinstance(label, bool) or not 0 <= label <= MAX_ID:
        raise DataError(f"Row {number}: label ids must be ints in [0, {MAX_ID}]. Got {label!r} instead.")
    return int(label)


def _names(items: PathLike) -> list[str]:
    with open_read(items) as stream:
        names = [line for _, line in text_lines(stream)]
    if len(set(names)) < len(names):
        seen: set[str] = set()
        twice = next(i for i, name in enumerate(names) if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DataError(
            f"{shown(items)}, line {twice + 1}: the name {quoted(names[twice])} stands for two ids, "
            f"{names.index(names[twice])} and {twice}."
        )
    return names


def _rows(path: PathLike, items: PathLike | None) -> Iterator[Row]:
    names = None if items is None else _names(items)
    with open_read(path) as stream:
        result = (_row(place, line, names, items) for place, line in text_lines(stream))
        yield from complete_rows(result, stream.name, "lines")


def _row(place: str, line: str, names: list[str] | None, items: PathLike | None) -> Row:
    first, tab, text = line.partition("\t")
    if not tab:
        raise DataError(f"{place}: a line must be label ids, a tab and the text. Got {quoted(line)} instead.")
    results: dict[int, float] = {}
    weighted = False
    for word in first.split(",") if first.strip() else []:
        number, colon, relevance = word.strip().partition("::")
        highest = MAX_ID if names is None else len(names) - 1
        if not (number.isascii() and number.isdecimal()) or int(number) > highest:
            of = "" if items is None else f" (the lines of {shown(items)})"
            raise DataError(f"{place}: label ids must be ints in [0, {highest}]{of}. Got {quoted(word)} instead.")
        weight = 1.0
        if colon:
            weighted, weight = True, _relevance(place, relevance)
            weight += results.get(int(number), 0.0)
        results[int(number)] = weight
    labels = list(results) if names is None else [names[id_] for id_ in results]
    return text, labels, list(results.values()) if weighted else None


def _relevance(place: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 3.4e38:
        raise DataError(f"{place}: a label's relevance must be a finite number of at least 0. Got {word!r} instead.")
    return value
