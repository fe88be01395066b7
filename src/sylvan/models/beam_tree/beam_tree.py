"""BeamTreeClassifier: one class a row out of very many, by candidates versus noises over a tree of classes (CANE)."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.arrays.frames import label_columns
from sylvan.arrays.topk import TopK
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.explain.classes import class_notes, class_votes
from sylvan.explain.records import Names, TreeVote
from sylvan.indexing import LabelTree
from sylvan.matching.class_beam import ClassWeights
from sylvan.models.base import MOST_ANSWERS, Predicted
from sylvan.models.beam_tree.examples import Classes, Examples, first_classes
from sylvan.models.beam_tree.params import Bound, saved_tree
from sylvan.models.beam_tree.search import coverage_of, rank_by_beam, rank_exactly, within_bounds
from sylvan.models.beam_tree.solver import OPTIMIZERS
from sylvan.models.beam_tree.trainers import going_on, new_trainer, ranked_by, state_arrays, weights_from
from sylvan.models.beam_tree.training import Learning, learn, learn_on, train_pass
from sylvan.models.beam_tree.updates import BeamTreeUpdates
from sylvan.parallel import one_at_a_time, resolve_jobs
from sylvan.params.fields import Flag, check_value, parameterized
from sylvan.params.wording import counted
from sylvan.runtime import Checkpoint, Runner, opened_runner
from sylvan.runtime.machine import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan, timed

_TREE_BYTES = 16  # of a finished tree and the class counts, a class
_SHOWN = 300  # rows at first; as many again and again until the time can be measured
_ENOUGH_SECONDS = 0.2
_RATE = 1e-3  # any that stays within bounds


def plan_training(learning: Learning, runner: Runner) -> Plan:
    """The plan of a training: its tree is made, its other jobs are asked for their cost, which is in rows shown."""
    learning.need_room()
    now, available = resident_bytes(), available_bytes()
    with timed(runner.n_jobs) as making:
        tree = runner.one(learning.tree_job(runner.n_jobs))
    phases = [Phase("tree", making.seconds, max(0, resident_bytes() - now))]
    trials = learning.trials(tree, runner.n_jobs)
    passes = learning.passes_job(tree, learning.training, learning.epochs)
    per_row = _seconds_a_row(learning, tree) if passes.cost else 0.0
    if learning.optimizers:
        phases.append(Phase("learning rate", (trials.cost if trials else 0) * per_row, passes.peak_bytes))
    phases.append(Phase("training", passes.cost * per_row, passes.peak_bytes))
    return Plan(
        sum(phase.seconds for phase in phases),
        now + max(phase.peak_bytes for phase in phases),
        passes.peak_bytes + _TREE_BYTES * learning.examples.n_classes,
        None if available is None else now + available,
        tuple(phases),
        ("fewer features", *(["optimizer='sgd', a third as much"] if learning.training.optimizer != "sgd" else [])),
    )


def _seconds_a_row(learning: Learning, tree: LabelTree) -> float:
    """Seconds of a step, from some hundred of them; the first, whose weights are all 0, aren't counted."""
    rows = learning.examples.weighted()
    some = np.resize(rows[np.random.default_rng(learning.training.seed).permutation(len(rows))], _SHOWN)
    training = replace(learning.training, learning_rate=_RATE)
    trainer = new_trainer(learning.examples, training, tree, learning.noise, learning.scores)
    train_pass(trainer, some)
    start, shown, seconds = time.process_time(), 0, 0.0
    # Until the clock has moved: on some machines it does in steps of ten milliseconds.
    while shown < _SHOWN or seconds == 0 or (seconds < _ENOUGH_SECONDS and shown < len(rows)):
        train_pass(trainer, some)
        shown += len(some)
        seconds = time.process_time() - start
    return seconds / shown


@parameterized
class BeamTreeClassifier(BeamTreeUpdates):
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
        Passes over the rows at most, in an order drawn anew for each; exactly as many with a given ``learning_rate``.
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
        examples, classes = self.examples(X, y, sample_weight, names=class_names)
        identity = partial(self.identity, examples)
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
        known = self._classes if self._is_fitted() else None
        given = first_classes(y, classes, self.class_weight, known)
        if known is None:
            return self._learn(X, *self.examples(X, y, sample_weight, given), Runner(self.n_jobs), epochs=1)
        self._bound.refuse_changes(self, self.tree_)
        return self._learn_on(self.examples(X, y, sample_weight, known, self._rows(X, bounded=False))[0])

    def _learn(
        self, X: Any, examples: Examples, classes: Classes, runner: Runner, epochs: int | None, force: bool = False
    ) -> BeamTreeClassifier:
        """Learn from nothing; the model is what it was until all is done."""
        counts = examples.counts()
        learned = learn(self.learning(examples, counts, epochs=epochs), runner, force)
        self.optimizer_, self.learning_rate_ = learned.training.optimizer, float(learned.training.learning_rate)
        self._classes, self._dense, self._bound = classes, isinstance(examples.X, np.ndarray), Bound.of(self)
        self._take(learned.weights, learned.n_shown, learned.n_shown)
        self.history_ = learned.history
        self.n_rows_, self.n_features_, self.label_counts_ = len(examples.ids), examples.n_features, counts
        self._keep_names(X, classes.vocabulary)
        self.n_labels_ = classes.n
        return self

    def _take(self, trained: ClassWeights, step: int, n_averaged: int) -> None:
        """Rank by these weights, or by their averages, from now on."""
        self._trained, self._step, self._n_averaged = trained, step, n_averaged
        self.weights_ = ranked_by(trained, self.optimizer_, n_averaged)

    def _learn_on(self, examples: Examples) -> BeamTreeClassifier:
        """One more pass."""
        counts = self.label_counts_ + examples.counts()
        if self._classes.n > 1:
            rate = float(self.learning_rate_ if isinstance(self.learning_rate, str) else self.learning_rate)
            optimizer = self.optimizer_ if self.optimizer == "auto" else self.optimizer
            same = optimizer == self.optimizer_
            trained = going_on(self._trained if same else self.weights_.alone(), optimizer)
            averaged = self._n_averaged if same else 0
            try:
                learning = self.learning(examples, counts, (optimizer, rate), epochs=1)
                passes = learn_on(learning, trained, self._step, averaged)
            except DataError as error:
                del self.n_labels_  # it isn't fitted any more
                raise DataError(f"{error} The model is lost: fit it anew.") from None
            shown, self.history_ = len(examples.weighted()), np.concatenate([self.history_, passes])
            self.optimizer_, self.learning_rate_ = optimizer, rate
            self._take(trained, self._step + shown, averaged + shown)
        self.n_rows_, self.label_counts_ = self.n_rows_ + len(examples.ids), counts
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
        examples, _ = self.examples(X, y, sample_weight, names=class_names)
        return plan_training(self.learning(examples, examples.counts()), Runner(self.n_jobs))

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes in the order of their ids."""
        self._need_fit("classes_")
        return self._classes.array

    @property
    def tree_(self) -> LabelTree:
        """The tree of the edges that weights belong to; for a loss that has none, every class a child of the root."""
        self._need_fit("tree_")
        return self.weights_.tree

    def rank(self, X: Any, k: int = 10, *, beam: int | None = None, allowed: Any = None, denied: Any = None) -> TopK:
        """The ``k`` best classes of each row.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
        k : int
            Classes a row; a row for which the beam reaches fewer ends in label -1.
        beam : int, optional
            Nodes followed a layer, instead of the model's own; from the number of classes on, the search is exhaustive.
        allowed, denied : class ids, or a mask of shape (n, n_labels_), optional
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
        labels, jobs = self._filter(allowed, denied, rows.shape[0]), resolve_jobs(self.n_jobs)
        loss, bias = self._bound.loss, self._bound.bias
        return rank_by_beam(self.weights_, rows, k, beam, loss=loss, bias=bias, labels=labels, raw=raw, n_jobs=jobs)

    def predict(self, X: Any, *, beam: int | None = None) -> npt.NDArray[Any]:  # type: ignore[override]  # no matrix
        """The best class of each row, as it was called in ``fit``.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
        beam : int, optional
            Instead of the model's own.

        Returns
        -------
        ndarray of shape (n,)
            Of the dtype of :attr:`classes_`.
        """
        self._need_fit("predict")
        best: npt.NDArray[Any] = self._classes.array[np.maximum(self._search(X, 1, beam, raw=True).labels[:, 0], 0)]
        return best

    @property
    def _has_one_class(self) -> bool:
        return True

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
        loss, bias, jobs = self._bound.loss, self._bound.bias, resolve_jobs(self.n_jobs)
        top = rank_exactly(self.weights_, self._rows(X), k, loss=loss, bias=bias, n_jobs=jobs)
        return self._proba(top)

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
        if self._bound.loss != "cane":
            raise ParameterError(f"loss={self._bound.loss!r} has no candidates: coverage is for loss='cane'.")
        width = self.n_candidates if n_candidates is None else n_candidates
        width = validate.count(width, "n_candidates", owner="coverage", high=1 << 20)
        rows, ids = self._rows(X), self._classes.find(y)
        if rows.shape[0] != len(ids):
            raise DataError(f"X and y must have as many rows, but X has {rows.shape[0]} and y has {len(ids)}.")
        return coverage_of(self.weights_, rows, ids, width, self._bound.bias, resolve_jobs(self.n_jobs))

    def _explain_trees(self, row: Csr, label: int, top: int, names: Names, **options: Any) -> tuple[TreeVote, ...]:
        beam = self.beam if options.get("beam") is None else options["beam"]
        return class_votes(self.weights_, row, label, beam, top, names, loss=self._bound.loss, bias=self._bound.bias)

    def _explain_notes(self, row: Csr, label: int) -> tuple[str, ...]:
        return class_notes(self._bound.loss, self._bound.scores)

    def _probabilities(self, top: TopK) -> Any:
        return np.exp(np.minimum(top.scores, 0))

    def _truth(self, Y: Any) -> Csr:
        """True classes by their ids; those that the model doesn't know are beyond its own."""
        if label_columns(Y) is not None or sp.issparse(Y) or (getattr(Y, "ndim", 1) == 2 and Y.shape[1] > 1):
            return super()._truth(Y)
        ids = self._classes.find(Y)
        return validate.labels(np.where(ids < 0, self.n_labels_, ids), n_labels=self.n_labels_ + 1)

    def _rows(self, X: Any, *, bounded: bool = True) -> Any:
        """What ``rank`` is given, verified; without bounds for learning, which refuses what is beyond them."""
        dense = validate.dense_features(X, self.n_features_) if self._dense else None
        if dense is not None:
            return dense
        rows = self._features(X)
        if bounded:
            rows = within_bounds(rows)
        else:
            validate.learnable(rows)
        return rows.to_scipy().toarray() if self._dense else rows

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools ask: this is a classifier, of one class a row."""
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        tags.target_tags.two_d_labels = tags.target_tags.multi_output = False
        return tags

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        meta, arrays, parts = super()._fitted_state()
        meta |= {"n_shown": self._step, "n_averaged": self._n_averaged, "dense": self._dense}
        meta |= {"trained_rate": self.learning_rate_, "trained_optimizer": self.optimizer_}
        arrays |= {"history": self.history_, **state_arrays(self.weights_, self._trained, by_feature=not self._dense)}
        return meta | self._bound.to_json(), arrays, parts | {"tree": self.tree_.to_state()}

    def _restore(self, state: store.State) -> None:
        super()._restore(state)
        tree = self.tree if isinstance(self.tree, LabelTree) else saved_tree(state)
        if tree.n_labels != self.n_labels_:
            raise ModelError(
                f"{state.where!r} is damaged: its tree has {tree.n_labels} of {counted(self.n_labels_, 'class')}."
            )
        self._step = store.need_int(state, "n_shown", 0, 2**62)
        self._n_averaged = store.need_int(state, "n_averaged", 0, self._step)
        self._dense = store.need_bool(state, "dense")
        self._bound = Bound.from_state(state)
        self.learning_rate_ = store.need_float(state, "trained_rate", 0)
        self.optimizer_ = store.need_choice(state, "trained_optimizer", OPTIMIZERS)
        shape = tree, self.n_features_, not self._dense, self._bound.scores
        self.weights_, self._trained = weights_from(state, *shape, averaged=self.optimizer_ == "averaged_sgd")
        self.history_ = store.need_array(state, "history", np.float64, (None, 2))
        self._classes = Classes(self.n_labels_, self.vocabulary_).values_from(state)
        self.vocabulary_ = self._classes.vocabulary


store.register(BeamTreeClassifier.kind, BeamTreeClassifier.from_state)
