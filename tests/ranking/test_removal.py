"""Layers without some of their nodes: what is left is what it was, to the bit, and nothing else is left."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan import LabelTree, XRLinear
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.weights.layer import WEIGHT_DTYPES, ClusterRows, LayerWeights


def drawn_layer(random: np.random.Generator, offsets: np.ndarray, dtype: str) -> LayerWeights:
    """A layer of random weights, some clusters without any."""
    clusters = []
    for n_children in np.diff(offsets).tolist():
        dense = random.normal(size=(30, n_children)) * (random.random((30, n_children)) < random.choice([0, 0.1, 0.9]))
        rows = np.flatnonzero(dense.any(axis=1))
        at, children = np.nonzero(dense[rows])
        lengths = np.bincount(at, minlength=len(rows)).astype(np.int32)
        weights = dense[rows][at, children].astype(np.float32)
        intercepts = random.normal(size=n_children).astype(np.float32)
        clusters.append(ClusterRows(rows.astype(np.int32), lengths, children.astype(np.int32), weights, intercepts))
    return LayerWeights.from_clusters(clusters, offsets, 30, dtype)


def paths(tree: LabelTree, ranker: TreeRanker) -> dict[int, list[tuple[bytes, bytes]]]:
    """Of each label, the weights and intercepts of the nodes on its path, root first."""
    found = {}
    for leaf, label in enumerate(tree.leaf_labels.tolist()):
        path = []
        for t, node in enumerate(tree.path(leaf)):
            offsets = tree.child_offsets[t]
            parent = int(np.searchsorted(offsets, node, side="right")) - 1
            rows = ranker.layers[t].cluster(parent)
            dense = np.zeros((30, int(offsets[parent + 1] - offsets[parent])), np.float32)
            dense[np.repeat(rows.features, rows.lengths), rows.children] = rows.weights
            child = node - int(offsets[parent])
            path.append((dense[:, child].tobytes(), rows.intercepts[child : child + 1].tobytes()))
        found[label] = path
    return found


@pytest.mark.parametrize("dtype", WEIGHT_DTYPES)
@settings(max_examples=12)
@given(st.integers(1, 50), st.integers(2, 5), st.integers(1, 40), st.integers(0, 99), st.data())
def test_what_is_left_is_what_it_was(
    dtype: str, n_labels: int, branching: int, max_leaf: int, seed: int, data: st.DataObject
) -> None:
    tree = LabelTree.random(n_labels, branching, max_leaf, seed=seed)
    random = np.random.default_rng(seed)
    ranker = TreeRanker(tree, [drawn_layer(random, offsets, dtype) for offsets in tree.child_offsets])
    gone = data.draw(st.sets(st.integers(0, n_labels - 1), max_size=n_labels - 1))
    smaller = ranker.without(np.array(sorted(gone), np.int32))
    expected = {label: path for label, path in paths(tree, ranker).items() if label not in gone}
    assert paths(smaller.tree, smaller) == expected
    assert {layer.weight_dtype for layer in smaller.layers} == {dtype}


@pytest.mark.parametrize("dtype", WEIGHT_DTYPES)
def test_weights_of_removed_labels_are_gone(dtype: str) -> None:
    X = np.eye(12, dtype=np.float32).repeat(5, axis=0)
    model = XRLinear(max_leaf=3, branching=2, weight_dtype=dtype).fit(X, np.arange(12).repeat(5))
    smaller = model.without_labels(range(6))
    leaves, before = smaller.layers_[-1], model.layers_[-1]
    assert len(leaves.intercepts) == 6
    own = [before.cluster(c) for c in range(len(before.row_offsets) - 1)]
    labels = np.split(model.tree_.leaf_labels, model.tree_.child_offsets[-1][1:-1])
    expected = sum(int((ids[rows.children] >= 6).sum()) for ids, rows in zip(labels, own, strict=True))
    assert sum(len(leaves.cluster(c).children) for c in range(len(leaves.row_offsets) - 1)) == expected


def test_a_tree_that_lost_labels_can_be_trained_on() -> None:
    X = np.eye(8, dtype=np.float32).repeat(6, axis=0)
    Y = sp.csr_matrix((np.ones(48), (np.arange(48), np.arange(8).repeat(6))))
    tree = LabelTree.random(8, 2, 2, seed=0).without([2, 5])[0]
    model = XRLinear(tree=tree).fit(X, Y)
    assert model.removed_labels_.tolist() == [2, 5]
    best = model.rank(X[::6], k=1).labels[:, 0].tolist()
    assert [best[label] for label in (0, 1, 3, 4, 6, 7)] == [0, 1, 3, 4, 6, 7]
    assert not {2, 5} & set(model.rank(X, k=8).labels.ravel().tolist())
