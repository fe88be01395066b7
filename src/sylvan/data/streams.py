"""Files as streams of bytes: ``.gz`` and ``.xz`` unpacked, "-" for stdin and stdout, atomic writing."""

from __future__ import annotations

import glob
import gzip
import io
import lzma
import os
import secrets
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from sylvan.errors import DataError
from sylvan.parallel import Progress

__all__ = ["InputStream", "PathLike", "open_read", "open_write", "remove_unfinished", "shown"]

PathLike = str | os.PathLike[str]

_GZIP_MAGIC, _XZ_MAGIC, _BOM = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\xef\xbb\xbf"
_BLOCK = 1 << 20


def shown(path: PathLike) -> str:
    """How messages name ``path``."""
    name = os.fspath(path)
    return "stdin" if name == "-" else name


class InputStream:
    """Bytes of a file after unpacking; made by :func:`open_read`."""

    def __init__(self, raw: BinaryIO, unpacked: BinaryIO, name: str, packing: str) -> None:
        self.name = name
        self._raw, self._unpacked, self._packing = raw, unpacked, packing
        self._seen = 0

    @property
    def packed_size(self) -> int | None:
        """Bytes on disk; None for a pipe."""
        try:
            size = os.fstat(self._raw.fileno()).st_size
        except (OSError, ValueError):
            return None
        return size or None

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes, fewer only at the end.

        Raises
        ------
        DataError
            When the file can't be read, or its gzip or xz data are damaged or cut short.
        """
        return self._guarded(self._unpacked.read, size)

    def _guarded(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            return read(size)
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise DataError(f"{self.name}: the {self._packing} data are damaged or cut short ({error}).") from error
        except OSError as error:
            raise DataError(f"{self.name}: reading failed ({error.strerror or error}).") from error

    def sized(self) -> tuple[BinaryIO, int]:
        """The content as a seekable file and its size: the file itself where it is one, else all of it read."""
        if self._packing == "plain" and self._unpacked.seekable():
            with suppress(OSError, ValueError):
                return self._unpacked, os.fstat(self._raw.fileno()).st_size
        content = self.read()
        return io.BytesIO(content), len(content)

    def report(self, bar: Progress) -> None:
        """Move ``bar``, whose total is ``packed_size``, to where the file has been read to."""
        with suppress(OSError, ValueError):
            now = self._raw.tell()
            bar.update(now - self._seen)
            self._seen = now

    def blocks(self, size: int = _BLOCK) -> Iterator[bytes]:
        """The content in pieces of whole lines, about ``size`` bytes each; a byte order mark is dropped."""
        mark = _BOM
        while block := self.read(max(size, len(mark))):
            block, mark = block.removeprefix(mark), b""
            if not block.endswith(b"\n"):
                block += self._guarded(self._unpacked.readline, -1)
            if block:
                yield block

    def lines(self, keep_ends: bool = False) -> Iterator[tuple[int, bytes]]:
        """Line numbers, counted from 1, and lines without their line ends, or with them."""
        number = 0
        for block in self.blocks():
            # Not splitlines(): it also cuts at \r, \f and other characters that are no line ends here.
            lines = block.split(b"\n")
            if not lines[-1]:
                lines.pop()
            for line in lines:
                number += 1
                yield number, line + b"\n" if keep_ends else line.removesuffix(b"\r")


@contextmanager
def open_read(path: PathLike) -> Iterator[InputStream]:
    """Open ``path`` ("-" for stdin) for reading; gzip and xz are recognised by their first bytes.

    Raises
    ------
    DataError
        When there is no such file, it is a folder, may not be read, or is named .gz or .xz without being so.
    """
    name = shown(path)
    if os.fspath(path) == "-":
        stdin = cast(BinaryIO, sys.stdin.buffer)
        buffered = _buffered(stdin)
        try:
            yield _unpack(stdin, buffered, name)
        finally:
            if buffered is not stdin:
                buffered.detach()  # or it would close stdin when it goes
        return
    try:
        raw = open(path, "rb")  # noqa: SIM115 (closed below, by the with)
    except FileNotFoundError as error:
        raise DataError(f"There is no file {name!r}.") from error
    except IsADirectoryError as error:
        raise DataError(f"{name!r} is a folder, not a file.") from error
    except (OSError, ValueError) as error:
        raise DataError(f"The file {name!r} can't be opened ({getattr(error, 'strerror', error)}).") from error
    with raw:
        yield _unpack(raw, _buffered(raw), name)


def _buffered(raw: BinaryIO) -> io.BufferedReader:
    return raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))


def _unpack(raw: BinaryIO, peekable: io.BufferedReader, name: str) -> InputStream:
    head = peekable.peek(6)[:6]
    if head.startswith(_GZIP_MAGIC):
        return InputStream(raw, cast(BinaryIO, gzip.GzipFile(fileobj=peekable, mode="rb")), name, "gzip")
    if head.startswith(_XZ_MAGIC):
        return InputStream(raw, cast(BinaryIO, lzma.LZMAFile(peekable)), name, "xz")
    for suffix, packing in ((".gz", "gzip"), (".xz", "xz")):
        if name.endswith(suffix):
            raise DataError(f"{name}: named {suffix}, but its content is not {packing} data.")
    return InputStream(raw, peekable, name, "plain")


@contextmanager
def open_write(path: PathLike) -> Iterator[BinaryIO]:
    """Open ``path`` ("-" for stdout) for writing; ``.gz`` and ``.xz`` are packed.

    The bytes go to a file beside it that takes its name when the block ends well. When it ends badly,
    Ctrl-C included, that file is removed and whatever stood at ``path`` is untouched.

    Raises
    ------
    DataError
        When the folder is missing or nothing may be written there.
    """
    name = os.fspath(path)
    if name == "-":
        yield cast(BinaryIO, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        target = Path(os.path.realpath(name))
        if target.exists() and not target.is_file():
            if target.is_dir():
                raise DataError(f"{name!r} is a folder, not a file.")
            with open(target, "wb") as pipe:  # a pipe or a device can't be renamed into place
                yield pipe
            return
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        raw = open(beside, "xb")  # noqa: SIM115 (likewise)
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{name!r} can't be written ({getattr(error, 'strerror', None) or error}).") from error
    try:
        with raw:
            with _pack(raw, name) as stream:
                yield stream
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(beside, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(beside)
        if isinstance(error, OSError):
            raise DataError(f"{name!r} can't be written ({error.strerror or error}).") from error
        raise


def remove_unfinished(path: PathLike) -> None:
    """Remove what writers of ``path`` have left that were killed; none may be at work."""
    target = Path(os.path.realpath(path))
    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}.part"):
        with suppress(OSError):
            left.unlink()


@contextmanager
def _pack(raw: BinaryIO, name: str) -> Iterator[BinaryIO]:
    if name.endswith(".gz"):
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
            yield cast(BinaryIO, packed)
    elif name.endswith(".xz"):
        with lzma.LZMAFile(raw, "wb") as packed_xz:
            yield cast(BinaryIO, packed_xz)
    else:
        yield raw
