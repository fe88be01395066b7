"""Array files: sparse matrices in SciPy's ``.npz``, as PECOS lays them out, and dense ones in ``.npy``."""

from __future__ import annotations

import io
import math
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.lib.format as npy
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import canonical, validate
from sylvan.data.streams import PathLike, open_read, open_write, shown
from sylvan.errors import DataError

_NUMBERS = "biuf"
_MOST_PACKED = 1100  # deflate packs 1032 to 1 at best


def label_csr(matrix: Any, name: str, n_rows: int | None = None) -> sp.csr_matrix:
    """A label matrix, of so many rows: relevances must not be negative, and zeros are no labels."""
    return validate.labels(canonical.matrix(matrix, name, "labels"), n_rows=n_rows, name=name).to_scipy()


def load_npz(path: PathLike) -> sp.csr_matrix:
    """Read a sparse matrix that ``scipy.sparse.save_npz`` wrote (CSR, CSC or COO).

    Parameters
    ----------
    path : path-like
        "-" reads stdin.

    Returns
    -------
    csr_matrix of float32
        With sorted ids; repeated entries are summed.

    Raises
    ------
    DataError
        When the file is missing or damaged, an array is missing, of the wrong type or pickled, offsets or ids
        are out of range, or a value is no finite float32; the message names file, array and fault.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import scipy.sparse as sp
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "X.trn.npz"
    >>> data.save_npz(path, sp.eye(2))
    >>> data.load_npz(path).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _sound(_npz_arrays(path), shown(path))


def load_npz_columns(path: PathLike) -> sp.csr_matrix:
    """As :func:`load_npz`, transposed: each column of the file's matrix is a row of the answer. A matrix that was
    stored by columns is then never turned around, which takes time and memory."""
    return _sound(_npz_arrays(path), shown(path), transposed=True)


def save_npz(path: PathLike, matrix: Any, *, compressed: bool = False) -> None:
    """Write a sparse matrix as ``scipy.sparse.save_npz`` does, for :func:`load_npz`, SciPy and PECOS.

    Parameters
    ----------
    path : path-like
        The name is used as it is; no suffix is added.
    matrix : sparse matrix or ndarray, shape (n, m)
        Written as float32 CSR.
    compressed : bool

    Raises
    ------
    DataError
        When it is no finite matrix or the file can't be written.
    """
    csr = canonical.matrix(matrix, "The matrix", "columns").to_scipy()
    with open_write(path) as stream:
        sp.save_npz(stream, csr, compressed=compressed)


def load_npz_pair(folder: PathLike, split: str = "trn") -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Read ``X.trn.npz`` and ``Y.trn.npz`` of a folder, as PECOS lays them out.

    Parameters
    ----------
    folder : path-like
    split : str
        "trn", "tst" or whatever stands between.

    Returns
    -------
    X, Y : csr_matrix of float32, shapes (n, n_features) and (n, n_labels)

    Raises
    ------
    DataError
        As :func:`load_npz`, and when the two differ in length or a label's relevance is negative.
    """
    x_path, y_path = (Path(folder) / f"{letter}.{split}.npz" for letter in "XY")
    x = load_npz(x_path)
    return x, label_csr(load_npz(y_path), str(y_path), x.shape[0])


def save_npz_pair(folder: PathLike, X: Any, Y: Any, split: str = "trn", *, compressed: bool = False) -> None:
    """Write ``X.trn.npz`` and ``Y.trn.npz`` into a folder, which is made when it is missing.

    Raises
    ------
    DataError
        As :func:`save_npz`, and when the two differ in length.
    """
    x = canonical.matrix(X, "X", "features").to_scipy()
    y = label_csr(Y, "Y", x.shape[0])
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise DataError(f"The folder {os.fspath(folder)!r} can't be made ({error.strerror}).") from error
    save_npz(Path(folder) / f"X.{split}.npz", x, compressed=compressed)
    save_npz(Path(folder) / f"Y.{split}.npz", y, compressed=compressed)


def load_npy(path: PathLike) -> npt.NDArray[np.float32]:
    """Read a dense matrix of numbers from a ``.npy`` file.

    Parameters
    ----------
    path : path-like
        The file, gzip or xz unpacked on the way; "-" reads stdin.

    Returns
    -------
    ndarray of float32, shape (n, d), C-contiguous

    Raises
    ------
    DataError
        When the file is missing or damaged, holds no matrix, holds pickled objects, or a value is no finite
        float32.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "X.npy"
    >>> data.save_npy(path, np.eye(2))
    >>> data.load_npy(path).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _dense(_npy_array(path), shown(path))


def save_npy(path: PathLike, matrix: Any) -> None:
    """Write a dense matrix as float32 ``.npy``; the name is used as it is, packed when it ends in .gz or .xz.

    Raises
    ------
    DataError
        When it is no finite matrix or the file can't be written.
    """
    array = _dense(np.asarray(matrix), "The matrix")
    with open_write(path) as stream:
        np.save(stream, array, allow_pickle=False)


def _dense(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.float32]:
    if array.ndim != 2 or array.dtype.kind not in _NUMBERS:
        got = f"an array of dtype {array.dtype} and shape {array.shape}"
        raise DataError(f"{name}: must hold a matrix of numbers. Got {got} instead.")
    with np.errstate(over="ignore"):
        dense = np.ascontiguousarray(array, dtype=np.float32)
    sound = np.isfinite(dense).all(axis=1)
    if not sound.all():
        raise DataError(f"{name}, row {int(np.argmin(sound))}: values must be finite float32 numbers.")
    return dense


def load_vectors(path: PathLike) -> npt.NDArray[np.float32]:
    """Read dense vectors, a row each: a ``.npy`` file, or the one array, or the sparse matrix, of an ``.npz``.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    ndarray of float32, shape (n, d), C-contiguous

    Raises
    ------
    DataError
        As :func:`load_npy`, and for an ``.npz`` of several arrays that are no sparse matrix.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "base.npz"
    >>> np.savez(path, base=np.eye(2))
    >>> data.load_vectors(path).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not shown(path).lower().endswith(".npz"):
        return load_npy(path)
    arrays = _npz_arrays(path)
    if "format" in arrays:
        return _sound(arrays, shown(path)).toarray()
    return _dense(_only(arrays, shown(path)), shown(path))


def load_numbers(path: PathLike) -> npt.NDArray[Any]:
    """Read an array of numbers of any type and shape, such as ids: a ``.npy`` file, or the one array of an ``.npz``.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    ndarray
        Of the file's own type.

    Raises
    ------
    DataError
        When the file is missing or damaged, or holds something else.
    """
    name = shown(path)
    array = _only(_npz_arrays(path), name) if name.lower().endswith(".npz") else _npy_array(path)
    if array.dtype.kind not in _NUMBERS:
        raise DataError(f"{name}: holds {array.dtype}, not numbers.")
    return array


def _npy_array(path: PathLike) -> npt.NDArray[Any]:
    with open_read(path) as stream:
        return _read_npy(*stream.sized(), shown(path))


def _only(arrays: dict[str, npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    if len(arrays) != 1:
        names = ", ".join(sorted(arrays)) or "none"
        raise DataError(f"{name}: must hold one array, or a sparse matrix of SciPy's. Its arrays are: {names}.")
    return next(iter(arrays.values()))


def _npz_arrays(path: PathLike) -> dict[str, npt.NDArray[Any]]:
    name, arrays = shown(path), {}
    try:
        with open_read(path) as stream:
            file, size = stream.sized()
            with zipfile.ZipFile(file) as archive:
                for entry in archive.infolist():
                    if not entry.filename.endswith(".npy"):
                        continue
                    key = entry.filename.removesuffix(".npy")
                    place = f"{name}, array {key!r}"
                    # No packing of zip's reaches this ratio: an entry that claims more is not what it says.
                    if entry.compress_size > size or entry.file_size > _MOST_PACKED * (entry.compress_size + 1):
                        raise DataError(f"{place}: claims {entry.file_size} bytes, more than the file can hold.")
                    with archive.open(entry) as packed:
                        arrays[key] = _read_npy(cast(BinaryIO, packed), entry.file_size, place)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise DataError(f"{name}: not an .npz file, or damaged ({error}).") from error
    return arrays


def _read_npy(stream: BinaryIO, size: int, name: str) -> npt.NDArray[Any]:
    """The array of an ``.npy`` file of ``size`` bytes; its header is checked against it before memory is taken."""
    try:
        read = npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except Exception as error:  # the header is a Python literal, and its parser fails in many ways
        raise DataError(f"{name}: not an .npy file, or its header is damaged ({error}).") from error
    if dtype.hasobject:
        raise DataError(f"{name}: holds pickled Python objects, which are never read.")
    if any(length < 0 for length in shape) or dtype.itemsize == 0:
        raise DataError(f"{name}: the header gives shape {shape} and dtype {dtype}, which is no array of numbers.")
    count, have = math.prod(shape), size - stream.tell()
    if count * dtype.itemsize != have:
        raise DataError(
            f"{name}: the header promises {count * dtype.itemsize} bytes of shape {shape}, but {have} follow."
        )
    flat, done = np.empty(count, dtype), 0
    target = flat.view(np.uint8).data
    while done < have:
        got = cast(io.BufferedIOBase, stream).readinto(target[done:])
        if not got:
            raise DataError(f"{name}: cut short, {have - done} of {have} bytes are missing.")
        done += got
    stream.read(1)  # lets zip compare its checksum
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _sound(arrays: dict[str, npt.NDArray[Any]], name: str, transposed: bool = False) -> sp.csr_matrix:
    """The matrix, or its transpose, of the arrays that SciPy writes, verified."""

    def need(key: str, kinds: str = "iu") -> npt.NDArray[Any]:
        if key not in arrays:
            names = ", ".join(sorted(arrays)) or "none"
            raise DataError(
                f"{name}: not a sparse matrix of SciPy's, as it has no array {key!r}. Its arrays are: {names}."
            )
        if arrays[key].dtype.kind not in kinds:
            items = "numbers" if kinds == _NUMBERS else "text" if kinds == "SU" else "ints"
            raise DataError(f"{name}: {key!r} must hold {items}. Got dtype {arrays[key].dtype} instead.")
        return arrays[key]

    layout, shape, values = need("format", "SU").astype(str).tolist(), need("shape").tolist(), need("data", _NUMBERS)
    kind: Any
    entries: Any
    if layout == "coo":
        kind, entries = sp.coo_matrix, (values, (need("row"), need("col")))
    elif layout in ("csr", "csc"):
        kind = sp.csr_matrix if layout == "csr" else sp.csc_matrix
        entries = values, need("indices"), need("indptr")
    else:
        raise DataError(f"{name}: 'format' must be 'csr', 'csc' or 'coo'. Got {layout!r:.40} instead.")
    try:
        matrix = kind(entries, shape=tuple(shape))
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{name}: its arrays are no sparse matrix of shape {shape!r:.60} ({error}).") from error
    return canonical.matrix(matrix.T if transposed else matrix, name, "columns").to_scipy()
