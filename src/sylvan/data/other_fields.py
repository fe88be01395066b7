"""The fields of records beside text and labels: which of them go from an input to an output, and as what columns."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat, zip_longest
from typing import Any, TypeVar, cast

from sylvan.data.text_rows import quoted
from sylvan.errors import DataError

_T = TypeVar("_T")
Record = Mapping[str, Any]


@dataclass(frozen=True)
class OtherFields:
    """Which fields of a record an output has too."""

    names: tuple[str, ...] | None = None  # these, in this order; with None all of them
    without: tuple[str, ...] = ()  # but never these

    def __call__(self, record: Record) -> dict[str, Any]:
        names = record if self.names is None else self.names
        return {name: plain(record.get(name)) for name in names if name not in self.without}

    def check(self, records: Sequence[Record], place: str) -> None:
        """Refuse names that none of some records has."""
        names = dict.fromkeys(name for record in records for name in record)
        for name in self.names or ():
            if name not in names:
                listed = ", ".join(map(quoted, names)) or "none"
                raise DataError(f"{place}: there is no field {name!r} to write. Its fields are: {listed}.")


class RecordSource:
    """The texts of a source, and for each block, once it is ranked, the other fields of its rows."""

    is_text = True

    def __init__(self, source: Any, fields: OtherFields) -> None:
        # source: of texts, with records() that gives blocks of texts and of the records that they are of
        self.path, self.name = source.path, source.name
        self._source, self._fields = source, fields
        self._waiting: deque[list[dict[str, Any]]] = deque()

    def blocks(self, with_labels: bool = False) -> Iterator[tuple[list[str], None]]:
        """The texts, block by block; labels are never wanted."""
        assert not with_labels
        for number, (texts, records) in enumerate(self._source.records()):
            if not number:
                self._fields.check(records, self.name)
            self._waiting.append([self._fields(record) for record in records])
            yield texts, None

    def next_fields(self) -> list[dict[str, Any]]:
        """The other fields of the next block, in the order of the blocks."""
        return self._waiting.popleft()


class RecordColumns:
    """The columns that other fields make in a table, whose first rows say which there are."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] | None = None
        self._n_rows = 0

    def take(self, records: Sequence[Record]) -> tuple[str, ...]:
        """The names of the columns, once the next records are known to have no other fields."""
        if self.names is None:
            self.names = tuple(dict.fromkeys(name for record in records for name in record))
        expected = set(self.names)
        for number, record in enumerate(records, self._n_rows):
            new = next((name for name in record if name not in expected), None)
            if new is not None:
                raise DataError(
                    f"Row {number} has the field {new!r}, which the first rows don't have, and a table's columns are "
                    "the same for all rows: write JSON lines."
                )
        self._n_rows += len(records)
        return self.names


def with_others(rows: Iterable[_T], others: Iterable[Record] | None) -> Iterator[tuple[_T, Record]]:
    """Rows with their other fields, where they have any."""
    if others is None:
        yield from zip(rows, repeat({}))
        return
    missing = object()
    for row, other in zip_longest(rows, others, fillvalue=missing):
        if row is missing or other is missing:
            raise DataError("There must be other fields for each of the rows, and no more.")
        yield cast(Any, row), cast(Any, other)


def plain(value: Any) -> Any:
    """A value as JSON has it: dates and the like become strings, a float that isn't finite becomes None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return str(value)


def arrow_column(pa: Any, name: str, values: Sequence[Any], type_: Any = None) -> Any:
    """Values as a column of pyarrow's, of a type that is given or else theirs; of strings where all are None."""
    try:
        array = pa.array(values)
    except OverflowError:
        n = max((value for value in values if isinstance(value, int)), key=abs, default="an int in a list")
        raise DataError(f"The field {name!r} holds {n}, too large for Parquet: write JSON lines or a table.") from None
    arrow_type, types = array.type, pa.types
    if type_ is None:
        if types.is_list(arrow_type) and types.is_null(arrow_type.value_type):
            return pa.array(values, pa.list_(pa.string()))
        return pa.array(values, pa.string()) if types.is_null(arrow_type) else array
    widens = types.is_floating(type_) and types.is_integer(arrow_type)
    if arrow_type != type_ and not widens and not types.is_null(arrow_type) and not types.is_nested(arrow_type):
        raise DataError(
            f"The field {name!r} holds {type_} in the first rows and {arrow_type} later, which a column of Parquet "
            "can't: write JSON lines or a table."
        )
    return pa.array(values, type_)


def cell_of(value: Any) -> str:
    """A plain value as a cell of a table: lists and objects as JSON, nothing as an empty cell."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
