"""Every container is one: data frames of pandas, polars and pyarrow, tensors and arrays train the same model."""

import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import child_processes
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from kit.bits import bits
from kit.errors import raises

from sylvan import XRLinear
from sylvan.arrays import validate
from sylvan.arrays.frames import is_frame, label_columns, labels_of, names_of, texts_of
from sylvan.errors import DataError

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
torch = pytest.importorskip("torch")
try:
    import polars
except ImportError:
    polars = None

needs_polars = pytest.mark.skipif(polars is None, reason="polars isn't installed")


class Streamed:
    """As much of a frame as there must be: DuckDB's relations, say."""

    def __init__(self, table: Any) -> None:
        self.table, self.columns = table, table.column_names

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def columns(X: np.ndarray) -> dict[str, np.ndarray]:
    return {f"c{place}": np.ascontiguousarray(X[:, place]) for place in range(X.shape[1])}


def sparse_frame(X: np.ndarray) -> Any:
    return pandas.DataFrame.sparse.from_spmatrix(sp.csr_matrix(X), columns=list(columns(X)))


FRAMES: dict[str, Callable[[np.ndarray], Any]] = {
    "pandas": lambda X: pandas.DataFrame(columns(X)),
    "pandas, other index": lambda X: pandas.DataFrame(columns(X)).set_axis(range(len(X), 0, -1)),
    "pandas, nullable": lambda X: pandas.DataFrame(columns(X)).convert_dtypes(),
    "pandas of Arrow": lambda X: pandas.DataFrame(columns(X)).convert_dtypes(dtype_backend="pyarrow"),
    "pandas, sparse": sparse_frame,
    "pyarrow": lambda X: pyarrow.table(columns(X)),
    "pyarrow, in chunks": lambda X: pyarrow.concat_tables([pyarrow.table(columns(part)) for part in (X[:1], X[1:])]),
    "record batch": lambda X: pyarrow.RecordBatch.from_pydict(columns(X)),
    "streamed": lambda X: Streamed(pyarrow.table(columns(X))),
}
if polars is not None:
    FRAMES["polars"] = lambda X: polars.DataFrame(columns(X))
TENSORS: dict[str, Callable[[np.ndarray], Any]] = {
    "torch": lambda X: torch.from_numpy(X.copy()),
    "torch, strided": lambda X: torch.from_numpy(np.repeat(X, 2, axis=1))[:, ::2],
}
numbers = st.one_of(
    arrays.arrays(np.float32, (3, 2), elements=st.floats(-1e6, 1e6, width=32)),
    arrays.arrays(np.float64, (3, 2), elements=st.floats(-1e6, 1e6)),
    arrays.arrays(np.int64, (3, 2), elements=st.integers(-(2**60), 2**60)),
    arrays.arrays(np.bool_, (3, 2)),
)


@pytest.mark.parametrize("form", [*FRAMES, *TENSORS])
@settings(max_examples=30)
@given(X=numbers)
def test_features_are_the_same_bits_from_every_container(form: str, X: np.ndarray) -> None:
    made = {**FRAMES, **TENSORS}[form](X)
    assert bits(validate.features(made)) == bits(validate.features(X))


@pytest.mark.parametrize("form", FRAMES)
def test_what_columns_are_called(form: str) -> None:
    assert names_of(FRAMES[form](np.eye(3))) == ["c0", "c1", "c2"]


def test_columns_of_several_types_are_one_matrix() -> None:
    table = {"i": [1, 2], "f": [0.5, 2.0], "b": [True, False]}
    decimals = pyarrow.table({**table, "d": pyarrow.array([Decimal("0.25"), None])})
    for frame in (pandas.DataFrame(table), pyarrow.table(table), pandas.DataFrame(table, dtype=object)):
        assert validate.features(frame).to_scipy().toarray().tolist() == [[1, 0.5, 1], [2, 2, 0]]
    with raises(DataError, "X", "NaN", "inf", "row 1"):
        validate.features(decimals)


@pytest.mark.parametrize("make", [pandas.DataFrame, pyarrow.table])
def test_a_missing_number_is_refused_with_its_row(make: Any) -> None:
    frames = [make({"a": values, "b": [1.0, 2.0, 3.0]})
              for values in ([1, None, 3], [True, None, False], [1.5, None, 2.5])]  # fmt: skip
    frames.append(pandas.DataFrame({"a": pandas.array([1, None, 3], dtype="Int64")}))
    for frame in frames:
        with raises(DataError, "X", "NaN", "row 1"):
            validate.features(frame)


@pytest.mark.parametrize("make", [pandas.DataFrame, pyarrow.table])
def test_columns_without_numbers_are_named(make: Any) -> None:
    frame = make({"size": [1.0, 2.0], "title": ["a", "b"], "tags": [["x"], []]})
    with raises(DataError, "X", "title", "tags"):
        validate.features(frame)
    categories = pandas.DataFrame({"size": [1.0, 2.0], "kind": pandas.Categorical(["a", "b"])})
    with raises(DataError, "kind"):
        validate.features(categories)
    dates = pandas.DataFrame({"day": pandas.to_datetime(["2020-01-01"]), "z": [1j]})
    with raises(DataError, "day", "datetime64", "'z'", "complex128"):
        validate.features(dates)


# ---------------------------------------- texts

TEXTS = ["whales at sea", "bread and cakes"]
TEXT_FRAMES: dict[str, Callable[[list[Any]], Any]] = {
    "series": pandas.Series,
    "categories": lambda texts: pandas.Series(texts, dtype="category"),
    "object": lambda texts: pandas.Series(texts, dtype=object),
    "index": pandas.Index,
    "frame": lambda texts: pandas.DataFrame({"id": range(len(texts)), "text": texts}),
    "array": pyarrow.array,
    "chunked": lambda texts: pyarrow.chunked_array([texts[:1], texts[1:]]),
    "table": lambda texts: pyarrow.table({"text": texts, "n": range(len(texts))}),
    "dictionary": lambda texts: pyarrow.array(texts).dictionary_encode(),
    "large": lambda texts: pyarrow.array(texts, "large_string"),
}
if polars is not None:
    TEXT_FRAMES["polars series"] = polars.Series
    TEXT_FRAMES["polars"] = lambda texts: polars.DataFrame({"n": range(len(texts)), "text": texts})


@pytest.mark.parametrize("form", TEXT_FRAMES)
def test_texts_from_every_container(form: str) -> None:
    assert texts_of(TEXT_FRAMES[form](TEXTS)) == TEXTS


@pytest.mark.parametrize("form", TEXT_FRAMES)
def test_a_missing_text_is_refused_with_its_row(form: str) -> None:
    with raises(DataError, "row 1"):
        texts_of(TEXT_FRAMES[form](["whales", None]))


@pytest.mark.parametrize("make", [pandas.DataFrame, pyarrow.table])
def test_which_column_has_the_texts_must_be_clear(make: Any) -> None:
    with raises(DataError, 2, "title", "text"):
        texts_of(make({"title": ["a"], "n": [1], "text": ["b"]}))
    with raises(DataError, "column"):
        texts_of(make({"n": [1], "m": [2]}))
    assert texts_of(make({"text": []})) == []


def test_categories_that_are_numbers_are_no_texts() -> None:
    frame = pandas.DataFrame({"size": pandas.Categorical([1, 2]), "text": ["a", "b"]})
    assert texts_of(frame) == ["a", "b"]


def test_a_dict_has_no_texts_but_keys() -> None:
    with raises(DataError, "title", "text"):
        texts_of({"title": TEXTS, "text": TEXTS})


def test_what_has_no_first_row_is_refused() -> None:
    for read in (texts_of, labels_of, validate.features):
        with raises(DataError, "set", "list"):
            read(set(TEXTS))
        if polars is not None:
            with raises(DataError, "LazyFrame", ".collect()"):
                read(polars.LazyFrame({"text": TEXTS}))


# ---------------------------------------- labels

LISTS = [["sea", "ships"], [], ["land"]]


@pytest.mark.parametrize("rows", [LISTS, [[1, 2], [], [0]]])
def test_labels_in_a_column_of_lists(rows: list[Any]) -> None:
    forms = [pandas.Series(rows), pandas.DataFrame({"labels": rows}), pyarrow.array(rows), pyarrow.table({"l": rows})]
    if polars is not None:
        forms += [polars.Series(rows), polars.DataFrame({"l": rows})]
    for form in forms:
        assert labels_of(form) == rows and label_columns(form) is None
    missing = [rows[0], None, rows[2]]
    assert labels_of(pandas.Series(missing)) == labels_of(pyarrow.array(missing)) == rows


@pytest.mark.parametrize("dtype", ["int64", "Int64", "int64[pyarrow]", object, "category"])
def test_class_numbers_that_no_double_holds(dtype: Any) -> None:
    numbers = [2**60 + 1, 2**60 + 2, 2**60 + 1]
    assert XRLinear(n_jobs=1).fit(np.eye(3), pandas.Series(numbers, dtype=dtype)).classes_.tolist() == numbers[:2]


def test_one_class_a_row_in_a_column() -> None:
    for names in (["b", "a", "b"], [3, 1, 3]):
        forms = [pandas.Series(names), pyarrow.array(names), pandas.Series(names, dtype="category")]
        forms += [] if polars is None else [polars.Series(names)]
        for form in forms:
            assert list(labels_of(form)) == names
    assert labels_of(pandas.DataFrame({"class": ["b", "a"]})) == ["b", "a"]
    with raises(DataError, "Y", "row 1"):
        labels_of(pandas.Series(["a", None]))


@pytest.mark.parametrize("form", FRAMES)
def test_a_frame_with_a_column_for_each_label(form: str) -> None:
    Y = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], np.float32)
    frame = FRAMES[form](Y)
    assert label_columns(frame) == ["c0", "c1", "c2"]
    assert bits(validate.labels(frame)) == bits(validate.labels(Y))


def test_columns_that_are_numbered_give_no_names() -> None:
    assert label_columns(pandas.DataFrame(np.eye(3))) is None
    assert label_columns(pandas.DataFrame(np.eye(2), columns=[10, 20])) == ["10", "20"]


def test_one_column_of_numbers_may_be_either() -> None:
    with raises(DataError, "Y", "'class'"):
        labels_of(pandas.DataFrame({"class": [0, 1]}))
    flags = pandas.DataFrame({"spam": [True, False]})
    assert label_columns(flags) == ["spam"] and labels_of(flags).tolist() == [[1], [0]]


def test_labels_in_columns_of_both_kinds_are_refused() -> None:
    with raises(DataError, "Y", 2, "name"):
        labels_of(pandas.DataFrame({"name": ["a"], "n": [1]}))
    twice = pandas.DataFrame(np.eye(2), columns=["a", "a"])
    with raises(DataError, "Y", "'a'"):
        label_columns(twice)


# ---------------------------------------- tensors


def test_tensors_that_are_no_arrays_are_refused() -> None:
    with raises(DataError, "X", "X.detach"):
        validate.features(torch.eye(2, requires_grad=True))
    with raises(DataError, "X", "torch.bfloat16", "NumPy"):
        validate.features(torch.eye(2, dtype=torch.bfloat16))
    with raises(DataError, "X", "torch.float32", "NumPy"):
        validate.features(torch.eye(2).to_sparse())
    with raises(DataError, "X", "tensor.detach"):
        validate.features([torch.ones(2, requires_grad=True)])


class OnDevice:
    """A tensor that isn't on the CPU."""

    def __init__(self, kind: int) -> None:
        self.kind = kind

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("nothing is copied from a device")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0


def test_another_device_is_refused() -> None:
    for kind, words in ((2, "CUDA"), (8, "Metal"), (99, "DLPack's number 99")):
        with raises(DataError, "X", words, "CPU"):
            validate.features(OnDevice(kind))
    with raises(DataError, "Y", "CUDA"):
        validate.labels(OnDevice(2))
    with raises(DataError, "torch.float32", "NumPy"):
        validate.vectors(torch.eye(2, device="meta"))


def test_labels_and_weights_from_tensors_and_columns() -> None:
    ids = np.array([2, 0, 1])
    for form in (torch.from_numpy(ids), pandas.Series(ids), pyarrow.array(ids)):
        assert bits(validate.labels(form)) == bits(validate.labels(ids))
        weight = validate.sample_weight(form, 3)
        assert weight is not None and weight.tolist() == [2, 0, 1]
    with raises(DataError, "sample_weight"):
        validate.sample_weight(pandas.Series([1.0, None, 2.0]), 3)


# ---------------------------------------- what is loaded


def test_nothing_is_a_frame_that_nobody_could_have_made() -> None:
    for value in (np.eye(2), [[1.0]], ("a",), "a", {"a": 1}, sp.csr_matrix((2, 2)), 3, None):
        assert not is_frame(value)


def test_frames_of_one_library_load_no_other() -> None:
    code = (
        "import sys, numpy; from sylvan.arrays import validate\n"
        "validate.features(numpy.eye(2)); assert not {'pandas', 'polars', 'pyarrow'} & set(sys.modules)\n"
        "import pandas; had = 'pyarrow' in sys.modules\n"
        "validate.features(pandas.DataFrame({'a': [1.0], 'b': [2.0]})); assert had or 'pyarrow' not in sys.modules\n"
        "import pyarrow; validate.features(pyarrow.table({'a': [1.0]})); sys.exit('polars' in sys.modules)"
    )
    assert child_processes.python("-c", code).returncode == 0


def test_without_pyarrow_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = Streamed(pyarrow.table({"a": [1.0]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with raises(ImportError, "sylvan[frames]"):
        validate.features(frame)
    assert validate.features(pandas.DataFrame({"a": [1.0]})).shape == (1, 1)
