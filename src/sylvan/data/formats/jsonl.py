"""JSON lines: one object a line, with texts and labels in fields of any name."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sylvan.data.formats.format import Format, Layout, Records
from sylvan.data.label_cells import AUTO, LabelCells
from sylvan.data.other_fields import with_others
from sylvan.data.streams import InputStream, PathLike, head_of, open_read, open_write
from sylvan.data.text_rows import (
    Label,
    Row,
    TextData,
    complete_rows,
    field_names,
    paired,
    quoted,
    sound_weight,
    text_lines,
    token,
    unexpected,
)
from sylvan.errors import DataError
from sylvan.parallel import progress

_SHOWN_OBJECTS = 20  # that show which fields there are
_BLANKS = " \t\r\v\f"  # of lines that are passed over
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_jsonl(
    path: PathLike, *, text_fields: str | Sequence[str] = "text", labels_field: str | None = "labels",
    require_labels: bool = True, label_separator: str | None = AUTO, separator: str = " ",
) -> TextData:  # fmt: skip
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
    return JSONL.read(path, Layout(text_fields, labels_field, "", require_labels, label_separator, separator))


def stream_jsonl(
    path: PathLike, *, text_fields: str | Sequence[str] = "text", labels_field: str | None = "labels",
    require_labels: bool = True, label_separator: str | None = AUTO, separator: str = " ", rows: int = 4096,
    records: list[Mapping[str, Any]] | None = None,
) -> Iterator[TextData]:  # fmt: skip
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
    layout = Layout(text_fields, labels_field, "", require_labels, label_separator, separator)
    return JSONL.stream(path, rows, layout, records)


def jsonl_rows(path: PathLike, layout: Layout, records: Records | None = None) -> Iterator[Row]:
    """Text, labels and their weights of every object of a file."""
    fields = field_names(layout.text_fields)
    with open_read(path) as stream:
        cells = LabelCells(stream.name, layout.label_separator)
        for place, record in cells.watched(complete_rows(objects(stream), stream.name, "objects")):
            text = layout.separator.join(filter(None, (_text(place, record, name) for name in fields)))
            row, row_weights = _labels(place, record, layout.labels_field, layout.require_labels, cells)
            cells.need_one_kind(place, row)
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
        yield from (record for _, record in objects(stream))


def write_jsonl(
    path: PathLike, texts: Iterable[str], labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None, *, text_field: str = "text", labels_field: str = "labels",
    others: Iterable[Mapping[str, Any]] | None = None,
) -> None:  # fmt: skip
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
            named: list[Any] = row if row_weights is None else list(map(list, zip(row, row_weights, strict=True)))
            result = {text_field: text} if labels is None else {text_field: text, labels_field: named}
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


def objects(stream: InputStream) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a file, or of the one array that it is, with "file, line n" for messages."""
    lines = text_lines(stream)
    begun = False
    for place, line in lines:
        if not line.strip(_BLANKS):
            continue
        if not begun and line.lstrip(_BLANKS).startswith("["):
            yield from _of_array(stream.name, line, [text for _, text in lines])
            return
        begun = True
        try:
            record = json.loads(line, object_pairs_hook=_each_name_once)
        except RecursionError as error:
            raise DataError(f"{place}: the JSON is nested too deeply.") from error
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
        except ValueError as error:
            message = getattr(error, "msg", str(error))
            column = f" at character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            cut = line.rstrip().endswith(("{", "[", ","))
            hint = " One object stands on one line, as 'jq -c' writes them." if cut else ""
            got = f"Got {token(line.encode())} instead.{hint}"
            raise DataError(f"{place}: not JSON, {message}{column}. {got}") from error
        yield place, _sound_object(place, record, line)


def _of_array(name: str, first: str, lines: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file that is one JSON array, which is read whole."""
    text = "\n".join([first, *lines])
    try:
        records = json.loads(text, object_pairs_hook=_each_name_once)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except (ValueError, RecursionError) as error:
        rule = f"must be a JSON object a line, or one JSON array of objects ({error})"
        raise unexpected(f"{name}, line 1", rule, token(first.encode())) from error
    for number, record in enumerate(records, 1):
        place = f"{name}, object {number}"
        yield place, _sound_object(place, record, text, in_array=True)


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, of which Python would keep the last of several values of a name."""
    record = dict(pairs)
    if len(record) < len(pairs):
        name = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise DataError(f"an object has the name {quoted(name)} twice: which value counts isn't certain; rename one.")
    return record


def _sound_object(place: str, record: Any, text: str, in_array: bool = False) -> dict[str, Any]:
    """What a line, or an array, holds; refused unless it is an object of whole characters."""
    if not isinstance(record, dict):
        got = quoted(record) if in_array else token(text.encode())
        raise DataError(f"{place}: must be a JSON object. Got {got} instead.")
    if _SURROGATE.search(text):
        try:
            json.dumps(record, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(
                f"{place}: an escape \\ud800 to \\udfff stands alone, which is half a character."
            ) from error
    return record


def _text(place: str, record: dict[str, Any], name: str) -> str:
    if name not in record:
        raise _missing(place, record, name, "text", "text_fields (--text-field)")
    value = record[name]
    if value is not None and not isinstance(value, str):
        raise DataError(f"{place}: the field {name!r} must be a string. Got {quoted(value)} instead.")
    return str(value or "")


def _labels(
    place: str, record: dict[str, Any], name: str | None, required: bool, cells: LabelCells
) -> tuple[list[Label], list[float] | None]:
    """What :func:`labels_and_weights` makes of a record's field."""
    if name == "labels" and name not in record:
        name = next((other for other in ("label", "subjects") if other in record), name)
    value = None if name is None else record.get(name)
    if value is None:
        if required and name is not None:
            if name in record:
                raise unexpected(place, f"the field {name!r} must hold labels, or [] where there are none", "null")
            raise _missing(place, record, name, "labels", "labels_field (--labels-field)")
        return [], None
    return labels_and_weights(place, value, cells)


def labels_and_weights(
    place: str, value: Any, cells: LabelCells, weighted: bool = False
) -> tuple[list[Label], list[float] | None]:
    """A row's labels without repetition, and their weights if any has one (repeated ones summed)."""
    pairs: Iterable[Any] = [value]
    if isinstance(value, dict):
        pairs, weighted = map(list, value.items()), True
    if isinstance(value, list | str):
        pairs = cells.list_of(place, value) if isinstance(value, list) else cells.split(place, value)
    results: dict[Label, float] = {}
    for item in pairs:
        label, weight = item, None
        if isinstance(item, dict):
            label = next((item[name] for name in ("uri", "label") if item.get(name) is not None), item)
        elif isinstance(item, list):
            if len(item) != 2:
                raise unexpected(place, "a label must be a name or a pair [label, weight]", quoted(item))
            label, weight, weighted = item[0], sound_weight(place, item[1]), True
        if isinstance(label, bool) or not isinstance(label, (str, int)):
            raise unexpected(place, "a label must be a string or an int", quoted(label))
        if not (named := cells.named(place, [label])):
            continue
        if weight is None:
            results.setdefault(named[0], 1.0)
        else:
            results[named[0]] = results.get(named[0], 0.0) + weight
    if weighted and not all(math.isfinite(weight) for weight in results.values()):
        raise DataError(f"{place}: the weights of a repeated label sum to no finite number.")
    return list(results), list(results.values()) if weighted else None


def _missing(place: str, record: dict[str, Any], name: str, content: str, option: str) -> DataError:
    """The error for an object without a field."""
    names = ", ".join(map(quoted, list(record)[:20])) or "none"
    return DataError(
        f"{place}: the object has no field {name!r}. Its fields are: {names}{', …' if len(record) > 20 else ''}. "
        f"Say which has the {content} with {option}."
    )


def _fields(path: str, layout: Layout, texts: bool) -> list[str]:
    names: dict[str, None] = {}
    lines = [line for line in head_of(path).split(b"\n") if line.strip()]
    for line in lines[:_SHOWN_OBJECTS]:
        with suppress(ValueError, RecursionError):  # the last may be cut off, and faults are the reader's to say
            record = json.loads(line)
            if isinstance(record, dict):
                names |= {name: None for name, value in record.items() if not texts or isinstance(value, str)}
    return list(names)


JSONL = Format(jsonl_rows, lambda path, columns, layout, others: write_jsonl(path, *columns, others=others), _fields)
