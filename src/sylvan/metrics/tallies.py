"""The rows of truth and answers, checked once and cut into blocks; metrics that are added up over blocks and divided at
the end: what each says of a row, or of the labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.canonical import pair_keys
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError
from sylvan.labels.targets import true_labels
from sylvan.labels.vocabulary import NamedTopK
from sylvan.params.wording import counted

_BLOCK_ENTRIES = 1 << 20
Answers = TopK | sp.csr_matrix


@dataclass
class Block:
    """Consecutive rows, with everything that the metrics ask of them."""

    offsets: npt.NDArray[np.int64]  # shape (n + 1,): where each row's true labels start
    truths: npt.NDArray[np.int32]  # shape (nnz,): the true labels, row by row
    relevance: npt.NDArray[np.float32]  # shape (nnz,)
    answers: npt.NDArray[np.integer[Any]]  # shape (n, width): the answers, best first; -1 where there is none
    n_labels: int | None  # of the truth; None where it is a guess

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """How many true labels each row has."""
        return np.diff(self.offsets)

    @cached_property
    def row_of(self) -> npt.NDArray[np.int64]:
        """The row of each truth."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def positions(self) -> npt.NDArray[np.int32]:
        """At which position each truth was answered, from 0; beyond every k where it was not."""
        positions = np.full(len(self.truths), np.iinfo(np.int32).max, np.int32)
        for column in range(self.answers.shape[1]):
            positions[self.answers[:, column][self.row_of] == self.truths] = column
        return positions

    def best_sums(
        self, gains: npt.NDArray[np.float64], weights: npt.NDArray[np.float64], at: tuple[int, ...]
    ) -> npt.NDArray[np.float64]:
        """For each row and k, the highest sum of ``gains * weights`` that k answers can reach. ``gains`` has shape
        (nnz,), ``weights`` one falling weight a position; the result has shape (n, len(at))."""
        order = np.lexsort((-gains, self.row_of))
        place = np.arange(len(order)) - np.repeat(self.offsets[:-1], self.sizes)
        result = np.zeros((len(self.sizes), len(at)))
        for column, k in enumerate(at):
            inside = place < k
            gained = gains[order[inside]] * weights[place[inside]]
            result[:, column] = np.bincount(self.row_of[inside], gained, minlength=len(self.sizes))
        return result


def check_truth(Y: Any, top: Any, others: dict[str, int] | None = None) -> validate.Csr:
    """The true labels as canonical CSR, by the ids of the answers: those of named ones by name, of unknown names in
    ``others``. Of answers without names, lists of ids may be followed by answers beyond their highest id."""
    return true_labels(Y, top.vocabulary, others=others) if isinstance(top, NamedTopK) else validate.labels(Y)


def check_answers(top: Any, truth: validate.Csr, width: int, inferred: bool) -> Answers:
    """The answers, checked against the truth; ``inferred`` says that the number of labels is only a guess."""
    if isinstance(top, np.ndarray) and top.ndim == 2 and top.dtype.kind == "f":  # probabilities of a few classes
        rows, labels = np.nonzero(np.ones_like(top) if (top < 0).any() else top)  # among negative scores, 0 is one too
        top = sp.csr_matrix((top[rows, labels], (rows, labels)), top.shape)
    if sp.issparse(top):
        return _check_scores(top, truth, inferred)
    if not isinstance(top, TopK):
        raise DataError(
            f"The answers must be a TopK or a matrix of scores, but are a {type(top).__name__}. "
            "TopK(labels, scores) makes one of two arrays of shape (n, k)."
        )
    n_labels = truth.shape[1]
    if len(top) != truth.shape[0]:
        raise DataError(f"Y has shape {truth.shape}, but the answers have shape {top.labels.shape}: other rows.")
    if top.labels.dtype.kind not in "iu":
        raise DataError(f"The labels of a TopK must be ints. Got {top.labels.dtype} instead.")
    low, high = (int(top.labels.min()), int(top.labels.max())) if top.labels.size else (-1, -1)
    if top.k < width and top.k < max(n_labels, high + 1):
        raise DataError(
            f"A metric at {width} needs {counted(width, 'answer')} a row, but the TopK holds {top.k}. Rank with "
            f"k={width}, or ask for metrics at {top.k} and less."
        )
    if low < -1 or (high >= n_labels and not inferred):
        raise DataError(f"Y has {counted(n_labels, 'label')}, but the answers name label {low if low < -1 else high}.")
    return top


def refuse_twice(labels: npt.NDArray[np.integer[Any]], rows: npt.NDArray[np.integer[Any]]) -> None:
    """Refuse answers to ``rows`` that name a label twice: it would be counted twice."""
    ordered = np.sort(labels, axis=1)
    twice = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    if twice.any():
        raise DataError(f"The answers name a label twice in row {rows[twice.argmax()]}.")


def _check_scores(scores: Any, truth: validate.Csr, inferred: bool) -> sp.csr_matrix:
    try:
        scores.check_format() if scores.format == "csr" else None
        matrix = sp.csr_matrix(scores)
    except ValueError as error:
        raise DataError(f"The scores are an inconsistent sparse matrix: {error}.") from error
    same = matrix.shape[0] == truth.shape[0] and (inferred or matrix.shape[1] == truth.shape[1])
    if not same:
        raise DataError(f"Y has shape {truth.shape}, but the scores have shape {matrix.shape}.")
    if inferred and truth.shape[1] > matrix.shape[1]:
        raise DataError(
            f"Y names label {truth.shape[1] - 1}, but the scores have {counted(matrix.shape[1], 'column')}, numbered "
            "from 0. Where classes have other numbers, give the named answers of rank, or Y by the model's "
            "vocabulary_.encode."
        )
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"Scores must be real numbers. Got {matrix.dtype} instead.")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if np.isnan(matrix.data).any():
        row = int(np.searchsorted(matrix.indptr, np.isnan(matrix.data).argmax(), side="right")) - 1
        raise DataError(f"The scores hold NaN in row {row}.")
    return matrix


def blocks(truth: validate.Csr, answers: Answers, width: int, inferred: bool = False) -> Iterator[Block]:
    """The rows with at least one true label, in blocks of bounded size."""
    start, n_rows, n_labels = 0, truth.shape[0], None if inferred else truth.shape[1]
    while start < n_rows:
        stop = int(np.searchsorted(truth.indptr, truth.indptr[start] + _BLOCK_ENTRIES, side="right")) - 1
        stop = max(start + 1, min(stop, n_rows, start + _BLOCK_ENTRIES // width))
        labels = _top(answers, start, stop, width)
        first, last = truth.indptr[start], truth.indptr[stop]
        offsets = truth.indptr[start : stop + 1] - first
        used = np.diff(offsets) > 0
        if not used.all():
            offsets = np.concatenate((offsets[:-1][used], offsets[-1:]))
            labels = labels[used]
        refuse_twice(labels, start + np.flatnonzero(used))
        if len(labels):
            yield Block(offsets, truth.indices[first:last], truth.data[first:last], labels, n_labels)
        start = stop


def _top(answers: TopK | sp.csr_matrix, start: int, stop: int, width: int) -> npt.NDArray[np.integer[Any]]:
    """The first ``width`` answers of some rows, fewer where there are none."""
    if isinstance(answers, TopK):
        return answers.labels[start:stop, :width]
    first, last = int(answers.indptr[start]), int(answers.indptr[stop])
    sizes = np.diff(answers.indptr[start : stop + 1])
    labels, scores = answers.indices[first:last], -answers.data[first:last].astype(np.float64)
    row_of = np.repeat(np.arange(stop - start), sizes)
    place = np.arange(last - first) - np.repeat(answers.indptr[start:stop] - first, sizes)
    widest = int(sizes.max(initial=0))
    result = np.full((stop - start, width), -1, np.int64)
    if widest * len(sizes) <= 4 * len(labels):
        # Rows of much the same length: sorting the rows of a rectangle takes a fifth of the time.
        padded = np.full((stop - start, widest), np.inf)
        padded[row_of, place] = scores
        rectangle = np.full((stop - start, widest), -1, np.int64)
        rectangle[row_of, place] = labels
        order = np.argsort(padded, axis=1, kind="stable")[:, :width]
        result[:, : order.shape[1]] = np.take_along_axis(rectangle, order, axis=1)
        return result
    order = np.lexsort((labels, scores, row_of))
    inside = place < width
    result[row_of[inside], place[inside]] = labels[order[inside]]
    return result


def is_inferred(Y: Any) -> bool:
    """Whether the number of labels is a guess: lists of ids name no more than the highest."""
    return not (sp.issparse(Y) or isinstance(Y, validate.Csr) or getattr(Y, "ndim", 1) == 2)


def as_top(answers: TopK | sp.csr_matrix, width: int) -> TopK:
    """Checked answers as labels and scores of the first ``width`` places."""
    if isinstance(answers, TopK):
        return TopK(answers.labels[:, :width], answers.scores[:, :width])
    labels = _top(answers, 0, answers.shape[0], width)
    scores = np.full(labels.shape, -np.inf, np.float32)
    rows, places = np.nonzero(labels >= 0)
    keys = rows * answers.shape[1] + labels[rows, places]
    scores[rows, places] = answers.data[np.searchsorted(pair_keys(answers, answers.shape[1]), keys)]
    return TopK(labels.astype(np.int32), scores)


def hits(top: TopK, labels: validate.Csr) -> npt.NDArray[np.bool_]:
    """Which answers are true labels of their row, shape (n, k)."""
    n_rows, n_labels = labels.shape
    truths = pair_keys(labels, n_labels)
    answers = np.arange(n_rows, dtype=np.int64)[:, None] * np.int64(n_labels) + top.labels
    if not len(truths):
        return np.zeros(answers.shape, bool)
    nearest = truths[np.minimum(np.searchsorted(truths, answers), len(truths) - 1)]
    result: npt.NDArray[np.bool_] = (nearest == answers) & (top.labels >= 0) & (top.labels < n_labels)
    return result


def filter_answers(top: TopK, pairs: Any) -> TopK:
    """A ranking without the answers of some (row, label) pairs; those below them move up.

    So that k answers are left, rank more than k: by as many as a row of ``pairs`` has entries at most.

    Parameters
    ----------
    top : TopK of shape (n, k)
    pairs : sparse matrix, shape (n, n_labels)
        Its stored entries are the pairs, as :func:`sylvan.data.load_filter_labels` reads them. The true labels stay as
        they are, as in the repository's own evaluations.

    Returns
    -------
    TopK of shape (n, k)
        Rows that lost answers end in -1.

    Raises
    ------
    DataError
        When ``pairs`` is no sparse matrix or has another number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2, 0, 1]], np.int32), np.array([[0.9, 0.4, 0.1]], np.float32))
    >>> metrics.filter_answers(top, sp.csr_matrix([[0, 0, 1]])).labels.tolist()
    [[0, 1, -1]]
    """
    if not sp.issparse(pairs):
        raise DataError(f"The pairs to filter must be a sparse matrix. Got {type(pairs).__name__} instead.")
    sparse: Any = pairs
    matrix = sparse.tocsr()
    if matrix.shape[0] != len(top):
        raise DataError(f"The pairs to filter have {counted(matrix.shape[0], 'row')}, but the answers {len(top)}.")
    width = np.int64(max(matrix.shape[1], int(top.labels.max(initial=0)) + 1))
    answers = np.arange(len(top), dtype=np.int64)[:, None] * width + top.labels
    counts = ~np.isin(answers, pair_keys(matrix, width)) | (top.labels < 0)
    order = np.argsort(~counts, axis=1, kind="stable")
    labels = np.where(counts, top.labels, np.int32(-1))
    scores = np.where(counts, top.scores, np.float32(-np.inf))
    return replace(top, labels=np.take_along_axis(labels, order, 1), scores=np.take_along_axis(scores, order, 1))


At = tuple[int, ...]
Floats = npt.NDArray[np.float64]
Rows = Iterator[tuple[Floats, Floats]]  # for each k, what each row gained and what it could have
Counts = npt.NDArray[np.int64]
# Shares of each label at each k, of shape (len(at), n_labels), whose sums over labels are divided by a number.
Shares = tuple[npt.NDArray[Any], int]


class Tally(ABC):
    """A metric at several k, added up block by block."""

    def __init__(self, at: At) -> None:
        self.at, self.n_rows = at, 0

    def add(self, block: Block) -> None:
        """Count some rows in."""
        self.n_rows += len(block.sizes)

    @abstractmethod
    def result(self) -> dict[int, float]:
        """The metric at each k."""


class RowTally(Tally):
    """A metric that is what all rows gained over what they could have: a mean where each could have 1."""

    def __init__(self, at: At, rows: Callable[[Block, At], Rows]) -> None:
        super().__init__(at)
        self.rows, self.gained, self.possible = rows, np.zeros(len(at)), np.zeros(len(at))
        # Sums over rows of gained², gained x possible and possible².
        self.products = np.zeros((3, len(at)))

    def add(self, block: Block) -> None:
        super().add(block)
        for column, (gained, possible) in enumerate(self.rows(block, self.at)):
            self.gained[column] += gained.sum()
            self.possible[column] += possible.sum()
            self.products[:, column] += gained @ gained, gained @ possible, possible @ possible

    def result(self) -> dict[int, float]:
        pairs = zip(self.at, self.gained, self.possible, strict=True)
        return {k: float(gained / possible) if possible else 0.0 for k, gained, possible in pairs}

    def standard_errors(self) -> dict[int, float]:
        """Of each value of :meth:`result`, for rows drawn at random: the delta method for a quotient of two sums."""
        n, quotient = self.n_rows, self.gained / self.possible
        squares, crossed, possible = self.products
        spread = np.maximum(squares - 2 * quotient * crossed + quotient**2 * possible, 0)
        errors = np.sqrt(spread * n / (n - 1)) / self.possible if n > 1 else np.full(len(self.at), np.inf)
        return {k: float(error) for k, error in zip(self.at, errors, strict=True)}


def _per_row(block: Block, truths: npt.NDArray[np.bool_], gains: Floats | None = None) -> Floats:
    """The sums over each row of its chosen truths' gains, 1 each without any."""
    return np.bincount(block.row_of[truths], gains, minlength=len(block.sizes)).astype(np.float64)


def _of_truths(block: Block, values: npt.NDArray[Any], noun: str) -> npt.NDArray[Any]:
    """What a label's number stands for, of each true label."""
    highest, n_labels = int(block.truths.max(initial=-1)), block.n_labels
    if highest >= len(values) or n_labels not in (None, len(values)):
        found = f"label {highest}" if n_labels is None else counted(n_labels, "label")
        raise DataError(f"Y has {found}, but {noun} of {counted(len(values), 'label')} were given.")
    return values[block.truths]


def discounts(n: int) -> Floats:
    """``1 / log2(position + 1)`` for the positions 1 to n."""
    return np.divide(1.0, np.log2(np.arange(2, n + 2)))


def precision(block: Block, at: At) -> Rows:
    """See :func:`sylvan.metrics.precision`."""
    for k in at:
        yield _per_row(block, block.positions < k), np.full(len(block.sizes), float(k))


def recall(block: Block, at: At) -> Rows:
    """See :func:`sylvan.metrics.recall`."""
    for k in at:
        yield _per_row(block, block.positions < k) / block.sizes, np.ones(len(block.sizes))


def f1(block: Block, at: At) -> Rows:
    """See :func:`sylvan.metrics.f1`."""
    for gained, possible in micro_f1(block, at):
        yield gained / possible, np.ones(len(block.sizes))


def micro_f1(block: Block, at: At) -> Rows:
    """See :func:`sylvan.metrics.micro_f1`."""
    for k in at:
        yield 2 * _per_row(block, block.positions < k), (block.answers[:, :k] >= 0).sum(axis=1) + block.sizes * 1.0


def ndcg(block: Block, at: At, graded: bool = False) -> Rows:
    """See :func:`sylvan.metrics.ndcg`."""
    weights, gains = discounts(max(*at, 1)), block.relevance.astype(np.float64)
    reach = np.concatenate(([0.0], np.cumsum(weights)))
    best = block.best_sums(gains, weights, at) if graded else None
    for column, k in enumerate(at):
        hit = block.positions < k
        gained = weights[block.positions[hit]] * (gains[hit] if graded else 1.0)
        most = reach[np.minimum(block.sizes, k)] if best is None else best[:, column]
        yield _per_row(block, hit, gained) / most, np.ones(len(block.sizes))


def psp(block: Block, at: At, propensities: Floats, discounted: bool = False) -> Rows:
    """Gains of 1 / propensity, over the best gains that the same rows could have given: see :func:`sylvan.metrics.psp`,
    and ``discounted`` :func:`sylvan.metrics.psndcg`."""
    gains = 1.0 / _of_truths(block, propensities, "propensities")
    weights = discounts(max(*at, 1)) if discounted else np.ones(max(*at, 1))
    best = block.best_sums(gains, weights, at)
    for column, k in enumerate(at):
        hit = block.positions < k
        norms = np.cumsum(discounts(k))[np.minimum(block.sizes, k) - 1] if discounted else float(k)
        yield _per_row(block, hit, gains[hit] * weights[block.positions[hit]]) / norms, best[:, column] / norms


def of_slice(block: Block, at: At, slice_of: npt.NDArray[np.int8], number: int, recalled: bool) -> Rows:
    """Precision, or ``recalled`` recall, of the labels of one slice; see :func:`sylvan.metrics.slices`."""
    inside = _of_truths(block, slice_of, "counts") == number
    sizes = _per_row(block, inside)
    possible = (sizes > 0).astype(np.float64) if recalled else np.ones(len(sizes))
    for k in at:
        yield _per_row(block, inside & (block.positions < k)) / (np.maximum(sizes, 1) if recalled else k), possible


class LabelTally(Tally):
    """A metric of counts of each label; they grow when a block names a higher label."""

    def __init__(self, at: At, shares: Callable[[Counts, Counts, Counts], Shares]) -> None:
        super().__init__(at)
        self.shares = shares
        self.right, self.named = np.zeros((len(at), 0), np.int64), np.zeros((len(at), 0), np.int64)
        self.true = np.zeros(0, np.int64)
        self.others: dict[str, int] = {}  # ids of names that answers don't know

    def reserve(self, n_labels: int) -> None:
        """There are at least this many labels."""
        n_new = max(0, n_labels - len(self.true))
        self.right, self.named = (np.pad(counts, ((0, 0), (0, n_new))) for counts in (self.right, self.named))
        self.true = np.pad(self.true, (0, n_new))

    def add(self, block: Block) -> None:
        super().add(block)
        self.reserve(max(int(block.truths.max(initial=-1)), int(block.answers.max(initial=-1))) + 1)
        n_labels = len(self.true)
        self.true += np.bincount(block.truths, minlength=n_labels)
        for column, k in enumerate(self.at):
            named = block.answers[:, :k]
            self.named[column] += np.bincount(named[named >= 0], minlength=n_labels)
            self.right[column] += np.bincount(block.truths[block.positions < k], minlength=n_labels)

    def result(self) -> dict[int, float]:
        shares, n = self.shares(self.right, self.named, self.true)
        return {k: float(row.sum() / n) for k, row in zip(self.at, shares, strict=True)}


def macro_precision(right: Counts, named: Counts, true: Counts) -> Shares:
    """See :func:`sylvan.metrics.macro_precision`."""
    return right / np.maximum(named, 1), len(true)


def macro_recall(right: Counts, named: Counts, true: Counts) -> Shares:
    """See :func:`sylvan.metrics.macro_recall`."""
    return right / np.maximum(true, 1), len(true)


def macro_f1(right: Counts, named: Counts, true: Counts) -> Shares:
    """See :func:`sylvan.metrics.macro_f1`."""
    return 2 * right / np.maximum(named + true, 1), len(true)


def coverage(right: Counts, named: Counts, true: Counts) -> Shares:
    """See :func:`sylvan.metrics.coverage`."""
    return right > 0, int(np.count_nonzero(true))
