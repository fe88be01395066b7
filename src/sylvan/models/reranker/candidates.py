"""The candidates of a reranker's members, with all of their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan.arrays.topk import TopK
from sylvan.arrays.validate import Csr
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ParameterError
from sylvan.models.ensembles.joint import Joined
from sylvan.models.ensembles.members import take
from sylvan.models.lexical.lexical_matcher import LexicalMatcher
from sylvan.models.lexical.lexicon import company_columns
from sylvan.models.reranker.candidate_columns import candidate_columns, neighbor_columns
from sylvan.models.reranker.order import MOST_OWN, Order
from sylvan.parallel import map_parallel, resolve_jobs, split_ranges
from sylvan.params.wording import counted
from sylvan.ranking.votes import Voted

_Floats = npt.NDArray[np.float32]
_Part = TypeVar("_Part")
_ROWS = 256  # whose columns are in memory at a time, in each thread


@dataclass(frozen=True)
class ColumnMaker:
    """Makes the columns of candidates."""

    joined: Joined
    order: Order
    function: Callable[[Any, TopK], Any] | None  # the caller's columns of rows and labels

    def without_rows(self, rows: Any, truth: Csr, weight: npt.NDArray[np.float32] | None) -> ColumnMaker:
        """The same, where matchers of labels' words count nothing of some rows that they have learned from."""
        matrix, members = truth.to_scipy(), list(self.joined.members)
        for number, (member, ids) in enumerate(zip(members, self.joined.ids, strict=True)):
            if isinstance(member, LexicalMatcher):
                members[number] = member.without_rows(rows, matrix if ids is None else matrix[:, ids], weight)
        return replace(self, joined=replace(self.joined, members=members))

    def blocks(
        self, work: Callable[[TopK, _Floats], _Part], candidates: TopK, tops: Sequence[TopK], rows: Any,
        n_jobs: int | None,
    ) -> list[_Part]:  # fmt: skip
        """What ``work`` makes of candidates and their columns, some rows at a time."""
        vectors = self._row_vectors(rows, n_jobs)  # of all at once: an encoder has threads of its own

        def block(part: tuple[int, int]) -> _Part:
            here = slice(*part)
            some, answers = candidates.of_rows(here), [top.of_rows(here) for top in tops]
            near = None if vectors is None else vectors[here]
            return work(some, self._columns(some, answers, take(rows, np.arange(*part, dtype=np.int32)), near))

        return map_parallel(block, split_ranges(len(candidates.labels), _ROWS), resolve_jobs(n_jobs))

    def columns(self, candidates: TopK, tops: Sequence[TopK], rows: Any, n_jobs: int | None) -> _Floats:
        """The columns of all candidates, of shape (n, k, n_features); zeros where there is no candidate."""
        parts = self.blocks(lambda _, columns: columns, candidates, tops, rows, n_jobs)
        return np.concatenate(parts) if parts else self._columns(candidates, tops, rows, self._row_vectors(rows, 1))

    def _row_vectors(self, rows: Any, n_jobs: int | None) -> _Floats | None:
        """The encoder's vectors of rows; None without an encoder."""
        encoded = self.order.encoded
        return None if encoded is None else encoded.rows(list(rows), n_jobs)

    def _columns(self, candidates: TopK, tops: Sequence[TopK], rows: Any, vectors: _Floats | None) -> _Floats:
        # Shapes: candidates (n, k); vectors (n, dim); returns (n, k, n_features)
        order, joined = self.order, self.joined
        parts = [candidate_columns(candidates, tops, order.facts)]
        there = candidates.labels >= 0
        for member, own, top in zip(joined.members, joined.member_ids, tops, strict=True):
            labels = candidates.labels if own is None else np.where(there, own[candidates.labels], np.int32(-1))
            if isinstance(top, Voted) and member.voters_ is not None:
                parts.append(neighbor_columns(labels, top.nearest, member.voters_))
            if isinstance(member, LexicalMatcher):  # how its words stand in the text, and what ties it to others
                mean = np.where(labels >= 0, candidates.scores, np.float32(0))
                parts += [member.features(rows, labels), company_columns(labels, mean, member.ties_)]
        if order.encoded is not None and vectors is not None:
            parts.append(order.encoded.columns(vectors, candidates.labels))
        if order.values.shape[1]:
            parts.append(np.where(there[..., None], order.values[np.maximum(candidates.labels, 0)], np.float32(0)))
        if self.function is not None or order.n_own:
            parts.append(np.where(there[..., None], self._of_function(candidates, rows), np.float32(0)))
        return np.concatenate(parts, axis=2) if len(parts) > 1 else parts[0]

    def _of_function(self, candidates: TopK, rows: Any) -> _Floats:
        expected = self.order.n_own
        if self.function is None:
            raise ParameterError(
                f"This Reranker learned from {counted(expected or 0, 'column')} of a function, which isn't stored: "
                "give it again, as the parameter 'columns'."
            )
        try:
            found = np.asarray(
                self.function(rows.to_scipy() if isinstance(rows, Csr) else rows, candidates), np.float32
            )
        except (TypeError, ValueError) as error:
            raise DataError(f"The 'columns' function of Reranker gives no array of numbers: {error}") from None
        shape = candidates.labels.shape
        if found.ndim != 3 or found.shape[:2] != shape or expected not in (None, found.shape[2]):
            raise DataError(
                f"The 'columns' function of Reranker must give an array of shape ({shape[0]}, {shape[1]}, "
                f"{expected or 'c'}), a number for each candidate and column. Got shape {found.shape} instead."
            )
        if not 1 <= found.shape[2] <= MOST_OWN or not np.isfinite(found).all():
            raise DataError(
                f"The 'columns' function of Reranker must give 1 to {MOST_OWN:,} columns of finite numbers. Got "
                f"{counted(found.shape[2], 'column')}"
                f"{'' if np.isfinite(found).all() else ', with infinite numbers or NaN'} instead."
            )
        return found


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
