"""Loading: everything is verified before an array reaches a model, and every fault is a sentence. Always verified, also
when checksums are skipped: the manifest and its own checksum, each file's header against the manifest, each file's size
against its header. Arrays then lie within their files whatever was altered; what the numbers in them may be is verified
by each kind with the ``need_*`` helpers, of which every breach is a sentence that names the file. A mapped model should
open in milliseconds: :func:`need_array` looks at dtype and shape alone, the others read the array once."""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import os
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar, cast

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.arrays.canonical import Csr
from sylvan.errors import MemoryLimitError, ModelError, ParameterError
from sylvan.params.fields import Choice, Constraint, Flag, Number
from sylvan.store import manifest
from sylvan.store.npy import ALIGNMENT, DTYPES, HeaderError, parse_header
from sylvan.store.state import JSON, Entry, State, folder_path
from sylvan.version import __version__

_Word = TypeVar("_Word", bound=str)


def _refuse(state: State, fault: str) -> NoReturn:
    """Raise the ModelError: which manifest, and what is wrong."""
    raise ModelError(f"{os.path.join(state.where, manifest.NAME)!r} is damaged: {fault}.")


def _refuse_array(state: State, name: str, fault: str) -> NoReturn:
    file = state.array_files.get(name, name)
    raise ModelError(f"{file!r} is damaged: array {name!r} of the {state.kind} {fault}.")


def need_kind(state: State, kind: str, version: int = 1) -> None:
    """The State is of this kind and of a layout up to ``version``."""
    where = state.where or "The model"
    if state.kind != kind:
        raise ModelError(f"{where!r} holds a model of kind {state.kind!r}, not {kind!r}.")
    if state.version > version:
        raise ModelError(
            f"{where!r} holds a {kind} of layout {state.version}, but this release reads layouts up to "
            f"{version}. Install the Sylvan that wrote it, or a later one."
        )
    if state.version < 1:
        _refuse(state, f"the version of {kind} must be an int from 1, not {state.version}")


def _stored(state: State, name: str) -> npt.NDArray[Any]:
    """The array ``name``, whatever it holds."""
    array = state.arrays.get(name)
    if array is None:
        _refuse(state, f"the {state.kind} needs an array {name!r}")
    return array


def need_array(
    state: State, name: str, dtype: npt.DTypeLike | tuple[npt.DTypeLike, ...], shape: Sequence[int | None]
) -> npt.NDArray[Any]:
    """The array ``name``, of this dtype (or one of several) and shape (``None`` for any size)."""
    array = _stored(state, name)
    wanted = [np.dtype(kind) for kind in (dtype if isinstance(dtype, tuple) else (dtype,))]
    if array.dtype not in wanted:
        words = " or ".join(str(kind) for kind in wanted)
        _refuse_array(state, name, f"must hold {words}. Got {array.dtype} instead")
    if len(shape) != array.ndim or any(want not in (None, got) for want, got in zip(shape, array.shape, strict=True)):
        words = ", ".join("any" if want is None else str(want) for want in shape)
        _refuse_array(state, name, f"must have shape ({words}). Got {array.shape} instead")
    return array


def need_offsets(state: State, name: str, total: int | None = None, length: int | None = None) -> npt.NDArray[np.int64]:
    """Offsets of consecutive runs, int64: at least one entry, from 0, never falling, ending at ``total``."""
    array = need_array(state, name, np.int64, (length,))
    if array.size == 0:
        _refuse_array(state, name, "must hold at least one offset")
    if array[0] != 0:
        _refuse_array(state, name, f"must start at 0. Got {array[0]} instead")
    if (falling := array[1:] < array[:-1]).any():
        _refuse_array(state, name, f"holds offsets that fall at position {int(falling.argmax()) + 1}")
    if total is not None and int(array[-1]) != total:
        _refuse_array(state, name, f"must end at {total}. Got {int(array[-1])} instead")
    return array


def need_range(
    state: State, name: str, low: float, high: float, dtype: npt.DTypeLike | tuple[npt.DTypeLike, ...] | None = None,
    shape: Sequence[int | None] | None = None,
) -> npt.NDArray[Any]:  # fmt: skip
    """The array ``name`` with every value in [``low``, ``high``], both allowed; NaN lies in no range. Without ``dtype``
    and ``shape`` the array is taken as it is."""
    array = _stored(state, name)
    dtype, shape = array.dtype if dtype is None else dtype, (None,) * array.ndim if shape is None else shape
    need_array(state, name, dtype, shape)
    if array.size:
        least, most = array.min(), array.max()
        if not (least >= low and most <= high):
            worst = most if least >= low else least
            _refuse_array(state, name, f"must hold values in [{low}, {high}]. Got {worst} instead")
    return array


def need_rising(
    state: State, name: str, low: int, high: int, dtype: npt.DTypeLike | tuple[npt.DTypeLike, ...]
) -> npt.NDArray[Any]:
    """Ids of one dimension in [``low``, ``high``], each greater than the one before it."""
    array = need_range(state, name, low, high, dtype, (None,))
    if (falling := array[1:] <= array[:-1]).any():
        _refuse_array(state, name, f"must rise, but doesn't at position {int(falling.argmax()) + 1}")
    return array


def need_finite(state: State, name: str) -> npt.NDArray[Any]:
    """The array ``name`` without NaN or infinity."""
    array = _stored(state, name)
    # min and max carry a NaN through and keep an infinity: two passes without a temporary.
    if array.size and array.dtype.kind == "f" and not (math.isfinite(array.min()) and math.isfinite(array.max())):
        _refuse_array(state, name, "holds a NaN or an infinity")
    return array


def _value(state: State, key: str, allowed: Constraint) -> Any:
    """The value ``key`` of ``meta`` (or else of ``params``)."""
    values = state.meta if key in state.meta else state.params
    if key not in values:
        _refuse(state, f"the {state.kind} needs a value {key!r}")
    if not allowed.accepts(values[key]):
        words, got = allowed.describe(), manifest.shortened(values[key])
        _refuse(state, f"{key!r} of the {state.kind} must be {words}. Got {got} instead")
    return values[key]


def need_int(state: State, key: str, low: int | None = None, high: int | None = None) -> int:
    """The int ``key`` of ``meta`` (or else of ``params``) in [``low``, ``high``]."""
    return int(_value(state, key, Number(int, low, high)))


def need_float(state: State, key: str, low: float | None = None, high: float | None = None) -> float:
    """The finite number ``key`` of ``meta`` (or else of ``params``) in [``low``, ``high``]."""
    return float(_value(state, key, Number(float, low, high)))


def need_bool(state: State, key: str) -> bool:
    """The truth value ``key`` of ``meta`` (or else of ``params``)."""
    return bool(_value(state, key, Flag()))


def need_choice(state: State, key: str, options: Collection[_Word]) -> _Word:
    """The string ``key`` of ``meta`` (or else of ``params``), one of ``options``."""
    return cast("_Word", _value(state, key, Choice(options)))


def need_params(state: State, names: Collection[str]) -> dict[str, JSON]:
    """The parameters, exactly these names; a parameter that is not there, or is not known, is refused."""
    missing = [name for name in names if name not in state.params]
    unknown = [name for name in state.params if name not in names]
    if missing:
        _refuse(state, f"the {state.kind} needs a parameter {missing[0]!r}")
    if unknown:
        _refuse(state, f"the {state.kind} has no parameter {manifest.shortened(unknown[0])}")
    return dict(state.params)


def need_files(state: State, folder: str) -> Path:
    """The folder in which the foreign files lie that are called ``folder/...``, every one as it was written. Their
    checksums are compared, whatever was asked of the load: whoever opens the folder reads them whole. To be asked for
    when they are opened, which may be long after the load."""
    chosen = {name: entry for name, entry in state.file_entries.items() if name.startswith(f"{folder}/")}
    if not chosen:
        _refuse(state, f"the {state.kind} needs files in {folder!r}")
    for name, entry in chosen.items():
        file = os.fspath(state.files[name])
        try:
            with open(file, "rb") as stream:
                check_file(stream, os.fsdecode(file), entry, checked=True)
        except FileNotFoundError:
            words = f"{file!r} is gone: another model was saved to {state.where!r} since this one was loaded."
            raise ModelError(f"{words} Load it again.") from None
        except OSError as error:
            raise ModelError(f"{file!r} cannot be read: {error.strerror or error}.") from error
    where = os.path.join(state.where, manifest.folder_of_files(next(iter(chosen.values())).file))
    names = {path.relative_to(where).as_posix() for path in Path(where).rglob("*") if not path.is_dir()}
    names -= {entry.file.partition("/")[2] for entry in chosen.values()}
    foreign = sorted(name for name in names if not any(step.startswith(".") for step in name.split("/")))
    if foreign:
        raise ModelError(f"{where!r} holds {foreign[0]!r}, which is none of the model's files. Take it out of there.")
    return Path(where)


def need_part(state: State, name: str, kind: str | None = None) -> State:
    """The nested model ``name``, of this kind when one is given."""
    part = state.parts.get(name)
    if part is None:
        _refuse(state, f"the {state.kind} needs a part {name!r}")
    if kind is not None and part.kind != kind:
        _refuse(state, f"part {name!r} of the {state.kind} must be of kind {kind!r}, not {part.kind!r}")
    return part


def need_csr(state: State, name: str, shape: tuple[int, int]) -> Csr:
    """The matrix in the arrays ``name.indptr``, ``name.indices`` and ``name.data``: columns rise, values are finite."""
    indptr = need_offsets(state, f"{name}.indptr", length=shape[0] + 1)
    size = (int(indptr[-1]),)
    indices = need_array(state, f"{name}.indices", np.int32, size)
    data = need_array(state, f"{name}.data", np.float32, size)
    fault, row = kernels.check_compressed(indptr, indices, data, shape[1])
    if fault:
        where = state.where or f"The {state.kind}"
        raise ModelError(
            f"{where!r} is damaged: row {row} of {name!r} must hold rising columns in [0, {shape[1] - 1}] and finite "
            "values."
        )
    return Csr(indptr, indices, data, shape)


_CHUNK, _FOREIGN_CHUNK = 16 << 20, 1 << 20
_BLOCK_BYTES = 1 << 20
_ATTEMPTS = 20


def mapped_file(stream: BufferedReader, size: int) -> Any:
    """The bytes of an open file, 1 at least, as a buffer that can't be written to. Python's own mapping keeps a copy of
    the descriptor until it ends, so that models of a hundred arrays would use up the thousand that a process may have.
    From Python 3.13 on it needn't; on Windows there is no such limit."""
    if sys.platform == "win32":
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    if sys.version_info >= (3, 13):
        return mmap.mmap(stream.fileno(), size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, trackfd=False)
    library = _c_library()
    address = library.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, stream.fileno(), 0)
    if address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    pages = (ctypes.c_char * size).from_address(address)
    weakref.finalize(pages, library.munmap, address, size).atexit = False  # others may read until the very end
    return memoryview(pages).toreadonly()


@cache
def _c_library() -> ctypes.CDLL:
    """Looked up once: that takes longer than to map a file."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    library.mmap.argtypes = (*library.munmap.argtypes, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    return library


def load(folder: str | os.PathLike[str], *, mmap: bool = True, verify: bool | str = "auto") -> State:
    """Read the model in ``folder``."""
    if verify not in (True, False, "auto"):
        raise ParameterError(f"The 'verify' parameter of load must be True, False or 'auto'. Got {verify!r} instead.")
    checked = not mmap if verify == "auto" else bool(verify)
    path = folder_path(folder)
    for _ in range(_ATTEMPTS):
        data = read_manifest(path)
        try:
            return build(_parsed(data, path), path, mmap, checked)
        except ModelError:
            # Another process may have replaced the model since its manifest was read; then the new one is
            # there now.
            if data == read_manifest(path):
                raise
    raise ModelError(f"The model in {path!r} could not be loaded: other processes keep replacing it.")


def _parsed(data: bytes, path: str) -> manifest.Node:
    return manifest.parse(data, os.path.join(path, manifest.NAME), __version__)


def read_manifest(path: str) -> bytes:
    """The bytes of the manifest in a folder."""
    name = os.path.join(path, manifest.NAME)
    try:
        if not os.path.exists(path):
            raise ModelError(f"There is no model in {path!r}: there is no such folder.")
        if not os.path.isdir(path):
            raise ModelError(f"There is no model in {path!r}: it is a file, not a folder.")
        if not os.path.lexists(name):
            raise ModelError(f"There is no Sylvan model in {path!r}: it holds no {manifest.NAME}.")
        with _open_regular(name) as stream:
            size = os.fstat(stream.fileno()).st_size
            return stream.read(min(size, manifest.MAX_BYTES) + 1)
    except ModelError:
        raise
    except (OSError, ValueError) as error:
        raise ModelError(f"{name!r} cannot be read: {_reason(error)}.") from error


def _open_regular(name: str) -> BufferedReader:
    """Open a plain file for reading; a pipe in its place would otherwise hang."""
    if not stat.S_ISREG(os.stat(name).st_mode):
        raise ModelError(f"{name!r} is not a file.")
    return open(name, "rb")


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def build(node: manifest.Node, path: str, mmap: bool, checked: bool) -> State:
    """The model that a manifest of the folder ``path`` describes, every file compared with what it says."""
    arrays, files = {}, {name: os.path.join(path, entry.file) for name, entry in node.arrays.items()}
    for name, entry in node.arrays.items():
        with _opened(files[name], entry.size) as stream:
            arrays[name] = _read_array(stream, files[name], entry, mmap, checked)
    foreign: dict[str, bytes | str | os.PathLike[str]] = {}
    for name, entry in node.files.items():
        foreign[name] = Path(file := os.path.join(path, entry.file))
        with _opened(file, entry.size) as stream:
            check_file(stream, file, entry, checked)
    parts = {name: build(part, path, mmap, checked) for name, part in node.parts.items()}
    return State(node.kind, node.version, node.params, node.meta, arrays, parts, foreign, path, files, node.files)


def check_file(stream: BinaryIO, path: str, entry: Entry, checked: bool) -> None:
    """Compare an open foreign file with the manifest: its size, and its checksum when ``checked``."""
    size = os.fstat(stream.fileno()).st_size
    if size != entry.size:
        state = "truncated" if size < entry.size else "altered"
        raise ModelError(f"{path!r} is {state}: it has {size:,} bytes, where the manifest says {entry.size:,}.")
    if checked:
        _check_sum(iter(lambda: stream.read(_FOREIGN_CHUNK), b""), path, entry)


def _check_sum(chunks: Iterable[bytes | memoryview], path: str, entry: Entry) -> None:
    checksum = 0
    for chunk in chunks:
        checksum = zlib.crc32(chunk, checksum)
    if f"crc32:{checksum:08x}" != entry.checksum:
        raise ModelError(f"{path!r} was altered or damaged: its checksum is not the one in the manifest.")


@contextmanager
def _opened(file: str, size: int) -> Iterator[BufferedReader]:
    """A file that the manifest names, open; whatever fails with it is a sentence."""
    try:
        with _open_regular(file) as stream:
            yield stream
    except FileNotFoundError:
        raise ModelError(f"{file!r} is missing: the manifest names it.") from None
    except MemoryError as error:
        raise MemoryLimitError(f"{file!r} holds {size:,} bytes, which do not fit into memory.") from error
    except ModelError:
        raise
    except (OSError, ValueError, OverflowError) as error:
        raise ModelError(f"{file!r} cannot be read: {_reason(error)}.") from error


def _read_array(stream: BufferedReader, file: str, entry: Entry, mmap: bool, checked: bool) -> npt.NDArray[np.generic]:
    size = os.fstat(stream.fileno()).st_size
    start = stream.read(10)
    start += stream.read(int.from_bytes(start[8:10], "little"))
    try:
        descr, shape, offset = parse_header(start)
    except HeaderError as error:
        raise ModelError(f"{file!r} {error}.") from None
    if descr != entry.dtype or shape != entry.shape:
        raise ModelError(
            f"{file!r} holds {descr} of shape {shape}, but the manifest says {entry.dtype} of shape {entry.shape}."
        )
    dtype = DTYPES[descr]
    wanted = offset + math.prod(shape) * dtype.itemsize
    if size != wanted or size != entry.size:
        state = "truncated" if size < entry.size else "altered"
        raise ModelError(
            f"{file!r} is {state}: it has {size:,} bytes, where its header needs {wanted:,} and the manifest "
            f"says {entry.size:,}."
        )
    if mmap:
        # Not np.memmap, which costs several times as much an array and makes every slice a memmap.
        raw = np.frombuffer(mapped_file(stream, size), np.uint8)
    else:
        buffer = np.empty(size + ALIGNMENT, np.uint8)
        first = -buffer.ctypes.data % ALIGNMENT  # a whole cache line's, as that of a mapped file
        raw = buffer[first : first + size]
        stream.seek(0)
        got = stream.readinto(raw.data)
        if got != size:
            raise ModelError(f"{file!r} is truncated: it had {size:,} bytes and now has {got:,}.")
    if checked:
        _check_sum((raw.data[first : first + _CHUNK] for first in range(0, size, _CHUNK)), file, entry)
    array: npt.NDArray[np.generic] = raw[offset:].view(dtype).reshape(shape)
    if sys.byteorder == "big":
        array = array.astype(dtype.newbyteorder("="))
    array.flags.writeable = False
    return array


def files_of(folder: str | os.PathLike[str]) -> dict[str, int]:
    """The files that the manifest in ``folder`` names, and their sizes as it states them. The files themselves needn't
    be there. No name leads out of the folder; folders are separated by ``/``."""
    path = folder_path(folder)
    return {entry.file: entry.size for entry in _parsed(read_manifest(path), path).entries()}


def contents(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a model, verified, as plain values: ``checksum``, ``sylvan_version``, ``model``."""
    path = folder_path(folder)
    data = read_manifest(path)
    _parsed(data, path)
    return dict(json.loads(data))


class ScratchFiles:
    """Makes arrays in files of a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._maps: list[weakref.ref[mmap.mmap]] = []

    def zeros(self, size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of ``size`` zeros, all of whose bytes have their place on the disk."""
        n_bytes = int(size) * np.dtype(dtype).itemsize
        if not n_bytes:
            return np.zeros(0, dtype)
        try:
            with tempfile.TemporaryFile(dir=self._folder, prefix=".sylvan-") as file:
                _reserve(file, n_bytes)
                mapped = mmap.mmap(file.fileno(), n_bytes)
        except OSError as error:
            raise MemoryLimitError(
                f"{n_bytes:,} bytes could not be set aside in {self._folder!r}: {error.strerror or error}."
            ) from error
        self._maps.append(weakref.ref(mapped))
        return np.frombuffer(mapped, dtype)

    def moved(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A copy of a one-dimensional array."""
        copy = self.zeros(array.size, array.dtype)
        copy[:] = array
        return copy

    def release(self) -> None:
        """Let the process go of the pages that it holds of these arrays; they come back when they are used."""
        advice = getattr(mmap, "MADV_DONTNEED", None)  # of a shared mapping this loses nothing
        self._maps = [reference for reference in self._maps if reference() is not None]
        for reference in self._maps:
            mapped = reference()
            if mapped is not None and advice is not None:
                mapped.madvise(advice)


def _reserve(file: Any, n_bytes: int) -> None:
    """Give the file its blocks now: a full disk is then an error here, and not a fault when a page is written."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, n_bytes)
        return
    zeros = bytes(min(_BLOCK_BYTES, n_bytes))
    for start in range(0, n_bytes, _BLOCK_BYTES):
        file.write(zeros[: n_bytes - start])
    file.flush()
