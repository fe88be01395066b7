"""What ensembles need of models of any kind: fresh copies, options that fit, label ids and rows in common."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, take_rows
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ParameterError
from sylvan.explain.records import TreeVote
from sylvan.labels.targets import true_labels
from sylvan.models.base import CANDIDATES, Estimator
from sylvan.params.fields import Constraint, Parameterized
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import holdout_folds
from sylvan.ranking.votes import Voted
from sylvan.runtime import Checkpoint
from sylvan.store.registry import rebuild

MOST_MEMBERS = 1000

# The ensemble's ids of each member's labels; None for a member whose ids they are already.
LabelIds: TypeAlias = Sequence["npt.NDArray[np.int32] | None"]
_Fresh = TypeVar("_Fresh", bound=Parameterized)


class Weights(Constraint):
    """None, "fit", or a list of numbers."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return value == "fit"
        try:
            result = list(value)
        except TypeError:
            return False
        if not all(isinstance(weight, numbers.Real) and not isinstance(weight, bool) for weight in result):
            return False
        floats = [float(weight) for weight in result]
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
    made = type(model)(**params)
    for name in ("text_fields_", "labels_field_"):  # what a file's texts are, which may be set before fit
        if name in model.__dict__:
            setattr(made, name, getattr(model, name))
    return made


def check_members(members: Sequence[Any], owner: str = "Ensemble") -> None:
    """Refuse what can't be an ensemble's members."""
    words = f"a list of 1 to {MOST_MEMBERS} estimators of Sylvan"
    wrong = next((member for member in members if not isinstance(member, Estimator)), None)
    if not 1 <= len(members) <= MOST_MEMBERS or wrong is not None:
        got = f"a list of {len(members)}" if wrong is None else f"a {type(wrong).__name__} among them"
        raise ParameterError(f"The 'members' parameter of {owner} must be {words}. Got {got} instead.")
    if len({member.takes_texts for member in members}) > 1:
        raise DataError(f"Some members of the {owner} take texts and some take matrices; they must all take one.")


def shares(weights: Sequence[float] | str | None, n_members: int) -> npt.NDArray[np.float64]:
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
    result: npt.NDArray[np.float64] = values / values.sum()
    return result


def same_size(what: str, sizes: list[int], owner: str) -> int:
    """The one size that all members must have."""
    if len(set(sizes)) > 1:
        raise DataError(f"The members of the {owner} have different numbers of {what}: {', '.join(map(str, sizes))}.")
    return sizes[0]


def fit_members(
    members: Sequence[Estimator], X: Any, Y: Any, options: Mapping[str, Any], checkpoint: Checkpoint | None, name: str,
    rows: npt.NDArray[np.int32] | None = None, own_options: Sequence[Mapping[str, Any]] = (),
) -> tuple[list[Estimator], list[TopK | None]]:  # fmt: skip
    """Fresh members, trained; each with a checkpoint of its own inside that of all. With ``rows`` to hold out, their
    answers too, where they have any. With ``own_options``, those of each member too."""
    fitted: list[Estimator] = []
    tops: list[TopK | None] = []
    for at, member in enumerate(members):
        own: dict[str, Any] = {}
        if checkpoint is not None and _takes_checkpoint(member):
            own["checkpoint"] = checkpoint.inner(f"{name}{at}")
        own |= own_options[at] if own_options else {}
        made = fresh(member)
        if rows is None:
            made.fit(X, Y, **options, **own)
        tops.append(None if rows is None else made.fit_holding_out(X, Y, rows, **options, **own))
        fitted.append(made)
    return fitted, tops


def _takes_checkpoint(member: Estimator) -> bool:
    """Whether the training of a member, or of the model inside it, can be resumed."""
    inner = getattr(member, "model", member)
    parameters = inspect.signature(type(inner).fit).parameters.values()
    return any(one.name == "checkpoint" or one.kind is one.VAR_KEYWORD for one in parameters)


def held_out_answers(
    member: Estimator, fitted: Estimator, X: Any, Y: Any, rows: npt.NDArray[np.int32], options: Mapping[str, Any],
    checkpoint: Checkpoint | None, name: str,
) -> TopK:  # fmt: skip
    """Answers to some rows by another model of the member's parameters, trained without them. For models whose
    :meth:`Estimator.fit_holding_out` gives none."""
    # Returns shape (n, k)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    rest = np.setdiff1d(np.arange(n_rows, dtype=np.int32), rows)
    part = dict(options)
    if checkpoint is not None and _takes_checkpoint(member):
        part["checkpoint"] = checkpoint.inner(name)
    if part.get("sample_weight") is not None:
        part["sample_weight"] = part["sample_weight"][rest]
    without = fresh(member).fit(take(X, rest), take(Y, rest), **part)
    top = without.rank_voted(take(X, rows), min(CANDIDATES, without.n_labels_))
    if isinstance(top, Voted):  # by their numbers among all rows
        numbers, similarities = top.nearest
        top = Voted.of(top, (np.where(numbers >= 0, rest[numbers], np.int32(-1)), similarities))
    if fitted.vocabulary_ is None or without.vocabulary_ is None:
        return renumbered(top, None)
    return renumbered(top, np.array([fitted.vocabulary_.id(known) for known in without.vocabulary_], np.int32))


def taken(model: Estimator, options: Mapping[str, Any]) -> dict[str, Any]:
    """Of the options of ``rank``, those that the model's takes."""
    known = model.rank_options() if options else []
    return {name: value for name, value in options.items() if name in known}


def member_filters(labels: LabelFilter | None, ids: LabelIds) -> Callable[[int], dict[str, Any]]:
    """The options of ``rank`` that keep a member, by its number, to the ensemble's labels that are open."""
    if labels is None:
        return lambda number: {}
    mask = None if labels.rows is None else labels.rows.to_scipy()

    def options(number: int) -> dict[str, Any]:
        own = ids[number]
        if own is None:
            own = np.arange(labels.n_labels, dtype=np.int32)
        shared = np.isin(own, labels.shared)  # a mask: numbers may be names to a member
        if labels.allows:
            return {"allowed": shared if mask is None else mask[:, own]}
        if mask is None:
            return {"denied": shared}
        return {"allowed": ~shared, "denied": mask[:, own]}

    return options


def saved_members(state: store.State) -> list[Estimator]:
    """The members that a saved ensemble holds, verified."""
    n_members = store.need_int(state, "n_members", 1, MOST_MEMBERS)
    members = [rebuild(store.need_part(state, f"member{number}")) for number in range(n_members)]
    wrong = next((type(member).__name__ for member in members if not isinstance(member, Estimator)), None)
    if wrong is not None:
        raise DataError(f"a member of the ensemble is a {wrong}, which ranks nothing.")
    return members


def renumbered(top: TopK, ids: npt.NDArray[np.int32] | None) -> TopK:
    """A member's answers in the ensemble's label ids."""
    labels = top.labels if ids is None else np.where(top.labels >= 0, ids[top.labels], np.int32(-1))
    return replace(top, labels=labels) if isinstance(top, Voted) else TopK(labels, top.scores)


def members_without(
    members: Sequence[Estimator], ids: LabelIds, labels: npt.NDArray[np.int32]
) -> list[Estimator]:  # fmt: skip
    """The members without some of the ensemble's labels, where they know them."""
    own = [labels if known is None else np.flatnonzero(np.isin(known, labels)).astype(np.int32) for known in ids]
    pairs = zip(members, own, strict=True)
    return [member.without_label_ids(gone) if len(gone) else member for member, gone in pairs]


def renamed_members(members: Sequence[Estimator], ids: LabelIds, names: Mapping[int, str]) -> list[Estimator]:
    """The members with other names for some of the ensemble's labels, where they know them."""
    made = []
    for member, known in zip(members, ids, strict=True):
        vocabulary, own = member.vocabulary_, range(member.n_labels_) if known is None else known.tolist()
        assert vocabulary is not None
        new = {vocabulary[at]: names[label] for at, label in enumerate(own) if label in names}
        made.append(member.with_label_names(new))
    return made


def removed_by_all(members: Sequence[Estimator], ids: LabelIds, n_labels: int) -> npt.NDArray[np.int32]:
    """The ensemble's labels that every member that knew them has lost."""
    left = np.zeros(n_labels, bool)
    for member, known in zip(members, ids, strict=True):
        own = np.arange(n_labels) if known is None else known
        left[np.delete(own, member.removed_labels_)] = True
    return np.flatnonzero(~left).astype(np.int32)


def joint_counts(
    members: Sequence[Estimator], ids: LabelIds, n_labels: int
) -> tuple[npt.NDArray[np.int64], int]:  # fmt: skip
    """How many training rows have each label, and how many there are; of each the most that a member has seen."""
    counts, n_rows = np.zeros(n_labels, np.int64), 0
    for member, known in zip(members, ids, strict=True):
        ranker: Estimator = member if "label_counts_" in member.__dict__ else member.inner()  # type: ignore[attr-defined]
        own = slice(None) if known is None else known
        counts[own] = np.maximum(counts[own], ranker.label_counts_)
        n_rows = max(n_rows, ranker.n_rows_)
    return counts, n_rows


def inverse_ids(joint: npt.NDArray[np.int32], n_labels: int) -> npt.NDArray[np.int32]:
    """A member's ids of all joint labels, -1 for those that it doesn't know."""
    own = np.full(n_labels, -1, np.int32)
    own[joint] = np.arange(len(joint), dtype=np.int32)
    return own


def numbered_votes(votes: Sequence[tuple[TreeVote, ...]]) -> tuple[TreeVote, ...]:
    """The trees of several models, numbered through."""
    return tuple(replace(vote, number=number) for number, vote in enumerate(v for trees in votes for v in trees))


def joined_names(
    vocabularies: Sequence[Vocabulary],
) -> tuple[Vocabulary, list[npt.NDArray[np.int32] | None]]:
    """All names in the order of their first mention, and the ids there of each vocabulary's (None for the same)."""
    first = vocabularies[0]
    if all(vocabulary == first for vocabulary in vocabularies[1:]):
        return first, [None] * len(vocabularies)
    number: dict[str, int] = {}
    ids = [np.array([number.setdefault(name, len(number)) for name in names], np.int32) for names in vocabularies]
    return type(first)(number), list(ids)


def take(inputs: Any, rows: npt.NDArray[np.int32]) -> Any:
    """Some rows of a matrix, or some of the texts or label lists."""
    if isinstance(inputs, Csr):
        return take_rows(inputs, rows)
    if isinstance(inputs, np.ndarray):
        return inputs[rows]
    if hasattr(inputs, "tocsr"):
        return inputs.tocsr()[rows]
    return [inputs[row] for row in rows.tolist()]


def has_labels(labels: Any) -> bool:
    """Whether any row has a label, in whatever form the labels are given."""
    if isinstance(labels, list):
        return any(isinstance(row, str) or not hasattr(row, "__len__") or len(row) for row in labels)
    return bool(validate.labels(labels).indices.size)


def common_fields(members: Sequence[Estimator], owner: str) -> tuple[tuple[str, ...], str]:
    """The fields of texts and labels that all members were trained on."""
    fields = {(member.text_fields_, member.labels_field_) for member in members}  # type: ignore[attr-defined]
    if len(fields) > 1:
        shown = " and ".join(sorted(" + ".join(names) for names, _ in fields))
        raise DataError(f"The members of the {owner} were trained on different fields of text: {shown}.")
    (found,) = fields
    return found


def common_holdout(
    members: Sequence[Estimator], n_rows: int, weight: npt.NDArray[np.float32] | None
) -> npt.NDArray[np.int32] | None:
    """Rows that all members are asked for answers to; None where there are too few rows."""
    most = min(member.most_held_out for member in members)
    return next(iter(holdout_folds(n_rows, 1, weight, most)), None)


def split_rows(
    Y: Any, n_rows: int, weight: npt.NDArray[np.float32] | None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None:
    """Rows to train on and rows to hold out, both with labels; None where there are too few."""
    for holdout in holdout_folds(n_rows, 1, weight):
        rest = np.setdiff1d(np.arange(n_rows, dtype=np.int32), holdout)
        if has_labels(take(Y, rest)) and has_labels(take(Y, holdout)):
            return rest, holdout
    return None


def known_labels(Y: Any, n_rows: int, vocabulary: Vocabulary | None, n_labels: int) -> Csr:
    """Labels in any form by an ensemble's ids, without those that no member knows."""
    if vocabulary is not None:
        truth = true_labels(Y, vocabulary, unknown="drop")
        return validate.labels(truth, n_rows=n_rows)
    truth = validate.labels(Y, n_rows=n_rows)
    return renamed(truth, np.arange(truth.shape[1]), n_labels)


def renamed(labels: Csr, ids: npt.NDArray[np.int64], n_labels: int) -> Csr:
    """Labels by other ids; those of -1, or from ``n_labels``, are dropped."""
    entries = labels.to_scipy().tocoo()
    column = ids[entries.col]
    known = (column >= 0) & (column < n_labels)
    shape = (labels.shape[0], n_labels)
    return validate.labels(sp.csr_matrix((entries.data[known], (entries.row[known], column[known])), shape=shape))
