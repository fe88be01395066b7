"""Columns of a table of typed records (Parquet, datasets): which hold what, and their cells as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sylvan.data.text_rows import Row, one_kind, quoted
from sylvan.errors import DataError, ParameterError
from sylvan.parallel import progress

__all__ = ["columns_of", "names_of", "records_as_rows"]


def names_of(text_fields: str | Sequence[str], parameter: str) -> tuple[str, ...]:
    """The columns of the text, checked."""
    names = (text_fields,) if isinstance(text_fields, str) else tuple(text_fields)
    if not names or not all(isinstance(name, str) for name in names):
        raise ParameterError(f"The {parameter!r} parameter must name at least one field. Got {text_fields!r} instead.")
    return names


def columns_of(
    name: str, columns: Sequence[str], texts: Sequence[str], labels: str | None, weights: str
) -> tuple[str | None, str | None]:
    """The columns of labels and weights; every column that is asked for must be there."""
    if labels == "labels" and labels not in columns and "label" in columns:
        labels = "label"
    for wanted in (*texts, labels):
        if wanted is not None and wanted not in columns:
            raise DataError(f"{name}: there is no column {wanted!r}. Its columns are: {', '.join(columns)}.")
    return labels, weights if labels is not None and weights in columns else None


def records_as_rows(
    name: str,
    records: Iterable[Mapping[str, Any]],
    texts: Sequence[str],
    labels: str | None,
    weights: str | None,
    separator: str,
    n: int | None,
) -> Iterator[Row]:
    """Records with a column of lists as rows, their types checked."""
    kind: type | None = None
    with progress(f"reading {name}", n, "row") as bar:
        for number, record in enumerate(records):
            place = f"{name}, row {number}"
            text = separator.join(filter(None, (_text(place, record[field], field) for field in texts)))
            row = [] if labels is None else _labels(place, record[labels], labels)
            kind = one_kind(place, row, kind)
            yield text, *_weighted(place, row, None if weights is None else record[weights])
            bar.update(1)


def _text(place: str, value: Any, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{place}: the column {field!r} must hold strings. Got {quoted(value)} instead.")
    return value


def _labels(place: str, value: Any, field: str) -> list[Any]:
    listed = [] if value is None else list(value) if isinstance(value, list | tuple) else [value]
    for label in listed:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise DataError(f"{place}: the column {field!r} must hold strings or ints. Got {quoted(label)} instead.")
    return listed


def _weighted(place: str, row: list[Any], weights: Any) -> tuple[list[Any], list[float] | None]:
    if weights is None:
        return list(dict.fromkeys(row)), None
    if not isinstance(weights, list) or len(weights) != len(row):
        raise DataError(f"{place}: there must be a weight for each of the {len(row)} labels. Got {quoted(weights)}.")
    found: dict[Any, float] = {}
    for label, weight in zip(row, weights, strict=True):
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 3.4e38:
            raise DataError(
                f"{place}: a label's weight must be a finite number of at least 0. Got {quoted(weight)} instead."
            )
        found[label] = found.get(label, 0.0) + float(weight)
    return list(found), list(found.values())
