"""The parts that the tables of docs/results/ are made of."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["at", "book", "mean", "table", "taken"]

Record = dict[str, Any]


def table(heads: str | Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of ready cells; the heads are a list or, as it is written, their line."""
    head = heads if isinstance(heads, str) else _row(heads)
    return [head, "|---" * (head.count("|") - 1) + "|", *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def at(run: Record, name: str, ranks: Iterable[int] = (1, 3, 5)) -> str:
    """A measure at several ranks, such as P@1/3/5, in one cell."""
    return "/".join(f"{run[f'{name}@{k}']:.2f}" for k in ranks)


def mean(values: Sequence[float], digits: int = 2, separator: str = "") -> str:
    """The mean and, of several seeds, their standard deviation; a dash where there are none."""
    if not values:
        return "–"
    text = f"{statistics.mean(values):{separator}.{digits}f}"
    return text if len(values) < 2 else f"{text} ± {statistics.stdev(values):{separator}.{digits}f}"


def book(path: Path) -> Record | None:
    """A JSON file of results, where there is one."""
    return json.loads(path.read_text()) if path.exists() else None


def taken(record: Record) -> str:
    """The sentence that says on what machine and when."""
    return f"{record['machine']['cpu']}, {record['machine']['cores']} cores; {record['date']}."
