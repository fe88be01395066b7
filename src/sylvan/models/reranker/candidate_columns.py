"""What is known of the labels that several models propose: the columns by which a reranker orders them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels, store
from sylvan.arrays.canonical import Csr
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Float32, Int32, Int64
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ParameterError
from sylvan.matching.neighbors import Nearest
from sylvan.models.base import Estimator
from sylvan.models.encoders import OF_ENCODER, EncodedLabels
from sylvan.models.ensembles.members import Joined, take
from sylvan.models.lexical.lexical_matcher import LexicalMatcher
from sylvan.models.lexical.lexicon import OF_COMPANY, company_columns
from sylvan.parallel import map_parallel, resolve_jobs, split_ranges
from sylvan.params.wording import counted
from sylvan.ranking.boosted_trees import BoostedTrees
from sylvan.ranking.votes import LabelRows, Voted

OF_NEIGHBORS = ("similarity", "place", "votes")
OF_MEMBER = ("score", "place", "share")  # a member's columns, each
OF_ALL = (
    "mean", "mean_share", "mean_best", "mean_sum", "place", "members", "highest", "label_rows", "first_given",
    "given_first", "together", "together_most",
)  # fmt: skip
_LEADERS = 10  # of a row's candidates, with which each candidate's rows are compared
_MOST_TOGETHER = 100  # labels that are stored as those which occur with a label
_BLOCK = 1_000_000  # label pairs that are counted at a time


def neighbor_columns(labels: Int32, nearest: Nearest, voters: LabelRows) -> Float32:
    """Of every candidate, the nearest of the row's neighbours that has it, and how many have it."""
    # Shapes: labels (n, k); nearest (n, m); returns (n, k, 3)
    n, k = labels.shape
    result = np.zeros((n * k, len(OF_NEIGHBORS)), np.float32)
    rows, similarities = np.ascontiguousarray(nearest[0]), np.ascontiguousarray(nearest[1])
    kernels.neighbor_columns(np.ascontiguousarray(labels), rows, similarities, voters.offsets, voters.labels, result)
    return result.reshape(n, k, len(OF_NEIGHBORS))


@dataclass(frozen=True, eq=False)
class LabelFacts:
    """What training rows say of labels by themselves: how often each occurs, and which occur together."""

    n_rows: int
    counts: Int64  # shape (n_labels,): rows that have each label
    # shape (n_labels, n_labels): rows that have both labels, of the 100 labels that are most often with each
    together: Csr

    @classmethod
    def none(cls, n_labels: int) -> LabelFacts:
        """Of no rows."""
        return cls(0, np.zeros(n_labels, np.int64), Csr.empty(n_labels, n_labels))

    @classmethod
    def of(cls, truth: Csr) -> LabelFacts:
        """From the labels of rows, a matrix of shape (n, n_labels)."""
        n_labels = truth.shape[1]
        counts = np.bincount(truth.indices, minlength=n_labels).astype(np.int64)
        ones = sp.csr_matrix((np.ones(truth.nnz, np.float32), truth.indices, truth.indptr), shape=truth.shape)
        return cls(truth.shape[0], counts, _most_together(ones))

    def plus(self, truth: Csr) -> LabelFacts:
        """With those of other rows, which may have labels that are new."""
        n_labels = max(truth.shape[1], len(self.counts))
        other = LabelFacts.of(truth._replace(shape=(truth.shape[0], n_labels)))
        counts = other.counts.copy()
        counts[: len(self.counts)] += self.counts
        pairs = self.together.to_scipy()
        pairs.resize((n_labels, n_labels))
        return LabelFacts(self.n_rows + other.n_rows, counts, _greatest((pairs + other.together.to_scipy()).tocsr()))

    def without(self, labels: Int32) -> LabelFacts:
        """Without some labels, whose ids stay."""
        counts, gone = self.counts.copy(), np.zeros(len(self.counts), bool)  # labels without rows may have come since
        counts[labels], gone[labels] = 0, True
        pairs = self.together.to_scipy().tocoo()
        left = ~(gone[pairs.row] | gone[pairs.col])
        together = sp.csr_matrix((pairs.data[left], (pairs.row[left], pairs.col[left])), shape=pairs.shape)
        return replace(self, counts=counts, together=_canonical(together))

    def moved(self, ids: Int32, n_labels: int) -> LabelFacts:
        """The same of labels by other ids, among more labels."""
        counts = np.zeros(n_labels, np.int64)
        counts[ids] = self.counts
        pairs = self.together.to_scipy().tocoo()
        together = sp.csr_matrix((pairs.data, (ids[pairs.row], ids[pairs.col])), shape=(n_labels, n_labels))
        return LabelFacts(self.n_rows, counts, _canonical(together))

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The arrays by the names that they are stored under."""
        together = {f"facts.{name}": getattr(self.together, name) for name in ("indptr", "indices", "data")}
        return {"facts.counts": self.counts, "facts.n_rows": np.array([self.n_rows], np.int64), **together}

    @classmethod
    def from_state(cls, state: store.State, n_labels: int) -> LabelFacts:
        """From :meth:`to_arrays`' result, verified."""
        n_rows = int(store.need_range(state, "facts.n_rows", 0, 2**31, np.int64, (1,))[0])
        counts = store.need_range(state, "facts.counts", 0, n_rows, np.int64, (n_labels,))
        together = store.need_csr(state, "facts", (n_labels, n_labels))
        store.need_range(state, "facts.data", 0, max(n_rows, 1), np.float32)
        return cls(n_rows, counts, together)


def _canonical(matrix: sp.csr_matrix) -> Csr:
    matrix.sum_duplicates()
    return Csr.of(matrix.astype(np.float32))


def _most_together(rows: sp.csr_matrix) -> Csr:
    """Of each label, how many rows it shares with the labels that it shares most with; in blocks of labels."""
    columns, n_labels = rows.T.tocsr(), rows.shape[1]
    per_row = np.diff(rows.indptr).astype(np.float64)
    work = np.cumsum(np.append(0.0, columns @ per_row))
    parts, first = [], 0
    while first < n_labels:
        last = max(first + 1, int(np.searchsorted(work, work[first] + _BLOCK, side="right")) - 1)
        block = (columns[first:last] @ rows).tocoo()
        apart = block.row + first != block.col
        pairs = sp.csr_matrix((block.data[apart], (block.row[apart], block.col[apart])), shape=block.shape)
        parts.append(_greatest(pairs).to_scipy())
        first = last
    return _canonical(sp.vstack(parts, "csr")) if parts else Csr.empty(n_labels, n_labels)


def _greatest(matrix: sp.csr_matrix) -> Csr:
    """The greatest entries of each row, of equals the first columns."""
    matrix.sort_indices()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((matrix.indices, -matrix.data, rows))
    places = np.arange(len(order)) - matrix.indptr[rows]  # the order keeps rows together
    chosen = order[places < _MOST_TOGETHER]
    entries = matrix.data[chosen], (rows[chosen], matrix.indices[chosen])
    return _canonical(sp.csr_matrix(entries, shape=matrix.shape))


def candidate_columns(candidates: TopK, tops: Sequence[TopK], facts: LabelFacts) -> Float32:
    """Of every candidate, what the members say, how it stands among the others, and how often labels occur."""
    # Shape: candidates (n, k); returns (n, k, 3 * n_members + 12)
    n, k = candidates.labels.shape
    is_label, n_own = candidates.labels >= 0, len(OF_MEMBER) * len(tops)
    result = np.zeros((n, k, n_own + len(OF_ALL)), np.float32)
    mean = np.where(is_label, candidates.scores, np.float32(0))
    best = mean[:, :1] if k else np.zeros((n, 1), np.float32)
    of_members, of_all = np.zeros((n * k, n_own + 2), np.float32), result[..., n_own:]
    bounds, proposed = np.cumsum([0, *(top.k for top in tops)]), np.ascontiguousarray(candidates.labels)
    labels = np.concatenate([proposed[:, :0], *(top.labels for top in tops)], axis=1)
    scores = np.concatenate([mean[:, :0], *(top.scores for top in tops)], axis=1)
    kernels.member_columns(proposed, labels, scores, bounds, of_members)
    together, pairs = np.zeros((n * k, 4), np.float32), facts.together
    kernels.together_columns(proposed, mean, pairs.indptr, pairs.indices, pairs.data, facts.counts, _LEADERS, together)
    result[..., :n_own] = of_members[:, :n_own].reshape(n, k, n_own)
    of_all[..., 0] = mean
    np.divide(mean, best, out=of_all[..., 1], where=best > 0)
    of_all[..., 2] = best
    of_all[..., 3] = mean.sum(axis=1, dtype=np.float64)[:, None]
    of_all[..., 4] = np.arange(k)
    of_all[..., 5:7] = of_members[:, n_own:].reshape(n, k, 2)
    of_all[..., 7] = np.log1p(facts.counts[np.maximum(candidates.labels, 0)])
    of_all[..., 8:] = together.reshape(n, k, 4)
    of_all[~is_label] = 0
    return result


MOST_OWN = 1000  # columns that a caller adds


@dataclass(frozen=True, eq=False)
class Order:
    """What is known of labels besides what members say of them, and the trees that order candidates by all of it."""

    facts: LabelFacts
    values: Float32  # shape (n_labels, n_values): the caller's columns of labels
    encoded: EncodedLabels | None  # the encoder, and its vectors of labels' texts
    n_own: int | None = None  # how many columns the caller's function gave; None where there was no function
    scorer: BoostedTrees | None = None  # None for the order of the mean probabilities

    def column_names(self, members: Sequence[Estimator]) -> tuple[str, ...]:
        """What the columns of candidates are called, in their order."""
        return column_names(members, self.encoded is not None, self.values.shape[1], self.n_own)

    def updated(self, before: Vocabulary | None, joined: Joined, truth: Csr | None, n_jobs: int | None) -> Order:
        """For members that were brought up to date: with the labels of new rows, and by their ids from now on."""
        ids, encoded = np.arange(len(self.values), dtype=np.int32), self.encoded
        if before is not None and joined.vocabulary is not None:
            ids = np.array([joined.vocabulary.id(name) for name in before], np.int32)
            encoded = None if encoded is None else encoded.moved(ids, list(joined.vocabulary), n_jobs)
        same = bool((ids == np.arange(len(ids))).all())
        facts = self.facts if same else self.facts.moved(ids, joined.n_labels)
        if truth is not None:
            facts = facts.plus(truth)
        values = np.zeros((joined.n_labels, self.values.shape[1]), np.float32)
        values[ids] = self.values
        counts, n_rows = joined.counts()  # members may have forgotten rows
        return replace(self, facts=replace(facts, counts=counts, n_rows=n_rows), values=values, encoded=encoded)

    def without(self, labels: Int32) -> Order:
        """With empty columns, statistics and vectors for some labels, whose ids stay."""
        values = self.values.copy()
        values[labels] = 0
        encoded = None if self.encoded is None else self.encoded.with_labels(labels)
        return replace(self, facts=self.facts.without(labels), values=values, encoded=encoded)

    def to_arrays(self) -> dict[str, Array]:
        """The arrays by the names that they are stored under."""
        arrays: dict[str, Array] = {"label_columns": self.values, **self.facts.to_arrays()}
        for part in (self.scorer, self.encoded):
            arrays |= {} if part is None else part.to_arrays()
        return arrays

    @classmethod
    def from_state(cls, state: store.State, members: Sequence[Estimator], n_labels: int) -> Order:
        """From the arrays and files of a model, verified."""
        facts = LabelFacts.from_state(state, n_labels)
        values = store.need_array(state, "label_columns", np.float32, (n_labels, None))
        store.need_finite(state, "label_columns")
        n_own = store.need_int(state, "n_own", 0, MOST_OWN) or None
        order = cls(facts, values, EncodedLabels.from_state(state, n_labels), n_own)
        n_columns = len(order.column_names(members))
        store.need_int(state, "n_columns", n_columns, n_columns)  # trees can't tell
        if store.need_choice(state, "order", ("mean", "trees")) == "mean":
            return order
        return replace(order, scorer=BoostedTrees.from_state(state, n_columns))


def column_names(members: Sequence[Estimator], encodes: bool, n_values: int, n_own: int | None) -> tuple[str, ...]:
    """What the columns are called, in their order."""
    names = [f"member{number} {name}" for number in range(len(members)) for name in OF_MEMBER]
    names += OF_ALL
    for number, member in enumerate(members):
        if member.has_voters:
            names += [f"member{number} nearest: {name}" for name in OF_NEIGHBORS]
        if isinstance(member, LexicalMatcher):
            names += [f"member{number} words: {name}" for name in member.feature_names_]
            names += [f"member{number} other candidates: {name}" for name in OF_COMPANY]
    names += [f"label_encoder: {name}" for name in OF_ENCODER if encodes]
    names += [f"label_columns {number}" for number in range(n_values)]
    return (*names, *(f"columns {number}" for number in range(n_own or 0)))


_Part = TypeVar("_Part")
_ROWS = 256  # whose columns are in memory at a time, in each thread


@dataclass(frozen=True)
class ColumnMaker:
    """Makes the columns of candidates."""

    joined: Joined
    order: Order
    function: Callable[[Any, TopK], Any] | None  # the caller's columns of rows and labels

    def without_rows(self, rows: Any, truth: Csr, weight: Float32 | None) -> ColumnMaker:
        """The same, where matchers of labels' words count nothing of some rows that they have learned from."""
        matrix, members = truth.to_scipy(), list(self.joined.members)
        for number, (member, ids) in enumerate(zip(members, self.joined.ids, strict=True)):
            if isinstance(member, LexicalMatcher):
                members[number] = member.without_rows(rows, matrix if ids is None else matrix[:, ids], weight)
        return replace(self, joined=replace(self.joined, members=members))

    def blocks(
        self, work: Callable[[TopK, Float32], _Part], candidates: TopK, tops: Sequence[TopK], rows: Any,
        n_jobs: int | None,
    ) -> list[_Part]:  # fmt: skip
        """What ``work`` makes of candidates and their columns, some rows at a time."""
        vectors = self._row_vectors(rows, n_jobs)  # of all at once: an encoder has threads of its own

        def block(part: tuple[int, int]) -> _Part:
            span = slice(*part)
            some, answers = candidates.of_rows(span), [top.of_rows(span) for top in tops]
            near = None if vectors is None else vectors[span]
            return work(some, self._columns(some, answers, take(rows, np.arange(*part, dtype=np.int32)), near))

        return map_parallel(block, split_ranges(len(candidates.labels), _ROWS), resolve_jobs(n_jobs))

    def columns(self, candidates: TopK, tops: Sequence[TopK], rows: Any, n_jobs: int | None) -> Float32:
        """The columns of all candidates, of shape (n, k, n_features); zeros where there is no candidate."""
        parts = self.blocks(lambda _, columns: columns, candidates, tops, rows, n_jobs)
        return np.concatenate(parts) if parts else self._columns(candidates, tops, rows, self._row_vectors(rows, 1))

    def _row_vectors(self, rows: Any, n_jobs: int | None) -> Float32 | None:
        """The encoder's vectors of rows; None without an encoder."""
        encoded = self.order.encoded
        return None if encoded is None else encoded.encode(list(rows), n_jobs)

    def _columns(self, candidates: TopK, tops: Sequence[TopK], rows: Any, vectors: Float32 | None) -> Float32:
        # Shapes: candidates (n, k); vectors (n, dim); returns (n, k, n_features)
        order, joined = self.order, self.joined
        parts = [candidate_columns(candidates, tops, order.facts)]
        is_label = candidates.labels >= 0
        for member, ids, top in zip(joined.members, joined.member_ids, tops, strict=True):
            labels = candidates.labels if ids is None else np.where(is_label, ids[candidates.labels], np.int32(-1))
            if isinstance(top, Voted) and member.voters_ is not None:
                parts.append(neighbor_columns(labels, top.nearest, member.voters_))
            if isinstance(member, LexicalMatcher):  # how its words stand in the text, and what ties it to others
                mean = np.where(labels >= 0, candidates.scores, np.float32(0))
                parts += [member.features(rows, labels), company_columns(labels, mean, member.ties_)]
        if order.encoded is not None and vectors is not None:
            parts.append(order.encoded.columns(vectors, candidates.labels))
        if order.values.shape[1]:
            parts.append(np.where(is_label[..., None], order.values[np.maximum(candidates.labels, 0)], np.float32(0)))
        if self.function is not None or order.n_own:
            parts.append(np.where(is_label[..., None], self._of_function(candidates, rows), np.float32(0)))
        return np.concatenate(parts, axis=2) if len(parts) > 1 else parts[0]

    def _of_function(self, candidates: TopK, rows: Any) -> Float32:
        expected = self.order.n_own
        if self.function is None:
            raise ParameterError(
                f"This Reranker learned from {counted(expected or 0, 'column')} of a function, which isn't stored: "
                "give it again, as the parameter 'columns'."
            )
        user_rows = rows.to_scipy() if isinstance(rows, Csr) else rows
        try:
            columns = np.asarray(self.function(user_rows, candidates), np.float32)
        except (TypeError, ValueError) as error:
            raise DataError(f"The 'columns' function of Reranker gives no array of numbers: {error}") from None
        shape = candidates.labels.shape
        if columns.ndim != 3 or columns.shape[:2] != shape or expected not in (None, columns.shape[2]):
            raise DataError(
                f"The 'columns' function of Reranker must give an array of shape ({shape[0]}, {shape[1]}, "
                f"{expected or 'c'}), a number for each candidate and column. Got shape {columns.shape} instead."
            )
        if not 1 <= columns.shape[2] <= MOST_OWN or not np.isfinite(columns).all():
            remark = "" if np.isfinite(columns).all() else ", with infinite numbers or NaN"
            raise DataError(
                f"The 'columns' function of Reranker must give 1 to {MOST_OWN:,} columns of finite numbers. Got "
                f"{counted(columns.shape[2], 'column')}{remark} instead."
            )
        return columns


def label_values(source: Any, n_labels: int, vocabulary: Vocabulary | None) -> Float32:
    """The caller's columns of labels, a row a label; zeros for labels that a mapping doesn't name."""
    if source is None:
        return np.zeros((n_labels, 0), np.float32)
    if isinstance(source, Mapping):
        values = _values_by_name(source, n_labels, vocabulary)
    else:
        try:
            values = np.asarray(source, np.float32)
        except (TypeError, ValueError) as error:
            raise DataError(f"label_columns must be numbers: {error}.") from None
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) != n_labels or not 1 <= values.shape[1] <= MOST_OWN:
            raise DataError(
                f"label_columns must be an array of shape ({n_labels}, c), a row a label, with 1 to {MOST_OWN:,} "
                f"columns, or a mapping from labels' names. Got shape {values.shape} instead."
            )
    if not np.isfinite(values).all():
        raise DataError("label_columns must be finite numbers. Got infinite ones or NaN.")
    return np.ascontiguousarray(values)


def _values_by_name(by_name: Mapping[Any, Any], n_labels: int, vocabulary: Vocabulary | None) -> Float32:
    if vocabulary is None:
        raise DataError("label_columns is a mapping from names, but the labels have none: give an array instead.")
    if not by_name:
        raise DataError("label_columns names no label.")
    rows: dict[Any, Float32] = {}
    for name, value in by_name.items():
        try:
            rows[name] = np.atleast_1d(np.asarray(value, np.float32))
        except (TypeError, ValueError) as error:
            raise DataError(f"label_columns must be numbers, but those of {name!r} aren't: {error}.") from None
    first, width = next((name, row.shape) for name, row in rows.items())
    wrong = next((name for name, row in rows.items() if row.shape != width or row.ndim != 1), None)
    if wrong is not None or not 1 <= width[0] <= MOST_OWN:
        raise DataError(
            f"label_columns must have as many numbers for each label, 1 to {MOST_OWN:,}. Those of "
            f"{first if wrong is None else wrong!r} are others, or another number, than those of {first!r}."
        )
    result = np.zeros((n_labels, width[0]), np.float32)
    for name, row in rows.items():
        if (label := vocabulary.get(name)) is not None:
            result[label] = row
    return result
