"""The part of CBOR (RFC 8949) that models are written in: maps, arrays, text and numbers, all of known length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sylvan import kernels
from sylvan.errors import ModelError
from sylvan.importers.files import read_bytes

__all__ = ["read_cbor"]

_DEEPEST = 220  # maps and arrays in one another
_LONGEST = 1 << 16  # bytes of a name
_SIMPLE = {20: False, 21: True, 22: None}


def read_cbor(path: Path) -> Any:
    """The one item of a CBOR file; an array of numbers as an ndarray of float64.

    Raises
    ------
    ModelError
        When the file is missing, cut short, nested too deeply, or holds anything but definite maps with names for
        keys, arrays, text, numbers, booleans and nulls.
    """
    reader = _Reader(path)
    item = reader.item(0)
    if reader.at != reader.size:
        raise ModelError(f"{str(path)!r} is damaged: {reader.size - reader.at} bytes follow where it should end.")
    return item


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = read_bytes(path)
        self.size, self.at = len(self.bytes), 0

    def item(self, depth: int) -> Any:
        """The next item, ``depth`` maps and arrays deep."""
        if depth > _DEEPEST:
            raise self._damaged(f"more than {_DEEPEST} maps and arrays stand in one another")
        if self.at >= self.size:
            raise self._damaged("it ends where an item should begin")
        first = int(self.bytes[self.at])
        major, info = first >> 5, first & 31
        if major == 7 and info in _SIMPLE:
            self.at += 1
            return _SIMPLE[info]
        if major in (0, 1, 7):
            value = float(self._numbers(1)[0])
            return int(value) if major < 2 else value
        count = self._count(info)
        if major == 3:
            return self._text(count)
        if major == 4:
            return self._array(count, depth)
        if major == 5:
            return self._map(count, depth)
        raise self._damaged(f"an item of type {major} has no place in a model")

    def _count(self, info: int) -> int:
        """How many bytes or items follow; never more than there are bytes."""
        if info >= 28:
            raise self._damaged("an item doesn't say how long it is")
        length = 0 if info < 24 else 1 << (info - 24)
        count = info if info < 24 else int.from_bytes(self.bytes[self.at + 1 : self.at + 1 + length].tobytes(), "big")
        self.at += 1 + length
        if count > self.size - self.at:
            raise self._damaged(f"{count} items are promised where {max(0, self.size - self.at)} bytes follow")
        return count

    def _text(self, count: int) -> str:
        if count > _LONGEST:
            raise self._damaged(f"a name has {count} bytes")
        raw = self.bytes[self.at : self.at + count].tobytes()
        self.at += count
        return raw.decode("utf-8", "replace")

    def _array(self, count: int, depth: int) -> Any:
        if count == 0 or int(self.bytes[self.at]) >> 5 in (0, 1) or int(self.bytes[self.at]) in (0xF9, 0xFA, 0xFB):
            return self._numbers(count)
        return [self.item(depth + 1) for _ in range(count)]

    def _map(self, count: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(count):
            name = self.item(depth + 1)
            if not isinstance(name, str):
                raise self._damaged("a map has a key that is no name")
            found[name] = self.item(depth + 1)
        return found

    def _numbers(self, count: int) -> Any:
        numbers = np.empty(count, np.float64)
        at = kernels.cbor_numbers(self.bytes, self.at, numbers)
        if at < 0:
            self.at = -1 - at
            raise self._damaged("a number should stand there")
        self.at = at
        return numbers

    def _damaged(self, what: str) -> ModelError:
        return ModelError(f"{str(self.path)!r} is damaged at byte {self.at}: {what}.")
