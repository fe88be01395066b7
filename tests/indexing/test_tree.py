"""LabelTree: structure, the papers' matrices, every way in which it can be wrong, and its folder."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import LabelTree
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.indexing.clustering import layer_plan, plan_offsets
from sylvan.store import registry


def small_tree():
    return LabelTree((np.array([0, 2]), np.array([0, 2, 5])), np.array([4, 0, 1, 3, 2]), 5)


def test_sizes_and_repr():
    tree = small_tree()
    assert (tree.depth, tree.n_labels, tree.n_leaves, tree.layer_sizes) == (2, 5, 5, (2, 5))
    assert tree.cluster_sizes.tolist() == [2, 3]
    assert repr(tree) == "LabelTree(5 labels, depth 2: 2 > 5, clusters of 2 to 3 labels)"
    flat = LabelTree.flat(1)
    assert (flat.child_offsets[0].tolist(), flat.leaf_labels.tolist()) == ([0, 1], [0]), "one versus rest"
    assert repr(LabelTree.flat(4108)) == "LabelTree(4,108 labels, depth 1: 4,108)"


def test_matrices_of_a_small_tree():
    root, clusters = small_tree().to_matrices()
    assert root.toarray().tolist() == [[1], [1]]
    assert clusters.toarray().tolist() == [[1, 0], [0, 1], [0, 1], [0, 1], [1, 0]]


@given(st.lists(st.lists(st.integers(1, 4), min_size=64, max_size=64), min_size=1, max_size=4), st.integers(1, 5))
@settings(max_examples=25)
def test_paths_parents_and_leaves_say_the_same(sizes, n_top):
    """Of ragged trees: who is whose child, read from the offsets one by one."""
    offsets = [np.array([0, n_top])]
    for layer in sizes:
        offsets.append(np.concatenate(([0], np.cumsum((layer * 16)[: offsets[-1][-1]]))))
    tree = LabelTree(tuple(offsets), np.arange(offsets[-1][-1]), int(offsets[-1][-1]))
    above = []  # the parent of each node of each layer
    for layer in offsets:
        above.append([node for node in range(len(layer) - 1) for _ in range(layer[node], layer[node + 1])])
    assert [tree.parents(t).tolist() for t in range(tree.depth)] == above
    below = {(t, node): [] for t in range(tree.depth) for node in range(tree.layer_sizes[t])}
    for leaf in range(tree.n_leaves):
        path = [leaf]
        for parents in above[:0:-1]:
            path.append(parents[path[-1]])
        assert tree.path(leaf) == path[::-1]
        for t, node in enumerate(path[::-1]):
            below[t, node].append(leaf)
    assert all(list(tree.leaves(t, node)) == leaves for (t, node), leaves in below.items())


def test_matrices_of_too_many_nodes_are_refused(monkeypatch):
    monkeypatch.setattr("sylvan.indexing.tree.MAX_NODES", 4)
    with raises(DataError, "layer", 4):
        LabelTree.from_matrices(small_tree().to_matrices())


@given(st.integers(1, 300), st.integers(2, 20), st.integers(1, 40), st.integers(0, 5))
@settings(max_examples=30)
def test_random_trees_are_balanced_and_survive_the_round_trip(n_labels, branching, max_leaf, seed):
    tree = LabelTree.random(n_labels, branching, max_leaf, seed=seed)
    assert sorted(tree.leaf_labels.tolist()) == list(range(n_labels))
    assert tree.cluster_sizes.max() <= max_leaf
    assert np.ptp(tree.cluster_sizes) <= 1
    for layer in tree.child_offsets[:-1]:
        assert np.diff(layer).max() <= branching
        assert np.ptp(np.diff(layer)) <= 1
    again = LabelTree.from_matrices(tree.to_matrices())
    assert again.child_offsets[0].tolist() == tree.child_offsets[0].tolist()
    for a, b in zip(again.to_matrices(), tree.to_matrices(), strict=True):
        assert (a != b).nnz == 0


def test_plans_fill_groups_of_sixteen():
    assert layer_plan(4108, 16, 100) == (5, 65, 4108)
    assert layer_plan(3956, 4, 100) == (4, 16, 62, 3956), "even splits before as few lanes as possible"
    assert layer_plan(100, 16, 100) == (100,)
    for n_labels in (1_000, 42_131, 670_091):
        plan = layer_plan(n_labels, 16, 100)
        fill = n_labels / plan[-2] / 16
        assert np.ceil(fill) - fill < 0.1
        assert plan_offsets(plan)[-1][-1] == n_labels


def test_overlapping_and_repeated_nodes_from_matrices():
    clusters = sp.csr_matrix(np.array([[1, 1], [0, 1], [1, 0]]))
    tree = LabelTree.from_matrices([clusters])
    assert tree.leaf_labels.tolist() == [0, 2, 0, 1]
    assert tree.n_leaves == 4
    assert "1.33 clusters on average" in repr(tree)
    two_parents = LabelTree.from_matrices([np.array([[1, 1]]), np.array([[1], [1]])])
    assert two_parents.leaf_labels.tolist() == [0, 1, 0, 1]


def test_matrices_with_empty_nodes_and_explicit_zeros():
    clusters = sp.csc_matrix(np.array([[0, 1, 5], [0, 1, 0]], np.float32))
    clusters.data[clusters.data == 5] = 0.0
    before = clusters.nnz
    tree = LabelTree.from_matrices([clusters])
    assert tree.layer_sizes == (1, 2)
    assert clusters.nnz == before


@pytest.mark.parametrize(
    ("matrices", "words"),
    [
        ([], "indexing"),
        ([np.array([[1, 0], [0, 0]])], (1, 2, "label 1")),
        ([np.ones((2, 1)), np.ones((4, 3))], (1, "(4, 3)", 3, "(2, 1)")),
        ([np.array([["a"]])], "two-dimensional"),
    ],
)
def test_wrong_matrices(matrices, words):
    with raises(DataError, words):
        LabelTree.from_matrices(matrices)


@pytest.mark.parametrize(
    ("offsets", "labels", "n_labels", "words"),
    [
        ([[0, 0]], [], 0, "n_labels"), ([], [0], 1, "layer"), ([[0, 1, 2]], [0, 1], 2, ("parents", 2, 1, 3)),
        ([[1, 2]], [0], 1, ("rise", 0)), ([[0, 2], [0, 2, 2]], [0, 1], 2, ("rise", 0)),
        ([[0, 2], [0, 2, 1]], [0, 1], 2, ("rise", 0)), ([[0, 3]], [0, 1], 2, ("label", 3, 2)),
        ([[0, 2]], [0, 2], 2, ("[0, 2)", 0, 2)), ([[0, 2]], [-1, 1], 2, ("range", -1, 1)),
        ([[0, 2]], [1, 1], 2, "label 0"), ([[0, 2], [0, 1, 4]], [0, 1, 0, 1], 2, ("label 1", "cluster 1")),
        ([[0, 2]], [0.5, 1], 2, "integers"), ([[0, 1]], [2**40], 1, "fit"),
    ],
)  # fmt: skip
def test_every_fault_is_a_sentence(offsets, labels, n_labels, words):
    with raises(DataError, words):
        LabelTree(tuple(np.array(layer) for layer in offsets), np.array(labels), n_labels)


def nested(tree, layer=0, node=0):
    """The tree below a node as nested lists of labels."""
    first, last = tree.child_offsets[layer][node : node + 2]
    if layer == tree.depth - 1:
        return tree.leaf_labels[first:last].tolist()
    return [nested(tree, layer + 1, child) for child in range(first, last)]


def stripped(node, labels):
    """Nested lists without some labels, and without what they leave empty."""
    if not isinstance(node[0], list):
        return [label for label in node if label not in labels]
    return [left for child in node if (left := stripped(child, labels))]


@settings(max_examples=40)
@given(st.integers(1, 60), st.integers(2, 5), st.integers(1, 6), st.integers(0, 99), st.data())
def test_without_labels(n_labels, branching, max_leaf, seed, data):
    tree = LabelTree.random(n_labels, branching, max_leaf, seed=seed)
    gone = data.draw(st.sets(st.integers(0, n_labels - 1), max_size=n_labels - 1))
    first = data.draw(st.sets(st.sampled_from(sorted(gone)))) if gone else set()
    smaller, kept = tree.without(sorted(gone))
    assert nested(smaller) == stripped(nested(tree), gone)
    assert [len(layer) for layer in kept] == list(tree.layer_sizes)
    assert [int(layer.sum()) for layer in kept] == list(smaller.layer_sizes)
    assert smaller.removed.tolist() == sorted(gone)
    assert tree.without(sorted(first))[0].without(sorted(gone - first))[0] == smaller


def test_without_labels_of_several_leaves():
    tree = LabelTree((np.array([0, 2]), np.array([0, 2, 3])), np.array([0, 1, 1]), 2)
    smaller = tree.without([1])[0]
    assert nested(smaller) == [[0]]
    assert (smaller.most_copies, smaller.n_placed, repr(smaller)) == (
        1, 1, "LabelTree(2 labels, depth 2: 1 > 1, clusters of 1 label, 1 removed)"
    )  # fmt: skip
    assert smaller != tree
    assert tree.without([0])[0].most_copies == 2


@pytest.mark.parametrize(
    ("labels", "words"), [([3], (3, "[0, 2]")), ([-1, 0], (-1, "[0, 2]")), ([0, 1, 2], ("labels", 3))]
)
def test_labels_that_a_tree_can_not_lose(labels, words):
    with raises(DataError, words):
        LabelTree.flat(3).without(labels)


@pytest.mark.parametrize(
    ("removed", "words"), [([0], "label 0"), ([3], "[0, 3)"), ([-1], "[0, 3)"), ([2, 2], "removed"), ([], 2)]
)
def test_faults_of_removed_labels(removed, words):
    with raises(DataError, words):
        LabelTree((np.array([0, 2]),), np.array([0, 1]), 3, np.array(removed))


def test_it_is_frozen_equal_by_value_and_travels():
    tree = LabelTree.random(200, 4, 10, seed=3)
    with raises(ValueError, "read-only"):
        tree.leaf_labels[0] = 1
    source = np.arange(3, dtype=np.int32)
    LabelTree((np.array([0, 3]),), source, 3)
    source[0] = 0
    for other in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree), LabelTree.random(200, 4, 10, seed=3)):
        assert other == tree
        assert hash(other) == hash(tree)
    assert tree != LabelTree.random(200, 4, 10, seed=4)
    assert tree != 3


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"n_labels": 0}, ("n_labels", 0)), ({"branching": 1}, ("branching", "[2, inf)", 1)),
        ({"max_leaf": 0}, ("max_leaf", "[1, inf)", 0)), ({"seed": -1}, ("seed", -1)), ({"branching": 2.5}, "2.5"),
    ],
)  # fmt: skip
def test_parameters_out_of_range(values, words):
    with raises(ParameterError, words):
        LabelTree.random(**{"n_labels": 10, **values})


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
        (lambda s: s.meta.update(n_labels=2**31 - 1), (40, 2147483647)),
        (lambda s: s.meta.update(n_labels=39), "[0, 39)"),
        (lambda s: s.meta.update(n_labels=True), "n_labels"),
        (lambda s: s.meta.update(depth=10**9), "depth"),
        (lambda s: s.meta.update(depth=1), "The model"),
        (lambda s: s.meta.pop("depth"), "depth"),
        (lambda s: s.arrays.pop("layer0.offsets"), "layer0.offsets"),
        (lambda s: s.arrays.pop("leaf_labels"), "leaf_labels"),
        (lambda s: s.arrays.update({"layer1.offsets": np.zeros(3, np.int32)}), "int64"),
        (lambda s: s.arrays.update({"layer0.offsets": np.array([0, -1])}), ("rise", 0)),
        (lambda s: s.arrays.update({"layer0.offsets": np.array([0, 2**60])}), "layer 0"),
        (lambda s: s.arrays.update({"leaf_labels": np.zeros(40, np.int32)}), "leaf"),
        (lambda s: s.arrays.update({"leaf_labels": np.full(40, -7, np.int32)}), ("range", -7)),
        (lambda s: setattr(s, "kind", "xr-linear"), "xr-linear"),
        (lambda s: setattr(s, "version", 9), ("layout", 9)),
    ],
)
def test_hostile_states(change, words):
    with raises(ModelError, words):
        LabelTree.from_state(hostile(change))


@given(st.data())
@settings(max_examples=60)
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
