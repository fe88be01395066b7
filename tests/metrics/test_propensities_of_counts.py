"""Propensities from the counts that a model keeps."""

import numpy as np
import pytest
from kit.errors import raises

from sylvan import metrics
from sylvan.errors import DataError, ParameterError


def test_the_same_as_from_the_labels() -> None:
    labels = [[0, 2], [2], [1, 2], [0], [2, 0], [2]]
    assert np.array_equal(metrics.propensities(labels), metrics.propensities_of_counts([3, 1, 5], 6))


@pytest.mark.parametrize(("counts", "n_rows"), [([7], 6), ([-1], 6), ([[1]], 6), ([0.5], 6), ([[1], [2, 3]], 6)])
def test_impossible_counts_are_refused(counts: list[int], n_rows: int) -> None:
    with raises(DataError, "counts"):
        metrics.propensities_of_counts(counts, n_rows)


def test_parameters_out_of_range_are_refused() -> None:
    with raises(ParameterError, "'B'", "0.0"):
        metrics.propensities_of_counts([1], 6, B=0.0)
    for n_rows in (0, 2.5, "4"):
        with raises(ParameterError, "n_rows", repr(n_rows)):
            metrics.propensities_of_counts([1], n_rows)  # type: ignore[arg-type]
