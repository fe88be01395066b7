"""Class counts are checked in one place, in sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from kit.errors import raises

from sylvan.errors import DataError
from sylvan.sampling import InBatch, Unigram
from sylvan.sampling.samplers.base import class_counts


@pytest.mark.parametrize(
    "values",
    [
        [2, 0, 1],
        (2.0, 0.0, 1.0),
        np.array([2, 0, 1], np.uint16),
        np.array([2, 0, 1], np.float16),
        torch.tensor([2, 0, 1]),
        torch.tensor([2, 0, 1], dtype=torch.bfloat16),
    ],
)
def test_every_form_gives_the_same(values: Any) -> None:
    found = class_counts(values, 3, owner="Unigram")
    assert found.dtype == torch.float64
    assert found.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2], "(2,)"),
        ([[1, 2, 3]], "(1, 3)"),
        (5, ("counts", "()")),
        ([1, -2, 3], (1, -2)),
        ([1, float("nan"), 3], "NaN"),
        ([1, float("inf"), 3], "NaN"),
        ([0, 0, 0], ("sum", 0)),
        (["a", "b", "c"], ("counts", "list")),
        (None, "NoneType"),
        ([1, [2], 3], ("counts", "list")),
        ([1e308, 1e308, 1e308], ("inf", "sum")),
        (torch.tensor([1j, 1, 1]), ("counts", "torch.complex64")),
    ],
)
@pytest.mark.parametrize("sampler", [Unigram, InBatch])
def test_wrong_counts_are_refused_in_a_sentence(sampler: Any, values: Any, message: object) -> None:
    if values is None and sampler is InBatch:
        pytest.skip("None means that InBatch estimates")
    with raises(DataError, message) as caught:
        sampler(3, values)
    assert f"'counts' of {sampler.__name__} must be 3 numbers in [0, inf)" in str(caught.value)


def test_the_users_counts_are_left_alone() -> None:
    values = np.array([3.0, 1.0])
    Unigram(2, values, power=0.5)
    assert values.tolist() == [3.0, 1.0]
