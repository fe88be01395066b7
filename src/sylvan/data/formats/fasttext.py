"""fastText's lines: ``__label__sea __label__whaling moby dick``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence

from sylvan.data.streams import PathLike, open_read, open_write
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
    text_lines,
    unweighted,
)  # fmt: skip
from sylvan.errors import DataError, DataWarning, ParameterError
from sylvan.parallel import progress
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
    return collect(_rows(path, _checked(prefix)))


def stream_fasttext(path: PathLike, *, prefix: str = "__label__", rows: int = 4096) -> Iterator[TextData]:
    """Read what :func:`read_fasttext` reads, ``rows`` rows at a time; other parameters and errors as there."""
    return in_blocks(_rows(path, _checked(prefix)), rows)


def write_fasttext(
    path: PathLike,
    texts: Iterable[str],
    labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None,
    *,
    prefix: str = "__label__",
    blanks: str | None = None,
    one_line: bool = False,
) -> None:
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
    mark = _checked(prefix)
    if blanks is not None and (not isinstance(blanks, str) or _BLANK.search(blanks)):
        raise ParameterError(f"The 'blanks' parameter must be a string without blanks. Got {blanks!r} instead.")
    with open_write(path) as stream, progress("writing", None, "line") as bar:
        for number, text, row in unweighted(paired(texts, labels, weights), "fastText's format"):
            words = [_word(number, str(label), mark, blanks) for label in row]
            stream.write(encoded(number, " ".join([*words, _text(number, text, mark, one_line)]) + "\n"))
            bar.update(1)


def _checked(prefix: str) -> str:
    if not isinstance(prefix, str) or not prefix or _BLANK.search(prefix):
        raise ParameterError(f"The 'prefix' parameter must be a string without blanks. Got {prefix!r} instead.")
    return prefix


def _rows(path: PathLike, prefix: str) -> Iterator[Row]:
    with open_read(path) as stream:
        yield from complete_rows(_watched(text_lines(stream), prefix), stream.name, "lines")


def _watched(lines: Iterable[tuple[str, str]], prefix: str) -> Iterator[Row]:
    """The rows of lines; labels that may be several, or a label and a word, are said at the end."""
    places: dict[str, str] = {}  # of each different label
    for place, line in lines:
        row = _row(place, line, prefix)
        for label in row[1]:
            places.setdefault(label, place)
        yield row
    mark = re.compile(rf"[,;|]|:$|{re.escape(prefix)}")  # what may be meant to part a label from the next word
    doubtful = {label: found[0] for label in places if (found := mark.search(label))}
    if doubtful:
        label, sign = next(iter(doubtful.items()))
        warnings.warn(
            f"{places[label]}: {prefix + label!r:.80} is read as one label, {sign!r} included, as blanks alone part "
            f"labels and words in fastText's files. Write a blank there if the text or another label begins. Of "
            f"{counted(len(places), 'different label')}, {len(doubtful):,} {'has' if len(doubtful) == 1 else 'have'} "
            "such a mark.",
            DataWarning, stacklevel=2,
        )  # fmt: skip


def _row(place: str, line: str, prefix: str) -> Row:
    labels: dict[str, None] = {}

    def take(word: str) -> None:
        if word == prefix:
            raise DataError(f"{place}: a label must have a name after {prefix!r}.")
        labels[word[len(prefix) :]] = None

    while line.startswith(prefix):
        end = _BLANK.search(line)
        take(line if end is None else line[: end.start()])
        line = "" if end is None else line[end.end() :]
    if prefix in line:
        words = _BLANK.split(line)
        for word in words:
            if word.startswith(prefix):
                take(word)
        line = " ".join(word for word in words if not word.startswith(prefix))
    return line, list(labels), None


def _word(number: int, label: str, prefix: str, blanks: str | None) -> str:
    if blanks is not None:
        label = _BLANK.sub(blanks, label)
    if not label or _BLANK.search(label):
        raise DataError(
            f"Row {number}: a label of fastText's must not be empty or hold blanks. Got {label!r} instead; "
            'blanks="_" (--blanks _) writes another character for them.'
        )
    return prefix + label


def _text(number: int, text: str, prefix: str, replace: bool) -> str:
    text = on_one_line(number, text, replace, "fastText's format")
    if prefix in text and any(word.startswith(prefix) for word in _BLANK.split(text)):
        raise DataError(f"The text of row {number} holds a word that begins with {prefix!r}, which would be a label.")
    return text
