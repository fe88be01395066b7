"""CBOR (RFC 8949) as models are written in it, read by cbor2: maps, lists, names and numbers, nothing that runs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from sylvan.errors import ModelError
from sylvan.importers.files import sized_file

__all__ = ["read_cbor"]

_DEEPEST = 220  # maps and lists in one another
_AT_ONCE = 4096  # bytes that are read together; so near is the place that an error names


def read_cbor(path: Path) -> Any:
    """The one item of a CBOR file; in its maps, a list of numbers is an ndarray of float64.

    Raises
    ------
    ModelError
        When the file is missing, cut short, nested too deeply, or holds tags, lengths left open or a name twice in a
        map; or when cbor2 isn't installed.
    """
    size = sized_file(path)
    try:
        import cbor2
    except ImportError as error:
        raise ModelError(f'{str(path)!r} is CBOR, which needs cbor2: pip install "sylvan[cbor]".') from error
    try:
        with path.open("rb") as file:
            decoder = cbor2.CBORDecoder(
                file,
                object_hook=_with_arrays,
                # Tags stand for dates, patterns, shared values and more: a model has none, and none is decoded.
                semantic_decoders=defaultdict(lambda: _refuse_tag),
                tag_hook=_refuse_tag,
                read_size=_AT_ONCE,
                max_depth=_DEEPEST,
                allow_indefinite=False,
                allow_duplicate_keys=False,
                strict_hashable_types=True,
            )
            try:
                item = decoder.decode()
            except cbor2.CBORDecodeError as error:
                raise ModelError(f"{str(path)!r} is damaged in its first {file.tell()} bytes: {error}.") from error
            left = size - file.tell()
    except OSError as error:
        raise ModelError(f"{str(path)!r} can't be read ({error.strerror}).") from error
    if left:
        raise ModelError(f"{str(path)!r} is damaged: {left} bytes follow where it should end.")
    return item


def _with_arrays(found: Any, immutable: bool) -> Any:
    """A map whose lists of numbers are arrays: a fifth of the memory, and taken while only this map is in lists."""
    for name, value in found.items():
        if type(value) is list and set(map(type, value)) <= {int, float}:
            found[name] = np.fromiter(value, np.float64, len(value))
    return found


def _refuse_tag(*_: Any) -> Any:
    raise ValueError("a model holds no tags")
