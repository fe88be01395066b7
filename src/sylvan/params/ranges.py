"""The ranges of parameters: what a value may be, in words, and as read from a command line."""

from __future__ import annotations

import dataclasses
import math
import numbers
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sylvan.errors import ParameterError


@dataclass(frozen=True)
class Constraint:
    """One allowed range; subclasses say what it is in words and whether a value lies in it."""

    optional: bool = dataclasses.field(default=False, kw_only=True)

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is allowed (``None`` is decided by ``optional`` before this is asked)."""
        raise TypeError("Constraint is abstract.")

    def describe(self) -> str:
        """The allowed range in words, to follow "must be"."""
        return self._words() + (" or None" if self.optional else "")

    def _words(self) -> str:
        raise TypeError("Constraint is abstract.")

    def received(self, value: Any) -> str:
        """A value that isn't allowed, to follow "Got"."""
        return repr(value)

    def parse(self, text: str) -> Any:
        """The value that ``text`` from a command line means; a ``ValueError`` when it means none."""
        if self.optional and text.lower() in {"none", ""}:
            return None
        return self._parse(text)

    def _parse(self, text: str) -> Any:
        raise ValueError("can only be set from Python")

    def of_types(self, kinds: Sequence[Any], optional: bool) -> Constraint:
        """This range for a field of one of the types ``kinds``, or None as well where it's ``optional``."""
        return dataclasses.replace(self, optional=optional)


@dataclass(frozen=True)
class Range(Constraint):
    """A finite number from ``low`` to ``high``, both allowed unless ``open_low``; or a ``word``, where one is given."""

    low: float | None = None
    high: float | None = None
    open_low: bool = False
    word: str | None = None
    kind: type = float  # of the field: int or float

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str) and self.word is not None:
            return value == self.word
        if isinstance(value, bool) or not isinstance(value, numbers.Integral if self.kind is int else numbers.Real):
            return False
        if self.kind is not int and not math.isfinite(value):
            return False
        if self.low is not None and (value < self.low or (self.open_low and value == self.low)):
            return False
        return self.high is None or value <= self.high

    def describe(self) -> str:
        article = "an int" if self.kind is int else "a float"
        left = "(-inf" if self.low is None else f"{'(' if self.open_low else '['}{self.low}"
        right = "inf)" if self.high is None else f"{self.high}]"
        word = "" if self.word is None else f", or {self.word!r}"
        return f"{article} in {left}, {right}" + (" or None" if self.optional else "") + word

    def _parse(self, text: str) -> Any:
        return text if text == self.word else self.kind(text)

    def of_types(self, kinds: Sequence[Any], optional: bool) -> Constraint:
        if int not in kinds and float not in kinds:
            raise TypeError("Range is for a field of type int or float")
        return dataclasses.replace(self, optional=optional, kind=int if int in kinds else float)


@dataclass(frozen=True)
class PerLabel(Range):
    """A number of the range for all labels, or one for each: a list, or an array of shape (n_labels,)."""

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, (list, tuple, np.ndarray)):
            return super().accepts(value)
        array = np.asarray(value)
        if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
            return False
        return super().accepts(array.min().item()) and super().accepts(array.max().item())

    def describe(self) -> str:
        return f"{super().describe()}, or an array of them, one a label"

    def received(self, value: Any) -> str:
        listed = value.tolist() if isinstance(value, np.ndarray) else value
        numbers = listed if isinstance(listed, (list, tuple)) else []
        allowed = super().accepts
        wrong = (f"{number!r} for label {label}" for label, number in enumerate(numbers) if not allowed(number))
        return next(wrong, super().received(value))

    def _parse(self, text: str) -> Any:
        return [self.kind(number) for number in text.split(",")] if "," in text else super()._parse(text)


def Number(
    kind: type, low: float | None = None, high: float | None = None, optional: bool = False, open_low: bool = False
) -> Range:
    """A range of numbers of ``kind`` outside of a field, which would say its type itself."""
    return Range(low, high, open_low, kind=kind, optional=optional)


@dataclass(frozen=True)
class Jobs(Constraint):
    """A number of threads: an int from 1, or -1 for every core."""

    def accepts(self, value: Any) -> bool:
        integral = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        return integral and (int(value) >= 1 or int(value) == -1)

    def describe(self) -> str:
        return "an int in [1, inf), or -1" + (" or None" if self.optional else "") + " for every core"

    def _parse(self, text: str) -> Any:
        return int(text)


@dataclass(frozen=True)
class Choice(Constraint):
    """One of a few words."""

    options: Collection[str]

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.options

    def _words(self) -> str:
        return f"one of {', '.join(repr(option) for option in self.options)}"

    def _parse(self, text: str) -> Any:
        return text


@dataclass(frozen=True)
class PerLayer(Choice):
    """One of a few words for every layer of a tree, or a list of them from the top layer to the last."""

    def accepts(self, value: Any) -> bool:
        words = value if isinstance(value, (list, tuple)) else [value]
        return len(words) > 0 and all(super(PerLayer, self).accepts(word) for word in words)

    def _words(self) -> str:
        return f"{super()._words()}, or a list of them, one a layer"

    def _parse(self, text: str) -> Any:
        return text.split(",") if "," in text else text


@dataclass(frozen=True)
class Flag(Constraint):
    """True or False."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool)

    def _words(self) -> str:
        return "True or False"

    def _parse(self, text: str) -> Any:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() not in words:
            raise ValueError("not a truth value")
        return words[text.lower()]


@dataclass(frozen=True)
class Instance(Constraint):
    """An object of one of the classes, by default those of the field's type, described in words."""

    classes: tuple[type, ...] = ()
    words: str = ""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, self.classes)

    def _words(self) -> str:
        return self.words

    def of_types(self, kinds: Sequence[Any], optional: bool) -> Constraint:
        classes = self.classes or tuple(typing.get_origin(kind) or kind for kind in kinds)
        names = [kind.__name__ for kind in classes]
        words = self.words or " or ".join(f"an {name}" if name[0] in "AEIOUX" else f"a {name}" for name in names)
        return Instance(classes, words, optional=optional)


def check_value(name: str, value: Any, constraint: Constraint, owner: str = "") -> None:
    """Check the parameter ``name`` (of ``owner``, a class) against its range."""
    if constraint.optional if value is None else constraint.accepts(value):
        return
    whose = f" of {owner}" if owner else ""
    raise ParameterError(
        f"The {name!r} parameter{whose} must be {constraint.describe()}. Got {constraint.received(value)} instead."
    )


def check_values(ranges: Mapping[str, Constraint], owner: str = "", /, **values: Any) -> None:
    """Check each of ``values`` against the range of its name, where there is one, as :func:`check_value` does."""
    for name, value in values.items():
        if name in ranges:
            check_value(name, value, ranges[name], owner)
