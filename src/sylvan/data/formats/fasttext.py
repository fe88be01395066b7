"""fastText's lines: ``__label__sea __label__whaling moby dick``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence

from sylvan.data.formats.format import Format, rows_of_lines, write_lines
from sylvan.data.streams import PathLike
from sylvan.data.text_rows import Label, Row, TextData, collect, in_blocks, on_one_line, unweighted
from sylvan.errors import DataError, DataWarning, ParameterError
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


def _rows(path: PathLike, prefix: str = "__label__") -> Iterator[Row]:
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
        warnings.warn(
            f"{places[label]}: {prefix + label!r:.80} is read as one label, {sign!r} included, as blanks alone part "
            f"labels and words in fastText's files. Write a blank there if the text or another label begins. Of "
            f"{counted(len(places), 'different label')}, {len(doubtful):,} {'has' if len(doubtful) == 1 else 'have'} "
            "such a mark.",
            DataWarning, stacklevel=2,
        )  # fmt: skip


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
    lambda path, layout, records: _rows(path),
    lambda path, columns, layout, others: write_fasttext(
        path, *columns, blanks=layout.blanks, one_line=layout.one_line
    ),
)
