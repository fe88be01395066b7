"""BeamTreeClassifier brought up to date: classes that come get leaves in the tree, and new rows are learned."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.errors import DataError, UnsupportedError
from sylvan.indexing.class_tree import check_class_tree
from sylvan.indexing.tree import LabelTree
from sylvan.matching.class_beam import ClassWeights
from sylvan.models.beam_tree.examples import Classes, Examples, refuse_balanced
from sylvan.models.beam_tree.params import BeamTreeParameters, Bound
from sylvan.models.beam_tree.search import rank_by_beam
from sylvan.models.beam_tree.solver import TREE_LOSSES, Optimizer
from sylvan.models.beam_tree.trainers import going_on, ranked_by
from sylvan.models.beam_tree.training import learn_on
from sylvan.parallel import one_at_a_time, resolve_jobs
from sylvan.params.fields import attribute, parameterized

_Ids = npt.NDArray[np.int64]
_Self = TypeVar("_Self", bound="BeamTreeUpdates")
ANSWERS = 5  # of each row of a new class, by which its place in the tree is chosen


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


@parameterized
class BeamTreeUpdates(BeamTreeParameters):
    """Base of BeamTreeClassifier, for what comes after its training."""

    weights_: ClassWeights = attribute()
    optimizer_: Optimizer = attribute()
    learning_rate_: float = attribute()
    history_: npt.NDArray[np.float64] = attribute()
    _classes: Classes = attribute()
    _dense: bool = attribute()
    _bound: Bound = attribute()
    _trained: ClassWeights = attribute()  # what training goes on from: the weights of the last step
    _step: int = attribute()  # examples shown so far
    _n_averaged: int = attribute()  # of these, the last ones that are in the averages

    @one_at_a_time
    def update(
        self: _Self, X: Any = None, Y: Any = None, sample_weight: Any = None, *, epochs: int = 3,
        n_features: int | None = None, **options: Any,
    ) -> _Self:  # fmt: skip
        """Learn new rows, of classes old and new; the tree gets leaves for these.

        This is online learning: passes of the optimiser over these rows alone, from the weights that there are. What it
        gives isn't what :meth:`fit` gives with all rows, and known classes of which no row is among them are answered
        less and less. Give rows of theirs along, some of each, to keep them; docs/results has the figures.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
            New rows.
        Y : array-like of shape (n,), or matrix of shape (n, n_classes)
            Their classes, as in :meth:`fit`. Those that aren't known are new, and get the next ids in sorted order.
        sample_weight : array of shape (n,), optional
        epochs : int, default 3
            Passes over the rows, in an order drawn anew for each.
        n_features : int, optional
            The number of columns from now on; those from ``n_features_`` on are new.

        Returns
        -------
        BeamTreeClassifier
            This model, changed; where an error is raised, or it is interrupted, it is as it was. A copy by
            :func:`copy.copy` made before stays what it is.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        UnsupportedError
            For ``forget``, ``merge`` and other options of models that keep their rows.
        DataError
            As :meth:`fit`; and for classes of another kind than those that are known, such as strings beside ids.
        ParameterError
            As :meth:`partial_fit`.

        Notes
        -----
        A new class gets the leaf next to the class that its rows are answered with most, the first five answers
        counting by their places; its edge begins with weights of 0. A node with more than ``branching`` children is cut
        in two between them, and so is its parent where that has too many then; both halves begin with its weights, so
        that the sums along the paths of known classes stay. Under a root with too many children comes a layer of two
        nodes. AdaGrad goes on with its squares; averages begin anew, from the averages so far. A ``tree`` that was
        given is replaced by the one that has grown.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import BeamTreeClassifier
        >>> X, y = np.eye(4).repeat(20, axis=0), np.array(["ash", "elm", "fir", "oak"]).repeat(20)
        >>> model = BeamTreeClassifier(n_candidates=2).fit(X[:60], y[:60])
        >>> model.update(X, y).predict(np.eye(4)).tolist()
        ['ash', 'elm', 'fir', 'oak']
        """
        self._need_fit("update")
        self.check_params()
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise UnsupportedError(
                f"{type(self).__name__} keeps no rows: its update learns new ones and takes no {given[0]!r}. For that, "
                "train it anew."
            )
        if X is None or Y is None:
            raise DataError("update takes X and Y together: the new rows, and their classes.")
        refuse_balanced(self.class_weight)
        epochs = validate.count(epochs, "epochs", owner="update")
        self._bound.refuse_changes(self, self.weights_.tree)
        made = self._shallow()
        if n_features is not None:
            made.n_features_ = self._more_features(n_features)
            made.__dict__.pop("feature_names_in_", None)
        classes = self._classes.with_those_of(Y)
        examples, _ = made.examples(X, Y, sample_weight, classes, made._rows(X, bounded=False))
        made._learn_new(examples, classes, epochs)
        self.__dict__ = dict(made.__dict__)  # at once, for threads that rank meanwhile
        return self

    def _learn_new(self, examples: Examples, classes: Classes, epochs: int) -> None:
        """Grow the tree, and learn; called of a fresh, shallow copy."""
        counts = np.concatenate((self.label_counts_, np.zeros(classes.n - self._classes.n, np.int64)))
        counts += examples.counts()
        optimizer = self.optimizer_ if self.optimizer == "auto" else self.optimizer
        rate = float(self.learning_rate_ if isinstance(self.learning_rate, str) else self.learning_rate)
        known = self._trained if optimizer == self.optimizer_ != "averaged_sgd" else self.weights_.alone()
        growing = self._growing(examples)
        tree = growing.tree()
        check_class_tree(tree, classes.n, owner=type(self).__name__)
        trained = going_on(known.regrown(tree, growing.edges_before(), self.n_features_), optimizer)
        n_averaged = 0
        if classes.n > 1:
            learning = replace(self.learning(examples, counts, (optimizer, rate), epochs=1), in_order=False)
            shown = len(examples.weighted())
            for _ in range(epochs):
                passes = learn_on(learning, trained, self._step, n_averaged)
                self.history_ = np.concatenate([self.history_, passes])
                self._step, n_averaged = self._step + shown, n_averaged + shown
        self.optimizer_, self.learning_rate_, self._trained, self._n_averaged = optimizer, rate, trained, n_averaged
        self.weights_ = ranked_by(trained, optimizer, n_averaged)
        if isinstance(self.tree, LabelTree):
            self.tree = tree
        self._classes, self.vocabulary_, self.n_labels_ = classes, classes.vocabulary, classes.n
        self.n_rows_, self.label_counts_ = self.n_rows_ + len(examples.ids), counts

    def _growing(self, examples: Examples) -> GrowingClassTree:
        """The tree with new classes, each next to the class that its rows are answered with."""
        weights, n_known = self.weights_, self._classes.n
        tree, bound = weights.tree, self._bound
        limit = 0
        if bound.loss in TREE_LOSSES:  # a tree that was given may have larger nodes
            limit = max(bound.branching, *(int(np.diff(offsets).max()) for offsets in tree.child_offsets))
        growing = GrowingClassTree(tree, limit)
        rows = np.flatnonzero(examples.ids >= n_known)
        if len(rows):
            asked = weights.regrown(tree, np.arange(weights.n_edges), self.n_features_)
            top = rank_by_beam(
                asked, examples.only(rows).X, min(ANSWERS, n_known), self.beam, loss=bound.loss, bias=bound.bias,
                raw=True, n_jobs=resolve_jobs(self.n_jobs),
            )  # fmt: skip
        for label in range(n_known, examples.n_classes):
            own = np.flatnonzero(examples.ids[rows] == label)
            beside = n_known - 1
            if len(own):
                found, worth = top.labels[own], np.broadcast_to(1 / (1 + np.arange(top.k)), (len(own), top.k))
                there = found >= 0
                beside = int(np.bincount(found[there], worth[there], minlength=n_known).argmax())
            growing.add(beside)
        return growing

    def _rows(self, X: Any, *, bounded: bool = True) -> Any:
        """What ``rank`` is given, verified."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no rows.")
