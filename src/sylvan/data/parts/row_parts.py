"""A matrix in parts on a file system that several machines see, of which each reads the rows that it needs."""

from __future__ import annotations

import abc
import errno
import itertools
import os
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.arrays.canonical import Csr, runs_of
from sylvan.arrays.validate import MAX_COLUMNS, learnable
from sylvan.errors import DataError
from sylvan.params.wording import counted
from sylvan.runtime.jobs import Job, current_runner
from sylvan.store import ScratchFiles
from sylvan.store.npy import HeaderError, parse_header

Ranges = npt.NDArray[np.int64]
DTYPES: dict[str, np.dtype[Any]] = {
    "shape": np.dtype("<i8"), "indptr": np.dtype("<i8"), "indices": np.dtype("<i4"), "data": np.dtype("<f4"),
}  # fmt: skip
ARRAYS = ("indptr", "indices", "data")
_HEADER = 128  # bytes: save_csr writes headers of this length
_GAP = 1 << 17  # bytes between two rows that are read together sooner than asked for one by one
_LONG = 32  # values of a run of rows from which on it is copied by itself
_AT_ONCE = 1 << 26  # bytes that one request of many ranges brings
LARGE = 1 << 29  # bytes of rows from which on they are gathered in a file of the node, not in memory
_OPEN = 128  # parts that stay open, two files each: many systems allow a process no more than a thousand
_BLOCK_VALUES = 1 << 18  # of which a checksum is taken at once
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio: products spread neighbours far apart
Rows: TypeAlias = "Csr | RowParts"  # features, in memory or not


def is_url(path: str) -> bool:
    """Whether a path has a protocol, as in ``"s3://bucket/folder"``."""
    return "://" in path


def joined_path(folder: str, *names: str) -> str:
    """A path within a folder or below a URL."""
    return "/".join((folder.rstrip("/"), *names)) if is_url(folder) else os.path.join(folder, *names)


def part_files(path: str) -> PartFiles:
    """The part in a folder, or at a URL."""
    return _RemotePart(path) if is_url(path) else LocalPart(path)


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


class PartFiles(abc.ABC):
    """Base of a part in a folder and of one at a URL: its files, verified when they are opened."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._places = {name: self._opened(name, dtype) for name, dtype in DTYPES.items()}
        numbers = self.whole("shape").tolist() if self._places["shape"][0] == 2 else []
        if len(numbers) != 2 or min(numbers) < 0 or numbers[1] > MAX_COLUMNS:
            raise DataError(f"{path!r}: 'shape' must be two ints from 0, the second at most {MAX_COLUMNS}.")
        n_offsets, n_ids, n_values = (self._places[name][0] for name in ARRAYS)
        if n_offsets != numbers[0] + 1 or n_ids != n_values:
            raise DataError(
                f"{path!r}: 'indptr' must have {numbers[0] + 1} entries, and 'indices' and 'data' as many as each "
                f"other. Got {n_offsets}, {n_ids} and {n_values} instead."
            )
        self.shape, self.n_values = (numbers[0], numbers[1]), n_values

    @abc.abstractmethod
    def _opened(self, name: str, dtype: np.dtype[Any]) -> tuple[int, int]:
        """Number of values of an array, and at which byte of its file they begin."""

    @abc.abstractmethod
    def whole(self, name: str) -> npt.NDArray[Any]:
        """A copy of an array."""

    @abc.abstractmethod
    def ranges(self, name: str, begins: Ranges, ends: Ranges, out: npt.NDArray[Any]) -> None:
        """Write the values of some ranges of an array, which rise, one behind the other."""

    def _unreadable(self, name: str, why: object) -> DataError:
        return DataError(f"{joined_path(self.path, name + '.npy')!r} can't be read: {why}.")

    def _place(self, name: str, start: bytes, dtype: np.dtype[Any]) -> tuple[int, int]:
        """What :meth:`_opened` gives, by the first bytes of a file."""
        file = joined_path(self.path, f"{name}.npy")
        try:
            descr, shape, offset = parse_header(start)
        except HeaderError as error:
            raise DataError(f"{file!r} {error}.") from error
        if len(shape) != 1 or np.dtype(descr) != dtype:
            raise DataError(
                f"{file!r} must hold one row of {dtype.name}. Got {np.dtype(descr)} of shape {shape} instead."
            )
        return shape[0], offset


class LocalPart(PartFiles):
    """A part in a folder; the arrays of which ranges are asked for are mapped, and each so has an open file."""

    def __init__(self, path: str) -> None:
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        super().__init__(path)

    def _opened(self, name: str, dtype: np.dtype[Any]) -> tuple[int, int]:
        try:
            with open(os.path.join(self.path, f"{name}.npy"), "rb") as file:
                size, offset = self._place(name, file.read(_HEADER), dtype)
                n_bytes = os.fstat(file.fileno()).st_size - offset
        except OSError as error:
            raise self._unreadable(name, _reason(error)) from error
        if n_bytes != size * dtype.itemsize:
            raise self._unreadable(name, f"it should hold {size * dtype.itemsize:,} bytes of data, not {n_bytes:,}")
        return size, offset

    def mapped(self, name: str) -> npt.NDArray[Any]:
        """An array, of which pages are read when they are used."""
        size, offset = self._places[name]
        if not size:
            return np.zeros(0, DTYPES[name])
        try:
            mapped = np.memmap(os.path.join(self.path, f"{name}.npy"), DTYPES[name], "r", offset, (size,))
        except (OSError, ValueError) as error:  # it may have been cut short since
            raise self._unreadable(name, _reason(error)) from error
        return np.asarray(mapped)  # a plain array over the same pages

    def whole(self, name: str) -> npt.NDArray[Any]:
        return np.array(self.mapped(name))

    def ranges(self, name: str, begins: Ranges, ends: Ranges, out: npt.NDArray[Any]) -> None:
        if name not in self._arrays:
            self._arrays[name] = self.mapped(name)
        array = self._arrays[name]
        first, last = _runs(begins, ends, 0)
        if len(out) < _LONG * len(first):
            np.take(array, runs_of(begins, ends - begins), out=out)
        elif len(first):
            pieces = [array[a:b] for a, b in zip(begins[first].tolist(), ends[last - 1].tolist(), strict=True)]
            np.concatenate(pieces, out=out)


class _RemotePart(PartFiles):
    """A part on an object storage, of which ranges are read with fsspec. Ranges that are near to each other are read
    together."""

    def __init__(self, path: str) -> None:
        self._system, self._root = _file_system(path)
        super().__init__(path)

    def _opened(self, name: str, dtype: np.dtype[Any]) -> tuple[int, int]:
        return self._place(name, self._bytes(name, np.array([0]), np.array([_HEADER]))[0], dtype)

    def _bytes(self, name: str, begins: Ranges, ends: Ranges) -> list[bytes]:
        """Ranges of bytes of a file."""
        path = joined_path(self._root, f"{name}.npy")
        try:
            return list(self._system.cat_ranges([path] * len(begins), begins.tolist(), ends.tolist(), on_error="raise"))
        except Exception as error:  # file systems have errors of their own
            raise self._unreadable(name, _reason(error)) from error

    def whole(self, name: str) -> npt.NDArray[Any]:
        size = self._places[name][0]
        result = np.empty(size, DTYPES[name])
        self.ranges(name, np.array([0]), np.array([size]), result)
        return result

    def ranges(self, name: str, begins: Ranges, ends: Ranges, out: npt.NDArray[Any]) -> None:
        dtype, offset, done = out.dtype, self._places[name][1], 0
        filled = np.flatnonzero(ends > begins)
        begins, ends = begins[filled], ends[filled]
        if not len(filled):
            return
        firsts, lasts = _runs(begins, ends, _GAP // dtype.itemsize)
        sizes = (ends[lasts - 1] - begins[firsts]) * dtype.itemsize
        cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _AT_ONCE)) + 1  # neighbours with no more bytes together
        for first, last in zip(np.split(firsts, cuts), np.split(lasts, cuts), strict=True):
            low, high = begins[first], ends[last - 1]
            chunks = self._bytes(name, offset + low * dtype.itemsize, offset + high * dtype.itemsize)
            for chunk, a, b, start, stop in zip(chunks, first, last, low, high, strict=True):
                if len(chunk) != (stop - start) * dtype.itemsize:
                    raise self._unreadable(name, "it ends before its last value")
                values = np.frombuffer(chunk, dtype)[runs_of(begins[a:b] - start, ends[a:b] - begins[a:b])]
                out[done : done + len(values)] = values
                done += len(values)


def _runs(begins: Ranges, ends: Ranges, gap: int) -> tuple[Ranges, Ranges]:
    """Ranges with no more than a gap between them, together: the first of each run, and one past its last."""
    cuts = np.flatnonzero(begins[1:] - ends[:-1] > gap) + 1
    some = min(1, len(begins))
    return np.concatenate((np.zeros(some, np.int64), cuts)), np.concatenate((cuts, np.full(some, len(begins))))


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


@dataclass(frozen=True, eq=False)
class RowParts:
    """Features of shape (n, d) in parts, one below the other; see :func:`sylvan.data.open_parts`.

    ``XRLinear.fit`` takes it in place of a matrix: every job reads the rows that it needs, and no process ever holds
    all of them in memory. What is read is verified, as files may be damaged.

    Attributes
    ----------
    paths : tuple of str
        Of the parts: folders of :func:`sylvan.data.save_csr`, or URLs of them.
    shape : tuple of int
    indptr : ndarray of int64, shape (n + 1,)
        Where each row's values begin, of all parts.
    first_rows : ndarray of int64, shape (n_parts + 1,)
    factors : ndarray of float32, shape (d,), optional
        What the columns are multiplied by when rows are read.
    unit : bool
        Whether rows are scaled to length 1 when they are read.
    """

    paths: tuple[str, ...]
    shape: tuple[int, int]
    indptr: npt.NDArray[np.int64]
    first_rows: npt.NDArray[np.int64]
    factors: npt.NDArray[np.float32] | None = None
    unit: bool = False
    _files: dict[int, PartFiles] = field(default_factory=dict, repr=False)
    _known: list[tuple[npt.NDArray[np.float64], int]] = field(default_factory=list, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": {}, "_known": []}  # which those that read some rows don't ask for

    def __array__(self, *_: Any, **__: Any) -> npt.NDArray[Any]:
        raise DataError("rows in parts are for XRLinear.fit; others take one block of their blocks() after the other")

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return int(self.indptr[-1])

    @property
    def nbytes(self) -> int:
        """Bytes that this process holds: where rows begin."""
        return self.indptr.nbytes

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Csr:
        """Some rows, in rising order.

        Parameters
        ----------
        rows : ndarray of int, shape (m,)
            Different row numbers, rising.

        Returns
        -------
        Csr of shape (m, d)
            Large ones lie in files without a name.

        Raises
        ------
        DataError
            When a part can't be read or is damaged, which the sentence names; or rows don't rise, or aren't there.

        Examples
        --------
        >>> import numpy as np, tempfile
        >>> from sylvan import data
        >>> folder = tempfile.mkdtemp()
        >>> data.save_parts(folder, np.eye(5), rows_per_part=2)
        >>> data.open_parts(folder)[0].take(np.array([1, 4])).indices.tolist()
        [1, 4]
        """
        rows = np.asarray(rows, np.int64)
        if len(rows) and (rows[0] < 0 or rows[-1] >= self.shape[0] or bool((rows[1:] <= rows[:-1]).any())):
            raise DataError(f"Rows to be taken must be different row numbers from 0 to {self.shape[0] - 1}, rising.")
        lengths = self.indptr[rows + 1] - self.indptr[rows]
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        total = int(indptr[-1])
        zeros = ScratchFiles(tempfile.gettempdir()).zeros if 8 * total > LARGE else np.empty
        indices, data = zeros(total, np.int32), zeros(total, np.float32)
        cuts = np.searchsorted(rows, self.first_rows)
        for part in np.flatnonzero(np.diff(cuts)).tolist():
            of_part = rows[cuts[part] : cuts[part + 1]]
            begins, ends = (self.indptr[i] - self.indptr[self.first_rows[part]] for i in (of_part, of_part + 1))
            values = slice(int(indptr[cuts[part]]), int(indptr[cuts[part + 1]]))
            files = self._part(part)
            files.ranges("indices", begins, ends, indices[values])
            files.ranges("data", begins, ends, data[values])
        fault, row = kernels.check_compressed(indptr, indices, data, self.shape[1])
        if fault:
            place = self.place_of(int(rows[row]) if 0 <= row < len(rows) else int(rows[0]))
            words = f"rising column numbers in [0, {self.shape[1] - 1}] and finite values other than 0"
            raise DataError(f"{place} must hold {words}.")
        csr = Csr(indptr, indices, data, (len(rows), self.shape[1]))
        csr = csr if self.factors is None else csr.times_columns(self.factors)
        return csr.unit_rows() if self.unit else csr

    def place_of(self, row: int) -> str:
        """What errors call a row that is damaged."""
        part = int(np.searchsorted(self.first_rows, row, "right")) - 1
        return f"{self.paths[part]!r} is damaged: row {row - int(self.first_rows[part])}"

    def _part(self, number: int) -> PartFiles:
        """A part, if it has the size that it had when all were opened."""
        if number in self._files:
            return self._files[number]
        part = part_files(self.paths[number])
        first, last = (int(self.first_rows[edge]) for edge in (number, number + 1))
        wanted = (last - first, self.shape[1]), int(self.indptr[last] - self.indptr[first])
        # Labels of a part may have fewer columns than those of others.
        if (part.shape[0], part.n_values) != (last - first, wanted[1]) or part.shape[1] > self.shape[1]:
            raise DataError(
                f"{self.paths[number]!r} has changed: it has shape {part.shape} and {counted(part.n_values, 'value')}, "
                f"but had shape {wanted[0]} and {wanted[1]:,}."
            )
        if len(self._files) < _OPEN:
            self._files[number] = part
        return part

    def ranges(self) -> list[tuple[int, int]]:
        """The rows of each part, the first and one past the last."""
        return list(itertools.pairwise(self.first_rows.tolist()))

    def bytes_of(self, first: int, last: int) -> int:
        """What some rows take in memory when they are read."""
        return min(LARGE, 8 * int(self.indptr[last] - self.indptr[first])) + 24 * (last - first)

    def blocks(self) -> Iterator[Csr]:
        """All rows, part after part; one part is held at a time."""
        for first, last in self.ranges():
            yield self.take(np.arange(first, last))

    # ---------------------------------------- what a training asks of all rows

    def row_squares(self) -> npt.NDArray[np.float64]:
        """Squared length of each row; computed by jobs of the runner of this block, one a part."""
        return self._read_once()[0]

    def _read_once(self) -> tuple[npt.NDArray[np.float64], int]:
        """The squared length of each row, and a checksum of columns and values."""
        if not self._known:
            jobs = [
                Job(
                    f"rows{first}", _summary, {"parts": self, "first": first, "last": last},
                    float(self.indptr[last] - self.indptr[first]) + 1.0, self.bytes_of(first, last),
                )
                for first, last in self.ranges()
            ]  # fmt: skip
            each = current_runner(1).run(jobs, "Reading the rows")
            squares = np.concatenate([np.zeros(0), *(norms for norms, _ in each)])
            self._known.append((squares, sum(checksum for _, checksum in each) % 2**64))
        return self._known[0]

    def column_squares(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """The sum of the squares of each column's values, and how many it holds."""
        squares, counts = np.zeros(self.shape[1]), np.zeros(self.shape[1], np.int64)
        for block in self.blocks():  # in the order of the rows, as a matrix in memory adds them up
            np.add.at(squares, block.indices, np.square(block.data, dtype=np.float64))
            np.add.at(counts, block.indices, 1)
        return squares, counts

    def used_columns(self) -> tuple[RowParts, None]:
        """The same: columns that are empty aren't known without reading all rows."""
        return self, None

    def times_columns(self, factors: npt.NDArray[np.float32]) -> RowParts:
        """The matrix with each column times its factor, when rows are read."""
        combined = factors if self.factors is None else self.factors * factors
        return replace(self, factors=combined, _files={}, _known=[])

    def unit_rows(self) -> RowParts:
        """The matrix with its rows at length 1, when they are read."""
        return replace(self, unit=True, _files={}, _known=[])

    @property
    def checksum(self) -> str:
        """Of all rows, however they are divided: what tells one training's data from another's."""
        value = zlib.crc32(self._read_once()[1].to_bytes(8, "little"), zlib.crc32(self.indptr.data))
        return f"crc32:{value:08x}"


def _summary(parts: RowParts, first: int, last: int) -> tuple[npt.NDArray[np.float64], int]:
    """Squared lengths of some rows, which are so verified, too, and a checksum of what they hold."""
    rows = parts.take(np.arange(first, last))
    learnable(rows, first)
    return rows.row_squares(), _mixed(rows, int(parts.indptr[first]))


def _mixed(rows: Csr, begin: int) -> int:
    """A sum, over all values, of numbers that depend on a value, its column and its place, whatever the division."""
    total = 0
    for start in range(0, len(rows.data), _BLOCK_VALUES):
        block = slice(start, start + _BLOCK_VALUES)
        mixed = rows.indices[block].astype(np.uint64) << np.uint64(32) | rows.data[block].view(np.uint32)
        mixed *= _ODD
        mixed ^= mixed >> np.uint64(32)
        mixed += np.arange(begin + start, begin + start + len(mixed), dtype=np.uint64)
        mixed *= _ODD
        mixed ^= mixed >> np.uint64(29)
        mixed *= _ODD
        total += int((mixed ^ mixed >> np.uint64(32)).sum())
    return total % 2**64
