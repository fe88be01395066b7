"""Calls within the code that a test looks at: what each was given and gave, and one that is interrupted instead."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest


class Call(NamedTuple):
    """What a function was given, ``self`` first if it is a method, and what it gave."""

    args: tuple[Any, ...]
    options: dict[str, Any]
    result: Any


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Call]:
    """The calls of a function of a module, or of a method of a class, as they come from now on."""
    calls, function = list[Call](), getattr(owner, name)

    def watched(*args: Any, **options: Any) -> Any:
        result = function(*args, **options)
        calls.append(Call(args, options, result))
        return result

    monkeypatch.setattr(owner, name, watched)
    return calls


class Stopped(BaseException):
    """What stands for Ctrl-C."""


@contextmanager
def stopped(owner: Any, name: str, when: int | Callable[..., bool]) -> Iterator[None]:
    """What is done within must end in the place of the ``when``-th call, or of the first of which ``when`` holds."""
    function, count = getattr(owner, name), 0

    def stopping(*args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == when if isinstance(when, int) else when(*args, **options):
            raise Stopped
        return function(*args, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(owner, name, stopping)
        yield
