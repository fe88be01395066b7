"""How multipliers are kept in half the bytes."""

from __future__ import annotations

import numpy as np

from sylvan.ranking.solution import WIDENED, column_sums, rounded, widened

EVERY = np.arange(0x7C00, dtype=np.uint16).view(np.float16)  # all halfs that are finite and not negative


def test_widened_multipliers_are_those_that_were_kept() -> None:
    np.testing.assert_array_equal(widened(EVERY) * WIDENED, EVERY.astype(np.float32))


def test_column_sums_are_those_of_floats() -> None:
    matrix = np.random.default_rng(0).permutation(EVERY)[:31_700].reshape(-1, 10)
    np.testing.assert_array_equal(column_sums(matrix), matrix.astype(np.float32).sum(axis=0))
    assert column_sums(matrix[:0]).tolist() == [0] * 10


def test_the_sum_of_a_column_is_the_same_beside_others() -> None:
    """Sums that were kept when some children were solved stand for those that a loaded model computes of all."""
    matrix = np.random.default_rng(0).uniform(0, 1, (5000, 9)).astype(np.float16)
    every = column_sums(matrix)
    for n in (1, 2, 8):
        np.testing.assert_array_equal(column_sums(matrix[:, :n].copy()), every[:n])
    with_others = np.insert(matrix, np.arange(0, 5000, 7), np.float16(0), axis=0)  # of rows that nothing depends on
    np.testing.assert_array_equal(column_sums(with_others), every)
    assert column_sums(matrix[:0, :1]).tolist() == [0]


def test_no_multiplier_is_lost() -> None:
    small = np.array([[0, 1e-30, 1e-6], [0.1, 1, 1e30]], np.float32)
    kept = rounded(small)
    assert kept.dtype == np.float16
    np.testing.assert_array_equal(kept > 0, small > 0)
    assert np.isfinite(kept).all()
    assert kept[1, 1] == 1
