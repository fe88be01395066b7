"""A text a line: fastText's ``__label__sea moby dick``, PECOS's ``3,17<TAB>text``, and plain text without labels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sylvan.data.formats.annif import read_document
from sylvan.data.formats.format import Columns, Format, Layout, Records, rows_of_lines, write_lines
from sylvan.data.streams import PathLike, open_read, shown
from sylvan.data.text_rows import MAX_ID, Label, Row, TextData, on_one_line, paired, quoted, text_lines, unweighted
from sylvan.errors import DataError, ParameterError, warn_data
from sylvan.params.wording import counted

_BLANKS = " \t\v\f\0"  # what parts words in fastText, line ends apart
_BLANK = re.compile(f"[{_BLANKS}\n\r]")


def read_fasttext(path: PathLike, *, prefix: str = "__label__") -> TextData:
    """Read texts and labels from fastText's training files: a row a line, each label a word with a prefix.

    Labels may stand anywhere on the line, as fastText takes them; what is left is the text. A line without labels is
    a text without labels. Blanks alone end a label: where one holds a comma or the like, a warning shows it.

    Parameters
    ----------
    path : path-like
        The file, gzip or xz unpacked on the way; "-" reads stdin.
    prefix : str
        What a label begins with.

    Returns
    -------
    TextData

    Raises
    ------
    DataError
        For a line that isn't UTF-8 or holds a label without a name; when the file is missing, empty or damaged.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> data.write_fasttext(path, ["moby dick"], [["whaling", "sea"]])
    >>> path.read_text(), data.read_fasttext(path).labels
    ('__label__whaling __label__sea moby dick\\n', [['whaling', 'sea']])
    """
    return FASTTEXT.read(path, Layout(prefix=_checked(prefix)))


def stream_fasttext(path: PathLike, *, prefix: str = "__label__", rows: int = 4096) -> Iterator[TextData]:
    """Read what :func:`read_fasttext` reads, ``rows`` rows at a time; other parameters and errors as there."""
    return FASTTEXT.stream(path, rows, Layout(prefix=_checked(prefix)))


def write_fasttext(
    path: PathLike, texts: Iterable[str], labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None, *, prefix: str = "__label__", blanks: str | None = None,
    one_line: bool = False,
) -> None:  # fmt: skip
    """Write texts and labels as fastText's lines, which :func:`read_fasttext` reads back.

    Parameters
    ----------
    path : path-like
        Packed when it ends in .gz or .xz; "-" writes to stdout. The file is replaced in one step at the end.
    texts : iterable of str
    labels : iterable of sequence of str or int, optional
    weights : iterable of sequence of float (or None), optional
        Any other than 1 are refused: the format holds none.
    prefix : str
    blanks : str, optional
        What to write for each blank in a label, such as "_"; by default such labels are refused.
    one_line : bool
        Whether to write a blank for each line break of a text; by default such texts are refused.

    Raises
    ------
    DataError
        When a label is empty or holds blanks, a text holds line breaks or a word that begins with the prefix, lengths
        differ or the file can't be written.
    """
    prefix = _checked(prefix)
    if blanks is not None and (not isinstance(blanks, str) or _BLANK.search(blanks)):
        raise ParameterError(f"The 'blanks' parameter must be a string without blanks. Got {blanks!r} instead.")

    def word(number: int, label: str) -> str:
        label = label if blanks is None else _BLANK.sub(blanks, label)
        if not label or _BLANK.search(label):
            raise DataError(
                f"Row {number}: a label of fastText's must not be empty or hold blanks. Got {label!r} instead; "
                'blanks="_" (--blanks _) writes another character for them.'
            )
        return prefix + label

    def lines() -> Iterator[tuple[int, str]]:
        for number, text, row in unweighted("fastText's format", texts, labels, weights):
            words = [word(number, str(label)) for label in row]
            text = on_one_line(number, text, one_line, "fastText's format")
            if prefix in text and any(word.startswith(prefix) for word in _BLANK.split(text)):
                raise DataError(
                    f"The text of row {number} holds a word that begins with {prefix!r}, which would be a label."
                )
            yield number, " ".join([*words, text])

    write_lines(path, lines())


def _checked(prefix: str) -> str:
    if not isinstance(prefix, str) or not prefix or _BLANK.search(prefix):
        raise ParameterError(f"The 'prefix' parameter must be a string without blanks. Got {prefix!r} instead.")
    return prefix


def _fasttext_rows(path: PathLike, prefix: str) -> Iterator[Row]:
    """The rows of a file; labels that may be several, or a label and a word, are said at the end."""
    places: dict[str, str] = {}  # of each different label

    def row_of(place: str, line: str) -> Row:
        labels, text = _labels_and_text(line, prefix)
        if "" in labels:
            raise DataError(f"{place}: a label must have a name after {prefix!r}.")
        for label in labels:
            places.setdefault(label, place)
        return text, labels, None

    yield from rows_of_lines(path, row_of)
    mark = re.compile(rf"[,;|]|:$|{re.escape(prefix)}")  # what may be meant to part a label from the next word
    doubtful = {label: hit[0] for label in places if (hit := mark.search(label))}
    if doubtful:
        label, sign = next(iter(doubtful.items()))
        warn_data(
            f"{places[label]}: {prefix + label!r:.80} is read as one label, {sign!r} included, as blanks alone part "
            f"labels and words in fastText's files. Write a blank there if the text or another label begins. Of "
            f"{counted(len(places), 'different label')}, {len(doubtful):,} {'has' if len(doubtful) == 1 else 'have'} "
            "such a mark."
        )


def _labels_and_text(line: str, prefix: str) -> tuple[list[str], str]:
    """The different labels of a line, first those at its beginning, and the rest of it, with its blanks as they are
    where no label stands among them."""
    labels: list[str] = []
    while line.startswith(prefix):
        end = _BLANK.search(line)
        labels.append(line[len(prefix) : None if end is None else end.start()])
        line = "" if end is None else line[end.end() :]
    if prefix in line:
        words = _BLANK.split(line)
        labels += [word[len(prefix) :] for word in words if word.startswith(prefix)]
        line = " ".join(word for word in words if not word.startswith(prefix))
    return list(dict.fromkeys(labels)), line


FASTTEXT = Format(
    lambda path, layout, records: _fasttext_rows(path, layout.prefix),
    lambda path, columns, layout, others: write_fasttext(
        path, *columns, blanks=layout.blanks, one_line=layout.one_line
    ),
)


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
    return PECOS.read(path, Layout(items=items))


def stream_pecos(path: PathLike, *, items: PathLike | None = None, rows: int = 4096) -> Iterator[TextData]:
    """Read what :func:`read_pecos` reads, ``rows`` rows at a time; other parameters and errors as there."""
    return PECOS.stream(path, rows, Layout(items=items))


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
            words = [str(_pecos_id(number, label, ids, items)) for label in row]
            if row_weights is not None:
                words = [f"{word}::{weight!r}" for word, weight in zip(words, row_weights, strict=True)]
            line = on_one_line(number, text, one_line, "PECOS's format", tab=True)
            yield number, f"{','.join(words)}\t{line}"
        if items is not None:  # before the texts take their name: both files appear, or neither
            write_lines(items, ((-1, name) for name in ids))

    write_lines(path, lines())


def _pecos_id(number: int, label: Label, ids: dict[str, int], items: PathLike | None) -> int:
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


def _item_names(items: PathLike) -> list[str]:
    with open_read(items) as stream:
        names = [line for _, line in text_lines(stream)]
    places: dict[str, int] = {}
    for number, name in enumerate(names):
        if (first := places.setdefault(name, number)) < number:
            raise DataError(
                f"{shown(items)}, line {number + 1}: the name {quoted(name)} stands for two ids, {first} and {number}."
            )
    return names


def _pecos_rows(path: PathLike, items: PathLike | None) -> Iterator[Row]:
    names = None if items is None else _item_names(items)
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
            if number[0] == "0" and len(number) > 1:
                raise DataError(
                    f"{place}: label ids have no leading zeros. Got {quoted(number)} instead: say --format tsv "
                    "--labels-field 1 --text-field 2 if these are names, such as class numbers."
                )
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
    lambda path, layout, records: _pecos_rows(path, layout.items),
    lambda path, columns, layout, others: write_pecos(path, *columns, items=layout.items, one_line=layout.one_line),
)


def _rows_of_lines(path: PathLike, layout: Layout, records: Records | None) -> Iterator[Row]:
    with open_read(path) as stream:
        for _, line in text_lines(stream):
            yield line, [], None


def _row_of_file(path: PathLike, layout: Layout, records: Records | None) -> Iterator[Row]:
    text = read_document(path)
    if records is not None:
        records.append({"file": os.path.basename(path)})
    yield text, [], None


def _write_plain(path: PathLike, columns: Columns, layout: Layout, others: Iterable[Mapping[str, Any]] | None) -> None:
    def lines() -> Iterator[tuple[int, str]]:
        for number, text, labels in unweighted("plain text", *columns):
            if labels:
                raise DataError(
                    f"Row {number} has labels, and plain text holds none: name another format, or say --texts-only."
                )
            yield number, on_one_line(number, text, layout.one_line, "plain text")

    write_lines(path, lines())


LINES = Format(_rows_of_lines, _write_plain)
TEXT = Format(_row_of_file, _write_plain, lambda path, layout, texts: [] if texts else ["file"])
