"""The different ones of some numbers, and some rows of a matrix, are those of NumPy and SciPy."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sylvan.arrays import validate
from sylvan.arrays.canonical import distinct, take_rows


@given(st.lists(st.integers(-5, 40) | st.sampled_from([-(2**31), 2**31 - 1]), max_size=40))
def test_different_numbers(values: list[int]) -> None:
    found = distinct(np.array(values, np.int32))
    assert found.dtype == np.int32 and found.tolist() == sorted(set(values))


@given(st.lists(st.integers(0, 19), max_size=30), st.sampled_from([np.int32, np.int64]))
def test_rows_of_a_matrix(rows: list[int], dtype: type) -> None:
    matrix = validate.features(sp.random(20, 6, 0.3, "csr", np.float32, np.random.default_rng(0)))
    taken = take_rows(matrix, np.array(rows, dtype))
    assert taken.indptr.dtype == np.int64
    assert taken.to_scipy().toarray().tolist() == matrix.to_scipy().toarray()[rows].tolist()
