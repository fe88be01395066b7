"""PECOS's text-to-text files: ``3,17<TAB>text`` a line, and the labels' names in a file of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sylvan.data.formats.format import Format, rows_of_lines, write_lines
from sylvan.data.lines import MAX_ID
from sylvan.data.streams import PathLike, open_read, shown
from sylvan.data.text_rows import Label, Row, TextData, collect, in_blocks, on_one_line, paired, quoted, text_lines
from sylvan.errors import DataError


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
    path: PathLike, texts: Iterable[str], labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None, *, items: PathLike | None = None, one_line: bool = False,
) -> None:  # fmt: skip
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

    def lines() -> Iterator[tuple[int, str]]:
        for number, (text, row, row_weights) in enumerate(paired(texts, labels, weights)):
            words = [str(_id(number, label, ids, items)) for label in row]
            if row_weights is not None:
                words = [f"{word}::{weight!r}" for word, weight in zip(words, row_weights, strict=True)]
            line = on_one_line(number, text, one_line, "PECOS's format", tab=True)
            yield number, f"{','.join(words)}\t{line}"
        if items is not None:  # before the texts take their name: both files appear, or neither
            write_lines(items, ((-1, name) for name in ids))

    write_lines(path, lines())


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
    places: dict[str, int] = {}
    for number, name in enumerate(names):
        if (first := places.setdefault(name, number)) < number:
            raise DataError(
                f"{shown(items)}, line {number + 1}: the name {quoted(name)} stands for two ids, {first} and {number}."
            )
    return names


def _rows(path: PathLike, items: PathLike | None) -> Iterator[Row]:
    names = None if items is None else _names(items)
    highest = MAX_ID if names is None else len(names) - 1
    of = "" if items is None else f" (the lines of {shown(items)})"

    def row_of(place: str, line: str) -> Row:
        first, tab, text = line.partition("\t")
        if not tab:
            raise DataError(f"{place}: a line must be label ids, a tab and the text. Got {quoted(line)} instead.")
        relevances: dict[int, float] = {}
        for word in first.split(",") if first.strip() else []:
            number, colon, relevance = word.strip().partition("::")
            if not (number.isascii() and number.isdecimal()) or int(number) > highest:
                raise DataError(f"{place}: label ids must be ints in [0, {highest}]{of}. Got {quoted(word)} instead.")
            summed = relevances.get(int(number), 0.0) + _relevance(place, relevance) if colon else 1.0
            relevances[int(number)] = summed
        labels = list(relevances) if names is None else [names[id_] for id_ in relevances]
        return text, labels, list(relevances.values()) if "::" in first else None

    yield from rows_of_lines(path, row_of)


def _relevance(place: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 3.4e38:
        raise DataError(f"{place}: a label's relevance must be a finite number of at least 0. Got {word!r} instead.")
    return value


PECOS = Format(
    lambda path, layout, records: _rows(path, layout.items),
    lambda path, columns, layout, others: write_pecos(path, *columns, items=layout.items, one_line=layout.one_line),
)
