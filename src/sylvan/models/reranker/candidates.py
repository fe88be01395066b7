"""The candidates of a reranker's members, with all of their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays.topk import TopK
from sylvan.arrays.validate import Csr
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ParameterError
from sylvan.models.base import Estimator
from sylvan.models.encoders.encoded_labels import OF_ENCODER, EncodedLabels
from sylvan.models.ensembles.members import LabelIds
from sylvan.models.lexical.lexical_matcher import LexicalMatcher
from sylvan.models.lexical.lexicon import OF_COMPANY, company_columns
from sylvan.models.reranker.candidate_columns import (
    OF_ALL,
    OF_MEMBER,
    OF_NEIGHBORS,
    LabelFacts,
    candidate_columns,
    neighbor_columns,
)
from sylvan.params.wording import counted
from sylvan.ranking.votes import Voted

_Floats = npt.NDArray[np.float32]
MOST_OWN = 1000  # columns that a caller adds


@dataclass(frozen=True)
class ColumnMaker:
    """Makes the columns of candidates."""

    members: Sequence[Estimator]
    ids: LabelIds  # the joint ids of each member's labels
    own_ids: LabelIds  # as `own_ids` has them: the members' ids of the joint labels
    facts: LabelFacts
    values: _Floats  # shape (n_labels, n_values): the caller's columns of labels
    function: Callable[[Any, TopK], Any] | None  # the caller's columns of rows and labels
    n_own: int | None  # how many columns the function gives; None before it was first called
    encoded: EncodedLabels | None  # the encoder, and its vectors of labels' texts

    def without_rows(self, rows: Any, truth: Csr, weight: npt.NDArray[np.float32] | None) -> ColumnMaker:
        """The same, where matchers of labels' words count nothing of some rows that they have learned from."""
        matrix, members = truth.to_scipy(), list(self.members)
        for at, (member, ids) in enumerate(zip(self.members, self.ids, strict=True)):
            if isinstance(member, LexicalMatcher):
                members[at] = member.without_rows(rows, matrix if ids is None else matrix[:, ids], weight)
        return replace(self, members=members)

    def row_vectors(self, rows: Any, n_jobs: int | None) -> _Floats | None:
        """The encoder's vectors of rows; None without an encoder."""
        return None if self.encoded is None else self.encoded.rows(list(rows), n_jobs)

    def columns(self, candidates: TopK, tops: Sequence[TopK], rows: Any, vectors: _Floats | None) -> _Floats:
        """Columns of shape (n, k, n_features); zeros where there is no candidate."""
        # Shapes: candidates (n, k); vectors (n, dim)
        parts = [candidate_columns(candidates, tops, self.facts)]
        there = candidates.labels >= 0
        for member, own, top in zip(self.members, self.own_ids, tops, strict=True):
            labels = candidates.labels if own is None else np.where(there, own[candidates.labels], np.int32(-1))
            if isinstance(top, Voted) and member.voters_ is not None:
                parts.append(neighbor_columns(labels, top.nearest, member.voters_))
            if isinstance(member, LexicalMatcher):  # how its words stand in the text, and what ties it to others
                mean = np.where(labels >= 0, candidates.scores, np.float32(0))
                parts += [member.features(rows, labels), company_columns(labels, mean, member.ties_)]
        if self.encoded is not None and vectors is not None:
            parts.append(self.encoded.columns(vectors, candidates.labels))
        if self.values.shape[1]:
            parts.append(np.where(there[..., None], self.values[np.maximum(candidates.labels, 0)], np.float32(0)))
        if self.function is not None or self.n_own:
            parts.append(np.where(there[..., None], self._of_function(candidates, rows), np.float32(0)))
        return np.concatenate(parts, axis=2) if len(parts) > 1 else parts[0]

    def _of_function(self, candidates: TopK, rows: Any) -> _Floats:
        if self.function is None:
            raise ParameterError(
                f"This Reranker learned from {counted(self.n_own or 0, 'column')} of a function, which isn't stored: "
                "give it again, as the parameter 'columns'."
            )
        given = rows.to_scipy() if isinstance(rows, Csr) else rows
        try:
            found = np.asarray(self.function(given, candidates), np.float32)
        except (TypeError, ValueError) as error:
            raise DataError(f"The 'columns' function of Reranker gives no array of numbers: {error}") from None
        shape = candidates.labels.shape
        n_own = self.n_own if self.n_own is not None else "c"
        if found.ndim != 3 or found.shape[:2] != shape or self.n_own not in (None, found.shape[2]):
            raise DataError(
                f"The 'columns' function of Reranker must give an array of shape ({shape[0]}, {shape[1]}, {n_own}), a "
                f"number for each candidate and column. Got shape {found.shape} instead."
            )
        if not 1 <= found.shape[2] <= MOST_OWN or not np.isfinite(found).all():
            raise DataError(
                f"The 'columns' function of Reranker must give 1 to {MOST_OWN:,} columns of finite numbers. Got "
                f"{counted(found.shape[2], 'column')}"
                f"{'' if np.isfinite(found).all() else ', with infinite numbers or NaN'} instead."
            )
        return found


def own_ids(ids: LabelIds, n_labels: int) -> LabelIds:
    """Each member's ids of the joint labels, -1 for those that it doesn't know; None where they are the same."""
    found: list[npt.NDArray[np.int32] | None] = []
    for joint in ids:
        if joint is None:
            found.append(None)
            continue
        own = np.full(n_labels, -1, np.int32)
        own[joint] = np.arange(len(joint), dtype=np.int32)
        found.append(own)
    return found


def column_names(members: Sequence[Estimator], encodes: bool, n_values: int, n_own: int | None) -> tuple[str, ...]:
    """What the columns are called, in their order."""
    names = [f"member{at} {name}" for at in range(len(members)) for name in OF_MEMBER]
    names += OF_ALL
    for at, member in enumerate(members):
        if member.has_voters:
            names += [f"member{at} nearest: {name}" for name in OF_NEIGHBORS]
        if isinstance(member, LexicalMatcher):
            names += [f"member{at} words: {name}" for name in member.feature_names_]
            names += [f"member{at} other candidates: {name}" for name in OF_COMPANY]
    names += [f"label_encoder: {name}" for name in OF_ENCODER if encodes]
    names += [f"label_columns {at}" for at in range(n_values)]
    return (*names, *(f"columns {at}" for at in range(n_own or 0)))


def label_values(given: Any, n_labels: int, vocabulary: Vocabulary | None) -> _Floats:
    """The caller's columns of labels, a row a label; zeros for labels that a mapping doesn't name."""
    if given is None:
        return np.zeros((n_labels, 0), np.float32)
    if isinstance(given, Mapping):
        return _values_by_name(given, n_labels, vocabulary)
    try:
        values = np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"label_columns must be numbers: {error}.") from None
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != n_labels or not 1 <= values.shape[1] <= MOST_OWN:
        raise DataError(
            f"label_columns must be an array of shape ({n_labels}, c), a row a label, with 1 to {MOST_OWN:,} columns, "
            f"or a mapping from labels' names. Got shape {values.shape} instead."
        )
    if not np.isfinite(values).all():
        raise DataError("label_columns must be finite numbers. Got infinite ones or NaN.")
    return np.ascontiguousarray(values)


def _values_by_name(given: Mapping[Any, Any], n_labels: int, vocabulary: Vocabulary | None) -> _Floats:
    if vocabulary is None:
        raise DataError("label_columns is a mapping from names, but the labels have none: give an array instead.")
    if not given:
        raise DataError("label_columns names no label.")
    rows = []
    for name, value in given.items():
        try:
            rows.append(np.atleast_1d(np.asarray(value, np.float32)))
        except (TypeError, ValueError) as error:
            raise DataError(f"label_columns must be numbers, but those of {name!r} aren't: {error}.") from None
    width = rows[0].shape
    wrong = next((name for name, row in zip(given, rows, strict=True) if row.shape != width or row.ndim != 1), None)
    if wrong is not None or not 1 <= width[0] <= MOST_OWN:
        first = next(iter(given))
        raise DataError(
            f"label_columns must have as many numbers for each label, 1 to {MOST_OWN:,}. Those of "
            f"{first if wrong is None else wrong!r} are others, or another number, than those of {first!r}."
        )
    result = np.zeros((n_labels, width[0]), np.float32)
    for name, row in zip(given, rows, strict=True):
        if (label := vocabulary.get(name)) is not None:
            result[label] = row
    if not np.isfinite(result).all():
        raise DataError("label_columns must be finite numbers. Got infinite ones or NaN.")
    return result
