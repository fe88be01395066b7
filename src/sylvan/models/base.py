"""What every estimator has: parameters, fit and rank, probabilities and indicators from rank, saving."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.frames import feature_names, sparse_as_set
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.arrays.validate import Csr
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ParameterError, UnsupportedError
from sylvan.explain.explanation import Explanation, Names, TreeVote
from sylvan.explain.paths import Candidates
from sylvan.explain.question import explain_label
from sylvan.labels.targets import Targets, grown_labels, true_labels
from sylvan.labels.vocabulary import NamedTopK, ids_of_names
from sylvan.metrics.tallies import hits
from sylvan.models import scikit_learn
from sylvan.models.label_changes import label_ids, merged_ids, renamed, without_names
from sylvan.parallel import of_one_state
from sylvan.params.wording import counted, did_you_mean
from sylvan.ranking.calibrate import DEPTH, MOST_ROWS, Calibrator
from sylvan.ranking.stopping import Expected, StoppingRule
from sylvan.ranking.tail import label_gains, reweigh
from sylvan.ranking.votes import LabelRows
from sylvan.remote.fitted import Fitted

CANDIDATES = 100  # labels put forward, at least, for a ranking that is then weighed or joined with others
MOST_ANSWERS = 1_000_000  # k beyond the number of labels only pads; what pads a gigabyte a row is a slip

_PROBABILITIES = 100  # of a row, where nothing else is asked for
_DENSE_CLASSES = 1000  # up to so many, the probabilities of all classes are an array

Predicted: TypeAlias = sp.csr_matrix | sp.csr_array | npt.NDArray[Any]  # an array after one class a row

_NONE = np.zeros(0, np.int32)
_NONE.flags.writeable = False
_Self = TypeVar("_Self", bound="Estimator")


class GivenRows(NamedTuple):
    """New rows, their labels by ids, and the number of labels with those that are new."""

    features: Csr
    labels: Csr
    weight: npt.NDArray[np.float32] | None
    n_labels: int


def has_new_rows(X: Any, Y: Any, sample_weight: Any = None, rows: str = "rows") -> bool:
    """Whether an update has new rows; without them there are no labels of theirs and no weights."""
    if (X is None) != (Y is None):
        raise DataError(f"update takes X and Y together: the new {rows}, and their labels.")
    if X is None and sample_weight is not None:
        raise DataError("sample_weight is that of new rows: give X and Y with it.")
    return X is not None


class Estimator(Fitted):
    """Base of all models; a concrete one sets ``n_features_`` and ``n_labels_`` in ``fit`` and is final."""

    n_features_: int
    n_labels_: int
    n_rows_: int
    label_counts_: npt.NDArray[np.int64]
    vocabulary_: Vocabulary | None = None

    single_label_: bool = False  # whether fit was given one class a row: an array, list or column of ids or names
    first_feature_: int | None = None  # the number of the first feature in svmlight files, where it learned from one
    calibrator_: Calibrator | None = None  # unless rows were held out for one
    _removed: npt.NDArray[np.int32] = _NONE  # ids of labels that were removed, rising
    _columns: npt.NDArray[Any] | None = None  # the names of the columns of X in training, where they had any
    least_rows: ClassVar[int] = 1  # of training, in a folder
    unlearns: ClassVar[bool] = False  # whether an update without known rows makes it answer known labels less
    gives_probabilities: ClassVar[bool] = False  # whether it learned them, so that they mean something uncalibrated

    def fit(self: _Self, X: Any, Y: Any) -> _Self:
        """Learn from features X of shape (n, d) and labels Y of shape (n, L)."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no fit.")

    def fit_holding_out(
        self, X: Any, Y: Any, rows: npt.NDArray[np.int32], sample_weight: Any = None, **options: Any
    ) -> TopK | None:
        """As :meth:`fit`, with answers to some of the rows as by a model that hasn't seen them.

        Parameters
        ----------
        X, Y, sample_weight, **options : as in :meth:`fit`
        rows : ndarray of int32, shape (m,)
            Rising row ids. The model is trained on them too, and calibrated on them alone.

        Returns
        -------
        TopK of shape (m, k), or None
            At most 100 labels a row, with the probabilities of :meth:`predict_proba`. None from models that can't leave
            rows out.
        """
        if sample_weight is not None:
            options["sample_weight"] = sample_weight
        self.fit(X, Y, **options)
        return None

    def update(self: _Self, X: Any = None, Y: Any = None, sample_weight: Any = None, **options: Any) -> _Self:
        """Learn new rows, with labels old and new, and forget others; see :meth:`XRLinear.update`."""
        raise UnsupportedError(f"{type(self).__name__} can't be brought up to date: train it again with all rows.")

    def plan_update(self, X: Any = None, Y: Any = None, sample_weight: Any = None, **options: Any) -> Any:
        """Estimate what :meth:`update` with the same arguments would do; nothing changes.

        Raises
        ------
        UnsupportedError
            From models whose updates aren't estimated.
        """
        raise UnsupportedError(f"What an update of {type(self).__name__} takes can't be estimated: it has no plan.")

    def _more_features(self, n_features: Any) -> int:
        """The number of columns from now on, at least as many as there are."""
        wanted = validate.count(n_features, "n_features", owner="update")
        if wanted < self.n_features_:
            raise ParameterError(
                f"The 'n_features' parameter of update must be at least the {self.n_features_} that there are. "
                f"Got {wanted} instead."
            )
        return wanted

    def _given_rows(
        self, X: Any, Y: Any, sample_weight: Any, n_features: int | None = None
    ) -> tuple[GivenRows, Vocabulary | None]:
        """New rows, verified, and the names of labels with those that are new, where they have any."""
        vocabulary, numbers = grown_labels(self.vocabulary_, self.n_labels_, Y)
        listed = validate.labels(numbers)
        n_labels = max(self.n_labels_, listed.shape[1])
        truth = listed._replace(shape=(listed.shape[0], n_labels)).to_scipy()  # as lists, they may have no label at all
        features, labels = validate.pair(self._features(X, n_features), truth, owner=type(self).__name__)
        removed = np.intersect1d(labels.indices, self._removed)
        if len(removed):
            raise DataError(f"Y has label {removed[0]}, which was removed before.")
        weight = validate.sample_weight(sample_weight, features.shape[0])
        return GivenRows(features, labels, weight, n_labels), vocabulary

    def rank(self, X: Any, k: int = 10, *, allowed: Any = None, denied: Any = None) -> TopK:
        """The ``k`` best labels of each row of X, of those that are allowed (all by default) and not denied."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no rank.")

    def searched(self, x: Any, tree: int = 0, beam: int | None = None) -> list[Candidates]:
        """The nodes of a tree that the search for one row scores, layer by layer, best first.

        Parameters
        ----------
        x : row of shape (1, n_features_), or a text
        tree : int
            Which of the model's trees, from 0.
        beam : int, optional
            Nodes followed per layer, the first of each; the model's own by default.

        Returns
        -------
        list of (ndarray of int32, ndarray of float32)
            Nodes of a layer and the scores of the paths to them.

        Raises
        ------
        UnsupportedError
            From models without a label tree.
        """
        raise UnsupportedError(f"{type(self).__name__} searches no label tree.")

    def _is_fitted(self) -> bool:
        return "n_labels_" in self.__dict__

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        sizes = {"n_features": self.n_features_, "n_rows": self.n_rows_, "n_labels": self.n_labels_}
        arrays: dict[str, npt.NDArray[Any]] = {"label_counts": self.label_counts_}
        if len(self._removed):
            arrays["removed_labels"] = self._removed
        if self.first_feature_ is not None:
            sizes["first_feature"] = self.first_feature_
        return sizes, arrays, self._names_to_parts()

    def _restore(self, state: store.State) -> None:
        n_labels = store.need_int(state, "n_labels", 1, validate.MAX_COLUMNS)
        self.n_features_ = store.need_int(state, "n_features", 0, validate.MAX_COLUMNS)
        self.n_rows_ = store.need_int(state, "n_rows", self.least_rows, validate.MAX_COLUMNS)
        self.label_counts_ = store.need_array(state, "label_counts", np.int64, (n_labels,))
        self.n_labels_ = n_labels
        if "first_feature" in state.meta:
            self.first_feature_ = store.need_int(state, "first_feature", 0, 1)
        if "removed_labels" in state.arrays:
            self._removed = store.need_rising(state, "removed_labels", 0, n_labels - 1, np.int32)
        self._names_from_parts(state)

    def _names_to_parts(self) -> dict[str, store.State]:
        """The names of labels and columns, and the curves of probabilities, as parts of a state."""
        columns = getattr(self, "feature_names_in_", None)
        parts = scikit_learn.names_to_parts(self.vocabulary_, None if columns is None else columns.tolist())
        return parts if self.calibrator_ is None else {**parts, "calibrator": self.calibrator_.to_state()}

    def _names_from_parts(self, state: store.State) -> None:
        """What :meth:`_names_to_parts` gave, verified."""
        self.vocabulary_, columns = scikit_learn.names_from_parts(state, self.n_labels_, self.n_features_)
        self._columns = None if columns is None else np.array(list(columns), dtype=object)
        if "calibrator" in state.parts:
            self.calibrator_ = Calibrator.from_state(state.parts["calibrator"])

    @property
    def most_held_out(self) -> int:
        """How many training rows are asked for answers that calibrate the model, at most."""
        return MOST_ROWS

    @property
    def takes_texts(self) -> bool:
        """Whether the model ranks texts, not matrices."""
        return False

    @property
    def _has_one_class(self) -> bool:
        """Whether each row has one class, so that the probabilities of all of them sum to 1."""
        return self.single_label_

    @of_one_state
    def predict_proba(self, X: Any, k: int | None = None, **options: Any) -> Predicted:
        """Probabilities of the ``k`` best labels of each row, in the order of ``classes_``.

        With ``calibration``, and at least 120 rows to hold some out, they are calibrated: of the answers with a
        probability of 0.7, about 70 in 100 are right. Otherwise they are scores mapped into [0, 1]. Their order is
        that of :meth:`rank`; calibrated probabilities are all different within a row.

        Parameters
        ----------
        X : as in :meth:`rank`
        k : int, optional
            By default 100; after one class a row all classes, where there are no more than 1,000.
        **options
            Passed to :meth:`rank`, such as ``beam=20``.

        Returns
        -------
        csr_matrix of float32, shape (n, n_labels_)
            Or a ``csr_array``, where scikit-learn is set to ``sparse_interface="sparray"``. After one class a row, with
            no more than 1,000 classes and a ``k`` of all of them, it is an ndarray whose rows sum to 1, as
            scikit-learn's metrics take it.
        """
        self._need_fit("predict_proba")
        return self._proba(self.rank_plainly(X, self._proba_width(k), **options))

    def _proba_width(self, k: Any) -> Any:
        """How many classes of a row get a probability."""
        if k is None:
            k = _DENSE_CLASSES if self._has_one_class and self.n_labels_ <= _DENSE_CLASSES else _PROBABILITIES
        return min(k, self.n_labels_) if isinstance(k, int) and k > 0 else k

    def _proba(self, top: TopK) -> Predicted:
        """Answers as :meth:`predict_proba` gives them."""
        top = self.probabilities(top)
        if self._has_one_class and top.k == self.n_labels_ <= _DENSE_CLASSES:
            return scikit_learn.shares(top, self.n_labels_)
        return sparse_as_set(top.to_csr(self.n_labels_))

    @of_one_state
    def probabilities(self, top: TopK) -> TopK:
        """The result of :meth:`rank` with probabilities instead of scores, as in :meth:`predict_proba`."""
        self._need_fit("probabilities")
        bounded = self.bounded(top)
        return self._named(bounded if self.calibrator_ is None else self.calibrator_(bounded))

    def calibrate(self: _Self, X: Any, Y: Any) -> _Self:
        """Fit the curves of the probabilities again, to rows that the model wasn't trained on; the ranking stays.

        Parameters
        ----------
        X : as in :meth:`rank`
        Y : their labels, as in ``fit``
            Labels that the model doesn't know are no answers. With fewer than 30 right or 30 wrong answers
            ``calibrator_`` is None afterwards, and scores stay as they are.

        Returns
        -------
        This object.

        Raises
        ------
        NotFittedError, DataError
        UnsupportedError
            From models without the parameter ``calibration``.
        ParameterError
            When ``calibration`` is None, which says that there is to be none.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import XRLinear
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(300) % 4
        >>> X = (np.eye(4)[y] + rng.normal(0, 0.7, (300, 4))).astype(np.float32)
        >>> XRLinear().fit(X[:150], y[:150]).calibrate(X[150:], y[150:]).calibrator_ is not None
        True
        """
        self._fit_calibrator(X, Y)
        return self

    def _fit_calibrator(self, X: Any, Y: Any) -> tuple[TopK, npt.NDArray[np.bool_]]:
        """The answers that it was fitted to, and which of them are right."""
        self._need_fit("calibrate")
        if "calibration" not in self.get_params(deep=False):
            raise UnsupportedError(f"{type(self).__name__} has no curves of probabilities to be fitted.")
        if (method := getattr(self, "calibration", None)) is None:
            owner = type(self).__name__
            raise ParameterError(f"The 'calibration' parameter of {owner} must name the curves. Got None instead.")
        top, truth = self.bounded(self.rank_plainly(X, min(DEPTH, self.n_labels_))), self._truth(Y)
        if len(top.labels) != truth.shape[0]:
            raise DataError(f"X and Y must be as long: X has {counted(len(top.labels), 'row')}, Y {truth.shape[0]:,}.")
        right = hits(top, truth)
        self.calibrator_ = Calibrator.fit(method, top, right)
        return top, right

    def bounded(self, top: TopK) -> TopK:
        """The result of :meth:`rank` with scores mapped into [0, 1], not calibrated."""
        self._need_fit("bounded")
        return TopK(top.labels, np.where(top.labels >= 0, self._probabilities(top), np.float32(-np.inf)))

    def _probabilities(self, top: TopK) -> Any:
        """The scores of ``top`` mapped into [0, 1], without calibration."""
        return np.clip(top.scores, 0, 1)

    @of_one_state
    def choose(
        self, X: Any, *, k: int | None = None, threshold: Any = None, expected: Expected | None = None,
        precision: float | None = None, **options: Any,
    ) -> TopK:  # fmt: skip
        """The labels that a stopping rule selects for each row, best first, with their probabilities.

        Parameters
        ----------
        X : as in :meth:`rank`
        k : int, optional
            At most this many labels per row; without another rule, exactly the ``k`` best.
        threshold : float or array of shape (n_labels_,), optional
            Labels with at least this probability, or a threshold for each label; 0.5 if no rule is given. See
            :func:`sylvan.metrics.fit_thresholds`.
        expected : {"f1"}, optional
            The number of labels with the highest expected F1 of the row, at least one.
        precision : float in (0, 1], optional
            The longest list whose expected precision, its mean probability, is at least this.
        **options
            Passed to :meth:`rank`, such as ``beam=20``.

        Returns
        -------
        TopK of shape (n, longest)
            As many columns as the longest list.

        Raises
        ------
        ParameterError
            For more than one of ``threshold``, ``expected`` and ``precision``, and for values out of range.

        Notes
        -----
        Rules look at the 100 best labels, or at ``k`` if that is more. Their results are as good as the probabilities
        are calibrated. Expected F1 assumes that labels are independent; see
        :func:`sylvan.ranking.stopping.expected_f1`.
        """
        self._need_fit("choose")
        rule = StoppingRule.of(k, self._thresholds(threshold), expected, precision, self.n_labels_)
        return self._named(rule(self.probabilities(self.rank_plainly(X, rule.depth, **options))))

    def _thresholds(self, threshold: Any) -> Any:
        """``threshold`` as a number or one number per label; text models accept names."""
        return threshold

    def rank_plainly(self, X: Any, k: Any, **options: Any) -> TopK:
        """:meth:`rank` without any ``tail``: probabilities are computed from these scores."""
        if options.get("tail") is not None:
            raise ParameterError(
                f"Probabilities are the same with any 'tail': only rank takes one. Got {options['tail']!r} instead."
            )
        self._need_options(options)
        return self.rank(X, k, **{**options, **self._untailed()})

    def rank_voted(self, X: Any, k: int, **options: Any) -> TopK:
        """The ``k`` best labels of each row by their probabilities; from neighbours, a :class:`Voted`."""
        return self.probabilities(self.rank_plainly(X, k, **options))

    @property
    def has_voters(self) -> bool:
        """Whether labels are ranked by the votes of training rows."""
        return False

    @property
    def voters_(self) -> LabelRows | None:
        """The labels of the rows that vote, where any do."""
        return None

    def _need_options(self, options: Mapping[str, Any]) -> None:
        """Refuse what :meth:`rank` has no option for, before it is called on behalf of another method."""
        accepted = self.rank_options() if options else []
        unknown = [name for name in options if name not in accepted]
        if unknown:
            raise ParameterError(
                f"{type(self).__name__}'s ranking has no option {unknown[0]!r}. {did_you_mean(unknown[0], accepted)}"
            )

    def rank_options(self) -> list[str]:
        """The names of what :meth:`rank` takes beside rows and ``k``."""
        return list(_named_parameters(type(self).rank))

    def _untailed(self) -> dict[str, Any]:
        """What makes ``rank`` leave the scores as they are, whatever the model's own ``tail``."""
        return {} if getattr(self, "tail", None) is None else {"tail": "none"}

    def _rank_for_tail(self, X: Any, k: int, tail: str, **options: Any) -> TopK:
        """The ``k`` best labels when rare ones count for more: the best by probability times gain."""
        top = self.rank(X, min(max(k, CANDIDATES), self.n_labels_), **{**options, "tail": "none"})
        cached = self.__dict__.get("_gains")
        if cached is None or cached[0] != tail or cached[1] is not self.label_counts_:
            cached = (tail, self.label_counts_, label_gains(tail, self.label_counts_, self.n_rows_))
            self._gains = cached
        return self._named(reweigh(self.probabilities(top), cached[2], k))

    @of_one_state
    def predict(
        self, X: Any, *, k: int | None = None, threshold: Any = None, expected: Expected | None = None,
        precision: float | None = None, **options: Any,
    ) -> Predicted:  # fmt: skip
        """The labels of :meth:`choose` as a sparse indicator, by default those with a probability of at least 0.5; or
        after one class a row, and without any rule, the best class.

        Parameters and errors as in :meth:`choose`.

        Returns
        -------
        csr_matrix of int8, shape (n, n_labels_)
            Or a ``csr_array``, where scikit-learn is set to ``sparse_interface="sparray"``.
        or ndarray of shape (n,)
            Classes, as ``fit`` was given them, but ints for bools and floats; the most frequent one for a row that
            :meth:`rank` has no answer to, which is refused where ``allowed`` and ``denied`` forbid it.
        """
        if self._has_one_class and all(rule is None for rule in (k, threshold, expected, precision)):
            # Some are read twice.
            options |= {name: list(value) for name, value in options.items() if isinstance(value, Iterator)}
            best = self.rank_plainly(X, 1, **options).labels[:, 0]
            if (best < 0).any():
                usual = np.int32(self._usual_class())
                open_ = self._filter(options.get("allowed"), options.get("denied"), len(best))
                rows = np.flatnonzero(best < 0)
                all_usual = np.full(len(rows), usual)
                if open_ is not None and not (may := open_.opens(all_usual, rows, (0, len(best)))).all():
                    raise DataError(
                        f"Row {rows[may.argmin()]} has no answer among the classes that it may have, and predict needs "
                        "one for each row: allow more classes, or take rank, which leaves such a row without."
                    )
                best = np.where(best < 0, usual, best)
            return scikit_learn.classes_of(self.vocabulary_, best)
        top = self.choose(X, k=k, threshold=threshold, expected=expected, precision=precision, **options)
        indicator: sp.csr_matrix = TopK(top.labels, np.ones_like(top.scores)).to_csr(self.n_labels_).astype(np.int8)
        return sparse_as_set(indicator)

    @of_one_state
    def explain(
        self, x: Any, label: int | str, top: int = 10, *, examples: Any = None, n_examples: int = 3,
        feature_names: Any = None, label_names: Any = None, **options: Any,
    ) -> Explanation:  # fmt: skip
        """Why the model gives ``label`` to the row ``x``, or why it doesn't.

        Parameters
        ----------
        x : sparse matrix or array of shape (1, n_features_)
        label : int or str
            Its id, or its name if ``label_names`` are given.
        top : int
            Maximum number of features listed for, and against, each node on the label's path.
        examples : pair (X, Y) or NeighborRanker, optional
            Training rows and their labels, or a ranker fitted on them; the nearest rows with the label are added.
        n_examples : int
            How many of them.
        feature_names, label_names : sequence of str, optional
            Names of the columns of X and of the labels, if ``fit`` didn't get them.
        **options
            Options of ``rank``, such as ``beam=20``.

        Returns
        -------
        Explanation
            Data, with ``text()``, ``html()`` and ``save(path)``.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        DataError
            When ``x`` is not one row of the model's features, or there is no such label.
        ParameterError
            For ``allowed`` and ``denied``: only the ranking of all labels is explained.
        """
        self._need_fit("explain")
        self._need_options(options)
        return explain_label(
            self, x, label, top, options, votes=self._explain_trees, notes=self._explain_notes, examples=examples,
            n_examples=n_examples, feature_names=feature_names, label_names=label_names,
        )  # fmt: skip

    def _explain_notes(self, row: Csr, label: int) -> tuple[str, ...]:
        """Sentences about a label that only this kind of model can say."""
        return ()

    def _explain_trees(self, row: Csr, label: int, top: int, names: Names, **options: Any) -> tuple[TreeVote, ...]:
        """What each tree says of a label; nothing where a model has no trees."""
        return ()

    # ---------------------------------------- labels that are renamed or removed

    @property
    def removed_labels_(self) -> npt.NDArray[np.int32]:
        """Ids of the labels that were removed, rising."""
        self._need_fit("removed_labels_")
        return self._removed

    def with_label_names(self: _Self, names: Mapping[str, str]) -> _Self:
        """A copy in which some labels have other names; their ids and scores stay.

        Parameters
        ----------
        names : mapping of str to str
            The new name of each label that gets one. Two labels may swap theirs.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        DataError
            When the labels have no names, one isn't known, or a new name is that of another label.

        Examples
        --------
        >>> from sylvan import TextModel
        >>> tagger = TextModel().fit(["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]])
        >>> tagger.with_label_names({"Whaling": "Whale hunting"}).rank(["the whales"], k=1).names
        [['Whale hunting']]
        """
        self._need_fit("with_label_names")
        vocabulary = self.vocabulary_
        if vocabulary is None:
            raise DataError(f"The labels of this {type(self).__name__} are ids without names: none can be renamed.")
        new = dict(zip(self._ids_of(list(names)), names.values(), strict=True))
        for label, name in new.items():
            taken = vocabulary.get(name) if isinstance(name, str) else None
            if taken is not None and taken not in new:
                raise DataError(f"Label {vocabulary[label]!r} can't be called {name!r}: so is another, label {taken}.")
        return self._renamed(new)

    def without_labels(self: _Self, labels: Any) -> _Self:
        """A copy that never answers with some labels; what it has learned of them is gone from it.

        The ids and the scores of all other labels stay. Weights that several labels share, such as those of the
        clusters above a label, aren't learned again.

        Parameters
        ----------
        labels : str, int, list of these, or array of int
            Names, or ids. Where labels are called by numbers, an int is the name.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        DataError
            For a label that isn't known or was removed before, and when no label would be left.
        UnsupportedError
            When a model of this kind can't lose labels.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import XRLinear
        >>> model = XRLinear().fit(np.eye(3).repeat(5, axis=0), np.arange(3).repeat(5))
        >>> model.without_labels([1]).rank(np.eye(3)[[1]], k=3).labels[0, -1]
        np.int32(-1)
        """
        self._need_fit("without_labels")
        return self.without_label_ids(np.array(self._ids_of(labels), np.int32))

    def without_label_ids(self: _Self, labels: npt.NDArray[np.int32]) -> _Self:
        """As :meth:`without_labels`, of labels by their ids, whatever they are called."""
        ids = np.unique(labels)
        if len(ids) + len(self.removed_labels_) == self.n_labels_:
            n_labels = counted(self.n_labels_, "label")
            raise DataError(f"Of {n_labels} not all can be removed: a model needs at least one.")
        copy = self._shallow()
        vocabulary = self.vocabulary_
        copy._drop_labels(ids)
        if copy.vocabulary_ is vocabulary:  # else of parts, which have seen to their names
            copy._free_names(ids)
        return copy

    def _free_names(self, ids: npt.NDArray[np.int32]) -> None:
        """Give the names of removed labels back, so that others can have them; called on a copy."""
        if self.vocabulary_ is not None:
            self.vocabulary_ = without_names(self.vocabulary_, ids.tolist())

    def _renamed(self: _Self, names: Mapping[int, str]) -> _Self:
        """A copy with other names for some label ids."""
        assert self.vocabulary_ is not None
        copy = self._shallow()
        copy.vocabulary_ = renamed(self.vocabulary_, names)
        return copy

    def _shallow(self: _Self) -> _Self:
        """A copy that shares all parts; an encoder that is still in its files stays there."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def _drop_labels(self, ids: npt.NDArray[np.int32]) -> None:
        """Lose labels; called of a fresh, shallow copy, whose parts are replaced and never written to."""
        raise UnsupportedError(f"The labels of {type(self).__name__} can't be removed: train it without them.")

    def _note_dropped(self, ids: npt.NDArray[np.int32]) -> None:
        """What all models note of dropped labels."""
        self._removed = np.union1d(self._removed, ids).astype(np.int32)
        self.label_counts_ = self.label_counts_.copy()
        self.label_counts_[ids] = 0

    def _merged(self, merge: Mapping[Any, Sequence[Any]] | None) -> dict[int, list[int]]:
        """Ids of the labels to merge, by the id of the label that they become."""
        return {} if merge is None else merged_ids(merge, self._ids_of)

    def _ids_of(self, labels: Any) -> list[int]:
        """The ids of labels that are there, by their names or ids."""
        return label_ids(labels, self.n_labels_, self.vocabulary_, self.removed_labels_)

    # ---------------------------------------- what scikit-learn's tools ask

    def __sklearn_is_fitted__(self) -> bool:
        return "n_labels_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools ask before they use an estimator; only they load scikit-learn."""
        return scikit_learn.sklearn_tags(self.takes_texts, self.single_label_)

    @property
    def n_features_in_(self) -> int:
        """scikit-learn's name for ``n_features_``."""
        return self.n_features_

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """The names of the columns of X, where they had any and none were added since; else no such attribute."""
        if self._columns is None or len(self._columns) != self.n_features_:
            raise AttributeError(f"The columns of this {type(self).__name__} have no names.")
        return self._columns

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels in the order of :meth:`predict_proba`'s columns: names, or else the ids 0 to n_labels_ - 1."""
        self._need_fit("classes_")
        return (
            np.arange(self.n_labels_)
            if self.vocabulary_ is None
            else scikit_learn.as_classes(self.vocabulary_, list(self.vocabulary_))
        )

    @property
    def partial_fit(self) -> Any:
        """Not available: ``hasattr`` is False, for scikit-learn's tools too.

        Raises
        ------
        UnsupportedError
        """
        name = type(self).__name__
        raise UnsupportedError(f"{name} has no partial_fit: call fit with all rows, or update where a model has one.")

    @property
    def decision_function(self) -> Any:
        """Not available, as no score of every label is made: ``hasattr`` is False, for scikit-learn's tools too.

        Raises
        ------
        UnsupportedError
        """
        raise UnsupportedError(
            f"{type(self).__name__} has no decision_function: rank(X, k).scores are the scores of the best labels, and "
            "predict_proba has their probabilities."
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """P@1: the share of rows whose best label is correct.

        For several labels per row, scikit-learn's own classifiers report the share of rows with exactly the right
        labels; with thousands of labels that is nearly always 0.

        Parameters
        ----------
        X : as in :meth:`rank`
        y : as in ``fit``
            Labels that the model doesn't know count as missed.
        sample_weight : array of shape (n,), optional

        Raises
        ------
        DataError
            When X and y have different numbers of rows.
        """
        best = self.rank(X, k=1).labels[:, 0]
        return scikit_learn.accuracy(best, self._truth(y), self.n_labels_, sample_weight)

    def _truth(self, Y: Any) -> Csr:
        """True labels by their ids; those that the model doesn't know are left out, or beyond its own."""
        return validate.labels(Y) if self.vocabulary_ is None else true_labels(Y, self.vocabulary_, unknown="drop")

    def to_state(self) -> store.State:
        state = super().to_state()
        if self.single_label_:
            state.meta["single_label"] = True
        return state

    @classmethod
    def from_state(cls: type[_Self], state: store.State) -> _Self:
        model = super().from_state(state)
        model.single_label_ = "single_label" in state.meta and store.need_bool(state, "single_label")
        return model

    def _usual_class(self) -> int:
        """The label with most training rows."""
        return int(np.argmax(self.label_counts_))

    def _training_pair(self, X: Any, Y: Any) -> tuple[Csr, Csr, Vocabulary | None]:
        """Features, labels and the names of the labels, where they have any."""
        targets = Targets.read(Y)
        return (*validate.pair(X, targets.matrix, owner=type(self).__name__), targets.names)

    def _keep_names(self, X: Any, vocabulary: Vocabulary | None, single_label: bool = False) -> None:
        """At the end of ``fit``: the names of labels and columns, and whether each row has one class."""
        self.vocabulary_, self.single_label_, self._removed = vocabulary, single_label, _NONE
        columns = feature_names(X, "X")
        self._columns = None if columns is None else np.array(columns, dtype=object)

    def _features(self, X: Any, n_features: int | None = None) -> Csr:
        """What ``rank`` is given, verified; columns with other names than in ``fit`` are refused, unless there are to
        be ``n_features`` columns from now on."""
        if n_features is None and self._columns is not None and len(self._columns) == self.n_features_:
            scikit_learn.need_columns(X, self._columns.tolist(), type(self).__name__)
        return validate.features(X, n_features=n_features or self.n_features_, owner=type(self).__name__)

    def _filter(self, allowed: Any, denied: Any, n_rows: int) -> LabelFilter | None:
        """What ``rank`` may answer with; by name too, where labels have names."""
        if allowed is None and denied is None:
            return None
        if self.vocabulary_ is not None:
            allowed = ids_of_names(allowed, self.vocabulary_, "allowed")
            denied = ids_of_names(denied, self.vocabulary_, "denied")
        return LabelFilter.of(allowed, denied, n_rows=n_rows, n_labels=self.n_labels_)

    def _named(self, top: TopK) -> TopK:
        """An answer with names, where labels have names."""
        return top if self.vocabulary_ is None else NamedTopK(top.labels, top.scores, self.vocabulary_)


@functools.cache
def _named_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters that a function takes by name alone; reading them takes longer than many a ranking of one row."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)
