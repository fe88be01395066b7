"""Other libraries' files on their way in: JSON of known shape, binary fields checked against the file's length."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import ModelError

MOST_LABELS = 2**31 - 1
_MOST_JSON = 1 << 30  # bytes; the largest such files are lists of label names


def sized_file(path: Path) -> int:
    """The bytes of a file that must be there."""
    try:
        if not path.is_file():
            raise ModelError(f"{str(path)!r} is missing.")
        return os.stat(path).st_size
    except OSError as error:
        raise ModelError(f"{str(path)!r} can't be read ({error.strerror}).") from error


def read_bytes(path: Path) -> npt.NDArray[np.uint8]:
    """The content of a file that must be there."""
    sized_file(path)
    try:
        return np.fromfile(path, np.uint8)
    except OSError as error:
        raise ModelError(f"{str(path)!r} can't be read ({error.strerror}).") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    if sized_file(path) > _MOST_JSON:
        raise ModelError(f"{str(path)!r} is larger than {_MOST_JSON} bytes, which no such file is.")
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{str(path)!r} is not JSON, or damaged ({error}).") from error


def need_field(fields: Any, name: str, kind: type, path: Path, low: int = 0, high: int = MOST_LABELS) -> Any:
    """A field of a JSON object, of the given type and, when it is a number, within bounds."""
    value = fields.get(name) if isinstance(fields, dict) else None
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < 1 << 53 else None
    number = kind in (int, float)
    if type(value) is not kind or (isinstance(value, (int, float)) and number and not low <= value <= high):
        bounds = f" in [{low}, {high}]" if number else ""
        words = {int: "an int", float: "a number", str: "a string", dict: "an object", list: "a list"}
        raise ModelError(f"{str(path)!r}: {name!r} must be {words[kind]}{bounds}. Got {value!r:.60} instead.")
    return value


class Cursor:
    """Little-endian fields of a binary file, one after another; none is read beyond the end."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, 0
        self._bytes = read_bytes(path)
        self.size = len(self._bytes)

    def take(self, dtype: Any, count: int, what: str) -> npt.NDArray[Any]:
        """The next ``count`` values."""
        wide = np.dtype(dtype)
        if not 0 <= count <= (self.size - self.at) // wide.itemsize:
            left = self.size - self.at
            raise ModelError(
                f"{str(self.path)!r} is damaged: byte {self.at} should begin {count} values of {what}, but {left} "
                "bytes follow."
            )
        values: npt.NDArray[Any] = self._bytes[self.at : self.at + count * wide.itemsize].view(wide)
        self.at += count * wide.itemsize
        return values

    def number(self, dtype: Any, what: str, low: int, high: int) -> int:
        """The next value, an int within bounds."""
        value = int(self.take(dtype, 1, what)[0])
        if not low <= value <= high:
            raise ModelError(f"{str(self.path)!r} is damaged: {what} must be in [{low}, {high}]. Got {value} instead.")
        return value
