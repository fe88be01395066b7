"""Feature matrices: every form of one matrix becomes the same canonical arrays, every fault a sentence."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from kit.errors import raises

from sylvan.arrays import validate
from sylvan.errors import DataError, ParameterError, SylvanError

DENSE = np.array([[0, 1.5, 0, -2], [0, 0, 0, 0], [3, 0, 0.25, 0]], np.float32)


def same(csr: validate.Csr, dense: np.ndarray) -> None:
    """``csr`` is canonical and means ``dense``."""
    expected = sp.csr_matrix(np.asarray(dense, np.float32))
    assert csr.indptr.dtype == np.int64
    assert csr.indices.dtype == np.int32
    assert csr.data.dtype == np.float32
    assert csr.shape == dense.shape
    np.testing.assert_array_equal(csr.indptr, expected.indptr)
    np.testing.assert_array_equal(csr.indices, expected.indices)
    np.testing.assert_array_equal(csr.data, expected.data)


def unsorted() -> sp.csr_matrix:
    """DENSE with its columns backwards and one value in two halves."""
    return sp.csr_matrix(
        (np.array([-2, 0.5, 1.0, 0.25, 3], np.float32), np.array([3, 1, 1, 2, 0]), np.array([0, 3, 3, 5])), shape=(3, 4)
    )


def int64_indices(kind: type) -> sp.csr_matrix:
    matrix = kind(DENSE)
    matrix.indices = matrix.indices.astype(np.int64)
    matrix.indptr = matrix.indptr.astype(np.int64)
    return matrix


def longer_than_needed() -> sp.csr_matrix:
    matrix = sp.csr_matrix(DENSE)
    matrix.data = np.append(matrix.data, np.float32(np.nan))
    matrix.indices = np.append(matrix.indices, np.int32(99))
    return matrix


def big_endian() -> sp.csr_matrix:
    matrix = sp.csr_matrix(DENSE)
    matrix.data = matrix.data.astype(">f8")
    return matrix


def explicit_zero() -> sp.csr_matrix:
    matrix = sp.csr_matrix(np.where(DENSE == 0, 1, DENSE))
    matrix.data[matrix.data == 1] = 0
    return matrix


def read_only() -> np.ndarray:
    array = DENSE.copy()
    array.setflags(write=False)
    return array


FORMS = {
    "csr": lambda: sp.csr_matrix(DENSE), "csr_array": lambda: sp.csr_array(DENSE), "csc": lambda: sp.csc_matrix(DENSE),
    "csc_array": lambda: sp.csc_array(DENSE), "coo": lambda: sp.coo_matrix(DENSE),
    "coo_array": lambda: sp.coo_array(DENSE), "lil": lambda: sp.lil_matrix(DENSE), "dok": lambda: sp.dok_matrix(DENSE),
    "bsr": lambda: sp.bsr_matrix(DENSE), "dia": lambda: sp.dia_matrix(DENSE),
    "float64 csr": lambda: sp.csr_matrix(DENSE.astype(np.float64)),
    "int64 indices": lambda: int64_indices(sp.csr_matrix), "int64 indices csc": lambda: int64_indices(sp.csc_matrix),
    "unsorted and repeated": unsorted, "unsorted csc": lambda: sp.csc_matrix(unsorted()),
    "explicit zeros": explicit_zero, "arrays longer than needed": longer_than_needed, "dense": lambda: DENSE.copy(),
    "dense float64": lambda: DENSE.astype(np.float64), "dense float16": lambda: DENSE.astype(np.float16),
    "dense longdouble": lambda: DENSE.astype(np.longdouble), "dense big-endian": lambda: DENSE.astype(">f4"),
    "csr big-endian": big_endian, "fortran": lambda: np.asfortranarray(DENSE),
    "every second column": lambda: np.repeat(DENSE, 2, axis=1)[:, ::2],
    "backwards": lambda: DENSE[::-1, ::-1].copy()[::-1, ::-1], "read-only": read_only,
    "list of lists": lambda: DENSE.tolist(), "object dtype": lambda: DENSE.astype(object),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_matrix_is_one(form: str) -> None:
    same(validate.features(FORMS[form]()), DENSE)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_integers_and_flags_are_numbers(dtype: type, kind: type) -> None:
    dense = np.array([[0, 1, 0], [1, 0, 1]], dtype)
    same(validate.features(kind(dense)), dense.astype(np.float32))


def test_a_canonical_matrix_is_not_copied() -> None:
    matrix = sp.csr_matrix(DENSE)
    csr = validate.features(matrix)
    assert csr.data is matrix.data
    assert csr.indices is matrix.indices


@pytest.mark.parametrize("form", FORMS)
def test_the_users_object_is_left_alone(form: str) -> None:
    given_, untouched = FORMS[form](), FORMS[form]()
    validate.features(given_)
    if sp.issparse(given_):
        for name in ("indptr", "indices", "data"):
            if hasattr(given_, name) and given_.format != "lil":
                np.testing.assert_array_equal(getattr(given_, name), getattr(untouched, name))
                assert getattr(given_, name).dtype == getattr(untouched, name).dtype
    else:
        np.testing.assert_array_equal(np.asarray(given_), np.asarray(untouched))


def test_scipys_flags_are_not_trusted() -> None:
    matrix = unsorted()
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    same(validate.features(matrix), DENSE)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_and_infinity_are_refused_with_their_row(bad: float, kind: type, dtype: type) -> None:
    dense = DENSE.astype(dtype)
    dense[2, 0] = bad
    axis = "column 0" if kind is sp.csc_matrix else "row 2"
    with raises(DataError, "X", "inf", axis):
        validate.features(kind(dense))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_values_beyond_float32_are_refused(kind: type) -> None:
    with raises(DataError, "float32", "row 0"):
        validate.features(kind(np.array([[1e300, 1.0]])))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_values_below_float32_are_zeros(kind: type) -> None:
    same(validate.features(kind(np.array([[1e-300, 1.0]]))), np.array([[0.0, 1.0]]))


def corrupt(name: str) -> sp.csr_matrix:
    """A matrix that scipy believes in and that would make a careless kernel read or write anywhere."""
    kind = sp.csc_matrix if name.startswith("csc") else sp.csr_matrix
    matrix = kind(DENSE)
    if name.endswith("index too high"):
        matrix.indices[1] = 10**6
    elif name.endswith("negative index"):
        matrix.indices[0] = -1
    elif name.endswith("offset beyond the end"):
        matrix.indptr[-1] = 10**6
    elif name.endswith("falling offsets"):
        matrix.indptr[1] = 3
        matrix.indptr[2] = 1
    elif name.endswith("offset below 0"):
        matrix.indptr[1] = -5
    elif name.endswith("offset not from 0"):
        matrix.indptr[0] = 1
    elif name.endswith("negative end"):
        matrix.indptr[-1] = -4
    elif name.endswith("short offsets"):
        matrix.indptr = matrix.indptr[:-1]
    elif name.endswith("long offsets"):
        matrix.indptr = np.append(matrix.indptr, matrix.indptr[-1])
    elif name.endswith("no offsets"):
        matrix.indptr = np.empty(0, np.int32)
    elif name.endswith("short indices"):
        matrix.indices = matrix.indices[:-1]
    elif name.endswith("float indices"):
        matrix.indices = matrix.indices.astype(np.float64)
    elif name.endswith("index beyond int32"):
        matrix.indices = matrix.indices.astype(np.int64) + 2**32
    else:
        assert name.endswith("two-dimensional data")
        matrix.data = matrix.data.reshape(2, 2)
    return matrix


FAULTS = (
    "index too high", "negative index", "offset beyond the end", "falling offsets", "offset below 0",
    "offset not from 0", "negative end", "short offsets", "long offsets", "no offsets", "short indices",
    "float indices", "index beyond int32", "two-dimensional data",
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_corrupt_matrix_is_a_sentence(kind: str, fault: str, dtype: type) -> None:
    matrix = corrupt(f"{kind} {fault}")
    if fault != "two-dimensional data":
        matrix.data = matrix.data.astype(dtype)
    with raises(DataError, "X", "(3, 4)"):
        validate.features(matrix)


def test_corrupt_coordinates_are_a_sentence() -> None:
    matrix = sp.coo_matrix(DENSE)
    matrix.coords[0][0] = 77
    with raises(DataError, "X"):
        validate.features(matrix)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ("some text", ("X", "text")), (["one", "two"], ("X", "text")), (np.array(["one"], object), ("X", "text")),
        (DENSE[0], "(4,)"), (DENSE[None], "dimensions"), (np.float32(3), "dimensions"), (None, "X"),
        ([[1.0], [1.0, 2.0]], ("X", "(2,)")), (DENSE.astype(complex), "supported"),
        (sp.csr_matrix(DENSE.astype(complex)), "supported"),
        (np.array([["2020-01-01"]], "datetime64[D]"), ("X", "numbers")), (np.array([[{}]], object), ("X", "numbers")),
        (np.ma.masked_array(DENSE, DENSE == 3), "masked"), (sp.csr_array(np.array([1.0, 0.0])), "dimensions"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:12],
)  # fmt: skip
def test_what_is_no_matrix_is_a_sentence(bad: object, sentence: object) -> None:
    with raises(DataError, sentence):
        validate.features(bad)


def test_another_number_of_features_is_refused_with_both_shapes() -> None:
    with raises(DataError, "(3, 4)", "(3, 7)"):
        validate.features(DENSE, n_features=7)


def test_no_rows_are_fine_for_ranking_and_refused_for_fitting() -> None:
    assert validate.features(DENSE[:0]).shape == (0, 4)
    assert validate.features(sp.csr_matrix((0, 4))).shape == (0, 4)
    with raises(DataError, "(0, 4)"):
        validate.features(DENSE[:0], min_rows=1)
    with raises(DataError, "feature", 0):
        validate.features(DENSE[:, :0], min_rows=1)


def test_columns_up_to_the_limit() -> None:
    wide = sp.csr_matrix(([1.0], [2**31 - 2], [0, 1]), shape=(1, 2**31 - 1))
    assert validate.features(wide).indices.tolist() == [2**31 - 2]
    with raises(DataError, 2147483647):
        validate.features(sp.csr_matrix((1, 2**31)))


def test_dense_blocks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sylvan.arrays.canonical._DENSE_BLOCK", 8)
    dense = np.random.default_rng(0).integers(-1, 2, (7, 4))
    same(validate.features(dense), dense.astype(np.float32))
    dense = dense.astype(np.float64)
    dense[6, 1] = np.nan
    with raises(DataError, "row 6"):
        validate.features(np.asfortranarray(dense))


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6),
        elements=st.one_of(st.just(0.0), st.floats(width=32), st.floats()),
    )
)
def test_dense_and_sparse_agree_errors_included(dense: np.ndarray) -> None:
    answers = []
    for form in (dense, np.asfortranarray(dense), sp.csr_matrix(dense), sp.coo_matrix(dense)):
        try:
            csr = validate.features(form)
            answers.append([csr.indptr.tolist(), csr.indices.tolist(), csr.data.tolist(), csr.shape])
        except DataError as error:
            answers.append(str(error))
    assert all(answer == answers[0] for answer in answers[1:])


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_unsorted_and_repeated_entries_are_summed(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    entry = st.tuples(
        st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1), st.sampled_from([-1.0, 0.0, 0.5, 2.0])
    )
    rows, columns, values = np.array(data.draw(st.lists(entry, max_size=30)) or [(0, 0, 0.0)]).T
    order = np.argsort(rows, kind="stable")
    indptr = np.searchsorted(rows[order], np.arange(shape[0] + 1))
    index_type = data.draw(st.sampled_from([np.int32, np.int64]))
    value_type = data.draw(st.sampled_from([np.float32, np.float64, np.int64]))
    values = (values * 2).astype(value_type)
    matrix = sp.csr_matrix(shape, dtype=value_type)
    matrix.indptr, matrix.indices = indptr.astype(index_type), columns[order].astype(index_type)
    matrix.data = values[order]
    dense = np.zeros(shape)
    np.add.at(dense, (rows.astype(int), columns.astype(int)), values)
    same(validate.features(matrix), dense)


@pytest.mark.parametrize("value", [1, 7, np.int32(3), np.int64(2)])
def test_counts_are_ints(value: int) -> None:
    assert validate.count(value, "k") == int(value)
    assert type(validate.count(value, "k")) is int


@pytest.mark.parametrize("value", [0, -1, 1.0, True, np.bool_(True), "3", None, 2**31, np.float64(2), np.array([1])])
def test_other_counts_are_refused(value: object) -> None:
    with raises(ParameterError, "'k'", "[1, 2147483647]"):
        validate.count(value, "k")


def test_errors_are_value_errors_too() -> None:
    with pytest.raises(ValueError):
        validate.features("x")
    assert issubclass(DataError, SylvanError)


@pytest.mark.parametrize("row", range(5))
def test_a_row_with_nan_is_found_in_every_block(row: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "_VECTOR_ROWS", 2)
    dense = np.ones((5, 3), np.float32)
    assert validate.dense_features(dense) is dense and validate.vectors(dense, name="base") is dense
    dense[row, 1] = np.nan
    assert validate.dense_features(dense) is None, "features() says what is wrong"
    with raises(DataError, "NaN", row):
        validate.vectors(dense, name="base")


@settings(max_examples=40)
@given(
    X=hnp.arrays(
        np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.sampled_from([0, 0, 1, -2.5])
    )
)
def test_squares_and_unit_rows_are_numpys_whatever_the_blocks(X: np.ndarray) -> None:
    csr = validate.features(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sylvan.arrays.canonical._BLOCK_VALUES", 3)
        squares = np.square(X, dtype=np.float64)
        np.testing.assert_allclose(csr.row_squares(), squares.sum(1))
        columns, counts = csr.column_squares()
        np.testing.assert_allclose(columns, squares.sum(0))
        assert counts.tolist() == (X != 0).sum(0).tolist()
        lengths = np.sqrt(squares.sum(1, keepdims=True))
        np.testing.assert_allclose(csr.unit_rows().to_scipy().toarray(), X / np.where(lengths, lengths, 1), rtol=1e-5)


@pytest.mark.parametrize(("shape", "hinted"), [((), False), ((3,), True), ((2, 2, 2), False)])
def test_a_single_row_is_told_how_to_be_a_matrix(shape: tuple[int, ...], hinted: bool) -> None:
    with raises(DataError, "X", "2D") as caught:
        validate.features(np.zeros(shape))
    assert ("X.reshape(1, -1)" in str(caught.value)) == hinted
