"""What the kernels for candidates' columns refuse: they trust no offset and no label."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import kernels

NUMBER = st.integers(-3, 9)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def longs(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


LABELS, MEANS = ints(0, 1)[None], np.ones((1, 2), np.float32)
ONES, KINDS = np.ones(2, np.float32), np.zeros(2, np.uint8)
NEAREST = ints(0, 1)[None]


# The kernel, what it is given beside the labels, the shape of the output, and what its sentence names.
REFUSED: list[tuple[str, tuple[Any, ...], tuple[int, int], str]] = [
    ("member_columns", (NEAREST, MEANS, longs(0, 3)), (2, 8), "bounds"),
    ("member_columns", (NEAREST, MEANS, longs()), (2, 8), "bounds"),
    ("member_columns", (NEAREST, MEANS[:, :1], longs(0, 2)), (2, 8), "disagree"),
    ("member_columns", (NEAREST, MEANS, longs(0, 2)), (2, 4), "output"),
    ("member_columns", (NEAREST, MEANS, longs(0, 2)), (1, 8), "output"),
    ("together_columns", (MEANS, longs(0, 1, 2), ints(1, 0), ONES, longs(1, 1, 1), 10), (2, 8), "disagree"),
    ("together_columns", (MEANS, longs(0, 2), ints(1, 0), ONES, longs(1), 10), (2, 8), "range"),
    ("together_columns", (MEANS, longs(0, 9, 9), ints(1, 0), ONES, longs(1, 1), 10), (2, 8), "range"),
    ("neighbor_columns", (ints(0, 2)[None], MEANS, longs(0, 1, 2), ints(0, 1)), (2, 8), "neighbour"),
    ("neighbor_columns", (NEAREST, MEANS, longs(0, -1, 2), ints(0, 1)), (2, 8), "neighbour"),
    ("neighbor_columns", (NEAREST, MEANS, longs(), ints(0, 1)), (2, 8), "offsets"),
    ("shared_columns", (MEANS, longs(0, 1, 2), ints(0, 2), ONES, KINDS), (2, 8), "range"),
    ("shared_columns", (MEANS, longs(0, 1, 2), ints(0, 1), ONES, KINDS + 8), (2, 8), "range"),
    ("shared_columns", (MEANS, longs(0, 1), ints(0), ONES[:1], KINDS), (2, 8), "range"),
    ("shared_columns", (MEANS[:, :1], longs(0, 1, 2), ints(0, 1), ONES, KINDS), (2, 8), "means"),
    ("tied_columns", (MEANS, longs(0, 1, 2), ints(1, 4), 2, KINDS), (2, 8), "tie"),
    ("tied_columns", (MEANS, longs(0, 1, 2), ints(1, -1), 2, KINDS), (2, 8), "tie"),
    ("tied_columns", (MEANS, longs(0, 1, 2), ints(1, 0), 0, KINDS), (2, 8), "labels"),
]


@pytest.mark.parametrize(("kernel", "given_", "shape", "sentence"), REFUSED)
def test_refused(kernel: str, given_: tuple[Any, ...], shape: tuple[int, int], sentence: str) -> None:
    with raises(ValueError, sentence):
        getattr(kernels, kernel)(LABELS, *given_, np.zeros(shape, np.float32))


@given(st.data())
@settings(max_examples=100)
def test_whatever_arrays_hold(data: st.DataObject) -> None:
    """Each call is refused or answered; under the sanitizers, without a read or a write that is out of bounds."""
    labels = np.array(data.draw(st.lists(st.permutations(range(-1, 4)), min_size=1, max_size=3)), np.int32)
    n, k = labels.shape
    means = np.full((n, k), 0.5, np.float32)
    offsets = np.array(data.draw(st.lists(NUMBER, max_size=6)), np.int64)
    ids = np.array(data.draw(st.lists(NUMBER, max_size=8)), np.int32)
    kinds = np.array(data.draw(st.lists(st.integers(0, 5), max_size=6)), np.uint8)
    values = np.ones(len(ids), np.float32)
    nearest = np.array(data.draw(st.lists(st.permutations(range(-1, 3)), min_size=n, max_size=n)), np.int32)
    counts = np.ones(max(len(offsets) - 1, 0), np.int64)
    near, width = np.ones(nearest.shape, np.float32), 4
    calls: list[Callable[[np.ndarray], Any]] = [
        lambda out: kernels.member_columns(labels, nearest, near, offsets, out),
        lambda out: kernels.together_columns(labels, means, offsets, ids, values, counts, 3, out),
        lambda out: kernels.neighbor_columns(labels, nearest, near, offsets, ids, out),
        lambda out: kernels.shared_columns(labels, means, offsets, ids, values, kinds, out),
        lambda out: kernels.tied_columns(labels, means, offsets, ids, data.draw(st.integers(0, 5)), kinds, out),
    ]
    for call in calls:
        result = np.zeros((n * k, width), np.float32)
        try:
            call(result)
        except ValueError:
            continue
        assert np.isfinite(result).all() and (result[labels.ravel() < 0] == 0).all()
