"""A tree of classes that grows: classes that come, and nodes that are divided where they have too many children."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from sylvan.indexing.tree import LabelTree

_Ids = npt.NDArray[np.int64]


class GrowingClassTree:
    """A tree with each class in one leaf, to which classes are added one after another. A node with too many children
    is cut in two between them, which gives its parent one more, and so on up to the root, which gets a layer of two
    nodes below it: as in a B-tree, all leaves stay at the same depth. Both halves of a node take its weights over, so
    that the sums along paths stay."""

    def __init__(self, tree: LabelTree, branching: int) -> None:
        self._branching = branching
        self._offsets: list[_Ids] = [offsets.copy() for offsets in tree.child_offsets[::-1]]  # the leaves' first
        self._leaves = tree.leaf_labels.astype(np.int64)
        ends = np.cumsum([0, *tree.layer_sizes])
        # of each layer's nodes, from the leaves up, the edge of the first tree whose weights it takes over; -1 for none
        self.was: list[_Ids] = [np.arange(a, b) for a, b in itertools.pairwise(ends)][::-1]

    def add(self, beside: int) -> None:
        """A further class, next to the leaf of the class ``beside``."""
        at = int(np.flatnonzero(self._leaves == beside)[0])
        parent = self._parent(0, at)
        self._leaves = np.insert(self._leaves, at + 1, len(self._leaves))
        self.was[0] = np.insert(self.was[0], at + 1, -1)
        self._offsets[0][parent + 1 :] += 1
        layer = 0
        while self._branching and self._size(layer, parent) > self._branching:
            parent = self._divide(layer, parent)
            layer += 1

    def tree(self) -> LabelTree:
        """The tree as it is by now."""
        return LabelTree(tuple(self._offsets[::-1]), self._leaves.astype(np.int32), len(self._leaves))

    def edges_before(self) -> _Ids:
        """For each edge by now the edge of the first tree that it takes over; -1 for one that is new."""
        return np.concatenate(self.was[::-1])

    def _parent(self, layer: int, node: int) -> int:
        return int(np.searchsorted(self._offsets[layer], node, side="right")) - 1

    def _size(self, layer: int, parent: int) -> int:
        return int(self._offsets[layer][parent + 1] - self._offsets[layer][parent])

    def _divide(self, layer: int, node: int) -> int:
        """Cut the children of a node in two, in the layer of these; the node's parent."""
        offsets = self._offsets[layer]
        middle = (int(offsets[node]) + int(offsets[node + 1]) + 1) // 2
        self._offsets[layer] = np.insert(offsets, node + 1, middle)
        if layer + 1 == len(self._offsets):  # it was the root
            self._offsets.append(np.array([0, 2]))
            self.was.append(np.array([-1, -1]))
            return 0
        self.was[layer + 1] = np.insert(self.was[layer + 1], node + 1, self.was[layer + 1][node])
        parent = self._parent(layer + 1, node)
        self._offsets[layer + 1][parent + 1 :] += 1
        return parent
