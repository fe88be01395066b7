"""Which format a file is in, by its name and by its first bytes."""

from __future__ import annotations

import contextlib
import io
import lzma
import os
import re
import sys
import zlib
from typing import cast

from sylvan.data.streams import open_read
from sylvan.errors import DataError

__all__ = ["FORMATS", "TEXT_FORMATS", "detect", "has_header"]

FORMATS = {
    "jsonl": "JSON lines of text",
    "lines": "one text a line",
    "xmc": "a matrix in the XMC repository's text format",
    "svmlight": "a matrix in svmlight format",
    "npz": "a CSR matrix in an .npz",
    "npy": "a dense matrix in an .npy",
}
TEXT_FORMATS = ("jsonl", "lines")
_EXTENSIONS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".xmc": "xmc",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".npz": "npz",
    ".npy": "npy",
}
_HEAD = 1 << 16
_HEADER = re.compile(rb"\s*\d+[ \t]+\d+[ \t]+\d+\s*$")
# A line of a sparse matrix: perhaps labels, then nothing but feature:value pairs.
_SPARSE = re.compile(rb"\s*(?:[\d,:.eE+-]+\s)?\s*\d+:[-+\d.eE]+(?:\s+\d+:[-+\d.eE]+)*\s*(?:#.*)?$")


def detect(path: str, given: str | None) -> str:
    """The format of ``path`` ("-" for stdin): the one that is given, else by its name, else by its content.

    Raises
    ------
    DataError
        When the file cannot be read, is empty, or is in none of the formats that can be told.
    """
    _, extension = os.path.splitext(_unpacked_name(path).lower())
    head = _head(path)
    if not head.strip() and given not in ("lines",):
        raise DataError(f"{'stdin' if path == '-' else path}: the input is empty.")
    found = given or _EXTENSIONS.get(extension) or _sniff(head)
    if found in ("npz", "npy") and path == "-":
        raise DataError(f"stdin carries text formats only, not {found}: give the path of a file.")
    if found in ("npz", "npy"):
        _check_magic(path, head, found)
    return found


def has_header(path: str) -> bool:
    """Whether the first line of a sparse matrix in text is three bare numbers: its rows, features and labels."""
    return bool(_HEADER.match(_first_line(_head(path))))


def _check_magic(path: str, head: bytes, found: str) -> None:
    if not head.startswith(b"PK" if found == "npz" else b"\x93NUMPY"):
        raise DataError(f"{path}: this is no .{found} file.")


def _unpacked_name(path: str) -> str:
    root, extension = os.path.splitext(path)
    return root if extension.lower() in (".gz", ".xz") else path


def _first_line(head: bytes) -> bytes:
    return head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]


def _sniff(head: bytes) -> str:
    if head.startswith(b"PK"):
        return "npz"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return "jsonl"
    lines = [line for line in head.split(b"\n") if line.strip()]
    if len(head) >= _HEAD and lines:  # the last line, or pair of the only one, may be cut off
        lines = lines[:-1] or [lines[0].rpartition(b" ")[0]]
    if _HEADER.match(_first_line(head)) or all(_SPARSE.match(line) for line in lines[:20]):
        return "xmc"
    return "lines"


def _head(path: str) -> bytes:
    """The first bytes after unpacking; stdin keeps them."""
    if path != "-":
        with open_read(path) as stream:
            return stream.read(_HEAD)
    buffer = sys.stdin.buffer
    if not isinstance(buffer, io.BufferedReader):
        buffer = io.BufferedReader(cast(io.RawIOBase, buffer), _HEAD)
        # What was peeked at must be there for the reader that follows.
        sys.stdin = io.TextIOWrapper(buffer)
    packed = buffer.peek(_HEAD)
    with contextlib.suppress(zlib.error, lzma.LZMAError):
        if packed.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=31).decompress(packed, _HEAD)
        if packed.startswith(b"\xfd7zXZ\x00"):
            return lzma.LZMADecompressor().decompress(packed, _HEAD)
    return packed
