"""JSON lines: one object a line, with texts and labels in fields of any name."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sylvan.data.label_cells import AUTO, LabelCells
from sylvan.data.lines import token
from sylvan.data.other_fields import with_others
from sylvan.data.streams import InputStream, PathLike, open_read, open_write
from sylvan.data.text_rows import (
    Label,
    Row,
    TextData,
    collect,
    complete_rows,
    field_names,
    in_blocks,
    one_kind,
    paired,
    quoted,
    sound_weight,
    text_lines,
)  # fmt: skip
from sylvan.errors import DataError
from sylvan.parallel import progress

__all__ = ["TextData", "read_jsonl", "read_records", "stream_jsonl", "write_jsonl", "write_records"]

_BLANKS = " \t\r\v\f"  # of lines that are passed over
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_jsonl(
    path: PathLike,
    *,
    text_fields: str | Sequence[str] = "text",
    labels_field: str | None = "labels",
    require_labels: bool = True,
    label_separator: str | None = AUTO,
    separator: str = " ",
) -> TextData:
    """Read texts and labels from JSON lines, ``{"text": "…", "labels": ["…", …]}``.

    Labels are a list of strings or of ints, a list of pairs ``[label, weight]``, an object
    ``{label: weight}``, or a single label; also a list of objects ``{"uri": …, "label": …}``, as in Annif's
    corpora, of which the URI is taken where there is one. With ``labels_field="labels"`` a field ``"label"`` or
    ``"subjects"`` is taken where there is none. Empty lines are passed over.

    Parameters
    ----------
    path : path-like
        The file, gzip or xz unpacked on the way; "-" reads stdin.
    text_fields : str or sequence of str
        The field of the text, or several, which are joined by ``separator``; empty ones and null add nothing.
    labels_field : str or None
        The field of the labels; None reads the texts alone.
    require_labels : bool
        Whether every object must have labels. If not, those without have an empty list.
    label_separator : str or None
        What parts the labels within a string; None for one label a string. "auto" is the same, but reads a list that
        is written within a string, ``"['a', 'b']"``, and warns where strings look as if they held several labels.
    separator : str

    Returns
    -------
    TextData
        ``texts``, ``labels`` and ``weights``, each with an item for every object of the file.

    Raises
    ------
    DataError
        For the first line that isn't such an object, naming file, line and what is wrong; when ints and
        strings are mixed as labels; when the file is missing, empty or damaged.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.jsonl"
    >>> _ = path.write_text('{"title": "Moby Dick", "author": "Melville", "labels": ["Whaling"]}\\n')
    >>> data.read_jsonl(path, text_fields=("title", "author"))
    TextData(texts=['Moby Dick Melville'], labels=[['Whaling']], weights=None)
    """
    return collect(_rows(path, text_fields, labels_field, require_labels, label_separator, separator))


def stream_jsonl(
    path: PathLike,
    *,
    text_fields: str | Sequence[str] = "text",
    labels_field: str | None = "labels",
    require_labels: bool = True,
    label_separator: str | None = AUTO,
    separator: str = " ",
    rows: int = 4096,
    records: list[Mapping[str, Any]] | None = None,
) -> Iterator[TextData]:
    """Read what :func:`read_jsonl` reads, some rows at a time, so that a file of any size fits into memory.

    Parameters
    ----------
    path, text_fields, labels_field, require_labels, label_separator, separator
        As in :func:`read_jsonl`.
    rows : int
        How many objects at a time; the last time there may be fewer.
    records : list, optional
        The objects are appended to it as they are read, with all their fields.

    Yields
    ------
    TextData
        ``weights`` is None where no label of these rows has any.

    Raises
    ------
    DataError
        As :func:`read_jsonl`, once the line at fault is reached.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.jsonl"
    >>> data.write_jsonl(path, ["one", "two", "three"], [["a"], ["b"], ["a", "b"]])
    >>> [block.texts for block in data.stream_jsonl(path, rows=2)]
    [['one', 'two'], ['three']]
    """
    return in_blocks(_rows(path, text_fields, labels_field, require_labels, label_separator, separator, records), rows)


def _rows(
    path: PathLike, text_fields: str | Sequence[str], labels_field: str | None, require_labels: bool,
    label_separator: str | None, separator: str, records: list[Mapping[str, Any]] | None = None,
) -> Iterator[Row]:  # fmt: skip
    """Text, labels and their weights of every object of a file."""
    fields = field_names(text_fields)
    kind: type | None = None
    with open_read(path) as stream:
        cells = LabelCells(stream.name, label_separator)
        for place, record in cells.watched(complete_rows(_objects(stream), stream.name, "objects")):
            text = separator.join(filter(None, (_text(place, record, name) for name in fields)))
            row, row_weights = _labels(place, record, labels_field, require_labels, cells)
            kind = one_kind(place, row, kind)
            if records is not None:
                records.append(record)
            yield text, row, row_weights


def read_records(path: PathLike) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines, one after the other.

    Raises
    ------
    DataError
        For the first line that is no JSON object, naming file and line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.jsonl"
    >>> data.write_records(path, [{"id": 1}, {"id": 2}])
    >>> list(data.read_records(path))
    [{'id': 1}, {'id': 2}]
    """
    with open_read(path) as stream:
        for _, record in _objects(stream):
            yield record


def write_jsonl(
    path: PathLike,
    texts: Iterable[str],
    labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None,
    *,
    text_field: str = "text",
    labels_field: str = "labels",
    others: Iterable[Mapping[str, Any]] | None = None,
) -> None:
    """Write texts and labels as JSON lines, which :func:`read_jsonl` reads back.

    Parameters
    ----------
    path : path-like
        Packed when it ends in .gz or .xz; "-" writes to stdout. The file is replaced in one step at the end.
    texts : iterable of str
    labels : iterable of sequence of str or int, optional
    weights : iterable of sequence of float (or None), optional
        Relevance of each label, None for a row whose labels have none; labels are then written as pairs
        ``[label, weight]``.
    text_field, labels_field : str
    others : iterable of mapping, optional
        Each row's other fields, written behind text and labels; one of the same name as these is left out.

    Raises
    ------
    DataError
        When the lengths differ or the file can't be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.jsonl"
    >>> data.write_jsonl(path, ["Moby Dick"], [["Whaling"]])
    >>> print(path.read_text(), end="")
    {"text": "Moby Dick", "labels": ["Whaling"]}
    """

    def rows() -> Iterator[dict[str, Any]]:
        for (text, row, row_weights), other in with_others(paired(texts, labels, weights), others):
            result: dict[str, Any] = {text_field: text}
            if labels is not None:
                pairs = None if row_weights is None else [list(pair) for pair in zip(row, row_weights, strict=True)]
                result[labels_field] = row if pairs is None else pairs
            yield {**result, **{name: value for name, value in other.items() if name not in result}}

    write_records(path, rows())


def write_records(path: PathLike, records: Iterable[Mapping[str, Any]]) -> None:
    """Write objects as JSON lines; packed, and replaced in one step, as by :func:`write_jsonl`.

    Raises
    ------
    DataError
        When an object can't be written as JSON, or the file can't be written.
    """
    with open_write(path) as stream, progress("writing", None, "line") as bar:
        for number, record in enumerate(records):
            try:
                line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
            except UnicodeEncodeError as error:
                raise DataError(f"Object {number} holds half a character ({error.reason}).") from error
            except (TypeError, ValueError) as error:
                raise DataError(f"Object {number} can't be written as JSON ({error}).") from error
            stream.write(line + b"\n")
            bar.update(1)


def _objects(stream: InputStream) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a file, or of the one array that it is, with "file, line n" for messages."""
    lines = text_lines(stream)
    begun = False
    for place, line in lines:
        if not line.strip(_BLANKS):
            continue
        if not begun and line.lstrip(_BLANKS).startswith("["):
            yield from _of_array(stream.name, line, [rest for _, rest in lines])
            return
        begun = True
        try:
            record = json.loads(line)
        except RecursionError as error:
            raise DataError(f"{place}: the JSON is nested too deeply.") from error
        except ValueError as error:
            message = getattr(error, "msg", str(error))
            column = f" at character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            hint = ""
            if line.rstrip().endswith(("{", "[", ",")):
                hint = " One object stands on one line, as 'jq -c' writes them."
            got = f"Got {token(line.encode())} instead.{hint}"
            raise DataError(f"{place}: not JSON, {message}{column}. {got}") from error
        if not isinstance(record, dict):
            raise DataError(f"{place}: must be a JSON object. Got {token(line.encode())} instead.")
        if _SURROGATE.search(line):
            _refuse_half_characters(place, record)
        yield place, record


def _of_array(name: str, first: str, rest: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file that is one JSON array, which is read whole."""
    text = "\n".join([first, *rest])
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{name}, line 1: must be a JSON object a line, or one JSON array of objects ({error}). "
            f"Got {token(first.encode())} instead."
        ) from error
    for number, record in enumerate(records, 1):
        place = f"{name}, object {number}"
        if not isinstance(record, dict):
            raise DataError(f"{place}: must be a JSON object. Got {quoted(record)} instead.")
        if _SURROGATE.search(text):
            _refuse_half_characters(place, record)
        yield place, record


def _refuse_half_characters(place: str, record: dict[str, Any]) -> None:
    try:
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: an escape \\ud800 to \\udfff stands alone, which is half a character.") from error


def _text(place: str, record: dict[str, Any], name: str) -> str:
    if name not in record:
        raise DataError(
            f"{place}: the object has no field {name!r}. Its fields are: {_field_names(record)}. "
            "Say which has the text with text_fields (--text-field)."
        )
    value = record[name]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{place}: the field {name!r} must be a string. Got {quoted(value)} instead.")
    return value


def _labels(
    place: str, record: dict[str, Any], name: str | None, required: bool, cells: LabelCells
) -> tuple[list[Label], list[float] | None]:
    """A row's labels without repetition, and their weights if any has one (repeated ones summed)."""
    if name is None:
        return [], None
    if name not in record and name == "labels":
        name = next((other for other in ("label", "subjects") if other in record), name)
    value = record.get(name)
    if value is None:
        if required:
            raise DataError(
                f"{place}: the object has no field {name!r}. Its fields are: {_field_names(record)}. "
                "Say which has the labels with labels_field (--labels-field)."
            )
        return [], None
    pairs: Iterable[Any]
    if isinstance(value, dict):
        pairs, weighted = ([label, weight] for label, weight in value.items()), True
    else:
        weighted = False
        pairs = cells.list_of(place, value) if isinstance(value, list) else [value]
        if isinstance(value, str):
            pairs = cells.split(place, value)
    results: dict[Label, float] = {}
    for item in pairs:
        label, weight = item, None
        if isinstance(item, dict):
            label = next((item[name] for name in ("uri", "label") if item.get(name) is not None), item)
        if isinstance(item, list):
            if len(item) != 2:
                raise DataError(
                    f"{place}: a label must be a name or a pair [label, weight]. Got {quoted(item)} instead."
                )
            label, weight, weighted = item[0], sound_weight(place, item[1]), True
        if isinstance(label, bool) or not isinstance(label, (str, int)):
            raise DataError(f"{place}: a label must be a string or an int. Got {quoted(label)} instead.")
        if not (named := cells.named([label])):
            continue
        label = named[0]
        if weight is None:
            results.setdefault(label, 1.0)
        else:
            results[label] = results.get(label, 0.0) + weight
    if weighted and not all(math.isfinite(weight) for weight in results.values()):
        raise DataError(f"{place}: the weights of a repeated label sum to no finite number.")
    return list(results), list(results.values()) if weighted else None


def _field_names(record: dict[str, Any]) -> str:
    names = ", ".join(quoted(name) for name in list(record)[:20])
    return names + (", …" if len(record) > 20 else "") if record else "none"
