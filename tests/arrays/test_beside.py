"""Dense columns beside sparse ones: as scipy's hstack, a row at a time and in blocks."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

from sylvan import kernels
from sylvan.arrays import canonical, validate
from sylvan.arrays.canonical import beside
from sylvan.errors import DataError


def reference(left: sp.csr_matrix, right: np.ndarray) -> sp.csr_matrix:
    """The slow, obvious way."""
    rows = []
    for row in range(left.shape[0]):
        rows.append(np.concatenate([left[row].toarray().ravel(), right[row]]))
    return sp.csr_matrix(np.array(rows, np.float32).reshape(left.shape[0], left.shape[1] + right.shape[1]))


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize(("n", "d", "m"), [(0, 3, 2), (1, 0, 4), (13, 5, 0), (40, 30, 6), (9, 1, 1)])
def test_as_its_reference(n: int, d: int, m: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "_ROW_BLOCK", block)
    rng = np.random.default_rng(n)
    left = sp.random(n, d, 0.3, "csr", np.float32, rng)
    right = rng.normal(size=(n, m)).astype(np.float32) * (rng.random((n, m)) < 0.7)
    found = beside(validate.features(left), right.astype(np.float32))
    expected = reference(left, right)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.data, expected.data)
    assert kernels.check_compressed(found.indptr, found.indices, found.data, found.shape[1])[0] == 0, "canonical"


def test_nothing_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "_ROW_BLOCK", 1 << 14)
    rng = np.random.default_rng(0)
    left = validate.features(sp.random(20_000, 1000, 0.01, "csr", np.float32, rng))
    right = rng.normal(size=(20_000, 100)).astype(np.float32)
    tracemalloc.start()
    found = beside(left, right)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < found.nbytes + 120 * canonical._ROW_BLOCK
    assert peak < 20_000 * 1000 * 4, "the sparse part was never dense"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    right = np.ones((3, 2), np.float32)
    right[2, 1] = bad
    with raises(DataError, "NaN", "inf", "row 2"):
        beside(validate.features(np.eye(3)), right)


def test_sizes_that_do_not_fit() -> None:
    left = validate.features(np.eye(3))
    with raises(DataError, "features", 3, 2):
        beside(left, np.ones((2, 2), np.float32))
    wide = validate.features(sp.csr_matrix((1, 2**31 - 2), dtype=np.float32))
    with raises(DataError, 2147483647):
        beside(wide, np.ones((1, 2), np.float32))
