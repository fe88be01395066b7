"""Vocabularies in tables and JSON lines: one subject a row, named columns for what is known of it."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sylvan.data.text_rows import quoted
from sylvan.errors import DataError

__all__ = ["csv_records", "jsonl_records"]

_TEXTS = {"label": "labels", "alternative": "alternative", "hidden": "hidden", "definition": "definitions"}
_COLUMN = re.compile(r"(label|alternative|hidden|definition)(?:_(.+))?")
_RELATIONS = ("broader", "narrower", "related")


def csv_records(lines: list[tuple[str, str]], name: str) -> dict[str, Any]:
    """The subjects of a CSV with a header, as the parameters of :class:`~sylvan.data.SubjectVocabulary`.

    Parameters
    ----------
    lines : list of (place, line)
    name : str
        What errors call the file.

    Raises
    ------
    DataError
        For the first line at fault.
    """
    reader = csv.DictReader((line for _, line in lines), strict=True)
    subjects = _Subjects()
    try:
        header = reader.fieldnames or ()
        if "uri" not in header or not any(re.fullmatch(r"label(_.+)?", column) for column in header):
            raise DataError(f"{name}, line 1: the header must name the columns uri and label or label_en, say.")
        for row in reader:
            cells = {name: cell for name, cell in row.items() if name is not None and isinstance(cell, str) and cell}
            values = {name: [cell] if name.startswith("label") else _split(cell) for name, cell in cells.items()}
            subjects.add(f"{name}, line {reader.line_num}", (row["uri"] or "").strip(), values)
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num + 1}: not a row of CSV ({error}).") from error
    return subjects.found


def jsonl_records(lines: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The subjects of JSON lines, as the parameters of :class:`~sylvan.data.SubjectVocabulary`.

    Parameters
    ----------
    lines : iterable of (place, line)

    Raises
    ------
    DataError
        For the first line at fault.
    """
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


def _split(cell: str) -> list[str]:
    """The values of a cell that may hold several."""
    return [value for part in cell.split("|") if (value := part.strip())]


class _Subjects:
    """What is known of subjects, row by row."""

    def __init__(self) -> None:
        names = (*_TEXTS.values(), "broader", "related")
        self.found: dict[str, dict[str, Any]] = {name: {} for name in names}

    def add(self, place: str, given: str, values: Mapping[str, list[str]]) -> None:
        """One subject's columns, of which those that aren't known are passed over."""
        uri = given[1:-1] if given.startswith("<") and given.endswith(">") else given
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
                for other in texts:
                    one, two = (other, uri) if column == "narrower" else (uri, other)
                    listed = self.found["related" if column == "related" else "broader"].setdefault(one, [])
                    if two not in listed:
                        listed.append(two)
