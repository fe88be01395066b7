"""A matrix in parts on a file system that several machines see, of which each reads the rows that it needs."""

from __future__ import annotations

import itertools
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.arrays.canonical import Csr
from sylvan.arrays.validate import learnable
from sylvan.data.parts.part_files import PartFiles, part_files
from sylvan.errors import DataError
from sylvan.params.wording import counted
from sylvan.runtime.current import current_runner
from sylvan.runtime.jobs import Job
from sylvan.store import ScratchFiles

LARGE = 1 << 29  # bytes of rows from which on they are gathered in a file of the node, not in memory
_OPEN = 128  # parts that stay open, two files each: many systems allow a process no more than a thousand
_BLOCK_VALUES = 1 << 18  # of which a checksum is taken at once
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio: products spread neighbours far apart


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
            own = rows[cuts[part] : cuts[part + 1]]
            begins, ends = (self.indptr[at] - self.indptr[self.first_rows[part]] for at in (own, own + 1))
            values = slice(int(indptr[cuts[part]]), int(indptr[cuts[part + 1]]))
            files = self._part(part)
            files.ranges("indices", begins, ends, indices[values])
            files.ranges("data", begins, ends, data[values])
        fault, row = kernels.check_compressed(indptr, indices, data, self.shape[1])
        if fault:
            raise self._damaged(int(rows[row]) if 0 <= row < len(rows) else int(rows[0]))
        return self._as_asked(Csr(indptr, indices, data, (len(rows), self.shape[1])))

    def _as_asked(self, csr: Csr) -> Csr:
        csr = csr if self.factors is None else csr.times_columns(self.factors)
        return csr.unit_rows() if self.unit else csr

    def _damaged(self, row: int) -> DataError:
        part = int(np.searchsorted(self.first_rows, row, "right")) - 1
        own = row - int(self.first_rows[part])
        return DataError(
            f"{self.paths[part]!r} is damaged: row {own} must hold rising column numbers in [0, "
            f"{self.shape[1] - 1}] and finite values other than 0."
        )

    def _part(self, number: int) -> PartFiles:
        part = self._files.get(number)
        if part is None:
            part = self._sound(part_files(self.paths[number]), number)
            if len(self._files) < _OPEN:
                self._files[number] = part
        return part

    def _sound(self, part: PartFiles, number: int) -> PartFiles:
        """A part, if it has the size that it had when all were opened."""
        first, last = (int(self.first_rows[at]) for at in (number, number + 1))
        wanted = (last - first, self.shape[1]), int(self.indptr[last] - self.indptr[first])
        if (part.shape, part.n_values) != wanted:
            raise DataError(
                f"{self.paths[number]!r} has changed: it has shape {part.shape} and {counted(part.n_values, 'value')}, "
                f"but had shape {wanted[0]} and {wanted[1]:,}."
            )
        return part

    def ranges(self) -> list[tuple[int, int]]:
        """The rows of each part, the first and one past the last."""
        edges = self.first_rows.tolist()
        return list(itertools.pairwise(edges))

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
            squares = np.concatenate([np.zeros(0), *(own for own, _ in each)])
            self._known.append((squares, sum(own for _, own in each) % 2**64))
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
        own = factors if self.factors is None else self.factors * factors
        return replace(self, factors=own, _files={}, _known=[])

    def unit_rows(self) -> RowParts:
        """The matrix with its rows at length 1, when they are read."""
        return replace(self, unit=True, _files={}, _known=[])

    @property
    def checksum(self) -> str:
        """Of all rows, however they are divided: what tells one training's data from another's."""
        value = zlib.crc32(self._read_once()[1].to_bytes(8, "little"), zlib.crc32(self.indptr.data))
        return f"crc32:{value:08x}"


Rows: TypeAlias = "Csr | RowParts"  # features, in memory or not


def _summary(parts: RowParts, first: int, last: int) -> tuple[npt.NDArray[np.float64], int]:
    """Squared lengths of some rows, which are so verified, too, and a checksum of what they hold."""
    rows = parts.take(np.arange(first, last))
    learnable(rows, first)
    return rows.row_squares(), _mixed(rows, int(parts.indptr[first]))


def _mixed(rows: Csr, begin: int) -> int:
    """A sum, over all values, of numbers that depend on a value, its column and its place, whatever the division."""
    total = 0
    for at in range(0, len(rows.data), _BLOCK_VALUES):
        own = slice(at, at + _BLOCK_VALUES)
        mixed = rows.indices[own].astype(np.uint64) << np.uint64(32) | rows.data[own].view(np.uint32)
        mixed *= _ODD
        mixed ^= mixed >> np.uint64(32)
        mixed += np.arange(begin + at, begin + at + len(mixed), dtype=np.uint64)
        mixed *= _ODD
        mixed ^= mixed >> np.uint64(29)
        mixed *= _ODD
        total += int((mixed ^ mixed >> np.uint64(32)).sum())
    return total % 2**64
