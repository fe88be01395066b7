"""What the readers and writers of texts share: rows, blocks of rows, lines of UTF-8, cells of labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any, NamedTuple, TypeVar

from sylvan.data.streams import InputStream
from sylvan.errors import DataError, ParameterError
from sylvan.parallel import progress
from sylvan.params.fields import Number, check_value
from sylvan.params.wording import counted

_T = TypeVar("_T")
MAX_ID = 2**31 - 2  # the greatest id that leaves the number of ids within int32
_EXCERPT = 60
Label = str | int
Row = tuple[str, list[Any], list[float] | None]
_STEP = 4096
_BREAK = re.compile(r"[\n\r]")
CR_ENDS = "lines must end in LF or CRLF, not CR: save the file with such ends"


class TextData(NamedTuple):
    """Texts and their labels, row by row.

    Attributes
    ----------
    texts : list of str
    labels : list of list of str, or of int
        Every row's labels, without repetition, in the order of the file.
    weights : list of list of float, or None
        Relevance of each of them; None when no label of the file has any.
    """

    texts: list[str]
    labels: list[list[Any]]
    weights: list[list[float]] | None = None

    def rows(self) -> Iterator[tuple[str, list[Any], list[float] | None]]:
        """Text, labels and their weights (or None) of each row."""
        weights: Iterable[list[float] | None] = repeat(None) if self.weights is None else self.weights
        return zip(self.texts, self.labels, weights)  # noqa: B905


def collect(rows: Iterable[Row]) -> TextData:
    """All rows as one; a row without weights among rows with them has weights of 1."""
    texts: list[str] = []
    labels: list[list[Any]] = []
    weights: list[list[float] | None] = []
    for text, row, row_weights in rows:
        texts.append(text)
        labels.append(row)
        weights.append(row_weights)
    if all(row_weights is None for row_weights in weights):
        return TextData(texts, labels)
    complete = [w if w is not None else [1.0] * len(row) for w, row in zip(weights, labels, strict=True)]
    return TextData(texts, labels, complete)


def in_blocks(records: Iterator[Row], rows: int) -> Iterator[TextData]:
    """Blocks of ``rows`` rows; a bad number of rows is refused now, not at the first block."""
    check_value("rows", rows, Number(int, 1))
    return map(collect, iter(lambda: list(islice(records, rows)), []))


def complete_rows(records: Iterator[_T], name: str, noun: str = "rows") -> Iterator[_T]:
    """The rows, refused when there are none."""
    first = next(records, None)
    if first is None:
        raise DataError(f"{name}: the file holds no {noun}.")
    yield from chain((first,), records)


def one_kind(place: str, labels: Iterable[Any], kind: type | None) -> type | None:
    """The type of all labels so far, which are all strings or all ints."""
    for label in labels:
        kind = kind or type(label)
        if type(label) is not kind:
            raise DataError(
                f"{place}: labels must be all strings or all ints, and those before are "
                f"{'strings' if kind is str else 'ints'}. Got {quoted(label)} instead."
            )
    return kind


def refuse_repeated(place: str, columns: Sequence[str], way_out: str = "rename one") -> None:
    """Refuse columns of which two have one name."""
    for name in dict.fromkeys(columns):
        if name and columns.count(name) > 1:
            first, second = [position for position, other in enumerate(columns, 1) if other == name][:2]
            raise DataError(f"{place}: the columns {first} and {second} are both called {name!r}: {way_out}.")


def field_names(text_fields: str | Sequence[str]) -> tuple[str, ...]:
    """The fields, or columns, of the text, checked."""
    names = (text_fields,) if isinstance(text_fields, str) else text_fields
    sound = isinstance(names, Sequence) and all(isinstance(name, str) for name in names)
    if not sound or not names:
        raise ParameterError(f"The 'text_fields' parameter must name at least one field. Got {names!r} instead.")
    return tuple(names)


def sound_weight(place: str, weight: Any) -> float:
    """A label's weight, checked."""
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 3.4e38:
        raise unexpected(place, "a label's weight must be a finite number of at least 0", quoted(weight))
    return float(weight)


def text_lines(stream: InputStream) -> Iterator[tuple[str, str]]:
    """Every line of a file as text, with "file, line n" for messages."""
    with progress(f"reading {stream.name}", stream.packed_size, "B") as bar:
        first = list(islice(lines := stream.lines(), 2))
        if len(first) == 1 and b"\r" in first[0][1].rstrip(b"\r"):  # lines that end in CR alone read as one
            raise unexpected(f"{stream.name}, line 1", CR_ENDS, token(first[0][1]))
        for number, line in chain(first, lines):
            if number % _STEP == 0:
                stream.report(bar)
            place = f"{stream.name}, line {number}"
            try:
                yield place, line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(place, line, error) from error


def not_utf8(place: str, line: bytes, error: UnicodeDecodeError) -> DataError:
    """The error for a line in another encoding."""
    return DataError(
        f"{place}: the text is not UTF-8 (byte {error.start + 1} of the line). Got {token(line)} instead. Say its "
        'encoding by EncodedPath(path, "cp1252") (--encoding cp1252 for texts) or convert it: iconv -f cp1252 -t utf-8.'
    )


def paired(
    texts: Iterable[str],
    labels: Iterable[Sequence[Label]] | None,
    weights: Iterable[Sequence[float] | None] | None = None,
) -> Iterator[Row]:
    """Texts, labels and weights as rows, refused when they aren't of one length."""
    if labels is None:
        yield from ((text, [], None) for text in texts)
        return
    columns = [texts, labels] if weights is None else [texts, labels, weights]
    rows: Iterator[tuple[Any, ...]] = zip(*columns, strict=True)
    try:
        for number, (text, row, *of_row) in enumerate(rows):
            row_weights = of_row[0] if of_row else None
            if row_weights is not None and len(row_weights) != len(row):
                raise ValueError(
                    f"row {number} has {counted(len(row), 'label')} and {counted(len(row_weights), 'weight')}"
                )
            yield text, list(row), None if row_weights is None else [float(weight) for weight in row_weights]
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"texts, labels and weights must be of one length ({error}).") from error


def unweighted(
    format_: str, texts: Iterable[str], labels: Iterable[Sequence[Label]] | None,
    weights: Iterable[Sequence[float] | None] | None,
) -> Iterator[tuple[int, str, list[Any]]]:  # fmt: skip
    """Number, text and labels of each row, for a format that holds no weights: any but 1 are refused."""
    for number, (text, row, row_weights) in enumerate(paired(texts, labels, weights)):
        if row_weights is not None and any(weight != 1 for weight in row_weights):
            raise DataError(
                f"Row {number} weighs its labels, and {format_} holds no weights: "
                "write JSON lines or Parquet, or drop the weights."
            )
        yield number, text, row


def on_one_line(number: int, text: str, replace: bool, format_: str, tab: bool = False) -> str:
    """A text that stands on one line: line breaks (and tabs) become blanks or are refused."""
    if not (_BREAK.search(text) or (tab and "\t" in text)):
        return text
    if not replace:
        mark = "line break or tab" if tab else "line break"
        raise DataError(
            f"The text of row {number} holds a {mark}, which {format_} has no form for: "
            "one_line=True (--one-line) writes a blank instead."
        )
    text = text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
    return text.replace("\t", " ") if tab else text


def encoded(number: int | None, line: str) -> bytes:
    """The line of a row, or the header's, as UTF-8."""
    try:
        return line.encode("utf-8")
    except UnicodeEncodeError as error:
        place = "The header" if number is None else f"Row {number}"
        raise DataError(f"{place} holds half a character ({error.reason}).") from error


def unexpected(place: str, rule: str, got: str) -> DataError:
    """The error for something in a file that breaks a rule."""
    return DataError(f"{place}: {rule}. Got {got} instead.")


def quoted(value: object) -> str:
    """How messages quote a value."""
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def token(text: bytes) -> str:
    """How messages quote a piece of a file: escaped, and cut when it is long."""
    short, ellipsis = text[:_EXCERPT], "…" if len(text) > _EXCERPT else ""
    try:
        return repr(short.decode("utf-8") + ellipsis)
    except UnicodeDecodeError:
        return f"'{repr(short)[2:-1]}{ellipsis}'"
