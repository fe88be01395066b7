"""What is made of several models: their parameters, label ids in common, removal, storing, and what they propose."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.frames import label_columns, labels_of
from sylvan.arrays.topk import TopK
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError, ParameterError
from sylvan.explain.explanation import Explanation
from sylvan.explain.question import place_of
from sylvan.explain.records import Names, TreeVote
from sylvan.labels.targets import Targets, named_rows
from sylvan.labels.vocabulary import find_label
from sylvan.models.base import MOST_ANSWERS, Estimator
from sylvan.models.compress import compressed_model, has_weights, pruned_model
from sylvan.models.ensembles.members import Joined, check_members, numbered_votes, renumbered, saved_members, taken
from sylvan.models.label_changes import one_class_a_row
from sylvan.models.text_estimator import check_texts, thresholds_by_name
from sylvan.weights.layer import WeightDtype

_Weights = npt.NDArray[np.float64]
_Self = TypeVar("_Self", bound="JointModel")


class TrainingRows(NamedTuple):
    """What ``fit`` was given: rows and labels as members take them, and what is kept of their form."""

    rows: Any
    labels: Any
    n_rows: int
    weight: npt.NDArray[np.float32] | None
    named: Any  # the matrix whose columns may have names; None over texts
    single_label: Any


class JointModel(Estimator):
    """Base of models that are made of others."""

    members: Sequence[Estimator]
    candidates: int
    n_jobs: int | None
    unknown: str
    weights_: _Weights
    text_fields_: tuple[str, ...]
    labels_field_: str
    _joined: Joined

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
        check_members(self.members, type(self).__name__)
        single_label = one_class_a_row(Y)
        if label_columns(Y) is not None:
            targets = Targets.read(Y)
            Y = named_rows(targets.vocabulary(), targets.matrix)
        Y = labels_of(Y)
        named = None
        if self.takes_texts:
            X = check_texts(X)
            Y = Y if hasattr(Y, "__len__") or hasattr(Y, "shape") else list(Y)
            n_rows = len(X)
        else:
            named = X
            X, labels, vocabulary = self._training_pair(X, Y)
            if vocabulary is None:
                Y = labels
            elif not sp.issparse(Y):
                Y = np.asarray(Y).tolist() if hasattr(Y, "__array__") else list(Y)  # names, which every member learns
            n_rows = X.shape[0]
        weight = None if sample_weight is None else validate.sample_weight(sample_weight, n_rows)
        return TrainingRows(X, Y, n_rows, weight, named, single_label)

    def _updated(self, X: Any, Y: Any, sample_weight: Any, options: Mapping[str, Any]) -> Joined:
        """Copies of the members, brought up to date."""
        self._need_fit("update")
        if not self.takes_texts and X is not None and options.get("n_features") is None:
            X = self._features(X)
        members = [copy.copy(member).update(X, Y, sample_weight, **options) for member in self.members]
        return Joined.of(members, type(self).__name__)

    def _take_fitted(self) -> None:
        """Take the members that are among the parameters, which are fitted already."""
        check_members(self.members, type(self).__name__)
        for member in self.members:
            member._need_fit("joining it")
        self._take(Joined.of(self.members, type(self).__name__))
        self.single_label_ = all(member.single_label_ for member in self.members)

    def _take(self, joined: Joined) -> None:
        """Rank with these members from now on."""
        self._joined, self.members, self.vocabulary_ = joined, joined.members, joined.vocabulary
        self.n_features_, self.n_labels_ = joined.n_features, joined.n_labels
        if joined.fields is not None:
            self.text_fields_, self.labels_field_ = joined.fields

    def _usual_class(self) -> int:
        first, ids = self.members[0]._usual_class(), self._joined.ids[0]
        return first if ids is None else int(ids[first])

    @property
    def label_counts_(self) -> npt.NDArray[np.int64]:  # type: ignore[override]  # those of the members, as they are now
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
        filters = self._joined.filters(self._filter(allowed, denied, n_rows))
        if self.takes_texts:
            options.setdefault("unknown", self.unknown)
        tops = {number: self._member_top(number, X, {**options, **filters[number]}) for number in self._used_members}
        top = self._combined(tops, k, X)
        return self._named(self._by_members_that_know(top, tops, X) if options.get("unknown") == "none" else top)

    def known_texts(self, X: Any) -> npt.NDArray[np.bool_]:
        """Which texts any of the members that are used knows anything of; see :meth:`TextModel.known_texts`."""
        self._need_fit("known_texts")
        texts = check_texts(X, type(self).__name__)
        members: list[Any] = [self.members[number] for number in self._used_members]
        known: npt.NDArray[np.bool_] = np.any([member.known_texts(texts) for member in members], axis=0)
        return known

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
        top = member.rank_voted(X, min(self.candidates, member.n_labels_), **taken(member, options))
        return renumbered(top, self._joined.ids[number])

    def _thresholds(self, threshold: Any) -> Any:
        return threshold if self.vocabulary_ is None else thresholds_by_name(threshold, self.vocabulary_)

    # ---------------------------------------- explaining

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
        answers = [
            member.explain(texts, name, top, **examples, **taken(member, options))
            for member in (self.members[number] for number in np.flatnonzero(self.weights_ > 0).tolist())
            if name in (member.vocabulary_ or ())
        ]
        if not answers:
            raise DataError(f"No member of the {owner} that has a weight knows the label {name!r}.")
        ranking = self.rank(texts, self.n_labels_, **options)
        place, score = place_of(ranking, number)
        probability = None if self.calibrator_ is None else place_of(self.probabilities(ranking), number)[1]
        return replace(
            answers[0], model=owner, label=number, place=place, score=score, probability=probability,
            n_labels=self.n_labels_, n_features=self.n_features_, n_known=sum(answer.n_known for answer in answers),
            trees=numbered_votes([answer.trees for answer in answers]),
            notes=tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
            examples=next((answer.examples for answer in answers if answer.examples), ()),
        )  # fmt: skip

    def _explain_trees(self, row: Csr, label: int, top: int, names: Names, **options: Any) -> tuple[TreeVote, ...]:
        used = [self.members[number] for number in self._used_members]
        votes = [member._explain_trees(row, label, top, names, **taken(member, options)) for member in used]
        return numbered_votes(votes)

    # ---------------------------------------- labels and weights

    @property
    def removed_labels_(self) -> npt.NDArray[np.int32]:
        self._need_fit("removed_labels_")
        return self._joined.removed()

    def _drop_labels(self, ids: npt.NDArray[np.int32]) -> None:
        self._take(self._joined.without(ids))

    def _renamed(self: _Self, names: Mapping[int, str]) -> _Self:
        made = super()._renamed(names)  # so that a name is never that of two labels, also of several members
        made._take(self._joined.renamed(names))
        return made

    pruned = pruned_model
    compress = compressed_model

    def _with_weights(self: _Self, share: float, weight_dtype: WeightDtype | None) -> _Self:
        members = [member.pruned(share, weight_dtype) if has_weights(member) else member for member in self.members]
        made = self._shallow()
        made._take(replace(self._joined, members=members))
        return made

    def weight_dtypes(self) -> set[str]:
        """How the members' weights are stored; empty where none has any."""
        return {name for member in self.members if has_weights(member) for name in member.weight_dtypes()}

    # ---------------------------------------- storing

    @classmethod
    def _params_from(cls, state: store.State) -> dict[str, Any]:
        return {"members": saved_members(state), **super()._params_from(state)}

    def _member_parts(self) -> dict[str, store.State]:
        """The members, the names that the rows' labels had and the calibrator."""
        parts = {f"member{number}": member.to_state() for number, member in enumerate(self.members)}
        return parts | {name: part for name, part in self._names_to_parts().items() if name != "classes"}

    def _restore_members(self, state: store.State) -> None:
        """Take the members that are among the parameters already, and the other parts."""
        weights = store.need_range(state, "weights", 0, 1, np.float64, (len(self.members),))
        if abs(float(weights.sum()) - 1) > 1e-6:
            raise DataError(f"the ensemble's weights must sum to 1, not {weights.sum()}.")
        check_members(self.members, type(self).__name__)
        joined = Joined.of(self.members, type(self).__name__)
        self._take(joined)
        self.weights_ = weights
        self._names_from_parts(state)
        self.vocabulary_ = joined.vocabulary  # of the members
