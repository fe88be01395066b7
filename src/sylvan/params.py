"""Declared parameters: an estimator lists its constraints once, and one message form reports every breach."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from sylvan.errors import ParameterError

__all__ = ["Choice", "Constraint", "Flag", "Instance", "Jobs", "Number", "NumberOr", "Parameterized", "PerLayer"]

_Self = TypeVar("_Self", bound="Parameterized")


class Constraint:
    """One allowed range; subclasses say what it is in words and whether a value lies in it."""

    optional: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is allowed (``None`` is decided by ``optional`` before this is asked)."""
        raise TypeError("Constraint is abstract.")

    def describe(self) -> str:
        """The allowed range in words, to follow "must be"."""
        raise TypeError("Constraint is abstract.")

    def parse(self, text: str) -> Any:
        """The value that ``text`` from a command line means; a ``ValueError`` when it means none."""
        if self.optional and text.lower() in {"none", ""}:
            return None
        return self._parse(text)

    def _parse(self, text: str) -> Any:
        raise ValueError("can only be set from Python")


@dataclass(frozen=True)
class Number(Constraint):
    """A finite int or float in a range; ``low`` and ``high`` are allowed themselves unless ``open_low``."""

    kind: type
    low: float | None = None
    high: float | None = None
    optional: bool = False
    open_low: bool = False

    def accepts(self, value: Any) -> bool:
        if isinstance(value, bool):
            return False
        if self.kind is int:
            if not isinstance(value, numbers.Integral):
                return False
        elif not isinstance(value, numbers.Real) or not math.isfinite(value):
            return False
        if self.low is not None and (value < self.low or (self.open_low and value == self.low)):
            return False
        return self.high is None or value <= self.high

    def describe(self) -> str:
        article = "an int" if self.kind is int else "a float"
        left = "(-inf" if self.low is None else f"{'(' if self.open_low else '['}{self.low}"
        right = "inf)" if self.high is None else f"{self.high}]"
        return f"{article} in {left}, {right}" + (" or None" if self.optional else "")

    def _parse(self, text: str) -> Any:
        return self.kind(text)


@dataclass(frozen=True)
class NumberOr(Number):
    """A number as :class:`Number` has it, or one word, such as "auto"."""

    word: str = "auto"

    def accepts(self, value: Any) -> bool:
        return value == self.word if isinstance(value, str) else super().accepts(value)

    def describe(self) -> str:
        return f"{super().describe()}, or {self.word!r}"

    def _parse(self, text: str) -> Any:
        return text if text == self.word else super()._parse(text)


@dataclass(frozen=True)
class Jobs(Constraint):
    """A number of threads: an int from 1, or -1 for every core."""

    optional: bool = False

    def accepts(self, value: Any) -> bool:
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        return whole and (int(value) >= 1 or int(value) == -1)

    def describe(self) -> str:
        return "an int in [1, inf), or -1" + (" or None" if self.optional else "") + " for every core"

    def _parse(self, text: str) -> Any:
        return int(text)


@dataclass(frozen=True)
class Choice(Constraint):
    """One of a few words."""

    options: tuple[str, ...]
    optional: bool = False

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.options

    def describe(self) -> str:
        words = ", ".join(repr(option) for option in self.options)
        return f"one of {words}" + (" or None" if self.optional else "")

    def _parse(self, text: str) -> Any:
        return text


@dataclass(frozen=True)
class PerLayer(Constraint):
    """One of a few words for every layer of a tree, or a list of them from the top layer to the last."""

    options: tuple[str, ...]
    optional: bool = False

    def accepts(self, value: Any) -> bool:
        words = value if isinstance(value, (list, tuple)) else [value]
        return len(words) > 0 and all(isinstance(word, str) and word in self.options for word in words)

    def describe(self) -> str:
        words = ", ".join(repr(option) for option in self.options)
        return f"one of {words}, or a list of them, one a layer" + (" or None" if self.optional else "")

    def _parse(self, text: str) -> Any:
        return text.split(",") if "," in text else text


@dataclass(frozen=True)
class Flag(Constraint):
    """True or False."""

    optional: bool = False

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool)

    def describe(self) -> str:
        return "True or False" + (" or None" if self.optional else "")

    def _parse(self, text: str) -> Any:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() not in words:
            raise ValueError("not a truth value")
        return words[text.lower()]


@dataclass(frozen=True)
class Instance(Constraint):
    """An object of one of the given classes, described in words."""

    classes: tuple[type, ...]
    words: str
    optional: bool = False

    def accepts(self, value: Any) -> bool:
        return isinstance(value, self.classes)

    def describe(self) -> str:
        return self.words + (" or None" if self.optional else "")


class Parameterized:
    """Base of everything with parameters: ``__init__`` only assigns, ``constraints`` declares the ranges."""

    constraints: ClassVar[Mapping[str, Constraint]] = {}

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Names of the constructor's parameters, in its order."""
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters as a dict; ``deep`` adds those of nested objects as ``outer__inner``."""
        values: dict[str, Any] = {}
        for name in self.parameter_names():
            value = getattr(self, name)
            values[name] = value
            if deep and isinstance(value, Parameterized):
                values.update({f"{name}__{inner}": v for inner, v in value.get_params().items()})
        return values

    def set_params(self: _Self, **values: Any) -> _Self:
        """Set parameters by name; an unknown name raises :class:`~sylvan.errors.ParameterError`."""
        known = self.parameter_names()
        for name, value in values.items():
            outer, _, inner = name.partition("__")
            if outer not in known:
                raise ParameterError(
                    f"{type(self).__name__} has no parameter {outer!r}. Its parameters are: {', '.join(known)}."
                )
            if inner:
                held = getattr(self, outer)
                if not hasattr(held, "set_params"):
                    raise ParameterError(
                        f"The {name!r} parameter can't be set: the {outer!r} of this {type(self).__name__} is "
                        f"{held!r}, which has no parameters. Give it an object first."
                    )
                held.set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def check_params(self, names: Sequence[str] | None = None) -> None:
        """Hold every declared constraint.

        Raises
        ------
        ParameterError
            For the first parameter out of its range, with the range and the value received.
        """
        for name in names if names is not None else self.parameter_names():
            constraint = self.constraints.get(name)
            if constraint is None:
                continue
            value = getattr(self, name)
            if value is None and constraint.optional:
                continue
            if value is None or not constraint.accepts(value):
                raise ParameterError(
                    f"The {name!r} parameter of {type(self).__name__} must be {constraint.describe()}. "
                    f"Got {value!r} instead."
                )

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = []
        for name in self.parameter_names():
            value, default = getattr(self, name), defaults[name].default
            same = value is default or (type(value) is type(default) and value == default)
            if not same:
                shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"
