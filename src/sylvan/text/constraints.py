"""The kinds of values that a vectoriser's parameters have."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

from sylvan.params.fields import Constraint

AUTO = "auto"
_MAX_N = 1000


@dataclass(frozen=True)
class NgramRange(Constraint):
    """The shortest and the longest n-gram: a pair of ints, the first not above the second; or "auto"."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return value == AUTO
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            return False
        if not all(isinstance(n, numbers.Integral) and not isinstance(n, bool) for n in value):
            return False
        return 1 <= int(value[0]) <= int(value[1]) <= _MAX_N

    def describe(self) -> str:
        return f"a pair of ints (shortest, longest) with 1 <= shortest <= longest <= {_MAX_N}, or {AUTO!r}"

    def _parse(self, text: str) -> Any:
        if text.strip() == AUTO:
            return AUTO
        parts = text.strip("()[] ").replace("-", ",").split(",")
        low, high = int(parts[0]), int(parts[-1])
        if len(parts) > 2:
            raise ValueError("not one or two ints")
        return (low, high)


@dataclass(frozen=True)
class DocumentShare(Constraint):
    """A number of documents as an int, or a share of all documents as a float."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, bool):
            return False
        if isinstance(value, numbers.Integral):
            return int(value) >= 1
        return isinstance(value, numbers.Real) and 0.0 <= float(value) <= 1.0

    def describe(self) -> str:
        return "an int in [1, inf), a number of documents, or a float in [0.0, 1.0], a share of them"

    def _parse(self, text: str) -> Any:
        try:
            return int(text)
        except ValueError:
            return float(text)
