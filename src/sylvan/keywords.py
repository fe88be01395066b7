"""Keywords that a call doesn't take: Python's error, and what may have been meant."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from traceback import walk_tb
from types import FunctionType
from typing import Any, TypeVar

from sylvan.wording import did_you_mean

__all__ = ["suggest_keywords", "unknown_keyword"]

_UNKNOWN = re.compile(r"got an unexpected keyword argument '(\w+)'")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def unknown_keyword(error: TypeError, known: Collection[str], of_class: Collection[str] = ()) -> str:
    """The words of an error; where it is of an unknown keyword, with what may have been meant."""
    found = _UNKNOWN.search(str(error))
    if found is None:
        return str(error)
    name = found[1]
    if name in of_class:
        return f"{error}: it is a parameter of the object, which set_params({name}=...) sets."
    return f"{error}. {did_you_mean(name, known)}"


def suggest_keywords(cls: type) -> None:
    """Have the public methods of a class, those that it defines itself, say what a misspelled keyword may mean."""
    for name, value in list(vars(cls).items()):
        if isinstance(value, FunctionType) and not name.startswith("_") and _takes_keywords(value):
            setattr(cls, name, _suggesting(value))


def _takes_keywords(function: FunctionType) -> bool:
    """Whether it has optional arguments and doesn't take any name."""
    function = inspect.unwrap(function)  # of a decorator, which takes any arguments
    code = function.__code__
    return not code.co_flags & inspect.CO_VARKEYWORDS and bool(function.__defaults__ or function.__kwdefaults__)


def _suggesting(function: _Function) -> _Function:
    frames = [function]  # of a call: one for each decorator, before that of the method itself
    while hasattr(frames[-1], "__wrapped__"):
        frames.append(frames[-1].__wrapped__)

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(self, *args, **kwargs)
        except TypeError as error:
            if sum(1 for _ in walk_tb(error.__traceback__)) != len(frames):  # it comes from inside the method
                raise
            known = [name for name in inspect.signature(function).parameters if name != "self"]
            of_class: list[str] = getattr(type(self), "parameter_names", list)()
            words = unknown_keyword(error, known, of_class)
            # The method may be that of a base which nobody has heard of.
            own = f"{type(self).__name__}.{function.__name__}()"
            raise TypeError(words.replace(f"{function.__qualname__}()", own, 1)) from None

    return call  # type: ignore[return-value]
