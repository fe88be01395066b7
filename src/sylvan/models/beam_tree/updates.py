"""BeamTreeClassifier brought up to date: classes that come get leaves in the tree, and new rows are learned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.errors import DataError, UnsupportedError
from sylvan.indexing import LabelTree
from sylvan.indexing.class_tree import check_class_tree
from sylvan.matching.class_beam import ClassWeights
from sylvan.models.beam_tree.examples import Classes, Examples, refuse_balanced
from sylvan.models.beam_tree.growth import GrowingClassTree
from sylvan.models.beam_tree.params import BeamTreeParameters, Bound
from sylvan.models.beam_tree.search import rank_by_beam
from sylvan.models.beam_tree.solver import TREE_LOSSES, Optimizer
from sylvan.models.beam_tree.trainers import going_on, ranked_by
from sylvan.models.beam_tree.training import learn_on
from sylvan.parallel import one_at_a_time, resolve_jobs
from sylvan.params.fields import attribute, parameterized

_Self = TypeVar("_Self", bound="BeamTreeUpdates")

ANSWERS = 5  # of each row of a new class, by which its place in the tree is chosen


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
