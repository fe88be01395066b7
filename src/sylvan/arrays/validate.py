"""The only place where a user's arrays are checked and converted; kernels rely on these checks. A user's object is
never changed, and copied only if it isn't canonical. scipy's own flags, such as ``has_sorted_indices``, aren't used:
they become wrong when somebody writes into ``indices``."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays.canonical import _FLOAT32, _FLOAT64, _INT64, as_array, compressed, matrix, needs_double, shape_text
from sylvan.arrays.canonical import MAX_COLUMNS as MAX_COLUMNS
from sylvan.arrays.canonical import Csr as Csr
from sylvan.arrays.canonical import real_numbers as real_numbers
from sylvan.arrays.frames import labels_of, numpy_of
from sylvan.errors import DataError
from sylvan.params.fields import Number, check_value
from sylvan.params.wording import are, counted

LARGEST_TRAINED = 1e15  # the squared norm of a row of such values still fits float32
_VECTOR_ROWS = 1 << 14


def features(
    X: Any, *, n_features: int | None = None, name: str = "X", min_rows: int = 0, owner: str = "the model"
) -> Csr:
    """A feature matrix in canonical form."""
    # Shape: X (n, d)
    kind = type(X)
    csr: Csr | None = None
    if kind is sp.csr_matrix or kind is sp.csr_array:  # rank() of single rows lives on this path
        try:
            indptr = X.indptr
            if indptr.dtype != _INT64:
                indptr = indptr.astype(_INT64)
            shape = X.shape
            if (
                kernels.check_compressed(indptr, X.indices, X.data, shape[1])[0] == 0
                and indptr.shape[0] == shape[0] + 1
                and shape[1] <= MAX_COLUMNS
            ):
                csr = Csr(indptr, X.indices, X.data, shape)
        except (TypeError, IndexError, AttributeError):
            csr = None  # other dtypes or strides, or no such matrix at all: the long way finds out
    elif kind is Csr:
        csr = X
    if csr is None:
        csr = matrix(X, name, "features")
    if n_features is not None and csr.shape[1] != n_features:
        raise DataError(
            f"{name} has {csr.shape[1]} features, but {owner} is expecting {n_features} features as input: "
            f"got shape {shape_text(csr.shape)}, expected ({csr.shape[0]}, {n_features})."
        )
    if csr.shape[0] < min_rows:
        raise DataError(f"{name} has shape {shape_text(csr.shape)}, but a minimum of {min_rows} row is required.")
    if min_rows and not csr.shape[1]:
        raise DataError(f"{name} has 0 feature(s) (shape={csr.shape}) while a minimum of 1 is required.")
    return csr


def dense_features(X: Any, n_features: int | None = None) -> npt.NDArray[np.float32] | None:
    """A dense array of valid numbers as float32 in C order; None for anything that :func:`features` must check. For
    models that use dense rows as they are. Anything else (not an array of floats, another width, NaN, too large values)
    is left to :func:`features`, which says what is wrong."""
    if not isinstance(X, np.ndarray) or isinstance(X, np.ma.MaskedArray) or X.ndim != 2:
        return None
    if X.dtype not in (_FLOAT32, _FLOAT64) or 0 in X.shape or X.shape[1] > MAX_COLUMNS:
        return None
    if n_features is not None and X.shape[1] != n_features:
        return None
    with np.errstate(over="ignore"):
        dense = np.ascontiguousarray(X, dtype=_FLOAT32)
    return dense if _first_unsound(dense) is None else None


def _first_unsound(dense: npt.NDArray[np.float32]) -> int | None:
    """The first row with a value that is no number, or too large for its square to be one."""
    # The comparison is False for NaN too; by blocks, so that no flag is kept for each value.
    for start in range(0, len(dense), _VECTOR_ROWS):
        sound = (np.abs(dense[start : start + _VECTOR_ROWS]) <= LARGEST_TRAINED).all(axis=1)
        if not sound.all():
            return start + int(np.argmin(sound))
    return None


def labels(Y: Any, *, n_rows: int | None = None, n_labels: int | None = None, name: str = "Y") -> Csr:
    """A label matrix in canonical form; its values are the relevances, all above 0."""
    # Shape: Y (n, L)
    if Y is None:
        raise DataError(f"{name} is None: requires y to be passed, but the target y is None.")
    Y = numpy_of(labels_of(Y, name), name)
    if hasattr(Y, "__array__") and not isinstance(Y, np.ndarray):
        Y = as_array(Y, name)
    if isinstance(Y, Csr):
        csr = Y
    elif sp.issparse(Y) or (hasattr(Y, "ndim") and Y.ndim == 2):
        csr = matrix(Y, name, "labels")
    else:
        ids, lengths = listed_ids(Y, name)
        if n_labels is None:
            refuse_indicator(ids, lengths, name)
        highest = int(ids.max()) if ids.size else -1
        size = highest + 1 if n_labels is None else n_labels
        if highest >= size or size > MAX_COLUMNS:
            row = _row_of(int(np.argmax(ids)), lengths)
            limit = min(size, MAX_COLUMNS)
            raise DataError(f"{name} names label {highest} in row {row}, but label ids must be below {limit}.")
        csr = rows_of_ids(ids, lengths, size, name)
    if csr.data.size and float(csr.data.min()) < 0:
        row = int(np.searchsorted(csr.indptr, int(np.argmax(csr.data < 0)), side="right")) - 1
        raise DataError(f"{name} holds a negative relevance in row {row}. Relevances must be in [0, inf).")
    if n_rows is not None and csr.shape[0] != n_rows:
        raise DataError(f"{name} has shape {shape_text(csr.shape)}, but {counted(n_rows, 'row')} {are(n_rows)} needed.")
    if n_labels is not None and csr.shape[1] != n_labels:
        needed = f"{counted(n_labels, 'label')} {are(n_labels)} needed"
        raise DataError(f"{name} has shape {shape_text(csr.shape)}, but {needed}.")
    return csr


def pair(X: Any, Y: Any, *, owner: str = "the model") -> tuple[Csr, Csr]:
    """The arguments of ``fit``: features and labels with the same number of rows, at least one of each."""
    x = features(X, min_rows=1, owner=owner)
    y = labels_beside(x.shape, Y)
    learnable(x)
    return x, y


def labels_beside(shape: tuple[int, ...], Y: Any) -> Csr:
    """Labels for the rows of features of a shape."""
    y = labels(Y)
    if shape[0] != y.shape[0]:
        raise DataError(
            f"X and Y must have the same number of rows, but X has shape {shape_text(shape)} and Y has "
            f"shape {shape_text(y.shape)}."
        )
    if y.shape[1] == 0:
        raise DataError(f"Y has shape {shape_text(y.shape)}: there is no label to learn.")
    return y


def learnable(x: Csr, first_row: int = 0) -> None:
    """Refuse features, from a row on, whose squares overflow float32."""
    largest = max(float(x.data.max(initial=0)), -float(x.data.min(initial=0)))
    if largest > LARGEST_TRAINED:
        row = first_row + int(np.searchsorted(x.indptr, int(np.argmax(np.abs(x.data))), side="right")) - 1
        raise DataError(
            f"X holds a value of magnitude {largest:.3g} in row {row}, but no more than {LARGEST_TRAINED:.0e} can be "
            "learned from. Scale it down first."
        )


def sample_weight(weight: Any, n_rows: int) -> npt.NDArray[np.float32] | None:
    """One weight per row as float32, or None without weights."""
    if weight is None:
        return None
    array = real_numbers(weight, "sample_weight")
    if array.shape != (n_rows,):
        raise DataError(f"sample_weight has shape {shape_text(array.shape)}, but X needs one of shape ({n_rows},).")
    with np.errstate(over="ignore"):
        weights = np.ascontiguousarray(array, dtype=_FLOAT32)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"sample_weight must be finite and in [0, inf). Got {array[row]} in row {row} instead.")
    if not weights.any():
        raise DataError("sample_weight is zero in every row: there is nothing to learn from.")
    return weights


def vectors(
    X: Any, *, n_dimensions: int | None = None, name: str = "vectors", min_rows: int = 0, owner: str = "the index"
) -> npt.NDArray[np.float32]:
    """Dense vectors, one per row, as float32 in C order; copied only if necessary."""
    # Shape: X (n, d)
    array = real_numbers(X, name)
    if array.ndim != 2:
        hint = " A single vector is vector.reshape(1, -1)." if array.ndim == 1 else ""
        raise DataError(
            f"{name} must have two dimensions, (rows, dimensions). Got shape {shape_text(array.shape)} instead.{hint}"
        )
    if n_dimensions is not None and array.shape[1] != n_dimensions:
        raise DataError(
            f"{name} has {array.shape[1]} dimensions, but {owner} has vectors of {n_dimensions} dimensions."
        )
    if array.shape[0] < min_rows or array.shape[1] == 0:
        raise DataError(
            f"{name} has shape {shape_text(array.shape)}, but at least {max(1, min_rows)} row(s) and 1 dimension "
            "are needed."
        )
    if array.shape[0] > MAX_COLUMNS:
        raise DataError(f"{name} has {array.shape[0]} rows; no more than {MAX_COLUMNS} are possible.")
    with np.errstate(over="ignore"):
        dense = np.ascontiguousarray(array, dtype=_FLOAT32)
    row = _first_unsound(dense)
    if row is not None:
        raise DataError(
            f"{name} holds NaN, infinity or a value of magnitude above {LARGEST_TRAINED:.0e} in row {row}. Every "
            "value must be finite, and its square must fit float32."
        )
    return dense


def row_numbers(values: Any, n_rows: int, *, name: str, least: int = 0, noun: str = "rows") -> npt.NDArray[np.int64]:
    """Whole numbers in [``least``, ``n_rows`` - 1], in an array of any shape."""
    array = real_numbers(values, name)
    if array.dtype.kind == "b" and array.size:
        raise DataError(f"{name} must hold whole numbers, but is of dtype bool.")
    if (bad := _not_whole(array, least, n_rows - 1)).any():
        place = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), array.shape))
        raise DataError(
            f"{name} holds {array[place].item()!r} in row {place[0] if place else 0}, but {noun} are numbered in "
            f"[{least}, {n_rows - 1}]."
        )
    return array.astype(_INT64)


def count(value: Any, name: str, *, owner: str = "rank", high: int = MAX_COLUMNS) -> int:
    """``value`` as an int in [1, high], such as ``k`` or ``beam``."""
    if type(value) is not int or not 1 <= value <= high:  # exact ints, the usual case, skip the slow isinstance
        check_value(name, value, Number(int, 1, high), owner)
    return int(value)


def listed_ids(
    Y: Any, name: str = "Y", *, low: int = 0, high: int = MAX_COLUMNS - 1
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Label ids, one or several a row, one after another, and how many each row has."""
    if isinstance(Y, (str, bytes)) or not hasattr(Y, "__len__") or isinstance(Y, dict):
        raise DataError(
            f"{name} must be a matrix, lists of label ids or one class id a row, but is a {type(Y).__name__}."
        )
    rows = Y.tolist() if isinstance(Y, np.ndarray) and Y.dtype == object and Y.ndim == 1 else Y
    one_each = isinstance(rows, np.ndarray) or not any(hasattr(row, "__len__") or row is None for row in rows)
    if one_each and not isinstance(rows, np.ndarray):
        rows = np.asarray(rows) if len(rows) else np.empty(0, _INT64)
    if one_each:
        if rows.ndim != 1:
            raise DataError(f"{name} must have one or two dimensions. Got shape {shape_text(rows.shape)} instead.")
        lengths = np.ones(len(rows), _INT64)
        return _whole(rows, lengths, name, low, high), lengths
    for number, row in enumerate(rows):
        if isinstance(row, (str, bytes)):
            raise _names_error(name, number)
        if not hasattr(row, "__len__") or sp.issparse(row):
            raise DataError(f"Row {number} of {name} must be a list of label ids, but is {row!r}.")
    lengths = np.fromiter((len(row) for row in rows), _INT64, len(rows))
    flat = [value for row in rows for value in (row.tolist() if isinstance(row, np.ndarray) else row)]
    if len(flat) != int(lengths.sum()) or any(hasattr(item, "__len__") and not isinstance(item, str) for item in flat):
        raise DataError(f"{name} must hold lists of label ids, nested no deeper.")
    ids = np.asarray(flat) if flat else np.empty(0, _INT64)
    if ids.dtype.kind == "b":
        raise DataError(f"{name} holds lists of True and False, no label ids. Give them as an array: np.asarray(…).")
    return _whole(ids, lengths, name, 0, high), lengths


def refuse_indicator(ids: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], name: str) -> None:
    """Refuse lists of zeros and ones of one length, such as [0, 1, 0], which name a label twice as lists of ids."""
    width = int(lengths[0]) if len(lengths) else 0
    if width < 2 or int(ids.max()) > 1 or (lengths != width).any():
        return
    twice = (np.diff(np.sort(ids.reshape(-1, width), axis=1), axis=1) == 0).any(axis=1)
    if twice.any():
        row = int(np.argmax(twice))
        values = ids[row * width : (row + 1) * width].tolist()
        raise DataError(
            f"{name} holds lists of {width} zeros and ones, such as {values!r:.60} in row {row}, which as label ids "
            "would name a label twice. Give an indicator as an array: np.asarray(Y)."
        )


def rows_of_ids(ids: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], size: int, name: str = "Y") -> Csr:
    """Label ids, row by row, as a matrix of ones of so many columns; an id named twice in a row is one label."""
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(_INT64)
    csr = compressed(indptr, ids, np.ones(ids.size, _FLOAT32), len(lengths), size, name, "row")
    np.minimum(csr.data, 1, out=csr.data)
    return csr


def _whole(
    flat: npt.NDArray[Any], lengths: npt.NDArray[np.int64], name: str, low: int, high: int
) -> npt.NDArray[np.int64]:
    """``flat`` as int64 ids; refuses names, fractions and numbers out of range, and names their row."""
    if flat.dtype.kind in "USO":
        for place, value in enumerate(flat.tolist()):
            if not isinstance(value, numbers.Real):
                raise _names_error(name, _row_of(place, lengths))
        flat = flat.astype(np.float64)
    if needs_double(flat.dtype, name) or flat.dtype.kind == "b":
        flat = flat.astype(np.float64)
    if (bad := _not_whole(flat, low, high)).any():
        place = int(np.argmax(bad))
        raise DataError(
            f"{name} holds {flat[place].item()!r} in row {_row_of(place, lengths)}; "
            f"label ids must be whole numbers in [{low}, {high}], and a continuous target is no label."
        )
    return flat.astype(_INT64)


def _not_whole(values: npt.NDArray[Any], low: int, high: int) -> npt.NDArray[np.bool_]:
    """Which of some numbers aren't whole ones in [``low``, ``high``]."""
    with np.errstate(invalid="ignore"):
        bad: npt.NDArray[np.bool_] = ~((values >= low) & (values <= high))
        return bad | (values != np.floor(values)) if values.dtype.kind == "f" else bad


def _row_of(entry: int, lengths: npt.NDArray[np.int64]) -> int:
    return int(np.searchsorted(np.cumsum(lengths), entry, side="right"))


def _names_error(name: str, row: int) -> DataError:
    return DataError(
        f"{name} holds something other than a label id in row {row}. Labels with names are learned by "
        "TextModel, or turned into ids by data.Vocabulary."
    )
