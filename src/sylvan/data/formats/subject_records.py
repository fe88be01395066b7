"""Vocabularies in tables and JSON lines: one subject a row, named columns for what is known of it."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sylvan.data.text_rows import quoted
from sylvan.errors import DataError
from sylvan.labels.uris import bare_uri

_SEPARATORS = (",", ";", "\t")

_TEXTS = {"label": "labels", "alternative": "alternative", "hidden": "hidden", "definition": "definitions"}
_COLUMN = re.compile(r"(label|alternative|hidden|definition)(?:_(.+))?")
_RELATIONS = ("broader", "narrower", "related")


def header_separator(line: str) -> str | None:
    """What separates the cells of a header with "uri" and "label", or "label_en"; None where it is no such header."""
    for mark in _SEPARATORS:
        names = _names(next(csv.reader([line], delimiter=mark), []))
        if "uri" in names and any(re.fullmatch(r"label(_.+)?", name) for name in names):
            return mark
    return None


def _names(header: Iterable[str]) -> list[str]:
    """Names of columns, without blanks around them; their words may be written large, languages stay as they are."""
    parts = (name.strip().partition("_") for name in header)
    return [word.lower() + mark + language for word, mark, language in parts]


def csv_records(lines: list[tuple[str, str]], name: str) -> dict[str, Any]:
    """The subjects of a table with a header, as the parameters of :class:`~sylvan.data.SubjectVocabulary`. Columns that
    aren't known, such as notations, are passed over."""
    mark = header_separator(lines[0][1]) if lines else None
    if mark is None:
        raise DataError(f"{name}, line 1: the header must name the columns uri and label or label_en, say.")
    reader = csv.reader((line for _, line in lines), delimiter=mark, strict=True)
    subjects, at = _Subjects(), 1  # where the row begins
    try:
        header = _names(next(reader))
        twice = next((column for column in header if column and header.count(column) > 1), None)
        if twice is not None:
            raise DataError(f"{name}, line 1: two columns are called {twice!r}.")
        at = reader.line_num + 1
        for row in reader:
            if any(row[len(header) :]):
                raise DataError(f"{name}, line {at}: the row has {len(row)} cells, but the header has {len(header)}.")
            cells = {column: cell for column, cell in zip(header, row) if cell}  # noqa: B905
            if cells:
                values = {column: _values(column, cell) for column, cell in cells.items()}
                subjects.add(f"{name}, line {at}", cells.get("uri", "").strip(), values)
            at = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{name}, line {at}: not a row of CSV ({error}).") from error
    return subjects.found


def jsonl_records(lines: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The subjects of JSON lines, as the parameters of :class:`~sylvan.data.SubjectVocabulary`."""
    subjects = _Subjects()
    for place, line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{place}: not a line of JSON ({error}).") from error
        if not isinstance(record, dict) or not isinstance(record.get("uri"), str):
            raise DataError(f"{place}: must be an object with a string called 'uri'. Got {quoted(line)} instead.")
        values = {name: [value] if isinstance(value, str) else value for name, value in record.items()}
        for name, value in values.items():
            known = _COLUMN.fullmatch(name) or name in _RELATIONS
            if known and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
                raise DataError(
                    f"{place}: {name!r} must be a string or a list of strings. Got {quoted(record[name])} instead."
                )
        subjects.add(place, record["uri"].strip(), values)
    return subjects.found


def _values(column: str, cell: str) -> list[str]:
    """The values of a cell, of which all but labels may have several."""
    if column.startswith("label"):
        return [cell]
    return [value for part in cell.split("|") if (value := part.strip())]


class _Subjects:
    """What is known of subjects, row by row."""

    def __init__(self) -> None:
        names = (*_TEXTS.values(), "broader", "related")
        self.found: dict[str, dict[str, Any]] = {name: {} for name in names}

    def add(self, place: str, given: str, values: Mapping[str, list[str]]) -> None:
        """One subject's columns, of which those that aren't known are passed over."""
        uri = bare_uri(given)
        if not uri:
            raise DataError(f"{place}: the cell of the URI is empty.")
        labels = self.found["labels"]
        if uri in labels:
            raise DataError(f"{place}: the URI {quoted(uri)} stands there twice.")
        labels[uri] = {}
        for column, texts in values.items():
            match = _COLUMN.fullmatch(column)
            if match and texts:
                language, kind = match[2] or "", _TEXTS[match[1]]
                if kind == "labels":  # the first is the preferred one
                    labels[uri][language], texts, kind = texts[0], texts[1:], "alternative"
                if texts:
                    own = self.found[kind].setdefault(uri, {})
                    own[language] = [*own.get(language, []), *texts]
            elif column in _RELATIONS:
                for other in map(bare_uri, texts):
                    one, two = (other, uri) if column == "narrower" else (uri, other)
                    listed = self.found["related" if column == "related" else "broader"].setdefault(one, [])
                    if two not in listed:
                        listed.append(two)
