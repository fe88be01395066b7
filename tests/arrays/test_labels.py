"""Label matrices, lists of ids, class ids and weights."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan.arrays import validate
from sylvan.errors import DataError
from sylvan.labels.targets import Targets

DENSE = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], np.float32)


def object_rows(*rows: object) -> np.ndarray:
    array = np.empty(len(rows), object)
    array[:] = rows
    return array


@pytest.mark.parametrize(
    "Y",
    [
        DENSE, DENSE.astype(bool), DENSE.astype(int), sp.csr_matrix(DENSE), sp.csc_array(DENSE.astype(bool)),
        sp.coo_matrix(DENSE.astype(np.int64)), [[2, 0], [], [1]], [[2, 0, 2], [], [1, 1, 1]], [(2.0, 0.0), (), (1.0,)],
        [{0, 2}, set(), {1}], [np.array([0, 2]), np.array([], int), np.array([1])], ([0, 2], [], [1]),
        object_rows([0, 2], [], [1]),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_every_form_of_the_labels_is_one(Y: object) -> None:
    csr = validate.labels(Y)
    np.testing.assert_array_equal(csr.to_scipy().toarray(), DENSE)
    assert csr.indices.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    "Y", [[2, 0, 1], (2, 0, 1), np.array([2, 0, 1]), np.array([2.0, 0, 1]), np.array([2, 0, 1], object)]
)
def test_one_class_id_a_row(Y: object) -> None:
    assert validate.labels(Y).to_scipy().toarray().tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert validate.labels(Y, n_labels=5).shape == (3, 5)


def test_relevances_are_kept_and_stored_zeros_are_no_labels() -> None:
    Y = sp.csr_matrix(([2.5, 0.0, 1.0], [0, 1, 2], [0, 2, 3]), shape=(2, 3))
    csr = validate.labels(Y)
    assert csr.data.tolist() == [2.5, 1.0]
    assert csr.indices.tolist() == [0, 2]
    assert Y.nnz == 3


def test_a_flag_named_twice_is_one_label() -> None:
    Y = sp.csr_matrix((np.array([True, True]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
    assert validate.labels(Y).data.tolist() == [1.0]


@pytest.mark.parametrize(
    ("Y", "sentence"),
    [
        (None, ("Y", "None")), ("abc", ("Y", "str")), (3, ("Y", "matrix")), ({0: 1}, ("Y", "matrix")),
        ([["whales"], ["sea"]], ("Y", "row 0", "label")), ([[0], ["sea"]], "row 0"), (["whales", "sea"], "row 0"),
        (np.array(["whales", "sea"]), "row 0"), ([[0], 3], (1, "Y", 3)),
        ([[True, False], [False, True]], ("Y", "True and False", "np.asarray")), ([[0], None], (1, "Y", "None")),
        ([[0], [-1]], ("Y", -1, "row 1")), ([[0], [1.5]], ("Y", "1.5", "row 1")), ([0, -1], ("Y", -1, "row 1")),
        ([0.0, np.nan], ("Y", "nan", "row 1")), ([0.0, np.inf], ("Y", "inf", "row 1")),
        ([[0], [2**31]], ("Y", "row 1")), ([[0], [2**70]], ("Y", "row 1")), ([[0], [[1, 2]]], "Y"),
        (np.zeros((2, 2, 2)), "dimensions"), (-DENSE, ("Y", "row 0", "negative")),
        (sp.csr_matrix(np.array([[1, 0], [0, -2]])), ("Y", "row 1", "negative")), (np.array([[np.nan]]), ("Y", "NaN")),
        (np.array([1j]), "supported"),
    ],
)  # fmt: skip
def test_what_is_no_label_matrix_is_a_sentence(Y: object, sentence: object) -> None:
    with raises(DataError, sentence):
        validate.labels(Y)


def test_sizes_are_held() -> None:
    with raises(DataError, "Y", "(3, 3)", 4):
        validate.labels(DENSE, n_rows=4)
    with raises(DataError, "Y", "(3, 3)", 4):
        validate.labels(DENSE, n_labels=4)
    with raises(DataError, "Y", "label 7", "row 1", 5):
        validate.labels([[1], [7]], n_labels=5)


def test_a_pair_must_have_the_same_rows_and_some_labels() -> None:
    X = np.ones((2, 4))
    with raises(DataError, "X", "(2, 4)", "Y", "(3, 3)"):
        validate.pair(X, DENSE)
    with raises(DataError, "(2, 0)"):
        validate.pair(X, [[], []])
    with raises(DataError, "(0, 4)"):
        validate.pair(X[:0], DENSE[:0])
    x, y = validate.pair(X, DENSE[:2])
    assert x.shape == (2, 4)
    assert y.shape == (2, 3)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=8))
def test_lists_of_ids_mean_sets(rows: list[list[int]]) -> None:
    csr = validate.labels(rows, n_labels=10)
    assert [set(csr.indices[a:b].tolist()) for a, b in zip(csr.indptr, csr.indptr[1:], strict=False)] == [
        set(row) for row in rows
    ]
    assert (csr.data == 1).all()


def test_weights() -> None:
    assert validate.sample_weight(None, 3) is None
    weights = validate.sample_weight([1, 0, 2.5], 3)
    assert weights is not None
    assert weights.dtype == np.float32
    assert weights.tolist() == [1, 0, 2.5]


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1, 2], ("(2,)", "X", "(3,)")), (1.0, ("X", "sample_weight", "()")), ([[1, 2, 3]], "(1, 3)"),
        ([1, -1, 1], (-1, "row 1")), ([1, np.nan, 1], ("nan", "row 1")), ([1, np.inf, 1], ("inf", "row 1")),
        ([1, 1e300, 1], "row 1"), (["a", "b", "c"], "text"), (sp.csr_matrix([[1, 2, 3]]), "dense"),
    ],
)  # fmt: skip
def test_other_weights_are_refused(weights: object, sentence: object) -> None:
    with raises(DataError, sentence):
        validate.sample_weight(weights, 3)


@pytest.mark.parametrize(
    "rows",
    [[{7: 0.5, 3: 1.0}, {3: 2.0}], [[(7, 0.5), (3, 1.0)], [(3, 2.0)]], [{7: 0.5, 3: 1.0}, [(3, 2.0)]]],
    ids=["dicts", "pairs", "both"],
)
def test_numbers_with_relevances_are_names_of_classes(rows: list[object]) -> None:
    targets = Targets.read(rows, "Y")
    assert targets.matrix.to_scipy().toarray().tolist() == [[1.0, 0.5], [2.0, 0.0]]


def test_a_very_wide_matrix_costs_the_columns_that_occur() -> None:
    """Its columns are labels by their numbers, as long as few of them occur."""
    wide = sp.csr_matrix(([1.0, 1.0, 1.0], ([0, 0, 1], [5, 20_000_000, 5])), shape=(2, 1 << 25))
    targets = Targets.read(wide, "Y")
    assert targets.matrix.shape == (2, 2) and list(targets.names) == ["5", "20000000"]
    assert Targets.read(wide[:, : 1 << 10], "Y").matrix.shape == (2, 1 << 10)
