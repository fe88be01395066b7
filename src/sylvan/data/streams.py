"""Files as streams of bytes: unpacked, as UTF-8 whatever they are in, "-" for stdin and stdout, atomic writing."""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import importlib
import io
import lzma
import os
import re
import secrets
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from sylvan.errors import DataError, ParameterError
from sylvan.parallel import Progress

PathLike = str | os.PathLike[str]

_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 20
_PACKED_BLOCK = 1 << 12  # of zstd, four bytes may unpack to 128 KiB
_HEAD = 1 << 16
# Byte order marks of encodings other than UTF-8; UTF-32's begins as UTF-16's.
_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)  # fmt: skip


class EncodedPath(str):
    """The path of a file in another encoding than UTF-8, for every reader.

    Parameters
    ----------
    path : path-like
        "-" reads stdin.
    encoding : str
        A name that Python knows, such as "cp1252" or "utf-16".

    Raises
    ------
    ParameterError
        When there is no such encoding.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "books.csv"
    >>> _ = path.write_bytes("text,labels\\nÜber Wale,Wale\\n".encode("latin-1"))
    >>> data.read_table(data.EncodedPath(path, "latin-1")).texts
    ['Über Wale']
    """

    encoding: str

    def __new__(cls, path: PathLike, encoding: str) -> EncodedPath:
        try:
            info = codecs.lookup(encoding)
        except (LookupError, TypeError, ValueError) as error:
            raise ParameterError(f"There is no encoding {encoding!r}: name one such as utf-16 or cp1252.") from error
        if not getattr(info, "_is_text_encoding", True):
            raise ParameterError(f"{encoding!r} is no encoding of text: name one such as utf-16 or cp1252.")
        result = super().__new__(cls, os.fspath(path))
        result.encoding = info.name
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return EncodedPath, (str(self), self.encoding)


def unpacked_name(path: PathLike) -> str:
    """The name without the ending that says how the file is packed, in small letters."""
    name = os.fspath(path).lower()
    root, ending = os.path.splitext(name)
    return root if ending in _PACKINGS else name


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

    def read(self, size: int = -1, some: bool = False) -> bytes:
        """Up to ``size`` bytes, fewer only at the end; or ``some``, as they come."""
        return self._guarded(
            getattr(self._unpacked, "read1", self._unpacked.read) if some else self._unpacked.read, size
        )

    def _guarded(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            return read(size)
        except UnicodeError as error:
            raise DataError(f"{self.name}: the text is not in its encoding ({error}).") from error
        except _damages() as error:
            raise DataError(f"{self.name}: the {self._packing} data are damaged or cut short ({error}).") from error
        except OSError as error:
            if self._packing == "bzip2" and error.errno is None:  # which is how Python says that it is damaged
                raise DataError(f"{self.name}: the bzip2 data are damaged or cut short ({error}).") from error
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
            position = self._raw.tell()
            bar.update(position - self._seen)
            self._seen = position

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
    """Open ``path`` ("-" for stdin) for reading; packed files and UTF-16 are recognised by their first bytes."""
    name, encoding = shown(path), getattr(path, "encoding", None)
    if os.fspath(path) == "-":
        stdin = _stdin()
        buffered = _buffered(stdin)
        try:
            yield _unpack(stdin, buffered, name, encoding)
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
        yield _unpack(raw, _buffered(raw), name, encoding)


def _buffered(raw: Any) -> io.BufferedReader:
    return raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)


def _stdin() -> BinaryIO:
    """Stdin's bytes."""
    if sys.stdin is None or sys.stdin.closed:
        raise DataError("stdin is closed: give the path of a file, or send the data by a pipe.")
    return cast(BinaryIO, sys.stdin.buffer)


def _unpack(raw: BinaryIO, peekable: io.BufferedReader, name: str, encoding: str | None) -> InputStream:
    head = peekable.peek(10)[:10]
    unpacked, kind = cast(BinaryIO, peekable), "plain"
    for suffix, packing in _PACKINGS.items():
        if packing.magic.match(head):
            unpacked, kind = _buffered(packing.unpack(peekable, name)), packing.name
            head = InputStream(raw, unpacked, name, kind)._guarded(unpacked.peek, 6)[:6]
            break
        if name.lower().endswith(suffix):
            raise DataError(f"{name}: named {suffix}, but its content is not {packing.name} data.")
    encoding = encoding or _marked(head)
    if encoding is not None and encoding != "utf-8":
        unpacked = _buffered(_Pieces(_recoded(unpacked, encoding)))
        kind = "recoded" if kind == "plain" else kind
    return InputStream(raw, unpacked, name, kind)


def _marked(head: bytes) -> str | None:
    """The encoding that a byte order mark tells, other than UTF-8."""
    return next((encoding for mark, encoding in _MARKS if head.startswith(mark)), None)


class _Pieces(io.RawIOBase):
    """Pieces of bytes, one behind the other."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._waiting = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._waiting and (piece := next(self._pieces, None)) is not None:
            self._waiting = memoryview(piece)
        n = min(len(buffer), len(self._waiting))
        buffer[:n], self._waiting = self._waiting[:n], self._waiting[n:]
        return n


def _recoded(source: BinaryIO, encoding: str) -> Iterator[bytes]:
    """Text in another encoding, as UTF-8."""
    decoder, block = codecs.getincrementaldecoder(encoding)(), b"-"
    while block:
        block = source.read(_BLOCK)
        yield decoder.decode(block, not block).encode("utf-8", "surrogatepass")


def _zstd(name: str, does: str = "unpack", way: str = "unpack it with 'zstd -d'") -> Any:
    """Python's module for zstd, or the package that stands in for it."""
    for module in ("compression.zstd", "zstandard"):
        with suppress(ImportError):
            return importlib.import_module(module)
    raise DataError(f"{name} is packed by zstd, which this Python can't {does}: pip install zstandard, or {way}.")


def _unpack_zstd(packed: BinaryIO, name: str) -> Any:
    module = _zstd(name)
    if module.__name__ == "zstandard":
        return _Pieces(_streams(packed, lambda: module.ZstdDecompressor().decompressobj()))
    return _Pieces(_streams(packed, module.ZstdDecompressor, _BLOCK))


def _streams(packed: BinaryIO, decompressor: Callable[[], Any], *limit: int, padding: bytes = b"") -> Iterator[bytes]:
    """What the streams of a file hold, one behind the other, in pieces of ``limit`` bytes. Python's own readers leave
    out all that follows the first stream from where it is damaged, and zstandard's all that is cut off."""
    stream = None
    while block := packed.read(_PACKED_BLOCK):
        while block := block if stream else block.lstrip(padding):
            stream = stream or decompressor()
            yield stream.decompress(block, *limit)
            while limit and not (stream.eof or stream.needs_input):
                yield stream.decompress(b"", *limit)
            block, stream = (stream.unused_data, None) if stream.eof else (b"", stream)
    if stream is not None:
        raise EOFError("the last stream has no end")


class _Packing(NamedTuple):
    """How a file is packed: what it begins with then, and what reads and writes it."""

    name: str
    magic: re.Pattern[bytes]
    unpack: Callable[[Any, str], Any]
    pack: Callable[[Any, str], Any]


_PACKINGS = {
    ".gz": _Packing(
        "gzip", re.compile(rb"\x1f\x8b"), lambda file, _: gzip.GzipFile(fileobj=file, mode="rb"),
        lambda file, _: gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0),
    ),
    ".xz": _Packing("xz", re.compile(rb"\xfd7zXZ\x00"),
                    lambda file, _: _Pieces(_streams(file, lzma.LZMADecompressor, _BLOCK, padding=b"\0")),
                    lambda file, _: lzma.LZMAFile(file, "wb")),  # noqa: SIM115
    ".bz2": _Packing("bzip2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P)"),
                     lambda file, _: _Pieces(_streams(file, bz2.BZ2Decompressor, _BLOCK)),
                     lambda file, _: bz2.BZ2File(file, "wb")),
    # Python's own from 3.14 on, else the package zstandard.
    ".zst": _Packing("zstd", re.compile(rb"\x28\xb5\x2f\xfd"), _unpack_zstd,
                     lambda file, name: _zstd(name, "write", "let it end in .gz, .xz or .bz2").open(file, "wb")),
}  # fmt: skip


def _damages() -> tuple[type[Exception], ...]:
    """What the modules raise for damaged data."""
    zstd = sys.modules.get("compression.zstd") or sys.modules.get("zstandard")
    return (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, *([zstd.ZstdError] if zstd else []))


def head_of(path: PathLike) -> bytes:
    """The first bytes, unpacked and as UTF-8 without its byte order mark; stdin keeps them."""
    if os.fspath(path) != "-":
        if os.path.exists(path) and Path(path).is_fifo():  # whose head would be lost to the next reader
            raise DataError(f"{shown(path)!r} is a pipe, which is read only once: send it to stdin and name that, -.")
        with open_read(path) as stream:
            return stream.read(_HEAD).removeprefix(_BOM)
    buffer = _stdin()
    if not isinstance(buffer, io.BufferedReader):
        buffer = io.BufferedReader(cast(io.RawIOBase, buffer), _HEAD)
        # What was peeked at must be there for the reader that follows.
        sys.stdin = io.TextIOWrapper(buffer)
    packed = io.BytesIO(buffer.peek(_HEAD))
    stream = _unpack(packed, _buffered(packed), "stdin", getattr(path, "encoding", None))
    head = b""
    with suppress(DataError):  # for the rest of packed data, which isn't there yet
        while len(head) < _HEAD and (chunk := stream.read(4096, some=True)):
            head += chunk
    return head.removeprefix(_BOM)


def encoding_of(path: PathLike) -> str | None:
    """The encoding of a file where it is another than UTF-8: what was said, or what its byte order mark tells."""
    said = getattr(path, "encoding", None)
    if said or os.fspath(path) == "-" or os.path.isdir(path):
        return cast("str | None", said)
    with open(path, "rb") as file:
        return _marked(file.read(4))


@contextmanager
def open_write(path: PathLike) -> Iterator[BinaryIO]:
    """Open ``path`` ("-" for stdout) for writing; ``.gz``, ``.xz``, ``.bz2`` and ``.zst`` are packed. The bytes go to a
    file beside it that takes its name when the block ends well. When it ends badly, Ctrl-C included, that file is
    removed and whatever stood at ``path`` is untouched."""
    name = os.fspath(path)
    if name == "-":
        if sys.stdout is None or sys.stdout.closed:
            raise DataError("stdout is closed: name a file to write to.")
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
            packing = _PACKINGS.get(os.path.splitext(name)[1].lower())
            with nullcontext(raw) if packing is None else packing.pack(raw, name) as stream:
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


def check_ending(path: PathLike, endings: tuple[str, ...]) -> str:
    """The ending of an output's name, which tells its format; "" for a name without one, and for stdout."""
    ending = os.path.splitext(unpacked_name(path))[1]
    special = os.path.exists(path) and not os.path.isfile(path)  # a pipe or a device, whose name tells nothing
    if ending not in endings and not special:
        listed = ", ".join(filter(None, endings))
        raise DataError(f"{os.fspath(path)!r} can't be written as its ending tells: name it {listed}.")
    return ending


def remove_unfinished(path: PathLike) -> None:
    """Remove what writers of ``path`` have left that were killed; none may be at work."""
    target = Path(os.path.realpath(path))
    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}.part"):
        with suppress(OSError):
            left.unlink()
