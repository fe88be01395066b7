"""What an update changes of the rows, of which nobody's are ever written again, and of a tree that grows."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import same_bits
from kit.errors import raises

from sylvan import LabelTree, XRLinear
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, stacked
from sylvan.errors import ModelError
from sylvan.models.xr.changed_layer import Grown, _union, saved_by_rebuilding
from sylvan.models.xr.training_rows import RowBuffer


def drawn(n: int, seed: int) -> Csr:
    """Some rows."""
    return validate.features(sp.random(n, 9, 0.4, "csr", random_state=seed, dtype=np.float32))


def test_rows_follow_without_a_copy() -> None:
    expected, room = drawn(100, 0), RowBuffer()
    made, places = expected, set()
    for seed in range(1, 8):
        own = drawn(seed % 4, seed)
        made, room = room.stacked(made, own)
        expected = stacked(expected, own)
        same_bits(made, expected)
        places.add(made.data.__array_interface__["data"][0])
    assert len(places) == 1


def test_other_rows_are_copied() -> None:
    held, room = RowBuffer().stacked(drawn(50, 0), drawn(1, 1))
    other = drawn(51, 5)
    made, elsewhere = room.stacked(other, drawn(1, 6))
    assert elsewhere is not room
    same_bits(made, stacked(other, drawn(1, 6)))
    same_bits(held, stacked(drawn(50, 0), drawn(1, 1)))


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


def test_a_tree_as_built_saves_nothing_and_a_crooked_one_does() -> None:
    assert saved_by_rebuilding(LabelTree.random(1000, 8, 50), 8, 50, 10) == 0
    crooked = LabelTree((np.array([0, 2]), np.array([0, 90, 100])), np.arange(100), 100)
    assert saved_by_rebuilding(crooked, 2, 50, 1) == pytest.approx(1 - (2 + 50) / (2 + (90**2 + 10**2) / 100))


@pytest.mark.parametrize(("a", "b"), [
    ([], []), ([1], []), ([], [1]), ([1, 5], [6, 7]), ([1, 2, 9], [3]), ([1, 2, 9], [9, 10]), ([4, 5], [1, 4]),
])  # fmt: skip
def test_rising_lists_are_united(a: list[int], b: list[int]) -> None:
    assert _union(np.array(a, np.int32), np.array(b, np.int32)).tolist() == sorted({*a, *b})


@pytest.mark.parametrize("weight", [-0.5, np.nan, np.inf])
def test_stored_weights_that_are_none_are_refused_before_an_update(weight: float) -> None:
    X, y = np.eye(4, dtype=np.float32).repeat(3, axis=0), np.arange(4).repeat(3)
    state = XRLinear(keep_rows=True).fit(X, y, sample_weight=np.full(12, 2.0)).to_state()
    state.parts["rows"].arrays["weight"][5] = weight
    with raises(ModelError, 0):
        XRLinear.from_state(state).update(X[:2], y[:2])


def test_halves_of_a_cluster_are_new_and_their_children_are_not() -> None:
    tree = LabelTree((np.array([0, 2]), np.array([0, 3, 5])), np.array([4, 1, 3, 0, 2]), 5)
    grown = Grown.same(tree).split(0, np.array([True, False, False]))
    assert [was.tolist() for was in grown.was] == [[-1, -1, 1], [1, 2, 0, 3, 4]]
    assert [came.tolist() for came in grown.came_from] == [[0], [0, 0, 1]]
    assert grown.tree.leaf_labels.tolist() == [1, 3, 4, 0, 2]
    assert [offsets.tolist() for offsets in grown.tree.child_offsets] == [[0, 3], [0, 2, 3, 5]]
