"""What ensembles need of models of any kind: fresh copies, options that fit, label ids and rows in common."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, take_rows, within
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Float32, Float64, Int32, Int64
from sylvan.data import Vocabulary
from sylvan.data.label_terms import named_texts
from sylvan.errors import DataError, ParameterError
from sylvan.explain.explanation import TreeVote
from sylvan.labels.targets import encode_labels, true_labels
from sylvan.models.base import CANDIDATES, Estimator
from sylvan.models.label_texts.name_rows import is_auto
from sylvan.params.fields import Constraint, Parameterized
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import holdout_folds
from sylvan.ranking.votes import Voted
from sylvan.runtime import Checkpoint
from sylvan.store.registry import rebuild

MOST_MEMBERS = 1000

_Fresh = TypeVar("_Fresh", bound=Parameterized)


class TrainingRows(NamedTuple):
    """The arguments of ``fit``: rows and labels as members take them, and the form they came in."""

    rows: Any
    labels: Any
    n_rows: int
    weight: Float32 | None
    named: Any  # the matrix whose columns may have names; None over texts
    single_label: Any


class Weights(Constraint):
    """None, "fit", or a list of numbers."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return value == "fit"
        try:
            weights = list(value)
        except TypeError:
            return False
        if not all(isinstance(weight, numbers.Real) and not isinstance(weight, bool) for weight in weights):
            return False
        floats = [float(weight) for weight in weights]
        return all(math.isfinite(weight) and weight >= 0 for weight in floats) and any(floats)

    def _parse(self, text: str) -> Any:
        return text if text == "fit" else [float(word) for word in text.split(",")]

    def describe(self) -> str:
        return "None, 'fit', or floats in [0, inf), one a member, not all 0"


def fresh(model: _Fresh) -> _Fresh:
    """An unfitted model of the same parameters."""
    params: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, Parameterized) and not hasattr(value, "save_pretrained"):  # an encoder's weights count too
            value = fresh(value)
        elif isinstance(value, list | tuple) and any(isinstance(item, Parameterized) for item in value):
            value = [fresh(item) for item in value]
        params[name] = value
    unfitted = type(model)(**params)
    for name in ("text_fields_", "labels_field_"):  # what a file's texts are, which may be set before fit
        if name in model.__dict__:
            setattr(unfitted, name, getattr(model, name))
    return unfitted


def check_members(members: Sequence[Any], owner: str = "Ensemble") -> None:
    """Refuse what can't be an ensemble's members."""
    words = f"a list of 1 to {MOST_MEMBERS} estimators of Sylvan"
    wrong = next((member for member in members if not isinstance(member, Estimator)), None)
    if not 1 <= len(members) <= MOST_MEMBERS or wrong is not None:
        got = f"a list of {len(members)}" if wrong is None else f"a {type(wrong).__name__} among them"
        raise ParameterError(f"The 'members' parameter of {owner} must be {words}. Got {got} instead.")
    if len({member.takes_texts for member in members}) > 1:
        raise DataError(f"Some members of the {owner} take texts and some take matrices; they must all take one.")


def shares(weights: Sequence[float] | str | None, n_members: int) -> Float64:
    """The members' weights of sum 1, equal ones where the parameter names none."""
    if weights is None or isinstance(weights, str):
        return np.full(n_members, 1 / n_members)
    values = np.array(weights, np.float64)
    if values.shape != (n_members,):
        raise ParameterError(
            f"The 'weights' parameter of Ensemble names {counted(len(values), 'weight')} for "
            f"{counted(n_members, 'member')}."
        )
    values /= values.max()  # so that no sum of large ones overflows
    return np.asarray(values / values.sum())


def fit_members(
    members: Sequence[Estimator], X: Any, Y: Any, options: Mapping[str, Any], checkpoint: Checkpoint | None, name: str,
    rows: Int32 | None = None, own_options: Sequence[Mapping[str, Any]] = (),
) -> tuple[list[Estimator], list[TopK | None]]:  # fmt: skip
    """Fresh members, trained; each with a checkpoint of its own inside that of all. With ``rows`` to hold out, their
    answers too, where they have any. With ``own_options``, those of each member too."""
    fitted: list[Estimator] = [fresh(member) for member in members]
    tops: list[TopK | None] = [None] * len(members)
    for number, member in enumerate(fitted):
        member_options = _member_options(member, options, checkpoint, f"{name}{number}")
        member_options |= own_options[number] if own_options else {}
        if rows is None:
            member.fit(X, Y, **member_options)
        else:
            tops[number] = member.fit_holding_out(X, Y, rows, **member_options)
    return fitted, tops


def named_options(
    members: Sequence[Estimator], label_texts: Any, Y: Any, needed: bool = False
) -> list[dict[str, Any]]:
    """What each member's ``fit`` is given of what labels are called: everything, or where a member answers only labels
    that have rows, the texts of these. Neighbours of such a member vote by rows alone. Where no member takes any, that
    is refused, unless it is ``needed`` otherwise."""
    if is_auto(label_texts):
        return [{} for _ in members]
    skips = [getattr(member, "unlearned", None) == "skip" for member in members]
    takes = [
        "label_texts" in inspect.signature(type(member).fit).parameters and not (skip and member.has_voters)
        for member, skip in zip(members, skips, strict=True)
    ]
    if label_texts is not None and not any(takes) and not needed:
        raise ParameterError(
            "The 'label_texts' parameter of fit is for a LexicalMatcher, a label_encoder, or a TextModel whose model "
            "isn't a NeighborRanker. There is none."
        )
    texts = label_texts
    if any(skips) and label_texts is not None and not isinstance(label_texts, str):
        names = encode_labels(Y)[0]
        texts = {name: text for name, text in named_texts(label_texts, names).items() if name in names}
    given = [texts if skip else label_texts for skip in skips]
    return [{"label_texts": each} if taken else {} for each, taken in zip(given, takes, strict=True)]


def _member_options(
    member: Estimator, options: Mapping[str, Any], checkpoint: Checkpoint | None, name: str
) -> dict[str, Any]:
    """The options of a member's ``fit``: with a checkpoint, where it or the model inside it can resume a training."""
    inner: Any = type(getattr(member, "model", member))
    parameters = inspect.signature(inner.fit).parameters.values()
    resumes = any(each.name == "checkpoint" or each.kind is each.VAR_KEYWORD for each in parameters)
    return {**options, **({} if checkpoint is None or not resumes else {"checkpoint": checkpoint.inner(name)})}


def held_out_answers(
    member: Estimator, fitted: Estimator, X: Any, Y: Any, rows: Int32, options: Mapping[str, Any],
    checkpoint: Checkpoint | None, name: str,
) -> TopK:  # fmt: skip
    """Answers to some rows by another model of the member's parameters, trained without them. For models whose
    :meth:`Estimator.fit_holding_out` gives none."""
    # Returns shape (n, k)
    train_rows = np.setdiff1d(np.arange(X.shape[0] if hasattr(X, "shape") else len(X), dtype=np.int32), rows)
    part = _member_options(member, options, checkpoint, name)
    if part.get("sample_weight") is not None:
        part["sample_weight"] = part["sample_weight"][train_rows]
    without = fresh(member).fit(take(X, train_rows), take(Y, train_rows), **part)
    top = without.rank_voted(take(X, rows), min(CANDIDATES, without.n_labels_))
    if isinstance(top, Voted):  # by their numbers among all rows
        numbers, similarities = top.nearest
        top = Voted.of(top, (np.where(numbers >= 0, train_rows[numbers], np.int32(-1)), similarities))
    if fitted.vocabulary_ is None or without.vocabulary_ is None:
        return renumbered(top, None)
    return renumbered(top, np.array([fitted.vocabulary_.id(label) for label in without.vocabulary_], np.int32))


def taken(model: Estimator, options: Mapping[str, Any]) -> dict[str, Any]:
    """Of the options of ``rank``, those that the model's takes."""
    accepted = model.rank_options() if options else []
    return {name: value for name, value in options.items() if name in accepted}


def saved_members(state: store.State) -> list[Estimator]:
    """The members that a saved ensemble holds, verified."""
    n_members = store.need_int(state, "n_members", 1, MOST_MEMBERS)
    members = [rebuild(store.need_part(state, f"member{number}")) for number in range(n_members)]
    if wrong := next((type(member).__name__ for member in members if not isinstance(member, Estimator)), None):
        raise DataError(f"a member of the ensemble is a {wrong}, which ranks nothing.")
    return members


def renumbered(top: TopK, ids: Int32 | None) -> TopK:
    """A member's answers in the ensemble's label ids."""
    labels = top.labels if ids is None else np.where(top.labels >= 0, ids[top.labels], np.int32(-1))
    return replace(top, labels=labels) if isinstance(top, Voted) else TopK(labels, top.scores)


def numbered_votes(votes: Sequence[tuple[TreeVote, ...]]) -> tuple[TreeVote, ...]:
    """The trees of several models, numbered through."""
    return tuple(replace(vote, number=number) for number, vote in enumerate(v for trees in votes for v in trees))


@dataclass(frozen=True, eq=False)
class Joined:
    """Fitted members that fit each other, and what they have in common."""

    members: Sequence[Estimator]
    owner: str  # the class that they are members of
    ids: Sequence[Int32 | None]  # the joint ids of each member's labels; None where they are the same
    vocabulary: Vocabulary | None  # all names that the members know
    n_features: int  # over texts, of all members together
    n_labels: int
    fields: tuple[tuple[str, ...], str] | None  # of texts and of labels; None over matrices

    @classmethod
    def of(cls, members: Sequence[Estimator], owner: str) -> Joined:
        """Of fitted members; those that don't fit each other are refused."""

        def same(noun: str, sizes: list[int]) -> int:
            if len(set(sizes)) > 1:
                numbers = ", ".join(map(str, sizes))
                raise DataError(f"The members of the {owner} have different numbers of {noun}: {numbers}.")
            return sizes[0]

        fields: tuple[tuple[str, ...], str] | None = None
        widths = [member.n_features_ for member in members]
        if members[0].takes_texts:
            listed = {(member.text_fields_, member.labels_field_) for member in members}  # type: ignore[attr-defined]
            if len(listed) > 1:
                words = " and ".join(sorted(" + ".join(names) for names, _ in listed))
                raise DataError(f"The members of the {owner} were trained on different fields of text: {words}.")
            (fields,) = listed
        n_features = same("features", widths) if fields is None else sum(widths)
        vocabularies = [member.vocabulary_ for member in members if member.vocabulary_ is not None]
        ids: list[Int32 | None] = [None] * len(members)
        if not vocabularies:
            n_labels = same("labels", [member.n_labels_ for member in members])
            return cls(members, owner, ids, None, n_features, n_labels, fields)
        if len(vocabularies) < len(members):
            raise DataError(f"The labels of some members of the {owner} have names and those of others have none.")
        vocabulary = vocabularies[0]
        if any(names != vocabulary for names in vocabularies[1:]):  # all names in the order of their first mention
            number: dict[str, int] = {}
            ids = [np.array([number.setdefault(name, len(number)) for name in each], np.int32) for each in vocabularies]
            vocabulary = type(vocabulary)(number)
        return cls(members, owner, ids, vocabulary, n_features, len(vocabulary), fields)

    @cached_property
    def member_ids(self) -> list[Int32 | None]:
        """Each member's ids of the joint labels, -1 for those that it doesn't know; None where they are the same."""
        result: list[Int32 | None] = [None] * len(self.ids)
        for number, ids in enumerate(self.ids):
            if ids is not None:
                inverse = result[number] = np.full(self.n_labels, -1, np.int32)
                inverse[ids] = np.arange(len(ids), dtype=np.int32)
        return result

    def _pairs(self) -> Iterator[tuple[Estimator, Int32]]:
        """Each member with the joint ids of its labels."""
        all_ids = np.arange(self.n_labels, dtype=np.int32)
        return ((member, all_ids if ids is None else ids) for member, ids in zip(self.members, self.ids, strict=True))

    def counts(self) -> tuple[Int64, int]:
        """How many training rows have each label, and how many there are; of each the most that a member has seen."""
        counts, n_rows = np.zeros(self.n_labels, np.int64), 0
        for member, ids in self._pairs():
            ranker: Any = member if "label_counts_" in member.__dict__ else member.inner()  # type: ignore[attr-defined]
            counts[ids] = np.maximum(counts[ids], ranker.label_counts_)
            n_rows = max(n_rows, ranker.n_rows_)
        return counts, n_rows

    def removed(self) -> Int32:
        """The labels that every member that knew them has lost."""
        left = np.zeros(self.n_labels, bool)
        for member, ids in self._pairs():
            left[np.delete(ids, member.removed_labels_)] = True
        return np.flatnonzero(~left).astype(np.int32)

    def without(self, labels: Int32) -> Joined:
        """The members without some labels, where they know them."""
        members = []
        for member, ids in self._pairs():
            gone = np.flatnonzero(np.isin(ids, labels)).astype(np.int32)
            members.append(member.without_label_ids(gone) if len(gone) else member)
        return Joined.of(members, self.owner)

    def renamed(self, names: Mapping[int, str]) -> Joined:
        """The members with other names for some labels, where they know them."""
        members = []
        for member, ids in self._pairs():
            vocabulary: Any = member.vocabulary_
            new = {vocabulary[position]: names[label] for position, label in enumerate(ids.tolist()) if label in names}
            members.append(member.with_label_names(new))
        return Joined.of(members, self.owner)

    def filtered(self, number: int, labels: LabelFilter | None) -> dict[str, Any]:
        """The options of ``rank`` that hold a member to the labels that are open."""
        if labels is None:
            return {}
        ids = np.arange(self.n_labels, dtype=np.int32) if (member_ids := self.ids[number]) is None else member_ids
        shared = np.isin(ids, labels.shared)  # a mask: numbers may be names to a member
        if labels.rows is None:
            return {"allowed" if labels.allows else "denied": shared}
        mask = labels.rows.to_scipy()[:, ids]
        return {"allowed": mask} if labels.allows else {"allowed": ~shared, "denied": mask}


def take(inputs: Any, rows: Int32) -> Any:
    """Some rows of a matrix, or some of the texts or label lists."""
    if isinstance(inputs, Csr):
        return take_rows(inputs, rows)
    if isinstance(inputs, np.ndarray):
        return inputs[rows]
    if hasattr(inputs, "tocsr"):
        return inputs.tocsr()[rows]
    return [inputs[row] for row in rows.tolist()]


def split_rows(Y: Any, n_rows: int, weight: Float32 | None) -> tuple[Int32, Int32] | None:
    """Rows to train on and rows to hold out, both with labels; None where there are too few."""

    def has_labels(rows: Int32) -> bool:
        labels = take(Y, rows)
        if isinstance(labels, list):
            return any(isinstance(row, str) or not hasattr(row, "__len__") or len(row) for row in labels)
        return bool(validate.labels(labels).indices.size)

    for holdout in holdout_folds(n_rows, 1, weight):
        train_rows = np.setdiff1d(np.arange(n_rows, dtype=np.int32), holdout)
        if has_labels(train_rows) and has_labels(holdout):
            return train_rows, holdout
    return None


def known_labels(Y: Any, n_rows: int, vocabulary: Vocabulary | None, n_labels: int) -> Csr:
    """Labels in any form by an ensemble's ids, without those that no member knows."""
    if vocabulary is not None:
        return validate.labels(true_labels(Y, vocabulary, unknown="drop"), n_rows=n_rows)
    truth = within(validate.labels(Y, n_rows=n_rows), n_labels)
    return truth._replace(shape=(n_rows, n_labels))
