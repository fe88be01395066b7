"""BeamTreeClassifier: one class a row out of very many, by candidates versus noises over a tree of classes (CANE)."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.arrays.frames import label_columns
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Float64
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ModelError, ParameterError, UnsupportedError
from sylvan.explain.explanation import Names, TreeVote
from sylvan.explain.paths import class_notes, class_votes
from sylvan.indexing import LabelTree
from sylvan.matching.class_beam import ClassWeights, Scores
from sylvan.models.base import MOST_ANSWERS, Estimator, Predicted
from sylvan.models.beam_tree.examples import Classes, Examples, first_classes, refuse_balanced
from sylvan.models.beam_tree.fitted import Bound, FittedBeamTree, Tree, rank_exactly, saved_tree, within_bounds
from sylvan.models.beam_tree.solver import L2, Loss, Optimizer, Selected, ranked_by
from sylvan.models.beam_tree.training import Learning, learn, plan_training
from sylvan.models.beam_tree.updates import shown_once, updated
from sylvan.parallel import all_at_once, of_one_state, one_at_a_time, resolve_jobs
from sylvan.params.fields import Constraint, Flag, Range, Seed, Tested, Threads, attribute, check_value, parameterized
from sylvan.runtime import Checkpoint, Runner, opened_runner
from sylvan.runtime.checkpoint import identity_of
from sylvan.runtime.plan import Plan
from sylvan.store import JSON

_WORDS: tuple[str, ...] = get_args(Tree)  # that say how the tree is made
_TREE = Tested(
    lambda value: isinstance(value, LabelTree) or (isinstance(value, str) and value in _WORDS),
    f"one of {', '.join(map(repr, _WORDS))}, or a LabelTree",
)


@dataclass(frozen=True)
class ClassWeight(Constraint):
    """None, "balanced", or a weight for some of the classes."""

    optional: bool = True

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return value == "balanced"
        return isinstance(value, Mapping) and all(
            isinstance(key, (str, numbers.Integral)) and not isinstance(key, bool) and _is_weight(weight)
            for key, weight in value.items()
        )

    def describe(self) -> str:
        return "None, 'balanced', or a dict from classes to floats in [0, inf)"

    def _parse(self, text: str) -> Any:
        return text


def _is_weight(weight: Any) -> bool:
    if not isinstance(weight, numbers.Real) or isinstance(weight, bool):
        return False
    try:
        return 0 <= float(weight) < math.inf
    except OverflowError:
        return False


@parameterized
class BeamTreeClassifier(Estimator):
    """One class a row, out of hundreds to millions, at a cost a step that hardly grows with their number.

    Classes are the leaves of a tree whose edges have linear models. For each row shown, a beam search finds the
    candidates, the ``n_candidates`` classes that score best; ``n_noises`` others are drawn, weighed by one over their
    probability, to stand for all that remain; and the row's class is set off against these alone. Ranking is the same
    search. Rivals of this method are other values of ``loss``. The paper's CANE-9v1 is ``scores="path",
    together=False, n_candidates=9, n_noises=1``.

    Parameters
    ----------
    branching : int, default 10
        Most children of a node (the paper's b).
    n_candidates, n_noises : int, default 15 and 10
        With as many candidates as classes there is no noise. "nce", "blackout" and "negative_sampling" draw noises
        alone. The paper's best were 9 and 1.
    together : bool, default True
        All noises in one sum, and a class that is no candidate in the place of one; otherwise Eqs. 2 and 3.
    scores : {"own", "path"}, default "own"
        A class's score, for "cane": of its own edge, while those above learn which nodes to follow; or Eq. 9's sum.
    loss : {"cane", "softmax", "nce", "blackout", "negative_sampling", "hsm"}, default "cane"
        Candidates versus noises; the full softmax; three ways to set a class off against noises alone; or a softmax at
        every node of the class's path (hierarchical softmax). "cane" and "hsm" have the tree, the others score every
        class by itself, in training or in ranking or in both.
    tree : {"kmeans", "random", "frequency"} or LabelTree, default "kmeans"
        Classes with near centres, classes at random, or classes of like frequency under one node, in a balanced tree;
        or a tree with each class in one leaf.
    learning_rate : float or "auto", default "auto"
        "auto" takes the rate, and the number of passes up to ``epochs``, that rank a holdout of a tenth of the rows
        best. All rates tried have one pass, the best of them all passes, and end when the holdout gets worse; then the
        model is trained on all rows. Trials have at most 50,000 rows; of fewer than 50 rows none are held out.
    optimizer : {"auto", "averaged_sgd", "sgd", "adagrad"}, default "auto"
        "averaged_sgd" ranks by the averages of the weights of all steps of gradient descent, step t counting t times.
        "auto" tries "averaged_sgd" and "adagrad" along with their rates, and is "averaged_sgd" with a given rate.
    epochs : int, default 10
        Passes over the rows at most, in a new order each time; exactly as many with a given ``learning_rate``.
    l2 : float, default 0.0
        Factor of half the squared weights beside a row's loss, for the edges that the row moves.
    bias : float, default 1.0
        Value of a constant feature; 0 for none.
    beam : int, default 10
        Nodes followed a layer when ranking. All classes below the last of them are ranked.
    noise, noise_power : {"uniform", "unigram"} and float, default "uniform" and 0.75
        What noises are drawn by: all alike, or as often as classes occur, to this power.
    class_weight : "balanced" or dict, optional
        Factor of the loss of each class's rows; those that a dict lacks have 1 (its keys are classes, in a TextModel
        too). "balanced" gives all classes that occur the same weight together.
    seed : int, default 0
    n_jobs : int, optional
        Threads for ranking and for the tree; None or -1 for every core. Neither model nor answer depends on it.
        Steps are made one after another, on one thread.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels_,)
        The classes by their ids, which are the labels of :meth:`rank`: the ids themselves, or the names.
    tree_, weights_ : LabelTree and ClassWeights
        What classes are ranked by.
    optimizer_, learning_rate_ : str and float
    history_ : ndarray of float64, shape (n_epochs, 2)
        Each pass's mean loss, and for "cane" the share of rows whose class was among their candidates: the closer to 1,
        the less is lost against the full softmax (Corollary 1).
    n_features_, n_labels_, n_rows_ : int
        Sizes seen in ``fit``.
    label_counts_ : ndarray of int64, shape (n_labels_,)
        Training rows of each class.

    Notes
    -----
    A step costs about ``(2 * n_candidates + n_noises) * log(n_labels_)`` products of a row with an edge's weights.
    Weights are as many as there are edges times features. A model keeps what training goes on from beside them: as much
    again with AdaGrad, twice that with averages, which are apart from the weights of the steps.

    A single class leaves nothing to learn: every row is of it, with a probability of 1.

    References
    ----------
    Han, Huang & Zhang (2018), "Candidates vs. Noises Estimation for Large Multi-Class Classification Problem",
    Algorithms 2 to 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import BeamTreeClassifier
    >>> X = np.eye(6, dtype=np.float32).repeat(10, axis=0)
    >>> y = np.repeat(["elm", "fir", "ash", "oak", "yew", "box"], 10)
    >>> model = BeamTreeClassifier(branching=2, n_candidates=2).fit(X, y)
    >>> model.predict(np.eye(6)).tolist()
    ['elm', 'fir', 'ash', 'oak', 'yew', 'box']
    """

    kind = "beam-tree"

    gives_probabilities: ClassVar[bool] = True
    takes_class_names: ClassVar[bool] = True

    branching: Annotated[int, Range(2, 1 << 20)] = 10
    n_candidates: Selected = 15
    n_noises: Selected = 10
    together: bool = True
    scores: Scores = "own"
    loss: Loss = "cane"
    tree: Annotated[Tree | LabelTree, _TREE] = "kmeans"
    learning_rate: Annotated[float | Literal["auto"], Range(0, open_low=True, word="auto")] = "auto"
    optimizer: Literal["auto", Optimizer] = "auto"
    epochs: Annotated[int, Range(1, 1_000_000)] = 10
    l2: L2 = 0.0
    bias: Annotated[float, Range(0)] = 1.0
    beam: Annotated[int, Range(1, validate.MAX_COLUMNS)] = 10
    noise: Literal["uniform", "unigram"] = "uniform"
    noise_power: Annotated[float, Range(0, 10)] = 0.75
    class_weight: Annotated[Literal["balanced"] | Mapping[Any, float] | None, ClassWeight()] = None
    seed: Seed = 0
    n_jobs: Threads = None

    fitted_: FittedBeamTree = attribute()

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, force: bool = False, class_names: Vocabulary | None = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None, runner: Runner | None = None,
    ) -> BeamTreeClassifier:  # fmt: skip
        """Make the tree, choose the learning rate, and train.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        y : array-like of shape (n,), or matrix of shape (n, n_classes) with one entry a row
            The class of each row: strings or ints. Those that occur are classes, in sorted order.
        sample_weight : array of shape (n,), optional
            Factor of each row's loss.
        force : bool, default False
            Train even where the machine hasn't got the memory.
        class_names : Vocabulary, optional
            What ``class_weight`` calls the columns of a matrix ``y``, as a TextModel gives it.
        checkpoint : path or Checkpoint, optional
            A folder for what is learned so far, from which the same call goes on after an interruption, to the same
            bits. Weights are stored after a pass, at most once a minute; a path is removed when ``fit`` is done.
        runner : Runner, optional
            Who runs the training's jobs, instead of threads of this process; see :mod:`sylvan.runtime`.

        Raises
        ------
        DataError
            When an array is malformed, the arrays' shapes don't agree, a row has no class or several, or the weights
            leave the range of numbers.
        ParameterError
            When a parameter is out of its range.
        MemoryLimitError
            When the machine clearly has too little memory.
        ModelError
            When ``checkpoint`` is another training's, or can't be written.
        """
        self.check_params()
        examples, classes = self._examples(X, y, sample_weight, names=class_names)
        identity = partial(self._identity, examples)
        with opened_runner(self.n_jobs, runner=runner, checkpoint=checkpoint, identity=identity) as run:
            return self._learn(X, examples, classes, run, None, force)

    @one_at_a_time
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> BeamTreeClassifier:
        """One more pass, over these rows alone, in their order; after ``fit`` or from nothing.

        It goes on with the state of the optimiser, the averages and the draws: calls with the rows in parts give the
        bits of one call with all of them, where the tree and the rate are given (the first call makes and chooses them
        by the rows that it has: let it see enough of every class) and noises are uniform (others are drawn by all rows
        so far). Shuffle rows that are sorted by class.

        The first call must be given all classes; later calls, also of a model that was saved and loaded, add none
        (:meth:`update` does).
        Weights change where they are: a call that is interrupted leaves what it had learned by then, one that goes out
        of bounds no model. Parameters set since the call before count, ``learning_rate`` and ``optimizer`` too ("auto"
        goes on with the last ones), but for those that weights are bound to. Another optimiser begins without state.

        Parameters
        ----------
        X, y, sample_weight : as in :meth:`fit`
        classes : array-like of shape (n_classes,), optional
            All classes that will ever come, needed in the first call unless ``y`` is a matrix, which has a column for
            each.

        Raises
        ------
        DataError
            As :meth:`fit`; for a class that wasn't among the first call's; and for other ``classes`` than these.
        ParameterError
            As :meth:`fit`; for ``class_weight="balanced"``, which needs all rows at once; and when ``loss``, ``bias``,
            or of a loss with a tree ``tree`` or ``branching`` were changed after the first call.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import BeamTreeClassifier
        >>> X, y = np.eye(3).repeat(20, axis=0), np.arange(60) // 20
        >>> model = BeamTreeClassifier(n_candidates=2).partial_fit(X, y, classes=[0, 1, 2])
        >>> model.partial_fit(X[::-1], y[::-1]).n_rows_
        120
        """
        self.check_params()
        fitted = self.fitted_ if self._is_fitted() else None
        listed = first_classes(y, classes, self.class_weight, None if fitted is None else fitted.classes)
        if fitted is None:
            return self._learn(X, *self._examples(X, y, sample_weight, listed), Runner(self.n_jobs), epochs=1)
        fitted.bound.refuse_changes(self, self.tree_)
        examples, _ = self._examples(X, y, sample_weight, fitted.classes, self._rows(X, bounded=False))
        counts = self.label_counts_ + examples.counts()
        try:
            self.fitted_ = shown_once(self, fitted, examples, counts)
        except DataError as error:
            del self.n_labels_  # it isn't fitted any more
            raise DataError(f"{error} The model is lost: fit it again.") from None
        self.n_rows_, self.label_counts_ = self.n_rows_ + len(examples.ids), counts
        return self

    @all_at_once
    def update(
        self, X: Any = None, Y: Any = None, sample_weight: Any = None, *, epochs: int = 3,
        n_features: int | None = None, **options: Any,
    ) -> BeamTreeClassifier:  # fmt: skip
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
            Passes over the rows, in a new order each time.
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
        nodes. AdaGrad goes on with its squares; averages begin again, from the averages so far. A ``tree`` that was
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
        if other := next((name for name, value in options.items() if value is not None), None):
            raise UnsupportedError(
                f"{type(self).__name__} keeps no rows: its update learns new ones and takes no {other!r}. For that, "
                "train it again."
            )
        if X is None or Y is None:
            raise DataError("update takes X and Y together: the new rows, and their classes.")
        refuse_balanced(self.class_weight)
        epochs, fitted = validate.count(epochs, "epochs", owner="update"), self.fitted_
        fitted.bound.refuse_changes(self, self.tree_)
        width = None if n_features is None else self._more_features(n_features)
        classes = fitted.classes.with_those_of(Y)
        examples, _ = self._examples(X, Y, sample_weight, classes, self._rows(X, width, bounded=False))
        counts = np.concatenate((self.label_counts_, np.zeros(classes.n - fitted.classes.n, np.int64)))
        counts += examples.counts()
        self.fitted_ = updated(self, fitted, examples, classes, counts, epochs)
        self.vocabulary_, self.n_labels_, self.n_features_ = classes.vocabulary, classes.n, examples.n_features
        self.n_rows_, self.label_counts_ = self.n_rows_ + len(examples.ids), counts
        if isinstance(self.tree, LabelTree):
            self.tree = self.tree_
        return self

    def _examples(
        self, X: Any, y: Any, sample_weight: Any, classes: Classes | None = None, rows: Any = None, names: Any = None
    ) -> tuple[Examples, Classes]:
        owner = type(self).__name__
        return Examples.of(X, y, sample_weight, self.class_weight, classes, owner=owner, rows=rows, names=names)

    def _learn(
        self, X: Any, examples: Examples, classes: Classes, runner: Runner, epochs: int | None, force: bool = False
    ) -> BeamTreeClassifier:
        """Learn from nothing; the model is what it was until all is done."""
        counts = examples.counts()
        learned = learn(Learning.of(self, examples, counts, epochs=epochs), runner, force)
        optimizer, rate, n_shown = learned.training.optimizer, float(learned.training.learning_rate), learned.n_shown
        self.fitted_ = FittedBeamTree(
            classes, Bound.of(self), isinstance(examples.X, np.ndarray), ranked_by(learned.weights, optimizer, n_shown),
            learned.weights, optimizer, rate, n_shown, n_shown, learned.history,
        )  # fmt: skip
        self.n_rows_, self.n_features_, self.label_counts_ = len(examples.ids), examples.n_features, counts
        self._keep_names(X, classes.vocabulary)
        self.n_labels_ = classes.n
        return self

    def plan(self, X: Any, y: Any, sample_weight: Any = None, *, class_names: Vocabulary | None = None) -> Plan:
        """What ``fit`` with the same arguments would take: time, memory and the size of the model.

        The tree is made as ``fit`` would make it, and some hundred rows are shown. Nothing of the model changes.
        Parameters and errors as in :meth:`fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import BeamTreeClassifier
        >>> BeamTreeClassifier().plan(np.eye(4).repeat(5, axis=0), np.arange(4).repeat(5)).fits
        True
        """
        self.check_params()
        examples, _ = self._examples(X, y, sample_weight, names=class_names)
        return plan_training(Learning.of(self, examples, examples.counts()), Runner(self.n_jobs))

    @property
    def classes_(self) -> Array:
        """The classes in the order of their ids."""
        self._need_fit("classes_")
        return self.fitted_.classes.array

    @property
    def weights_(self) -> ClassWeights:
        """What classes are ranked by."""
        return self.fitted_.weights

    @property
    def optimizer_(self) -> Optimizer:
        """The optimiser that the weights were trained with last."""
        return self.fitted_.optimizer

    @property
    def learning_rate_(self) -> float:
        """Its learning rate."""
        return self.fitted_.learning_rate

    @property
    def history_(self) -> Float64:
        """Each pass's mean loss, and for "cane" its coverage, shape (n_epochs, 2)."""
        return self.fitted_.history

    @property
    def tree_(self) -> LabelTree:
        """The tree of the edges that weights belong to; for a loss that has none, every class a child of the root."""
        self._need_fit("tree_")
        return self.fitted_.weights.tree

    @of_one_state
    def rank(self, X: Any, k: int = 10, *, beam: int | None = None, allowed: Any = None, denied: Any = None) -> TopK:
        """The ``k`` best classes of each row.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
        k : int
            Classes a row; a row for which the beam reaches fewer ends in label -1.
        beam : int, optional
            Nodes followed a layer, instead of the model's own; from the number of classes on, the search is exhaustive.
        allowed, denied : classes as ``fit`` was given them, or a mask of shape (n, n_labels_), optional
            The only classes to answer with, for every row or row by row, and classes not to answer with; see
            :class:`~sylvan.arrays.label_filter.LabelFilter` for the forms. The search and the scores are the same with
            and without.

        Returns
        -------
        TopK
            Labels, which are class ids, and scores of shape (n, k), best first, lower id first among equals. A score is
            the logarithm of the class's probability among all that the search reached.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        self._need_fit("rank")
        k = validate.count(k, "k", high=max(self.n_labels_, MOST_ANSWERS))
        return self._named(self._search(X, k, beam, allowed, denied))

    def _search(self, X: Any, k: int, beam: Any, allowed: Any = None, denied: Any = None, raw: bool = False) -> TopK:
        beam, rows = validate.count(self.beam if beam is None else beam, "beam"), self._rows(X)
        labels = self._filter(allowed, denied, rows.shape[0])
        return self.fitted_.rank(rows, k, beam, labels, raw=raw, n_jobs=resolve_jobs(self.n_jobs))

    @of_one_state
    def predict(  # type: ignore[override]  # no matrix
        self, X: Any, *, beam: int | None = None, allowed: Any = None, denied: Any = None
    ) -> Array:
        """The best class of each row, as it was called in ``fit``.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
        beam : int, optional
            Instead of the model's own.
        allowed, denied : as in :meth:`rank`
            A row whose classes are all denied is refused.

        Returns
        -------
        ndarray of shape (n,)
            Of the dtype of :attr:`classes_`.
        """
        self._need_fit("predict")
        if allowed is not None or denied is not None:
            found = super().predict(X, beam=beam, allowed=allowed, denied=denied)
            return np.asarray(found, self.classes_.dtype)
        return np.asarray(self.classes_[np.maximum(self._search(X, 1, beam, raw=True).labels[:, 0], 0)])

    @property
    def _has_one_class(self) -> bool:
        return True

    @of_one_state
    def predict_proba(self, X: Any, k: int | None = None, *, exact: bool = False, **options: Any) -> Predicted:
        """Probabilities of the ``k`` best classes of each row.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
        k : int, optional
            Classes a row; by default all, where there are no more than 1,000, and else 100.
        exact : bool, default False
            Score every class. Otherwise probabilities are those among the classes that the search reached, a beam of
            10 below nodes of 10 children 100, which makes the likely ones a little too large.
        **options
            Handed to :meth:`rank`, such as ``beam=20``; not for ``exact``.

        Returns
        -------
        ndarray of float32, shape (n, n_labels_)
            With rows that sum to 1, for all of no more than 1,000 classes; else a sparse matrix, as from other models.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import BeamTreeClassifier
        >>> model = BeamTreeClassifier().fit(np.eye(3).repeat(20, axis=0), np.arange(60) // 20)
        >>> model.predict_proba(np.eye(3), exact=True).round(1).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        """
        self._need_fit("predict_proba")
        if not isinstance(exact, np.bool_):
            check_value("exact", exact, Flag(), "predict_proba")
        if not exact:
            return super().predict_proba(X, k, **options)
        if name := next(iter(options), None):
            raise ParameterError(f"predict_proba with exact=True scores every class: it takes no {name!r}.")
        k = validate.count(self._proba_width(k), "k", owner="predict_proba")
        rows, jobs, bound = self._rows(X), resolve_jobs(self.n_jobs), self.fitted_.bound
        return self._proba(rank_exactly(self.weights_, rows, k, loss=bound.loss, bias=bound.bias, n_jobs=jobs))

    def coverage(self, X: Any, y: Any, n_candidates: int | None = None) -> float:
        """The share of rows whose class is among the candidates of training, which are found without knowing it.

        The paper's Table 3: the closer to 1, the less is lost against the full softmax (Corollary 1). ``history_`` has
        it for the rows of training, each before its step.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
        y : array-like of shape (n,), or matrix of shape (n, n_labels_) with one entry a row
            The class of each row. One that the model doesn't know is never among the candidates.
        n_candidates : int, optional
            Candidates of each row, and nodes followed in each layer, instead of the model's own.

        Returns
        -------
        float
            From 0 to 1; NaN without rows.

        Raises
        ------
        NotFittedError, DataError, ParameterError
            The last for a loss without candidates too.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import BeamTreeClassifier
        >>> X, y = np.eye(30).repeat(10, axis=0), np.arange(30).repeat(10)
        >>> model = BeamTreeClassifier(n_candidates=3).fit(X, y)
        >>> model.coverage(X, y), model.coverage(X, y, n_candidates=30)
        (1.0, 1.0)
        """
        self._need_fit("coverage")
        if self.fitted_.bound.loss != "cane":
            raise ParameterError(f"loss={self.fitted_.bound.loss!r} has no candidates: coverage is for loss='cane'.")
        width = self.n_candidates if n_candidates is None else n_candidates
        width = validate.count(width, "n_candidates", owner="coverage", high=1 << 20)
        rows, ids = self._rows(X), self.fitted_.classes.find(y)
        if rows.shape[0] != len(ids):
            raise DataError(f"X and y must have as many rows, but X has {rows.shape[0]} and y has {len(ids)}.")
        width = min(width, self.n_labels_)
        top = self.fitted_.rank(rows, width, width, raw=True, n_jobs=resolve_jobs(self.n_jobs)).labels
        return float(((top == ids[:, None]) & (top >= 0)).any(axis=1).mean()) if len(ids) else math.nan

    def _explain_trees(self, row: Csr, label: int, top: int, names: Names, **options: Any) -> tuple[TreeVote, ...]:
        beam = self.beam if options.get("beam") is None else options["beam"]
        bound = self.fitted_.bound
        return class_votes(self.weights_, row, label, beam, top, names, loss=bound.loss, bias=bound.bias)

    def _explain_notes(self, row: Csr, label: int) -> tuple[str, ...]:
        return class_notes(self.fitted_.bound.loss, self.fitted_.bound.scores)

    def _probabilities(self, top: TopK) -> Any:
        return np.exp(np.minimum(top.scores, 0))

    def _truth(self, Y: Any) -> Csr:
        """True classes by their ids; those that the model doesn't know are beyond its own."""
        if label_columns(Y) is not None or sp.issparse(Y) or (getattr(Y, "ndim", 1) == 2 and Y.shape[1] > 1):
            return super()._truth(Y)
        ids = self.fitted_.classes.find(Y)
        return validate.labels(np.where(ids < 0, self.n_labels_, ids), n_labels=self.n_labels_ + 1)

    def _rows(self, X: Any, n_features: int | None = None, *, bounded: bool = True) -> Any:
        """What ``rank`` is given, verified; without bounds for learning, which refuses what is beyond them. With
        ``n_features``, rows of so many columns, whatever they are called."""
        dense = self.fitted_.dense
        if dense and (vectors := validate.dense_features(X, n_features or self.n_features_)) is not None:
            return vectors
        rows = self._features(X, n_features)
        if bounded:
            rows = within_bounds(rows)
        else:
            validate.learnable(rows)
        return rows.to_scipy().toarray() if dense else rows

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools ask: this is a classifier, of one class a row."""
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        tags.target_tags.two_d_labels = tags.target_tags.multi_output = False
        return tags

    def _identity(self, examples: Examples) -> dict[str, JSON]:
        """What distinguishes this training from others, for its checkpoint."""
        parameters = {name: value for name, value in self._plain_params().items() if name != "n_jobs"}
        data = {"X": examples.X, "y": examples.ids, "the weight of rows": examples.weight}
        return identity_of(type(self).__name__, {**parameters, "tree": self.tree}, **data)

    def _plain_params(self) -> dict[str, Any]:
        """The parameters as a manifest can hold them; a tree among them is stored as that of the weights."""
        tree: Any = None if isinstance(self.tree, LabelTree) else self.tree
        weights: Any = self.class_weight
        if isinstance(weights, Mapping):  # the keys of a manifest's objects are strings alone
            weights = [[key if isinstance(key, str) else int(key), float(each)] for key, each in weights.items()]
        return {**super()._plain_params(), "class_weight": weights, "tree": tree}

    @classmethod
    def _params_from(cls, state: store.State) -> dict[str, Any]:
        params = super()._params_from(state)
        pairs = params["class_weight"]
        if isinstance(pairs, list) and all(
            isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str | int) for pair in pairs
        ):  # anything else is left for the constraint to refuse
            params["class_weight"] = dict(pairs)
        params["tree"] = saved_tree(state) if params["tree"] is None else params["tree"]
        return params

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, store.State]]:
        base, learned = super()._fitted_state(), self.fitted_.to_parts()
        return base[0] | learned[0], base[1] | learned[1], base[2] | learned[2]

    def _restore(self, state: store.State) -> None:
        super()._restore(state)
        if "class_values" in state.arrays:  # else ids would be taken for the classes
            raise ModelError(f"{state.where!r} was saved before the first release: train it again.")
        classes = Classes(self.n_labels_, self.vocabulary_)
        tree = self.tree if isinstance(self.tree, LabelTree) else saved_tree(state)
        self.fitted_ = FittedBeamTree.from_state(state, tree, classes, self.n_features_)


store.register(BeamTreeClassifier.kind, BeamTreeClassifier.from_state)
