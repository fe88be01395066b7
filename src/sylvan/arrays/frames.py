"""Data frames as what everything else takes: arrays of numbers, texts, labels. pandas is read through pandas, whatever
else has Arrow's ``__arrow_c_stream__`` (polars, pyarrow, DuckDB) through pyarrow. Neither pandas nor polars is imported
here: a frame of theirs comes from somebody who has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.errors import DataError
from sylvan.lazy import need_extra

_CPU, _PINNED = 1, (3, 11, 13)  # the numbers that DLPack has for memory that a CPU reads
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI", 15: "WebGPU"}
NUMBERS, TEXTS, LISTS, OTHER = "numbers", "texts", "lists", "other"
_SHOWN = 5  # columns that an error names
_LISTS = (list, tuple, np.ndarray)
_PLAIN = (np.ndarray, list, tuple, str, bytes, dict)
# Arrow's types
TEXT_TYPES = ("string", "large_string", "string_view")
_LIST_TYPES = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")


def setting(name: str) -> Any:
    """What ``sklearn.get_config()`` has under a name; None where scikit-learn isn't loaded, or is too old for it."""
    sklearn: Any = sys.modules.get("sklearn")
    return sklearn.get_config().get(name) if hasattr(sklearn, "get_config") else None


def sparse_as_set(matrix: sp.csr_matrix) -> sp.csr_matrix | sp.csr_array:
    """A sparse matrix, or a ``csr_array`` of its arrays after ``sklearn.set_config(sparse_interface="sparray")``."""
    return sp.csr_array(matrix) if setting("sparse_interface") == "sparray" else matrix


def numpy_of(value: Any, name: str) -> Any:
    """An object with ``__dlpack__`` as a NumPy array of the same memory; anything else as it is."""
    if isinstance(value, np.ndarray) or not (hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")):
        return value
    if getattr(value, "requires_grad", False) is True:
        raise DataError(f"{name} is a tensor that requires grad, which is no plain array: give {name}.detach().")
    try:
        kind = int(value.__dlpack_device__()[0])
        if kind != _CPU and kind not in _PINNED:
            where = getattr(value, "device", None) or _DEVICES.get(kind, f"DLPack's number {kind}")
            raise DataError(f"{name} is on the device {where}, but must be on the CPU: copy it there first.")
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        kind_name = getattr(value, "dtype", type(value).__name__)
        raise DataError(
            f"{name} is a {type(value).__name__} of {kind_name} that NumPy can't read: convert it to a dense one of "
            f"float32 first. ({error})"
        ) from error


@dataclass(frozen=True)
class Column:
    """One column of a frame, or a frame's only one."""

    name: Any
    kind: str  # NUMBERS, TEXTS, LISTS or OTHER
    type_name: str
    is_flag: bool  # of True and False
    # the values as an array of numbers, where a missing one is NaN; of a column of lists as one of objects
    numbers: Callable[[], npt.NDArray[Any]]
    listed: Callable[[], list[Any]]  # the values as Python's; a missing one is None


class Table:
    """The columns of a frame, and how many rows they have; or all of them as a matrix, where they are numbers."""

    def __init__(self, columns: list[Column], n_rows: int, matrix: Any = None) -> None:
        self.columns, self.n_rows, self.matrix = columns, n_rows, matrix

    def numbers(self) -> Any:
        """All columns as one matrix: sparse where the frame is; of float32 where all columns are, else of float64."""
        if self.matrix is not None:
            return self.matrix
        arrays = [column.numbers() for column in self.columns]
        single = bool(arrays) and all(array.dtype == np.float32 for array in arrays)
        result = np.empty((self.n_rows, len(arrays)), np.float32 if single else np.float64)
        for place, array in enumerate(arrays):
            result[:, place] = array
        return result


def _pandas_column(series: Any) -> Column:
    kind = _pandas_kind(series)

    def numbers() -> npt.NDArray[Any]:
        if kind == LISTS:
            return np.asarray(series.to_numpy(dtype=object))
        plain = isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf"
        if not (plain or series.hasnans) and sys.modules["pandas"].api.types.infer_dtype(series) == "integer":
            return np.array(series.tolist())  # doubles are exact to 2**53 alone
        return np.asarray(series.to_numpy() if plain else series.to_numpy(dtype=np.float64, na_value=np.nan))

    def listed() -> list[Any]:
        values = series.tolist()
        for row in np.flatnonzero(series.isna().to_numpy()).tolist():
            values[row] = None
        return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]

    return Column(series.name, kind, str(series.dtype), series.dtype.kind == "b", numbers, listed)


def _arrow_column(name: Any, values: Any, types: Any) -> Column:
    is_flag = types.is_boolean(values.type)

    def numbers() -> npt.NDArray[Any]:
        other = "uint8" if is_flag else "float64" if types.is_decimal(values.type) else None
        return np.asarray((values if other is None else values.cast(other)).to_numpy())

    return Column(name, _arrow_kind(values.type, types), str(values.type), is_flag, numbers, values.to_pylist)


def is_frame(value: Any) -> bool:
    """Whether it is a data frame or a column of one: of pandas, or with Arrow's interface."""
    if isinstance(value, _PLAIN) or sp.issparse(value):
        return False
    if _of_pandas(value) or hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__"):
        return True
    if isinstance(value, set | frozenset) or hasattr(value, "collect"):
        raise DataError(f"A {type(value).__name__} has no first row: give a list, or what its .collect() returns.")
    return False


def names_of(value: Any) -> list[Any]:
    """What the columns of a frame are called, without reading it; nothing where they have no names."""
    if isinstance(value, _PLAIN) or _of_pandas(value):
        return list(value.columns) if _of_pandas(value, "DataFrame") else []
    for holder, attribute in ((value, "column_names"), (getattr(value, "schema", None), "names"), (value, "columns")):
        names = getattr(holder, attribute, None)
        if isinstance(names, Iterable) and not isinstance(names, str):
            return list(names)
    return []


def feature_names(value: Any, name: str) -> list[str] | None:
    """What the columns of a frame are called, where they are features; None where they have no names, but numbers."""
    names = names_of(value)
    unnamed = [each for each in names if not isinstance(each, str)]
    if len(unnamed) == len(names):
        return None
    if unnamed:
        raise DataError(
            f"The columns of {name} must be called by strings, or none of them. Got {unnamed[0]!r} beside strings: "
            f"{name}.columns = {name}.columns.astype(str) makes names of all."
        )
    return _different(names, name, "feature")


def _different(names: list[Any], name: str, noun: str) -> list[str]:
    """The names of columns as strings, refused where two are the same."""
    listed = [str(each) for each in names]
    if len(set(listed)) < len(listed):
        twice = next(each for each in listed if listed.count(each) > 1)
        raise DataError(f"{name} has two columns called {twice!r}: give each {noun} a name of its own.")
    return listed


def read_frame(value: Any, name: str) -> Table | Column:
    """The columns of a frame, or its only one."""
    if _of_pandas(value):
        if not _of_pandas(value, "DataFrame"):
            return _pandas_column(value.to_series() if _of_pandas(value, "Index") else value)
        matrix = _pandas_matrix(value)  # columns one by one would take long where there are very many
        places = range(value.shape[1] if matrix is None else 0)
        return Table([_pandas_column(value.iloc[:, place]) for place in places], len(value), matrix)
    kind = f"{type(value).__module__.partition('.')[0]} {type(value).__name__}"
    pyarrow = need_extra(f"A {kind} needs pyarrow", "frames", "pyarrow")
    try:
        values = pyarrow.chunked_array(value)
        if not pyarrow.types.is_struct(values.type):
            return _arrow_column(getattr(value, "name", None), values, pyarrow.types)
        table = pyarrow.Table.from_struct_array(values)
    except (pyarrow.ArrowException, TypeError) as error:
        raise DataError(f"{name} is a data frame that can't be read: {error}.") from error
    parts = zip(table.column_names, table.columns, strict=True)
    return Table([_arrow_column(title, column, pyarrow.types) for title, column in parts], table.num_rows)


def numbers_of(value: Any, name: str) -> Any:
    """A frame as a matrix of its numbers, a column as a vector, one of vectors as a matrix; anything else as it is."""
    if not is_frame(value):
        return value
    feature_names(value, name)
    frame = read_frame(value, name)
    if isinstance(frame, Table) and len(frame.columns) == 1 and frame.columns[0].kind == LISTS:
        frame = frame.columns[0]
    if isinstance(frame, Column):
        if frame.kind == LISTS:
            return rows_of_vectors(frame.numbers(), name)
        return frame.numbers() if frame.kind == NUMBERS else np.asarray(frame.listed(), object)
    wrong = [column for column in frame.columns if column.kind != NUMBERS]
    if wrong:
        lists = next((f" If {each.name!r} has the vectors, give {name}[{each.name!r}] alone." for each in wrong
                      if each.kind == LISTS), "")  # fmt: skip
        raise DataError(
            f"{name} must hold numbers, but {_shown(wrong)} {'does' if len(wrong) == 1 else 'do'}n't. Leave out what "
            f"isn't a feature, turn categories into numbers, and give texts to a TextModel.{lists}"
        )
    return frame.numbers()


def rows_of_vectors(rows: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Lists or arrays of one length, one a row, as a matrix."""
    sizes = np.array([len(row) if isinstance(row, _LISTS) else -1 for row in rows])
    if (sizes < 0).any():
        raise DataError(f"{name} has no vector in row {int((sizes < 0).argmax())}.")
    other = sizes != sizes[:1]
    if other.any():
        row = int(other.argmax())
        raise DataError(f"{name} holds vectors of different lengths: {sizes[0]} in row 0, {sizes[row]} in row {row}.")
    return np.array([np.asarray(row) for row in rows]) if len(rows) else np.empty((0, 0), np.float32)


def texts_of(value: Any, name: str = "texts") -> Any:
    """The one column of texts of a frame, or a column, as a list of strings; anything else as it is."""
    if isinstance(value, dict):
        keys = ", ".join(map(repr, list(value)[:_SHOWN]))
        raise DataError(f"{name} must be a list of strings. Got a dict instead, with {keys}: give one of its values.")
    if not is_frame(value):
        return value
    frame = read_frame(value, name)
    if isinstance(frame, Table):
        texts = [column for column in frame.columns if column.kind == TEXTS]
        if len(texts) > 1:
            raise DataError(f"{name} has {len(texts)} columns of strings, {_shown(texts)}: give that with the texts.")
        if not texts and frame.n_rows:
            raise DataError(f"{name} has no column of strings, but {_shown(frame.columns) or 'numbers alone'}.")
        frame = texts[0] if texts else frame
    listed = frame.listed() if isinstance(frame, Column) else []
    if None in listed:
        raise DataError(f"{name} has no text in row {listed.index(None)}: fill it with an empty one.")
    return listed


def holds_texts(value: Any) -> bool:
    """Whether it is a frame with a column of strings, or such a column."""
    if not is_frame(value):
        return False
    frame = read_frame(value, "X")
    return any(column.kind == TEXTS for column in ([frame] if isinstance(frame, Column) else frame.columns))


def label_columns(value: Any) -> list[str] | None:
    """What the labels are called where a frame has a column for each label; None for all else. Columns that are
    numbered from 0, as those of an array are, give no names."""
    if not is_frame(value):
        return None
    names = names_of(value)
    if not names or names == list(range(len(names))):
        return None
    if len(names) == 1:
        frame = read_frame(value, "Y")
        if isinstance(frame, Column) or (frame.matrix is None and frame.columns[0].kind != NUMBERS):
            return None
    return _different(names, "Y", "label")


def labels_of(value: Any, name: str = "Y") -> Any:
    """Labels in a frame as lists, an array or a matrix; anything else as it is, but for a column of classes. An array
    of shape (n, 1) with ints other than 0 and 1 holds classes, not relevances of a single label: it becomes one of
    shape (n,), as scikit-learn has it."""
    if isinstance(value, np.ndarray) and value.ndim == 2 and value.shape[1] == 1 and value.dtype.kind in "iu":
        return value if np.isin(value, (0, 1)).all() else value[:, 0]
    if not is_frame(value):
        return value
    frame = read_frame(value, name)
    if isinstance(frame, Table):
        if frame.matrix is not None or len(frame.columns) != 1 or frame.columns[0].kind == NUMBERS:
            _need_indicator(frame, name)
            return frame.numbers()
        frame = frame.columns[0]
    if frame.kind == NUMBERS:
        return frame.numbers()
    listed = frame.listed()
    if frame.kind == LISTS:
        return [[] if row is None else row for row in listed]
    if None in listed:
        raise DataError(f"{name} has no label in row {listed.index(None)}: only a column of lists can have such rows.")
    return listed


def _need_indicator(frame: Table, name: str) -> None:
    """Refuse a frame that has no column of numbers for each label."""
    wrong = [column for column in frame.columns if column.kind != NUMBERS]
    if wrong:
        raise DataError(
            f"{name} has {len(frame.columns)} columns, so that each must hold the numbers of a label, but "
            f"{_shown(wrong)} {'does' if len(wrong) == 1 else 'do'}n't. Give one column of strings or of lists, or "
            "numbers alone."
        )
    if len(frame.columns) == 1 and not frame.columns[0].is_flag:
        first_name = repr(frame.columns[0].name)
        raise DataError(
            f"{name} has one column of numbers, {first_name}, which may be classes, or flags of a single label. Give "
            f"{name}[{first_name}] for one class a row, or booleans for a label that a row has or hasn't."
        )


def _shown(columns: list[Column]) -> str:
    """Columns by name and type, the first of them."""
    words = [f"{column.name!r} ({column.type_name})" for column in columns[:_SHOWN]]
    return ", ".join(words) + (f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else "")


def _of_pandas(value: Any, *classes: str) -> bool:
    """Whether it is of pandas's classes, by default of a frame or a column; nothing is before pandas is loaded."""
    pandas = sys.modules.get("pandas")
    frame_classes = (getattr(pandas, name, None) for name in classes or ("DataFrame", "Series", "Index"))
    return isinstance(value, tuple(kind for kind in frame_classes if kind is not None))


def _pandas_kind(series: Any) -> str:
    """What a column of pandas holds: by its type, and by its values where that says nothing."""
    types = sys.modules["pandas"].api.types
    dtype = series.dtype
    if types.is_numeric_dtype(dtype) and dtype.kind != "c":
        return NUMBERS
    if hasattr(dtype, "categories"):
        return TEXTS if types.infer_dtype(dtype.categories) == "string" else OTHER
    inferred = types.infer_dtype(series, skipna=True)
    if inferred == "string" or (inferred == "empty" and types.is_string_dtype(dtype)):
        return TEXTS
    if inferred in ("integer", "floating", "mixed-integer-float", "decimal", "boolean"):
        return NUMBERS
    first = next((value for value in series if not (value is None or value is np.nan)), None)
    return LISTS if isinstance(first, list | tuple | set | np.ndarray) else OTHER


def _pandas_matrix(frame: Any) -> Any:
    """A frame of several columns of NumPy's numbers, or of sparse ones, as a matrix; None for any other."""
    sparse = sys.modules["pandas"].SparseDtype
    kinds = frame.dtypes.tolist()
    if kinds and all(isinstance(kind, sparse) and kind.fill_value == 0 for kind in kinds):
        return sp.csr_matrix(frame.sparse.to_coo())
    if len(kinds) < 2 or not all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in kinds):
        return None
    return frame.to_numpy(dtype=np.float32 if set(kinds) == {np.dtype(np.float32)} else np.float64)


def _arrow_kind(kind: Any, types: Any) -> str:
    """What a column of this Arrow type holds."""
    if types.is_dictionary(kind):
        kind = kind.value_type
        return TEXTS if _arrow_kind(kind, types) == TEXTS else OTHER
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return NUMBERS
    word = str(kind).partition("<")[0]
    return TEXTS if word in TEXT_TYPES else LISTS if word in _LIST_TYPES else OTHER
