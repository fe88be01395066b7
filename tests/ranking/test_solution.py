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


def test_no_multiplier_is_lost() -> None:
    small = np.array([[0, 1e-30, 1e-6], [0.1, 1, 1e30]], np.float32)
    kept = rounded(small)
    assert kept.dtype == np.float16
    np.testing.assert_array_equal(kept > 0, small > 0)
    assert np.isfinite(kept).all()
    assert kept[1, 1] == 1
