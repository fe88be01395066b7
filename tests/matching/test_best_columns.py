"""The columns of each row's largest values against a stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan import kernels

AWKWARD = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.4e38], np.float32)


def best(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    columns, found = np.empty((len(values), k), np.int32), np.empty((len(values), k), np.float32)
    kernels.best_columns(values, columns, found)
    return columns, found


@settings(max_examples=300)
@given(
    st.integers(0, 2**32), st.integers(0, 4), st.sampled_from([1, 2, 63, 64, 127, 128, 129, 300, 1000]),
    st.sampled_from([1, 2, 10, 33, 64, 1000]), st.sampled_from([0, 3, 1000, -1]),
)  # fmt: skip
def test_best_columns_are_those_of_a_stable_sort_awkward_values_too(
    seed: int, n: int, n_columns: int, k: int, levels: int
) -> None:
    random = np.random.default_rng(seed)
    if levels > 0:
        values = random.integers(-levels, levels, (n, n_columns)).astype(np.float32)
    elif levels:
        values = random.normal(size=(n, n_columns)).astype(np.float32)
        values[random.random(values.shape) < random.choice([0.0, 0.5, 0.99])] = np.nan
    else:
        values = random.choice(AWKWARD, (n, n_columns))
    k = min(k, n_columns)
    columns, found = best(values, k)
    for row, names, highest in zip(values, columns, found, strict=True):
        known = np.where(np.isnan(row), 0, row)
        expected = np.lexsort((np.arange(n_columns), -known, np.isnan(row)))[:k]
        assert names.tolist() == expected.tolist()
        np.testing.assert_array_equal(highest, row[expected])


def test_the_door_holds_the_sizes() -> None:
    values, columns, found = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int32), np.zeros((2, 3), np.float32)
    kernels.best_columns(values, columns, found)
    kernels.best_columns(values, columns[:, :0].copy(), found[:, :0].copy())
    for wrong in (
        (values, columns[:1], found),
        (values, columns, found[:1]),
        (values, columns[:, :2].copy(), found),
        (values[:, :2].copy(), columns, found),
    ):
        with pytest.raises(ValueError, match=r"disagree|out of range"):
            kernels.best_columns(*wrong)
