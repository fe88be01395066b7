"""Metrics that are added up over blocks of rows and divided at the end: what each says of a row, or of the labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import DataError
from sylvan.metrics.rows import Block
from sylvan.params.wording import counted

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


def _of_truths(block: Block, values: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    """What a label's number stands for, of each true label."""
    highest = int(block.truths.max(initial=-1))
    if highest >= len(values):
        raise DataError(f"Y has label {highest}, but {what} of {counted(len(values), 'label')} were given.")
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

    def reserve(self, n_labels: int) -> None:
        """There are at least this many labels."""
        more = max(0, n_labels - len(self.true))
        self.right, self.named = (np.pad(counts, ((0, 0), (0, more))) for counts in (self.right, self.named))
        self.true = np.pad(self.true, (0, more))

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
