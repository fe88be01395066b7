"""The fields that a file of texts has, by its first bytes: which are read, and what separates the cells of a table."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from sylvan.data.formats.cells import declared_delimiter
from sylvan.data.streams import head_of

TABLES = {"csv": ",", "annif-csv": ",", "tsv": "\t"}  # and what separates their cells by default
FILES = ("text", "annif-folder")  # formats whose texts are files of their own, which have names
_DELIMITERS = (",", ";", "\t", "|")
_OBJECTS = 20  # of JSON lines, looked at
LABELS = ("labels", "label", "subjects", "subject_uris", "weights")  # fields of labels by their usual names
_IDS = {"id", "_id", "uid", "uuid", "doc_id", "document_id", "uri", "url"}  # fields that nobody means as text
_TEXTS = ("string", "large_string", "string_view")


def fields_of(
    path: str, format_: str, delimiter: str | None = None, header: bool | None = None, texts: bool = True
) -> list[str]:
    """The names of a file's fields, in its order; none where they have no names, or the file can't be read. With
    ``texts``, only those of text, as far as that is known."""
    if format_ in FILES:
        return [] if texts else ["file"]
    if format_ in TABLES:
        return [] if header is False else _first_row(path, delimiter or TABLES[format_])
    if format_ == "jsonl":
        return _of_objects(path, texts)
    if format_ == "dataset":
        return _of_dataset(path, texts)
    return _of_parquet(path, texts) if format_ == "parquet" and path != "-" else []


def delimiter_of(path: str, format_: str, columns: Sequence[str], header: bool | None) -> str:
    """The separator of a table's cells: what its format usually has, or another mark if only that gives the columns."""
    usual = TABLES[format_]
    numbers = [int(column) for column in columns if column.isdecimal()]
    names = [] if header is False else [column for column in columns if not column.isdecimal()]
    for mark in (usual, *(mark for mark in _DELIMITERS if mark != usual)):
        row = _first_row(path, mark)
        if set(names) <= set(row) and len(row) >= max(numbers, default=1):
            return mark
    return usual


def split_names(names: Iterable[str], fields: Sequence[str]) -> tuple[str, ...]:
    """Names of fields as they were typed, those with commas between being several unless a field is called so."""
    return tuple(
        part for name in names for part in ([name] if name in fields else map(str.strip, name.split(","))) if part
    )


def unread(fields: Sequence[str], texts: Sequence[str], labels: str) -> list[str]:
    """The fields that are neither read as text nor hold labels; none where all are ids, or a field is missing."""
    others = [name for name in fields if name not in texts and name != labels and name not in LABELS]
    return others if set(texts) <= set(fields) and not {name.lower() for name in others} <= _IDS else []


def _first_row(path: str, delimiter: str) -> list[str]:
    text = head_of(path).decode("utf-8", "replace")
    first, _, rest = text.partition("\n")
    if (declared := declared_delimiter(first)) is not None:
        text, delimiter = rest, declared
    with suppress(csv.Error):
        return next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row), [])
    return []


def _of_objects(path: str, texts: bool) -> list[str]:
    names: dict[str, None] = {}
    lines = [line for line in head_of(path).split(b"\n") if line.strip()]
    for line in lines[:_OBJECTS]:
        with suppress(ValueError, RecursionError):  # the last may be cut off, and faults are the reader's to say
            record = json.loads(line)
            if isinstance(record, dict):
                found = (name for name, value in record.items() if not texts or isinstance(value, str))
                names.update(dict.fromkeys(found))
    return list(names)


def _of_dataset(path: str, texts: bool) -> list[str]:
    with suppress(OSError, ValueError, AttributeError):
        with open(os.path.join(path, "dataset_info.json"), encoding="utf-8") as file:
            features = json.load(file)["features"]
        return [name for name, feature in features.items() if not texts or feature.get("dtype") in _TEXTS]
    return []


def _of_parquet(path: str, texts: bool) -> list[str]:
    with suppress(Exception):  # what is wrong with it, or that pyarrow is missing, is the reader's to say
        from pyarrow import parquet

        schema = parquet.read_schema(path)
        return [field.name for field in schema if not texts or str(field.type) in _TEXTS]
    return []
