"""A label tree that grows: labels that come, and clusters that are split where they become too large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sylvan.indexing.clustering import layer_plan, plan_offsets
from sylvan.indexing.tree import LabelTree

_Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree, and what its nodes were in the tree that it comes from. Online probabilistic label trees (Jasinska-Kobus
    et al. 2021) grow by leaves and by nodes between; here nodes are only ever divided, so that all leaves stay in the
    last layer."""

    tree: LabelTree
    was: tuple[_Ids, ...]  # of each layer's nodes, the number in the tree before; -1 for a node that is new
    came_from: tuple[_Ids, ...]  # of each layer's clusters, the cluster before whose rows it takes over

    @classmethod
    def same(cls, tree: LabelTree) -> Grown:
        """The tree as it is."""
        was = tuple(np.arange(size, dtype=np.int32) for size in tree.layer_sizes)
        return cls(tree, was, tuple(np.arange(len(each) - 1, dtype=np.int32) for each in tree.child_offsets))

    def with_labels(self, clusters: Sequence[int]) -> Grown:
        """With a further label at the end of each of these clusters; their ids go on where those of the tree end."""
        tree, last = self.tree, self.tree.depth - 1
        order = np.argsort(np.asarray(clusters, np.int64), kind="stable")
        own = np.asarray(clusters, np.int64)[order]
        at = tree.child_offsets[last][own + 1]
        labels = np.insert(tree.leaf_labels, at, (tree.n_labels + order).astype(np.int32))
        was = np.insert(self.was[last], at, np.int32(-1))
        more = np.concatenate(([0], np.cumsum(np.bincount(own, minlength=len(tree.child_offsets[last]) - 1))))
        offsets = (*tree.child_offsets[:last], tree.child_offsets[last] + more)
        grown = LabelTree(offsets, labels, tree.n_labels + len(own), tree.removed)
        return Grown(grown, (*self.was[:last], was), self.came_from)

    def split(self, cluster: int, right: npt.NDArray[np.bool_]) -> Grown:
        """With a cluster of the last layer divided in two siblings, the second of those children that are ``right``."""
        tree, last = self.tree, self.tree.depth - 1
        first, end = (int(each) for each in tree.child_offsets[last][cluster : cluster + 2])
        order = np.argsort(right, kind="stable") + first
        labels, was = tree.leaf_labels.copy(), self.was[last].copy()
        labels[first:end], was[first:end] = labels[order], was[order]
        below = np.insert(tree.child_offsets[last], cluster + 1, end - int(right.sum()))
        above = tree.child_offsets[last - 1].copy()
        parent = int(np.searchsorted(above, cluster, side="right")) - 1
        above[parent + 1 :] += 1
        nodes = np.insert(self.was[last - 1], cluster, np.int32(-1))
        nodes[cluster + 1] = -1
        came = np.insert(self.came_from[last], cluster, self.came_from[last][cluster])
        made = LabelTree((*tree.child_offsets[: last - 1], above, below), labels, tree.n_labels, tree.removed)
        return Grown(made, (*self.was[: last - 1], nodes, was), (*self.came_from[:last], came))


def saved_by_rebuilding(tree: LabelTree, branching: int, max_leaf: int, beam: int) -> float:
    """The share of a search's cost that a new tree would save, by its shape: in [0, 1). The cost is the number of nodes
    that a beam scores: in each layer, that of the nodes that it follows times the usual number of their children, where
    a cluster of many labels is met in proportion to these."""
    fresh = plan_offsets(layer_plan(tree.n_placed, branching, max_leaf))
    now = _search_cost(tree.child_offsets, beam)
    return max(0.0, 1 - _search_cost(fresh, beam) / now)


def _search_cost(offsets: Sequence[npt.NDArray[np.int64]], beam: int) -> float:
    total = 0.0
    for layer in offsets:
        sizes = np.diff(layer).astype(np.float64)
        total += min(beam, len(sizes)) * float((sizes**2).sum() / sizes.sum())
    return total
