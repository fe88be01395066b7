"""A tree on disk: the round trip, and States that are no tree."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan import LabelTree
from sylvan.errors import ModelError
from sylvan.store import registry


def test_round_trip(tmp_path):
    tree = LabelTree.build(np.random.default_rng(0).random((500, 8)), branching=4, max_leaf=20, overlap=2)
    tree.save(tmp_path / "tree")
    for mmap in (True, False):
        again = registry.load(tmp_path / "tree", mmap=mmap)
        assert isinstance(again, LabelTree)
        assert again == tree
        assert again.to_matrices()[-1].shape == (500, tree.layer_sizes[-2])


def hostile(change):
    state = LabelTree.random(40, 4, 5, seed=1).to_state()
    state = dataclasses.replace(state, meta=dict(state.meta), arrays=dict(state.arrays))
    change(state)
    return state


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.meta.update(n_labels=0), "n_labels"),
        (lambda s: s.meta.update(n_labels=2**31 - 1), "40 leaves for 2147483647 labels"),
        (lambda s: s.meta.update(n_labels=39), r"\[0, 39\)"),
        (lambda s: s.meta.update(n_labels=True), "n_labels"),
        (lambda s: s.meta.update(depth=10**9), "depth"),
        (lambda s: s.meta.update(depth=1), "a label for each of its"),
        (lambda s: s.meta.pop("depth"), "depth"),
        (lambda s: s.arrays.pop("layer0.offsets"), "layer0.offsets"),
        (lambda s: s.arrays.pop("leaf_labels"), "leaf_labels"),
        (lambda s: s.arrays.update({"layer1.offsets": np.zeros(3, np.int32)}), "int64"),
        (lambda s: s.arrays.update({"layer0.offsets": np.array([0, -1])}), "start at 0 and rise"),
        (lambda s: s.arrays.update({"layer0.offsets": np.array([0, 2**60])}), "layer 0 has more than"),
        (lambda s: s.arrays.update({"leaf_labels": np.zeros(40, np.int32)}), "stands in no leaf"),
        (lambda s: s.arrays.update({"leaf_labels": np.full(40, -7, np.int32)}), "range from -7"),
        (lambda s: setattr(s, "kind", "xr-linear"), "xr-linear"),
        (lambda s: setattr(s, "version", 9), "layout 9"),
    ],
)
def test_hostile_states(change, words):
    with pytest.raises(ModelError, match=words):
        LabelTree.from_state(hostile(change))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_changed_number_is_a_tree_or_a_sentence(data):
    state = LabelTree.random(40, 4, 5, seed=1).to_state()
    name = data.draw(st.sampled_from(sorted(state.arrays)))
    array = np.array(state.arrays[name])
    info = np.iinfo(array.dtype)
    array[data.draw(st.integers(0, array.size - 1))] = data.draw(
        st.integers(-3, 45) | st.integers(int(info.min), int(info.max))
    )
    state.arrays[name] = array
    try:
        tree = LabelTree.from_state(state)
    except ModelError:
        return
    assert set(tree.leaf_labels.tolist()) == set(range(40))
