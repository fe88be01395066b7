"""A tree that grows: every label stands in one leaf, siblings stay together, and what nodes were is said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sylvan import LabelTree
from sylvan.models.xr.changed_layer import Grown, saved_by_rebuilding


def below(tree: LabelTree, layer: int, node: int) -> set[int]:
    """The labels below a node."""
    leaves = tree.leaves(layer, node)
    return set(tree.leaf_labels[leaves.start : leaves.stop].tolist())


@given(st.integers(2, 60), st.integers(2, 5), st.integers(1, 20), st.data())
def test_what_a_node_was_is_said(n_labels: int, branching: int, max_leaf: int, data: st.DataObject) -> None:
    tree = LabelTree.random(n_labels, branching, max_leaf, seed=n_labels)
    grown = Grown.same(tree)
    n_clusters = len(tree.cluster_sizes)
    clusters = data.draw(st.lists(st.integers(0, n_clusters - 1), max_size=12))
    grown = grown.with_labels(clusters)
    assert grown.tree.n_labels == n_labels + len(clusters)
    last = tree.depth - 1
    for number, cluster in enumerate(clusters):
        leaf = int(np.flatnonzero(grown.tree.leaf_labels == n_labels + number)[0])
        assert grown.was[last][leaf] == -1
        if last:
            assert grown.tree.path(leaf)[-2] == cluster
    splits = 0
    while tree.depth > 1 and data.draw(st.booleans()) and splits < 4:
        sizes = grown.tree.cluster_sizes
        cluster = data.draw(st.integers(0, len(sizes) - 1))
        if sizes[cluster] < 2:
            break
        n_right = data.draw(st.integers(1, int(sizes[cluster]) - 1))
        right = np.isin(np.arange(sizes[cluster]), data.draw(st.permutations(range(int(sizes[cluster]))))[:n_right])
        whole = below(grown.tree, last - 1, cluster)
        first = int(grown.tree.child_offsets[last][cluster])
        expected = set(grown.tree.leaf_labels[first : first + len(right)][right].tolist())
        grown = grown.split(cluster, right)
        splits += 1
        assert below(grown.tree, last - 1, cluster + 1) == expected
        assert below(grown.tree, last - 1, cluster) == whole - expected
        assert grown.was[last - 1][cluster] == grown.was[last - 1][cluster + 1] == -1
    assert len(grown.tree.cluster_sizes) == n_clusters + splits
    assert sorted(grown.tree.leaf_labels.tolist()) == list(range(n_labels + len(clusters)))
    for layer, was in enumerate(grown.was):
        assert len(was) == grown.tree.layer_sizes[layer]
        for node in np.flatnonzero(was >= 0).tolist():
            own = {label for label in below(grown.tree, layer, node) if label < n_labels}
            assert own == below(tree, layer, int(was[node]))
    for t, came in enumerate(grown.came_from):  # the cluster before holds the old labels of each cluster now
        for cluster, origin in enumerate(came.tolist()):
            children = range(*(int(each) for each in grown.tree.child_offsets[t][cluster : cluster + 2]))
            own = {label for child in children for label in below(grown.tree, t, child) if label < n_labels}
            before = range(*(int(each) for each in tree.child_offsets[t][origin : origin + 2]))
            assert own <= {label for child in before for label in below(tree, t, child)}


def test_a_tree_as_built_saves_nothing_and_a_crooked_one_does() -> None:
    assert saved_by_rebuilding(LabelTree.random(1000, 8, 50), 8, 50, 10) == 0
    crooked = LabelTree((np.array([0, 2]), np.array([0, 90, 100])), np.arange(100), 100)
    assert saved_by_rebuilding(crooked, 2, 50, 1) == pytest.approx(1 - (2 + 50) / (2 + (90**2 + 10**2) / 100))
