"""CBOR the slow way: one item after another, by the RFC's table; and its inverse."""

from __future__ import annotations

import struct
from typing import Any


def first_item(content: bytes) -> Any:
    """The first item of some bytes, as plain values."""
    return _item(content, 0)[0]


def _item(content: bytes, at: int) -> tuple[Any, int]:
    major, info = content[at] >> 5, content[at] & 31
    at += 1
    if major == 7 and info in (25, 26, 27):
        form = {25: ">e", 26: ">f", 27: ">d"}[info]
        return struct.unpack_from(form, content, at)[0], at + struct.calcsize(form)
    if major == 7:
        return {20: False, 21: True, 22: None}[info], at
    length = 0 if info < 24 else 1 << (info - 24)
    count = info if info < 24 else int.from_bytes(content[at : at + length], "big")
    at += length
    if major in (0, 1):
        return (count if major == 0 else -1 - count), at
    if major == 3:
        return content[at : at + count].decode(), at + count
    if major == 4:
        items = []
        for _ in range(count):
            item, at = _item(content, at)
            items.append(item)
        return items, at
    assert major == 5
    found = {}
    for _ in range(count):
        name, at = _item(content, at)
        found[name], at = _item(content, at)
    return found, at


def encode(item: Any) -> bytes:
    """Maps, lists, names, ints, floats and None."""
    if item is None:
        return b"\xf6"
    if isinstance(item, float):
        return struct.pack(">Bd", 0xFB, item)
    if isinstance(item, int):
        return _head(0, item) if item >= 0 else _head(1, -1 - item)
    if isinstance(item, str):
        return _head(3, len(item.encode())) + item.encode()
    if isinstance(item, dict):
        return _head(5, len(item)) + b"".join(encode(name) + encode(value) for name, value in item.items())
    return _head(4, len(item)) + b"".join(encode(value) for value in item)


def _head(major: int, count: int) -> bytes:
    for info, form, limit in ((24, ">BB", 1 << 8), (25, ">BH", 1 << 16), (26, ">BI", 1 << 32), (27, ">BQ", 1 << 64)):
        if count < 24:
            return bytes([major << 5 | count])
        if count < limit:
            return struct.pack(form, major << 5 | info, count)
    raise ValueError(count)
