"""Rows that follow others in the same arrays: nobody's rows are ever written again."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import scipy.sparse as sp

from sylvan import XRLinear
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, stacked
from sylvan.models.xr.training_rows import Room


def drawn(n: int, seed: int) -> Csr:
    """Some rows."""
    return validate.features(sp.random(n, 9, 0.4, "csr", random_state=seed, dtype=np.float32))


def same(one: Csr, two: Csr) -> bool:
    """Whether two matrices are equal."""
    return one.shape == two.shape and all(np.array_equal(a, b) for a, b in zip(one[:3], two[:3], strict=True))


def test_rows_follow_without_a_copy() -> None:
    expected, room = drawn(100, 0), Room()
    made, places = expected, set()
    for seed in range(1, 8):
        own = drawn(seed % 4, seed)
        made, room = room.stacked(made, own)
        expected = stacked(expected, own)
        assert same(made, expected)
        places.add(made.data.__array_interface__["data"][0])
    assert len(places) == 1


def test_two_that_go_on_from_the_same_rows() -> None:
    begin, room = Room().stacked(drawn(50, 0), drawn(1, 1))
    before = pickle.loads(pickle.dumps(begin))
    one, room_of_one = room.stacked(begin, drawn(2, 2))
    two, room_of_two = room.stacked(begin, drawn(2, 3))
    assert room_of_one is room is not room_of_two
    assert same(one, stacked(before, drawn(2, 2)))
    assert same(two, stacked(before, drawn(2, 3)))
    assert same(begin, before)


def test_other_rows_are_copied() -> None:
    held, room = Room().stacked(drawn(50, 0), drawn(1, 1))
    other = drawn(51, 5)
    made, elsewhere = room.stacked(other, drawn(1, 6))
    assert elsewhere is not room
    assert same(made, stacked(other, drawn(1, 6)))
    assert same(held, stacked(drawn(50, 0), drawn(1, 1)))


def test_a_copy_of_a_model_goes_its_own_way() -> None:
    X = np.eye(4, dtype=np.float32).repeat(8, axis=0)
    model = XRLinear(keep_rows=True).fit(X[:24], np.arange(3).repeat(8)).update(X[24:26], [0, 1])
    pickled = pickle.loads(pickle.dumps(model))
    others = [copy.copy(model), copy.deepcopy(model), pickled]
    model.update(X[26:30], np.full(4, 3))
    for other in others:
        other.update(X[:4], np.full(4, 3))
    for other in others:
        np.testing.assert_array_equal(other.training_rows_.features.to_scipy()[-4:].toarray(), X[:4])
    np.testing.assert_array_equal(model.training_rows_.features.to_scipy()[-4:].toarray(), X[26:30])
