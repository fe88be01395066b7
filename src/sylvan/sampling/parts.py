"""Work in parts, so that few numbers are held at once."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["blocks", "slices"]

_HELD = 1 << 18  # numbers that fit the cache
_AT_ONCE = 1 << 22  # numbers that fit memory anywhere and keep a kernel busy: 16 MiB of float32


def slices(n: int, size_of_one: int, at_once: int = _AT_ONCE) -> Iterator[slice]:
    """Slices of ``range(n)`` that hold at most ``at_once`` numbers each, where one item takes ``size_of_one``."""
    step = max(1, at_once // max(1, size_of_one))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def blocks(n: int, size_of_one: int) -> Iterator[slice]:
    """:func:`slices` of so few numbers (2**18) that what is made of them stays in the cache."""
    return slices(n, size_of_one, _HELD)
