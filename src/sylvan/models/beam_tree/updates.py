"""BeamTreeClassifier brought up to date: classes that come get leaves in the tree, and new rows are learned."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from sylvan.arrays.types import Int64
from sylvan.indexing.tree import LabelTree, check_class_tree
from sylvan.models.beam_tree.examples import Classes, Examples
from sylvan.models.beam_tree.fitted import FittedBeamTree
from sylvan.models.beam_tree.solver import TREE_LOSSES, Optimizer, going_on, ranked_by
from sylvan.models.beam_tree.training import Learning, learn_on
from sylvan.parallel import resolve_jobs

ANSWERS = 5  # of each row of a new class, by which its place in the tree is chosen


def shown_once(model: Any, fitted: FittedBeamTree, examples: Examples, counts: Int64) -> FittedBeamTree:
    """One more pass with a model's parameters, which changes the weights of the last step where they are."""
    if fitted.classes.n == 1:
        return fitted
    optimizer, rate = _continued(model, fitted)
    same = optimizer == fitted.optimizer
    trained = going_on(fitted.trained if same else fitted.weights.alone(), optimizer)
    n_averaged, n_new = fitted.n_averaged if same else 0, len(examples.weighted())
    learning = Learning.of(model, examples, counts, (optimizer, rate), epochs=1)
    history = learn_on(learning, trained, fitted.n_shown, n_averaged)
    return replace(
        fitted, weights=ranked_by(trained, optimizer, n_averaged + n_new), trained=trained, optimizer=optimizer,
        learning_rate=rate, n_shown=fitted.n_shown + n_new, n_averaged=n_averaged + n_new,
        history=np.concatenate([fitted.history, history]),
    )  # fmt: skip


def updated(
    model: Any, fitted: FittedBeamTree, examples: Examples, classes: Classes, counts: Int64, epochs: int
) -> FittedBeamTree:
    """The tree grown by the new ones of ``classes``, and some passes over the examples with a model's parameters."""
    optimizer, rate = _continued(model, fitted)
    growing = _grown(model, fitted, examples)
    tree = growing.tree()
    check_class_tree(tree, classes.n, owner=type(model).__name__)
    before = fitted.trained if optimizer == fitted.optimizer != "averaged_sgd" else fitted.weights.alone()
    trained = going_on(before.regrown(tree, growing.edges_before(), examples.n_features), optimizer)
    n_new, history = 0, [fitted.history]
    if classes.n > 1:
        learning = replace(Learning.of(model, examples, counts, (optimizer, rate), epochs=1), in_order=False)
        for _ in range(epochs):
            history.append(learn_on(learning, trained, fitted.n_shown + n_new, n_new))
            n_new += len(examples.weighted())
    return FittedBeamTree(
        classes, fitted.bound, fitted.dense, ranked_by(trained, optimizer, n_new), trained, optimizer, rate,
        fitted.n_shown + n_new, n_new, np.concatenate(history),
    )  # fmt: skip


def _continued(model: Any, fitted: FittedBeamTree) -> tuple[Optimizer, float]:
    """The optimiser and the rate: those that are set, or where that is "auto" the last ones."""
    optimizer = fitted.optimizer if model.optimizer == "auto" else model.optimizer
    return optimizer, float(fitted.learning_rate if isinstance(model.learning_rate, str) else model.learning_rate)


def _grown(model: Any, fitted: FittedBeamTree, examples: Examples) -> GrowingClassTree:
    """The tree with new classes, each next to the class that its rows are answered with."""
    tree, n_known, limit = fitted.weights.tree, fitted.classes.n, 0
    if fitted.bound.loss in TREE_LOSSES:  # a tree that was given may have larger nodes
        limit = max(fitted.bound.branching, *(int(np.diff(offsets).max()) for offsets in tree.child_offsets))
    growing = GrowingClassTree(tree, limit)
    rows = np.flatnonzero(examples.ids >= n_known)
    if len(rows):
        wide = fitted.weights.regrown(tree, np.arange(fitted.weights.n_edges), examples.n_features)
        top = replace(fitted, weights=wide).rank(
            examples.only(rows).X, min(ANSWERS, n_known), model.beam, raw=True, n_jobs=resolve_jobs(model.n_jobs)
        )
    for label in range(n_known, examples.n_classes):
        of_label = np.flatnonzero(examples.ids[rows] == label)
        beside = n_known - 1
        if len(of_label):
            classes, worth = top.labels[of_label], np.broadcast_to(1 / (1 + np.arange(top.k)), (len(of_label), top.k))
            reached = classes >= 0
            beside = int(np.bincount(classes[reached], worth[reached], minlength=n_known).argmax())
        growing.add(beside)
    return growing


class GrowingClassTree:
    """A tree with each class in one leaf, to which classes are added one after another. A node with too many children
    is cut in two between them, which gives its parent one more, and so on up to the root, which gets a layer of two
    nodes below it: as in a B-tree, all leaves stay at the same depth. Both halves of a node take its weights over, so
    that the sums along paths stay."""

    def __init__(self, tree: LabelTree, branching: int) -> None:
        self._branching = branching
        self._offsets: list[Int64] = [offsets.copy() for offsets in tree.child_offsets[::-1]]  # the leaves' first
        self._leaves = tree.leaf_labels.astype(np.int64)
        ends = np.cumsum([0, *tree.layer_sizes])
        # of each layer's nodes, from the leaves up, the edge of the first tree whose weights it takes over; -1 for none
        self.was: list[Int64] = [np.arange(a, b) for a, b in itertools.pairwise(ends)][::-1]

    def add(self, beside: int) -> None:
        """A further class, next to the leaf of the class ``beside``."""
        leaf = int(np.flatnonzero(self._leaves == beside)[0])
        parent = self._parent(0, leaf)
        self._leaves = np.insert(self._leaves, leaf + 1, len(self._leaves))
        self.was[0] = np.insert(self.was[0], leaf + 1, -1)
        self._offsets[0][parent + 1 :] += 1
        layer = 0
        while self._branching and np.diff(self._offsets[layer])[parent] > self._branching:
            parent = self._divide(layer, parent)
            layer += 1

    def tree(self) -> LabelTree:
        """The tree as it is by now."""
        return LabelTree(tuple(self._offsets[::-1]), self._leaves.astype(np.int32), len(self._leaves))

    def edges_before(self) -> Int64:
        """For each edge by now the edge of the first tree that it takes over; -1 for one that is new."""
        return np.concatenate(self.was[::-1])

    def _parent(self, layer: int, node: int) -> int:
        return int(np.searchsorted(self._offsets[layer], node, side="right")) - 1

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
