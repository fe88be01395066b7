"""Ensemble: several models of any kind that answer together."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.frames import label_columns, labels_of
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Bool, Float32, Float64, Int32, Int64
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError, ParameterError
from sylvan.explain.explanation import Explanation, Names, TreeVote
from sylvan.explain.question import standing
from sylvan.labels.targets import Targets, named_rows, one_class_a_row
from sylvan.labels.vocabulary import find_label
from sylvan.metrics.tallies import hits
from sylvan.models.base import CANDIDATES, MOST_ANSWERS, Estimator
from sylvan.models.compress import compressed_model, has_weights, pruned_model
from sylvan.models.ensembles import members as joining
from sylvan.models.ensembles.members import TrainingRows
from sylvan.models.ensembles.plan import members_plan
from sylvan.models.text_estimator import UNKNOWN_TEXT, Unknown, check_texts, thresholds_by_name
from sylvan.parallel import all_at_once, of_one_state, resolve_jobs
from sylvan.params.fields import Instance, Range, Threads, attribute, parameterized
from sylvan.ranking.calibrate import Calibrator, Method, holdout_folds
from sylvan.ranking.ensemble import Way, combine_rankings, fit_weights
from sylvan.runtime.checkpoint import Checkpoint, identity_of, opened
from sylvan.runtime.plan import Plan
from sylvan.weights.layer import WeightDtype

_Self = TypeVar("_Self", bound="JointModel")


class JointModel(Estimator):
    """Base of models that are made of others."""

    members: Sequence[Estimator]
    candidates: int
    n_jobs: int | None
    unknown: str
    weights_: Float64
    text_fields_: tuple[str, ...]
    labels_field_: str
    _joined: joining.Joined

    # ---------------------------------------- parameters

    @property
    def takes_texts(self) -> bool:
        """Whether the members rank texts."""
        return bool(self.members) and self.members[0].takes_texts

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters as a dict; ``deep`` adds the members' as ``member0__beam``."""
        values = super().get_params(deep)
        for i, member in enumerate(self.members if deep else ()):
            values.update({f"member{i}__{name}": value for name, value in member.get_params().items()})
        return values

    def set_params(self: _Self, **values: Any) -> _Self:
        """Set parameters by name, a member's as ``member0__beam``."""
        for name, value in values.items():
            outer, _, inner = name.partition("__")
            number = outer.removeprefix("member")
            if inner and number.isdecimal() and int(number) < len(self.members):
                self.members[int(number)].set_params(**{inner: value})
            else:
                super().set_params(**{name: value})
        return self

    # ---------------------------------------- training

    def _training_rows(self, X: Any, Y: Any, sample_weight: Any) -> TrainingRows:
        """Rows and labels, verified."""
        self.check_params()
        joining.check_members(self.members, type(self).__name__)
        single_label = one_class_a_row(Y)
        if label_columns(Y) is not None:
            targets = Targets.read(Y)
            Y = named_rows(targets.vocabulary(), targets.matrix)
        Y, named = labels_of(Y), None if self.takes_texts else X
        if self.takes_texts:
            X = check_texts(X)
            Y = list(Y) if hasattr(Y, "__next__") else Y
        else:
            X, labels, vocabulary = self._training_pair(X, Y)
            if vocabulary is None:
                Y = labels
            elif not sp.issparse(Y):
                Y = np.asarray(Y).tolist() if hasattr(Y, "__array__") else list(Y)  # names, which every member learns
        n_rows = len(X) if self.takes_texts else X.shape[0]
        weight = None if sample_weight is None else validate.sample_weight(sample_weight, n_rows)
        return TrainingRows(X, Y, n_rows, weight, named, single_label)

    def _identity(self, **fields: Any) -> dict[str, Any]:
        """What tells this training from others, for its checkpoint; each member's own part knows its data as well."""
        kinds = ", ".join(type(member).__name__ for member in self.members)
        return identity_of(type(self).__name__, {"members": kinds, **fields})

    def _updated(self, X: Any, Y: Any, sample_weight: Any, options: Mapping[str, Any]) -> joining.Joined:
        """Copies of the members, brought up to date."""
        self._need_fit("update")
        if not self.takes_texts and X is not None and options.get("n_features") is None:
            X = self._features(X)
        members = [copy.copy(member).update(X, Y, sample_weight, **options) for member in self.members]
        return joining.Joined.of(members, type(self).__name__)

    def _take_fitted(self) -> None:
        """Take the members that are among the parameters, which are fitted already."""
        joining.check_members(self.members, type(self).__name__)
        for member in self.members:
            member._need_fit("joining it")
        self._take(joining.Joined.of(self.members, type(self).__name__))
        self.single_label_ = all(member.single_label_ for member in self.members)

    def _take(self, joined: joining.Joined) -> None:
        """Rank with these members from now on."""
        self._joined, self.members, self.vocabulary_ = joined, joined.members, joined.vocabulary
        self.n_features_, self.n_labels_ = joined.n_features, joined.n_labels
        if joined.fields is not None:
            self.text_fields_, self.labels_field_ = joined.fields

    def _usual_class(self) -> int:
        first, ids = self.members[0]._usual_class(), self._joined.ids[0]
        return first if ids is None else int(ids[first])

    @property
    def label_counts_(self) -> Int64:  # type: ignore[override]  # those of the members, as they are now
        """How many rows each label had in training: the most that a member has seen."""
        self._need_fit("label_counts_")
        return self._joined.counts()[0]

    @property
    def first_feature_(self) -> int | None:
        """The number of the first feature in svmlight files, where the members learned from one."""
        return self.members[0].first_feature_

    @first_feature_.setter
    def first_feature_(self, first: int | None) -> None:
        for member in self.members:
            member.first_feature_ = first

    @property
    def n_rows_(self) -> int:  # type: ignore[override]
        """How many rows the members were trained on: the most that one has seen."""
        self._need_fit("n_rows_")
        return self._joined.counts()[1]

    # ---------------------------------------- answering

    @of_one_state
    def rank(self, X: Any, k: int = 10, *, allowed: Any = None, denied: Any = None, **options: Any) -> TopK:
        """The ``k`` best labels of each row by all members together.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_), or n texts
        k : int
            Number of labels per row; a row for which the members propose fewer ends in label -1.
        allowed, denied : label ids, names (over texts), or a mask of shape (n, n_labels_), optional
            The only labels that may be answered, and labels that may not, for all rows or for each row.
        **options
            Passed to the members whose ``rank`` accepts them, such as ``beam=20``; over texts, ``unknown`` in place of
            the parameter.

        Returns
        -------
        TopK, or NamedTopK for texts
            Labels and scores in [0, 1] of shape (n, k), best first; among equal scores the lower label comes first.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        self._need_fit("rank")
        k = validate.count(k, "k", high=max(self.n_labels_, MOST_ANSWERS))
        self._need_options(options)
        X, n_rows = self._checked(X)
        joined, labels = self._joined, self._filter(allowed, denied, n_rows)
        if self.takes_texts:
            options.setdefault("unknown", self.unknown)
        tops = {
            number: self._member_top(number, X, {**options, **joined.filtered(number, labels)})
            for number in self._used_members
        }
        top = self._combined(tops, k, X)
        return self._named(self._by_members_that_know(top, tops, X) if options.get("unknown") == "none" else top)

    def known_texts(self, X: Any) -> Bool:
        """Which texts any of the members that are used knows anything of; see :meth:`TextModel.known_texts`."""
        self._need_fit("known_texts")
        texts = check_texts(X, type(self).__name__)
        members: list[Any] = [self.members[number] for number in self._used_members]
        return np.asarray(np.any([member.known_texts(texts) for member in members], axis=0))

    def _by_members_that_know(self, top: TopK, tops: Mapping[int, TopK], texts: list[str]) -> TopK:
        """Joint scores as if there were no members that know nothing of a text."""
        return top

    @property
    def _used_members(self) -> list[int]:
        """The numbers of the members that ``rank`` uses."""
        raise TypeError(f"{type(self).__name__} is abstract: it uses no members.")

    def _combined(self, tops: Mapping[int, TopK], k: int, X: Any) -> TopK:
        """The answers of members, by their numbers, to rows as one."""
        raise TypeError(f"{type(self).__name__} is abstract: it combines nothing.")

    def _need_options(self, options: Mapping[str, Any]) -> None:
        if options.get("tail") is not None and "tail" not in super().rank_options():
            raise ParameterError(f"{type(self).__name__}.rank takes no 'tail': a Reranker of the same members does.")
        if unknown := [name for name in options if name not in self.rank_options()]:
            raise ParameterError(f"No member of the {type(self).__name__} has an option {unknown[0]!r} of rank.")

    def rank_options(self) -> list[str]:
        return list(dict.fromkeys(sum((member.rank_options() for member in self.members), super().rank_options())))

    def _checked(self, X: Any) -> tuple[Any, int]:
        """Rows as the members take them, and their number."""
        if self.takes_texts:
            return (X := check_texts(X)), len(X)
        X = self._features(X)
        return X, X.shape[0]

    def _member_top(self, number: int, X: Any, options: Mapping[str, Any]) -> TopK:
        """A member's candidates with their probabilities, in the ensemble's label ids."""
        member = self.members[number]
        top = member.rank_voted(X, min(self.candidates, member.n_labels_), **joining.taken(member, options))
        return joining.renumbered(top, self._joined.ids[number])

    def _thresholds(self, threshold: Any) -> Any:
        return threshold if self.vocabulary_ is None else thresholds_by_name(threshold, self.vocabulary_)

    # ---------------------------------------- explaining

    @of_one_state
    def explain(self, x: Any, label: int | str, top: int = 10, **options: Any) -> Explanation:
        """Why the members give ``label`` to a row or a text: the trees of all members.

        Parameters, result and errors as in :meth:`XRLinear.explain`, or over texts as in :meth:`TextModel.explain`.
        """
        self._need_fit("explain")
        if not self.takes_texts:
            return super().explain(x, label, top, **options)
        texts = check_texts([x] if isinstance(x, str) else x)
        number, owner = find_label(label, self.n_labels_, self.vocabulary_), type(self).__name__
        name = self.vocabulary_[number]  # type: ignore[index]  # members over texts have names
        examples = {key: options.pop(key) for key in ("examples", "n_examples") if key in options}
        of_members = {"unknown": self.unknown, **options, "tail": None}
        answers: list[Explanation] = [
            member.explain(texts, name, top, **examples, **{**joining.taken(member, of_members), **member._untailed()})
            for member in (self.members[number] for number in np.flatnonzero(self.weights_ > 0).tolist())
            if name in (member.vocabulary_ or ())
        ]
        if not answers:
            raise DataError(f"No member of the {owner} that has a weight knows the label {name!r}.")
        place, score, probability, weighed = standing(self, texts, number, options)
        known = self.known_texts(texts)[0]  # by some member; what others say of themselves isn't true of all
        notes = [note for answer in answers for note in answer.notes if note != UNKNOWN_TEXT or not known]
        explanation: Explanation = replace(
            answers[0], model=owner, label=number, place=place, score=score, probability=probability,
            n_labels=self.n_labels_, n_features=self.n_features_, n_known=sum(answer.n_known for answer in answers),
            trees=joining.numbered_votes([answer.trees for answer in answers]),
            notes=tuple(dict.fromkeys((*notes, *weighed))),
            examples=next((answer.examples for answer in answers if answer.examples), ()),
        )  # fmt: skip
        return explanation

    def _explain_trees(self, row: Csr, label: int, top: int, names: Names, **options: Any) -> tuple[TreeVote, ...]:
        used = (self.members[number] for number in self._used_members)
        votes = [member._explain_trees(row, label, top, names, **joining.taken(member, options)) for member in used]
        return joining.numbered_votes(votes)

    # ---------------------------------------- labels and weights

    @property
    def removed_labels_(self) -> Int32:
        self._need_fit("removed_labels_")
        return self._joined.removed()

    def _drop_labels(self, ids: Int32) -> None:
        self._take(self._joined.without(ids))

    def _renamed(self: _Self, names: Mapping[int, str]) -> _Self:
        changed = super()._renamed(names)  # so that a name is never that of two labels, also of several members
        changed._take(self._joined.renamed(names))
        return changed

    pruned = pruned_model
    compress = compressed_model

    def _with_weights(self: _Self, share: float, weight_dtype: WeightDtype | None) -> _Self:
        members = [member.pruned(share, weight_dtype) if has_weights(member) else member for member in self.members]
        changed = self._shallow()
        changed._take(replace(self._joined, members=members))
        return changed

    def weight_dtypes(self) -> set[str]:
        """How the members' weights are stored; empty where none has any."""
        return {name for member in self.members if has_weights(member) for name in member.weight_dtypes()}

    # ---------------------------------------- storing

    @classmethod
    def _params_from(cls, state: store.State) -> dict[str, Any]:
        return {"members": joining.saved_members(state), **super()._params_from(state)}

    def _member_parts(self) -> dict[str, store.State]:
        """The members, the names that the rows' labels had and the calibrator."""
        parts = {f"member{number}": member.to_state() for number, member in enumerate(self.members)}
        return parts | {name: part for name, part in self._names_to_parts().items() if name != "classes"}

    def _restore_members(self, state: store.State) -> None:
        """Take the members that are among the parameters already, and the other parts."""
        weights = store.need_range(state, "weights", 0, 1, np.float64, (len(self.members),))
        if abs(float(weights.sum()) - 1) > 1e-6:
            raise DataError(f"the ensemble's weights must sum to 1, not {weights.sum()}.")
        joining.check_members(self.members, type(self).__name__)
        joined = joining.Joined.of(self.members, type(self).__name__)
        self._take(joined)
        self.weights_ = weights
        self._names_from_parts(state)
        self.vocabulary_ = joined.vocabulary  # of the members


@parameterized
class Ensemble(JointModel):
    """Several models of any kind that rank together: over the same matrices, or over the same texts.

    Parameters
    ----------
    members : list of Estimator
        All over matrices, or all over texts (such as :class:`TextModel`, each with its own vectoriser).
    how : {"score", "count", "average_rank", "reciprocal_rank"}, default "score"
        What a label gets from a member, times the member's weight: its probability from ``predict_proba``; a vote if it
        is among the member's first ``votes`` (probabilities decide between equal votes); by its position there, which
        is the one after the last for a label that isn't proposed; or 1 / its position, 0 if it isn't proposed.
    weights : list of float or "fit", optional
        One per member, in any unit; None for equal weights. ``"fit"`` trains the members without some holdout rows,
        chooses the weights on these, and trains the members again on all rows, which takes about twice the time. With
        too few rows for a holdout, weights are equal.
    candidates : int, default 100
        Number of labels that each member proposes; other labels aren't ranked.
    votes : int, default 10
        Number of positions that count as a vote, with ``how="count"``.
    n_jobs : int, optional
        Number of threads that combine the results; members have their own. The result doesn't depend on it.
    calibration : {"isotonic", "platt"}, optional
        How scores become the probabilities of :meth:`predict_proba`: by curves fitted to what all members together say
        of rows that were held out. ``fit`` holds out the same rows for all members, which are calibrated on them too;
        XRLinear and NeighborRanker can leave rows out, alone or in a TextModel. With None, or a member of another kind,
        scores stay as they are.
    unknown : {"none", "prior"}, default "none"
        Over texts, what one gets of which no member knows a word; see :class:`TextModel`. Members that know nothing of
        a text don't count for it, unless it is "prior". What the members' own parameters say makes no difference.

    Attributes
    ----------
    weights_ : ndarray of float64, shape (n_members,)
        The members' weights, with sum 1; members with weight 0 aren't used.
    vocabulary_ : Vocabulary or None
        All names that the members know, if labels have names. The members' labels are matched by name.
    n_features_, n_labels_ : int
        Over texts, the members' features together.
    label_counts_ : ndarray of int64, shape (n_labels_,)
        How many training rows have each label: the most that a member has seen, as members may know different labels.
    n_rows_ : int
        Training rows, of the member with most.

    Notes
    -----
    ``fit`` doesn't change the given models; afterwards ``members`` are fitted copies. Parameters of a member are named
    by its number: ``set_params(member0__beam=20)``. PECOS names the mean score, the count and the mean rank (Yu et al.
    2022, Section 2.4); its own ensembles are means of scores.

    Examples
    --------
    >>> from sylvan import Ensemble, TextModel, TfidfVectorizer
    >>> texts = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"]
    >>> words, parts = TextModel(), TextModel(TfidfVectorizer(analyzer="char_wb", ngrams=(3, 4)))
    >>> tagger = Ensemble([words, parts], weights=[2, 1])
    >>> tagger = tagger.fit(texts, [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]])
    >>> tagger.rank(["a baker bakes breads"], k=1).names
    [['Baking']]
    """

    kind = "ensemble"
    not_saved = ("members",)

    members: Annotated[Sequence[Estimator], Instance((list, tuple), "a list of estimators of Sylvan")]
    how: Way = "score"
    weights: Annotated[Sequence[float] | str | None, joining.Weights()] = None
    candidates: Annotated[int, Range(1, MOST_ANSWERS)] = 100
    votes: Annotated[int, Range(1, MOST_ANSWERS)] = 10
    n_jobs: Threads = None
    calibration: Method | None = "isotonic"
    unknown: Unknown = "none"

    weights_: Float64 = attribute()
    _joined: joining.Joined = attribute()
    text_fields_: tuple[str, ...] = attribute(("text",))
    labels_field_: str = attribute("labels")

    @classmethod
    def of_fitted(cls, members: Sequence[Estimator], weights: Sequence[float] | None = None, **params: Any) -> Ensemble:
        """Combine models that are already fitted; nothing is trained or copied.

        Parameters
        ----------
        members : list of Estimator
            Fitted, on the same features and labels; models over texts may know different labels.
        weights : list of float, optional
            One per member; None for equal weights. :meth:`fit_weights` chooses them.
        **params
            Others of :class:`Ensemble`.

        Raises
        ------
        DataError
            When the members don't fit each other.
        NotFittedError
            When one isn't fitted.
        ParameterError
            For a parameter out of its range.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import Ensemble, NeighborRanker, XRLinear
        >>> X, Y = np.eye(4, dtype=np.float32).repeat(5, axis=0), np.arange(4).repeat(5)
        >>> both = Ensemble.of_fitted([XRLinear().fit(X, Y), NeighborRanker().fit(X, Y)], weights=[0.9, 0.1])
        >>> both.rank(X[[0, 7]], k=1).labels.ravel().tolist()
        [0, 1]
        """
        model = cls(list(members), weights=weights, **params)
        model.check_params()
        if isinstance(model.weights, str):
            raise ParameterError(
                "The 'weights' parameter of Ensemble.of_fitted must be None or floats. Got 'fit' instead: call "
                "fit_weights with rows that the members haven't seen."
            )
        model._take_fitted()
        model.weights_ = joining.shares(model.weights, len(model.members))
        return model

    def check_params(self, names: Any = None) -> None:
        """Check every parameter's range, and that there is a weight for each member."""
        super().check_params(names)
        if self.members:  # or else fit says what there must be
            joining.shares(self.weights, len(self.members))

    def fit(
        self, X: Any, Y: Any, sample_weight: Any = None, *, label_texts: Any = "auto", checkpoint: Any = None,
        **options: Any,
    ) -> Ensemble:  # fmt: skip
        """Train copies of all members.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), or n texts
        Y : labels, as the members' ``fit`` takes them
        sample_weight : array of shape (n,), optional
        label_texts : as :meth:`TextModel.fit` and :meth:`LexicalMatcher.fit` take them, default "auto"
            What labels are called, for the members that use it: LexicalMatchers, and TextModels, of those over a
            NeighborRanker the ones with ``unlearned="answer"``.
        checkpoint : path or Checkpoint, optional
            A folder for what members have finished, as :meth:`XRLinear.fit` has it; each has its own part.
        **options
            Passed to every member's ``fit``.

        Raises
        ------
        DataError
            When an array is malformed, or the members don't fit each other.
        ParameterError
            When a parameter is out of its range.
        """
        training = self._training_rows(X, Y, sample_weight)
        X, Y, weight, rows = training.rows, training.labels, training.weight, None
        options |= {} if weight is None else {"sample_weight": weight}
        if self.calibration is not None:
            most = min(member.most_held_out for member in self.members)
            rows = next(iter(holdout_folds(training.n_rows, 1, weight, most)), None)
        identity = partial(self._identity, **{"fits weights": isinstance(self.weights, str)})
        extras = joining.named_options(self.members, label_texts, Y)
        with opened(checkpoint, identity) as parts:
            fitted, tops = joining.fit_members(self.members, X, Y, options, parts, "member", rows, extras)
            if isinstance(self.weights, str):  # "fit", by its range
                weights = self._weights_by_holdout(X, Y, training.n_rows, options, parts, extras)
            else:
                weights = joining.shares(self.weights, len(self.members))
        joined = joining.Joined.of(fitted, type(self).__name__)
        self._take(joined)
        self.weights_, self.calibrator_ = weights, None
        if rows is not None:
            pairs = zip(tops, joined.ids, strict=True)
            answers = [None if top is None else joining.renumbered(top, ids) for top, ids in pairs]
            of_rows = None if weight is None else weight[rows]
            self.calibrator_ = self._fitted_calibrator(answers, joining.take(Y, rows), of_rows)
        self._keep_names(training.named, joined.vocabulary, training.single_label)
        return self

    def plan(self, X: Any, Y: Any, sample_weight: Any = None, **options: Any) -> Plan:
        """Estimate what ``fit`` with the same arguments would need: time, memory and the size of the model.

        The members' own plans, one after another; a member without a plan is trained on 2,000 of the rows, by which all
        are estimated. Parameters and errors as in :meth:`fit`.
        """
        training, label_texts = self._training_rows(X, Y, sample_weight), options.pop("label_texts", "auto")
        options.pop("checkpoint", None)
        extras = joining.named_options(self.members, label_texts, Y)
        return members_plan(self.members, training, [{**options, **each} for each in extras])

    def _weights_by_holdout(
        self, X: Any, Y: Any, n_rows: int, options: Mapping[str, Any], checkpoint: Checkpoint | None,
        extras: Sequence[Mapping[str, Any]],
    ) -> Float64:  # fmt: skip
        """Weights that are best on rows that the members haven't seen."""
        weight = options.get("sample_weight")
        if (split := joining.split_rows(Y, n_rows, weight) if len(self.members) > 1 else None) is None:
            return joining.shares(None, len(self.members))
        train_rows, holdout = split
        part = dict(options) if weight is None else {**options, "sample_weight": weight[train_rows]}
        trained, _ = joining.fit_members(
            self.members, joining.take(X, train_rows), joining.take(Y, train_rows), part, checkpoint, "holdout",
            own_options=extras,
        )  # fmt: skip
        joined = Ensemble.of_fitted(
            trained, how=self.how, candidates=self.candidates, votes=self.votes, n_jobs=self.n_jobs, calibration=None
        )
        joined.fit_weights(joining.take(X, holdout), joining.take(Y, holdout))
        return joined.weights_

    def fit_weights(self, X: Any, Y: Any) -> Ensemble:
        """Choose the members' weights on rows that none of them was trained on, and calibrate on them.

        A search from equal weights maximises the mean of P@1, P@3 and P@5; see
        :func:`sylvan.ranking.ensemble.fit_weights`.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_), or n texts
        Y : their labels, as in ``fit``
            Labels that no member knows are ignored.

        Raises
        ------
        NotFittedError
            Before ``fit`` or ``of_fitted``.
        DataError
            When the arrays are malformed or hold no label that a member knows.
        """
        self._need_fit("fit_weights")
        tops, truth = self._unseen_answers(X, Y, "fit weights to")
        places, jobs = min(self.candidates, self.n_labels_), resolve_jobs(self.n_jobs)
        self.weights_ = fit_weights(tops, truth, how=self.how, votes=self.votes, places=places, n_jobs=jobs)
        self.calibrator_ = self._fitted_calibrator(tops, Y)
        return self

    def calibrate(self, X: Any, Y: Any) -> Ensemble:
        """Fit the curves of the probabilities to rows that no member was trained on; the weights stay.

        Parameters and errors as in :meth:`fit_weights`. With fewer than 30 right or 30 wrong answers ``calibrator_`` is
        None afterwards, and scores stay as they are.

        Raises
        ------
        ParameterError
            When ``calibration`` is None, which says that there is to be none.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import Ensemble, NeighborRanker, XRLinear
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(300) % 4
        >>> X = (np.eye(4)[y] + rng.normal(0, 0.7, (300, 4))).astype(np.float32)
        >>> members = [XRLinear().fit(X[:150], y[:150]), NeighborRanker().fit(X[:150], y[:150])]
        >>> both = Ensemble.of_fitted(members).calibrate(X[150:], y[150:])
        >>> both.calibrator_ is not None
        True
        """
        self._need_fit("calibrate")
        if self.calibration is None:
            raise ParameterError("The 'calibration' parameter of Ensemble must name the curves. Got None instead.")
        tops, _ = self._unseen_answers(X, Y, "calibrate by")
        self.calibrator_ = self._fitted_calibrator(tops, Y)
        return self

    def _unseen_answers(self, X: Any, Y: Any, purpose: str) -> tuple[list[TopK], Csr]:
        """The members' answers to rows that they haven't seen, and these rows' labels."""
        X, n_rows = self._checked(X)
        truth = joining.known_labels(Y, n_rows, self.vocabulary_, self.n_labels_)
        if not len(truth.indices):
            raise DataError(f"Y holds no label that a member of the Ensemble knows: there is nothing to {purpose}.")
        return [self._member_top(number, X, {}) for number in range(len(self.members))], truth

    def _fitted_calibrator(
        self, tops: Sequence[TopK | None], Y: Any, weight: Float32 | None = None
    ) -> Calibrator | None:
        """By the members' answers to rows that they haven't seen, and these rows' labels and weights."""
        answers = {number: top for number in self._used_members if (top := tops[number]) is not None}
        if self.calibration is None or len(answers) < len(self._used_members):
            return None
        top = self.bounded(self._combined(answers, min(CANDIDATES, self.n_labels_), None))
        truth = joining.known_labels(Y, len(top.labels), self.vocabulary_, self.n_labels_)
        return Calibrator.fit(self.calibration, top, hits(top, truth), weight)

    @all_at_once
    def update(self, X: Any = None, Y: Any = None, sample_weight: Any = None, **options: Any) -> Ensemble:
        """Bring every member up to date; the weights, and the curves of the probabilities, stay.

        Parameters
        ----------
        X, Y, sample_weight, **options
            As the members' ``update`` takes them: ``forget``, ``merge``, ``n_features``, ``precise``, or ``rows``
            where no XRLinear keeps its own.

        Raises
        ------
        UnsupportedError
            When a member can't be brought up to date; none is changed then.
        NotFittedError, DataError
        """
        self._take(self._updated(X, Y, sample_weight, options))
        return self

    # ---------------------------------------- answering

    @property
    def _used_members(self) -> list[int]:
        return list(np.flatnonzero(self.weights_ > 0).tolist())

    def _combined(self, tops: Mapping[int, TopK], k: int, X: Any) -> TopK:
        return combine_rankings(
            list(tops.values()), self.weights_[list(tops)], k, how=self.how, votes=self.votes,
            places=min(self.candidates, self.n_labels_), n_jobs=resolve_jobs(self.n_jobs),
        )  # fmt: skip

    def _by_members_that_know(self, top: TopK, tops: Mapping[int, TopK], texts: list[str]) -> TopK:
        empty = np.any([answers.labels[:, 0] < 0 for answers in tops.values()], axis=0)
        rows = np.flatnonzero(empty & (top.labels[:, 0] >= 0))
        if not len(rows):
            return top
        some, weights = joining.take(texts, rows.astype(np.int32)), self.weights_[list(tops)]
        members: list[Any] = [self.members[number] for number in tops]
        knows = np.array([member.known_texts(some) for member in members])
        share = weights @ knows / weights.sum()
        scores = top.scores.copy()
        scores[rows] /= np.where(share > 0, share, 1).astype(np.float32)[:, None]
        return TopK(top.labels, np.minimum(scores, 1))

    # ---------------------------------------- storing

    def _plain_params(self) -> dict[str, Any]:
        params = super()._plain_params()
        if params["weights"] is not None and not isinstance(params["weights"], str):
            params["weights"] = [w if type(w) in (int, float) else float(w) for w in params["weights"]]
        return params

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, store.State]]:
        return {"n_members": len(self.members)}, {"weights": self.weights_}, self._member_parts()

    def _restore(self, state: store.State) -> None:
        joining.shares(self.weights, len(self.members))
        self._restore_members(state)


store.register(Ensemble.kind, Ensemble.from_state)
