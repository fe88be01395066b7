"""Class trees: their shape, near classes, centres, edges, inputs that are none; and trees of a hierarchy of names."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import LabelTree
from sylvan.errors import DataError, ParameterError
from sylvan.indexing import balanced_tree, class_centers, class_tree
from sylvan.indexing.tree import check_class_tree, class_edges, first_edges


def fan_outs(tree: LabelTree) -> list[np.ndarray]:
    return [np.diff(offsets) for offsets in tree.child_offsets]


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(2, 40))
def test_every_node_has_children_enough_and_none_too_many(n_classes, branching):
    tree = balanced_tree(np.arange(n_classes)[::-1], branching)
    assert tree.leaf_labels.tolist() == list(range(n_classes))[::-1]
    depth = 1
    while branching**depth < n_classes:
        depth += 1
    assert tree.depth == depth
    for sizes in fan_outs(tree):
        assert sizes.min() >= 1 and sizes.max() <= branching
        assert sizes.max() - sizes.min() <= 1
    below = list(tree.layer_sizes)
    assert all(above == math.ceil(size / branching) for above, size in itertools.pairwise(below))


def test_one_class_is_a_tree():
    assert balanced_tree([0]) == LabelTree.flat(1)
    assert class_tree(np.zeros((1, 3))) == LabelTree.flat(1)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.coo_array])
def test_near_classes_share_their_path(form):
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(8), 8))
    far, near = rng.normal(size=(2, 16)), rng.normal(size=(8, 16))
    centers = 20 * far[groups // 4] + 4 * near[groups] + 0.1 * rng.normal(size=(64, 16))
    tree = class_tree(form(centers), branching=8)
    assert tree.layer_sizes == (8, 64)
    for node in range(8):
        leaves = tree.leaves(0, node)
        assert len(set(groups[tree.leaf_labels[leaves.start : leaves.stop]])) == 1
    binary = class_tree(form(centers), branching=2)
    assert set(groups[binary.leaf_labels[:32]] // 4) in ({0}, {1})


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_near_means_by_distance_and_not_by_angle(form):
    """Long and short centres in the same two directions: those of one length are near, those of one direction far."""
    rng = np.random.default_rng(3)
    long, up = np.repeat([0, 1], 32), np.tile([0, 1], 32)
    centers = np.where(long, 20.0, 2.0)[:, None] * np.stack([np.cos(up * 0.6), np.sin(up * 0.6)], axis=1)
    tree = class_tree(form(centers + 0.01 * rng.normal(size=(64, 2))), branching=32)
    assert tree.layer_sizes == (2, 64)
    assert all(len(set(long[part])) == 1 for part in np.split(tree.leaf_labels, 2))


@pytest.mark.parametrize("seed", [0, 5])
def test_the_same_seed_gives_the_same_tree_with_any_threads(seed):
    centers = np.random.default_rng(1).normal(size=(700, 6)).astype(np.float32)
    tree = class_tree(centers, branching=5, seed=seed)
    assert tree == class_tree(sp.csr_matrix(centers), branching=5, seed=seed, n_jobs=3)
    assert tree.layer_sizes == balanced_tree(tree.leaf_labels, 5).layer_sizes
    assert tree == balanced_tree(tree.leaf_labels, 5)
    assert tree != class_tree(centers, branching=5, seed=seed + 1)


def test_classes_without_a_centre_are_placed_too():
    tree = class_tree(np.zeros((23, 4)), branching=3)
    assert sorted(tree.leaf_labels) == list(range(23))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_centres_are_the_means(form):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 7)) * (rng.random((200, 7)) < 0.4)
    y = rng.integers(0, 9, 200) + (rng.integers(0, 9, 200) > 20)
    y[y == 4] = 5
    found = class_centers(form(X), y, 40)
    assert sp.issparse(found) == (form is sp.csr_matrix)
    found = found.toarray() if sp.issparse(found) else found
    assert found.dtype == np.float32 and found.shape == (40, 7)
    for c in range(40):
        wanted = X[y == c].mean(axis=0) if (y == c).any() else np.zeros(7)
        np.testing.assert_allclose(found[c], wanted, rtol=1e-5, atol=1e-6)


def test_centres_of_large_values_are_finite():
    X = np.full((1000, 2), 9e14)
    np.testing.assert_allclose(class_centers(X, np.zeros(1000, int), 1), X[:1], rtol=1e-5)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 300), st.integers(2, 9), st.integers(0, 5))
def test_edges_are_the_nodes_of_the_path(n_classes, branching, seed):
    tree = balanced_tree(np.random.default_rng(seed).permutation(n_classes), branching)
    first, edges = first_edges(tree), class_edges(tree)
    assert first[-1] == sum(tree.layer_sizes)
    for leaf in range(0, n_classes, 7):
        path = np.array(tree.path(leaf)) + first[:-1]
        assert edges[tree.leaf_labels[leaf]].tolist() == path.tolist()


def test_a_given_tree_holds_each_class_once():
    check_class_tree(balanced_tree(range(9), 2), 9, owner="X")
    with raises(DataError, "'tree'", "X", 8, 9):
        check_class_tree(balanced_tree(range(9), 2), 8, owner="X")
    twice = LabelTree((np.array([0, 2]), np.array([0, 2, 4])), np.array([0, 1, 1, 2]), 3)
    with raises(DataError, 4, 3, "class 1", 2):
        check_class_tree(twice, 3, owner="X")


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ([], "dimension"), ([[0, 1]], "dimension"), ([0, 1, 1], ("class 1", 2, "class 2")), ([0, 3, 1], (3, "row 1")),
        ([0, -1], (-1, "row 1")), ([0, 0.5], ("0.5", "order")), (["a", "b"], "order"),
    ],
)  # fmt: skip
def test_an_order_that_is_none(order, words):
    with raises(DataError, words):
        balanced_tree(order, 2)


def test_wrong_inputs():
    with raises(ParameterError, "branching", "[2, inf)", 1):
        balanced_tree([0, 1], 1)
    with raises(ParameterError, "branching", "2.5"):
        class_tree(np.eye(3), branching=2.5)  # type: ignore[arg-type]
    with raises(ParameterError, "seed"):
        class_tree(np.eye(3), seed=-1)
    with raises(DataError, "float32", "row 1"):
        class_tree(np.array([[0.0], [np.nan]]))
    with raises(DataError, "(0, 3)"):
        class_tree(np.empty((0, 3)))
    with raises(DataError, 3, "row 1"):
        class_centers(np.eye(2), [0, 3], 3)
    with raises(DataError, 2, "X", "(3,)"):
        class_centers(np.eye(2), [0, 1, 1], 3)
    with raises(DataError, "X", "NaN"):
        class_centers(np.array([[np.nan]]), [0], 1)
    with raises(ParameterError, "n_classes", 0):
        class_centers(np.eye(2), [0, 1], 0)


ANIMALS = {"cat": "animal", "dog": "animal", "oak": "plant", "animal": "being", "plant": "being", "being": None}


TAXONOMIES = {  # names, their broader terms, the tree's first layer and depth, and its clusters
    "labels stand below their broader terms": (["oak", "cat", "dog"], ANIMALS, (1, 3), [[0], [1, 2]]),
    "a label stands with its narrower terms": (["animal", "cat", "dog"], ANIMALS, (1, 3), [[0, 1, 2]]),
    "a label without a term has its own node": (
        ["oak", "cat", "stone"], {"oak": "plant", "cat": "animal", "plant": None, "animal": None}, (3, 2),
        [[0], [1], [2]],
    ),
    "short branches reach the last layer": (
        ["cat", "being", "unheard of", "oak"], ANIMALS, (2, 3), [[0], [1], [2], [3]],
    ),
    "several broader terms make clusters overlap": (
        ["bat", "cat", "crow"], {"bat": ["mammal", "flyer"], "cat": "mammal", "crow": ["flyer"]}, (2, 2),
        [[0, 1], [0, 2]],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("names", "broader", "shape", "clusters"), TAXONOMIES.values(), ids=TAXONOMIES)
def test_trees_of_a_taxonomy(names, broader, shape, clusters):
    tree = LabelTree.from_taxonomy(names, broader)
    assert (tree.layer_sizes[0], tree.depth) == shape
    parts = np.split(tree.leaf_labels, tree.child_offsets[-1][1:-1])
    assert sorted(sorted(part.tolist()) for part in parts) == clusters


def test_no_hierarchy_is_flat_and_depth_can_be_limited():
    assert LabelTree.from_taxonomy(["a", "b"], {}) == LabelTree.flat(2)
    assert LabelTree.from_taxonomy(["oak", "cat", "dog"], ANIMALS, max_depth=1) == LabelTree.flat(3)
    two = LabelTree.from_taxonomy(["oak", "cat", "dog"], ANIMALS, max_depth=2)
    assert two.layer_sizes == (1, 3)
    both = LabelTree.from_taxonomy(["a"], {"a": ["x", "y"], "x": "z", "y": "z"}, max_depth=2)
    assert both.n_leaves == 1


def test_a_chain_of_a_thousand_terms_ends_at_the_deepest_layer():
    chain = {f"t{i}": f"t{i + 1}" for i in range(1000)}
    assert LabelTree.from_taxonomy(["t0"], chain).depth == 64


@pytest.mark.parametrize(
    ("names", "parents", "words"),
    [
        (["a"], {"a": "b", "b": "c", "c": "b"}, "circle"), (["a"], {"a": "a"}, "circle"), (["a", "b", "a"], {}, "'a'"),
        (["a"], {"a": [3]}, ("int", 3)), ([], {}, "n_labels"),
    ],
)  # fmt: skip
def test_faults(names, parents, words):
    with raises(DataError, words):
        LabelTree.from_taxonomy(names, parents)


def test_depth_out_of_range():
    with raises(ParameterError, "max_depth", "[1, 64]", "None", 0):
        LabelTree.from_taxonomy(["a"], {}, max_depth=0)


def test_seeds_are_of_63_bits() -> None:
    with raises(ParameterError, "seed"):
        class_tree(np.eye(4), branching=2, seed=2**63)
