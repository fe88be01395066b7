"""One part of a matrix: a folder of :func:`sylvan.data.save_csr`, mapped, or read by range from an object storage."""

from __future__ import annotations

import errno
import itertools
import os
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sylvan.arrays.validate import MAX_COLUMNS
from sylvan.errors import DataError
from sylvan.store.npy import HeaderError, parse_header

Ranges = npt.NDArray[np.int64]
_DTYPES: dict[str, np.dtype[Any]] = {"indptr": np.dtype("<i8"), "indices": np.dtype("<i4"), "data": np.dtype("<f4")}
_SHAPE = np.dtype("<i8")
_HEADER = 128  # bytes: save_csr writes headers of this length
_GAP = 1 << 17  # bytes between two rows that are read together sooner than asked for one by one
_LONG = 32  # values of a run of rows from which on it is copied by itself
_AT_ONCE = 1 << 26  # bytes that one request of many ranges brings


class PartFiles(Protocol):
    """Reads the arrays of one part."""

    shape: tuple[int, int]
    n_values: int

    def whole(self, name: str) -> npt.NDArray[Any]:
        """A copy of an array."""

    def ranges(self, name: str, begins: Ranges, ends: Ranges, out: npt.NDArray[Any]) -> None:
        """Write the values of some ranges of an array, which rise, one behind the other."""


def is_url(path: str) -> bool:
    """Whether a path has a protocol, as in ``"s3://bucket/folder"``."""
    return "://" in path


def joined_path(folder: str, *names: str) -> str:
    """A path within a folder or below a URL."""
    return "/".join((folder.rstrip("/"), *names)) if is_url(folder) else os.path.join(folder, *names)


def part_files(path: str) -> PartFiles:
    """The part in a folder, or at a URL."""
    part: PartFiles = _RemotePart(path) if is_url(path) else _LocalPart(path)
    return part


def listed(folder: str) -> list[str]:
    """The names in a folder, or below a URL."""
    try:
        if is_url(folder):
            system, root = _file_system(folder)
            return [str(path).rstrip("/").rpartition("/")[2] for path in system.ls(root, detail=False)]
        return os.listdir(folder)
    except (DataError, ImportError):
        raise
    except Exception as error:  # file systems have errors of their own
        raise DataError(f"{folder!r} can't be read: {_reason(error)}.") from error


def exists(path: str) -> bool:
    """Whether there is a file."""
    if not is_url(path):
        return os.path.exists(path)
    system, root = _file_system(path)
    try:
        return bool(system.exists(root))
    except Exception as error:
        raise DataError(f"{path!r} can't be read: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    """Why something can't be read."""
    if isinstance(error, FileNotFoundError):
        return os.strerror(errno.ENOENT)
    return str(getattr(error, "strerror", None) or error).strip().rstrip(".") or type(error).__name__


class _Part:
    """What both kinds of parts verify when they are opened."""

    def __init__(self, path: str) -> None:
        self.path = path
        shape = self._opened("shape", _SHAPE)
        sizes = {name: self._opened(name, dtype) for name, dtype in _DTYPES.items()}
        numbers = self.whole("shape").tolist() if shape == 2 else []
        if len(numbers) != 2 or min(numbers) < 0 or numbers[1] > MAX_COLUMNS:
            raise DataError(f"{path!r}: 'shape' must be two ints from 0, the second at most {MAX_COLUMNS}.")
        self.shape, self.n_values = (numbers[0], numbers[1]), sizes["indices"]
        if sizes["indptr"] != numbers[0] + 1 or sizes["indices"] != sizes["data"]:
            raise DataError(
                f"{path!r}: 'indptr' must have {numbers[0] + 1} entries, and 'indices' and 'data' as many as each "
                f"other. Got {sizes['indptr']}, {sizes['indices']} and {sizes['data']} instead."
            )

    def _opened(self, name: str, dtype: np.dtype[Any]) -> int:
        """Number of values of an array."""
        raise NotImplementedError

    def whole(self, name: str) -> npt.NDArray[Any]:
        raise NotImplementedError

    def _unreadable(self, name: str, why: object) -> DataError:
        return DataError(f"{joined_path(self.path, name + '.npy')!r} can't be read: {why}.")

    def _size(self, name: str, start: bytes, dtype: np.dtype[Any]) -> tuple[int, int]:
        """Number of values and where they begin, by the first bytes of a file."""
        try:
            descr, shape, offset = parse_header(start)
        except HeaderError as error:
            raise DataError(f"{joined_path(self.path, name + '.npy')!r} {error}.") from error
        if len(shape) != 1 or np.dtype(descr) != dtype:
            raise DataError(
                f"{joined_path(self.path, name + '.npy')!r} must hold one row of {dtype.name}. Got {np.dtype(descr)} "
                f"of shape {shape} instead."
            )
        return shape[0], offset


class _LocalPart(_Part):
    """A part in a folder; the arrays of which ranges are asked for are mapped, and each so has an open file."""

    def __init__(self, path: str) -> None:
        self._offsets: dict[str, tuple[int, int]] = {}
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        super().__init__(path)

    def _opened(self, name: str, dtype: np.dtype[Any]) -> int:
        try:
            with open(os.path.join(self.path, f"{name}.npy"), "rb") as file:
                size, offset = self._size(name, file.read(_HEADER), dtype)
                n_bytes = os.fstat(file.fileno()).st_size - offset
        except OSError as error:
            raise self._unreadable(name, _reason(error)) from error
        if n_bytes != size * dtype.itemsize:
            raise self._unreadable(name, f"it should hold {size * dtype.itemsize:,} bytes of data, not {n_bytes:,}")
        self._offsets[name] = size, offset
        return size

    def _mapped(self, name: str) -> npt.NDArray[Any]:
        size, offset = self._offsets[name]
        dtype = _SHAPE if name == "shape" else _DTYPES[name]
        if not size:
            return np.zeros(0, dtype)
        try:
            mapped = np.memmap(os.path.join(self.path, f"{name}.npy"), dtype, "r", offset, (size,))
        except (OSError, ValueError) as error:  # it may have been cut short since
            raise self._unreadable(name, _reason(error)) from error
        return np.asarray(mapped)  # a plain array over the same pages

    def whole(self, name: str) -> npt.NDArray[Any]:
        return np.array(self._mapped(name))

    def ranges(self, name: str, begins: Ranges, ends: Ranges, out: npt.NDArray[Any]) -> None:
        if name not in self._arrays:
            self._arrays[name] = self._mapped(name)
        array = self._arrays[name]
        first, last = _runs(begins, ends, 0)
        if len(out) >= _LONG * len(first):
            pieces = [array[a:b] for a, b in zip(begins[first].tolist(), ends[last - 1].tolist(), strict=True)]
            if pieces:
                np.concatenate(pieces, out=out)
        else:
            np.take(array, _positions(begins, ends), out=out)


class _RemotePart(_Part):
    """A part on an object storage, of which ranges are read with fsspec. Ranges that are near to each other are read
    together."""

    def __init__(self, path: str) -> None:
        self._system, self._root = _file_system(path)
        self._offsets: dict[str, tuple[int, int]] = {}
        super().__init__(path)

    def _opened(self, name: str, dtype: np.dtype[Any]) -> int:
        start = self._bytes(name, np.array([0]), np.array([_HEADER]))[0]
        self._offsets[name] = self._size(name, start, dtype)
        return self._offsets[name][0]

    def _bytes(self, name: str, begins: Ranges, ends: Ranges) -> list[bytes]:
        """Ranges of bytes of a file."""
        path = joined_path(self._root, f"{name}.npy")
        try:
            found = self._system.cat_ranges([path] * len(begins), begins.tolist(), ends.tolist(), on_error="raise")
        except Exception as error:  # file systems have errors of their own
            raise self._unreadable(name, _reason(error)) from error
        return list(found)

    def whole(self, name: str) -> npt.NDArray[Any]:
        size = self._offsets[name][0]
        result = np.empty(size, _SHAPE if name == "shape" else _DTYPES[name])
        self.ranges(name, np.array([0]), np.array([size]), result)
        return result

    def ranges(self, name: str, begins: Ranges, ends: Ranges, out: npt.NDArray[Any]) -> None:
        dtype = out.dtype
        filled = np.flatnonzero(ends > begins)
        begins, ends = begins[filled], ends[filled]
        firsts, lasts = _runs(begins, ends, _GAP // dtype.itemsize)
        done = 0
        for group in _groups((ends[lasts - 1] - begins[firsts]) * dtype.itemsize):
            first, last = firsts[group], lasts[group]
            low, high = begins[first], ends[last - 1]
            offset = self._offsets[name][1]
            chunks = self._bytes(name, offset + low * dtype.itemsize, offset + high * dtype.itemsize)
            for chunk, a, b, start, stop in zip(chunks, first, last, low, high, strict=True):
                if len(chunk) != (stop - start) * dtype.itemsize:
                    raise self._unreadable(name, "it ends before its last value")
                values = np.frombuffer(chunk, dtype)
                own = values[_positions(begins[a:b] - start, ends[a:b] - start)]
                out[done : done + len(own)] = own
                done += len(own)


def _runs(begins: Ranges, ends: Ranges, gap: int) -> tuple[Ranges, Ranges]:
    """Ranges with no more than a gap between them, together: the first of each run, and one past its last."""
    cuts = np.flatnonzero(begins[1:] - ends[:-1] > gap) + 1
    some = min(1, len(begins))
    return np.concatenate((np.zeros(some, np.int64), cuts)), np.concatenate((cuts, np.full(some, len(begins))))


def _groups(sizes: Ranges) -> list[slice]:
    """Neighbours that have no more than so many bytes together, or one that has more."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _AT_ONCE)) + 1
    edges = [0, *cuts.tolist(), len(sizes)]
    return [slice(a, b) for a, b in itertools.pairwise(edges) if a < b]


def _positions(begins: Ranges, ends: Ranges) -> Ranges:
    """Every number of some ranges: [2, 7] to [4, 8] gives [2, 3, 7]."""
    lengths = ends - begins
    stops = np.cumsum(lengths)
    total = int(stops[-1]) if len(stops) else 0
    result: Ranges = np.arange(total) + np.repeat(begins - (stops - lengths), lengths)
    return result


def _file_system(url: str) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path there."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"{url!r} is read with fsspec. Install it with: pip install fsspec") from error
    try:
        system, root = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise DataError(f"{url!r} can't be read: {error}.") from error
    return system, root
