"""Sparse matrices in a folder of ``.npy`` files, opened without reading them and written without holding them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays.canonical import Csr, matrix
from sylvan.arrays.validate import MAX_COLUMNS
from sylvan.data.streams import PathLike
from sylvan.errors import DataError
from sylvan.parallel import split_ranges
from sylvan.params.wording import counted
from sylvan.store.npy import header

_DTYPES: dict[str, np.dtype[Any]] = {"indptr": np.dtype("<i8"), "indices": np.dtype("<i4"), "data": np.dtype("<f4")}
_ROWS = 1 << 16
_FAULTS = {
    1: "'indptr' must start at 0, never fall, and end at the number of entries",
    2: "row {row} of 'indices' must hold column numbers in [0, {last}]",
    3: "row {row} of 'data' must hold finite numbers",
    4: "row {row} must name each column once, in rising order",
    5: "row {row} holds a stored zero",
}


def is_csr_folder(path: PathLike) -> bool:
    """Whether a folder has the files of :func:`save_csr`."""
    return all((Path(path) / f"{name}.npy").is_file() for name in (*_DTYPES, "shape"))


def open_csr(folder: PathLike) -> Csr:
    """The matrix that :func:`save_csr` wrote, mapped into memory: pages are read when they are used.

    The matrix is verified, which reads it once; nothing of it is copied. Models take it wherever they take a matrix,
    and its pages can always be taken back by the system, so that it may be larger than the memory.

    Parameters
    ----------
    folder : path-like
        With ``indptr.npy`` (int64), ``indices.npy`` (int32), ``data.npy`` (float32) and ``shape.npy`` (two int64).

    Returns
    -------
    Csr
        Arrays that can't be written to.

    Raises
    ------
    DataError
        When a file is missing, of another type, or the matrix isn't canonical: rows sorted, columns once, no zeros.

    Examples
    --------
    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> from sylvan import data
    >>> folder = tempfile.mkdtemp()
    >>> data.save_csr(folder, sp.eye(3))
    >>> data.open_csr(folder).to_scipy().toarray().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    name = os.fspath(folder)
    arrays = {key: _mapped(name, key, dtype) for key, dtype in _DTYPES.items()}
    shape = _mapped(name, "shape", np.dtype("<i8"))
    if shape.shape != (2,) or (shape < 0).any() or int(shape[1]) > MAX_COLUMNS:
        raise DataError(f"{name!r}: 'shape' must be two ints from 0, the second at most {MAX_COLUMNS}.")
    n_rows, n_columns = (int(size) for size in shape)
    indptr, indices, values = arrays["indptr"], arrays["indices"], arrays["data"]
    if len(indptr) != n_rows + 1 or len(indices) != len(values):
        raise DataError(
            f"{name!r}: 'indptr' must have {n_rows + 1} entries, and 'indices' and 'data' as many as each other. "
            f"Got {len(indptr)}, {len(indices)} and {len(values)} instead."
        )
    fault, row = kernels.check_compressed(indptr, indices, values, n_columns)
    if not fault and int(indptr[-1]) != len(indices):
        fault = 1
    if fault:
        words = _FAULTS.get(fault, "row {row} is not canonical").format(row=row, last=n_columns - 1)
        raise DataError(f"{name!r}: {words}.")
    return Csr(indptr, indices, values, (n_rows, n_columns))


def _mapped(folder: str, name: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    path = os.path.join(folder, f"{name}.npy")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise DataError(f"{folder!r} is no folder of a sparse matrix: it has no {name}.npy.") from error
    except (OSError, ValueError, EOFError) as error:
        if "empty" in str(error):  # no page can be mapped of an array without entries
            return np.zeros(0, dtype)
        raise DataError(f"{path!r} can't be read: {error}.") from error
    if array.ndim != 1 or array.dtype != dtype:
        raise DataError(
            f"{path!r} must hold one row of {dtype.name}. Got {array.dtype} of shape {array.shape} instead."
        )
    return np.asarray(array)  # a plain array over the same pages: slices of a memmap are slow to make


def save_csr(folder: PathLike, blocks: Any) -> None:
    """Write a sparse matrix, or blocks of its rows, into a folder for :func:`open_csr`.

    Parameters
    ----------
    folder : path-like
        Made when it is missing; its matrix is replaced.
    blocks : sparse matrix, array of shape (n, d), or iterable of them
        Blocks are written one by one and must agree in their number of columns.

    Raises
    ------
    DataError
        When a block isn't a finite matrix, the blocks' columns differ, or the folder can't be written.
    """
    rows = isinstance(blocks, list | tuple) and bool(blocks) and isinstance(blocks[0], list | tuple)
    plain = rows and all(isinstance(value, int | float) for value in blocks[0])
    single = plain or isinstance(blocks, Csr | np.ndarray) or sp.issparse(blocks)
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / "shape.npy").unlink(missing_ok=True)  # without it the folder is no matrix: what is half written isn't
        _write(place, [blocks] if single else blocks)
    except OSError as error:
        raise DataError(f"{os.fspath(folder)!r} can't be written ({error.strerror or error}).") from error


def _write(place: Path, blocks: Iterable[Any]) -> None:
    n_rows, n_entries, n_columns = 0, 0, None
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {name: stack.enter_context(open(place / f"{name}.npy", "wb")) for name in _DTYPES}
        for name, file in files.items():
            file.write(_header(name, 0))
        files["indptr"].write(np.zeros(1, np.int64).tobytes())
        wholes = (block if isinstance(block, Csr) else matrix(block, "The matrix", "columns") for block in blocks)
        for block in (
            whole.between(*rows) for whole in wholes for rows in split_ranges(whole.shape[0], _ROWS) or [(0, 0)]
        ):
            if n_columns is not None and block.shape[1] != n_columns:
                raise DataError(
                    f"Block after row {n_rows} has {counted(block.shape[1], 'column')}, but those before {n_columns}."
                )
            n_columns = block.shape[1]
            files["indptr"].write((block.indptr[1:] + n_entries).astype("<i8").tobytes())
            files["indices"].write(block.indices.astype("<i4", copy=False).tobytes())
            files["data"].write(block.data.astype("<f4", copy=False).tobytes())
            n_rows, n_entries = n_rows + block.shape[0], n_entries + block.nnz
        for name, file in files.items():
            file.seek(0)
            file.write(_header(name, n_rows + 1 if name == "indptr" else n_entries))
            file.flush()
            os.fsync(file.fileno())
    np.save(place / "shape.npy", np.array([n_rows, n_columns or 0], np.int64))


def _header(name: str, size: int) -> bytes:
    """The header of an array of so many numbers; of one length for every number."""
    text = header(_DTYPES[name], (size,))
    assert len(text) == 128
    return text
