"""One small class a metric: it adds up blocks of rows and divides at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sylvan.errors import DataError
from sylvan.metrics.rows import Block
from sylvan.params.wording import counted

Floats = npt.NDArray[np.float64]


def discounts(n: int) -> npt.NDArray[np.float64]:
    """``1 / log2(position + 1)`` for the positions 1 to n."""
    result: npt.NDArray[np.float64] = 1.0 / np.log2(np.arange(2, n + 2))
    return result


class Tally(ABC):
    """A metric at several k, added up block by block."""

    def __init__(self, at: tuple[int, ...]) -> None:
        self.at = at
        self.n_rows = 0

    def add(self, block: Block) -> None:
        """Count some rows in."""
        self.n_rows += len(block.sizes)

    @abstractmethod
    def result(self) -> dict[int, float]:
        """The metric at each k."""


class RowTally(Tally):
    """A metric that is what all rows gained over what they could have: a mean where each could have 1."""

    def __init__(self, at: tuple[int, ...]) -> None:
        super().__init__(at)
        self.gained, self.possible = np.zeros(len(at)), np.zeros(len(at))
        # Sums over rows of gained², gained x possible and possible².
        self.products = np.zeros((3, len(at)))

    def add(self, block: Block) -> None:
        super().add(block)
        for column, (gained, possible) in enumerate(self.rows(block)):
            self.gained[column] += gained.sum()
            self.possible[column] += possible.sum()
            self.products[:, column] += gained @ gained, gained @ possible, possible @ possible

    @abstractmethod
    def rows(self, block: Block) -> Iterator[tuple[Floats, Floats]]:
        """For each k, what each row gained and what it could have."""

    def result(self) -> dict[int, float]:
        return {k: float(self.gained[i] / self.possible[i]) for i, k in enumerate(self.at)}

    def standard_errors(self) -> dict[int, float]:
        """Of each value of :meth:`result`, for rows drawn at random: the delta method for a quotient of two sums."""
        n, quotient = self.n_rows, self.gained / self.possible
        squares, crossed, possible = self.products
        spread = np.maximum(squares - 2 * quotient * crossed + quotient**2 * possible, 0)
        errors = np.sqrt(spread * n / (n - 1)) / self.possible if n > 1 else np.full(len(self.at), np.inf)
        return {k: float(error) for k, error in zip(self.at, errors, strict=True)}


def _per_row(block: Block, truths: npt.NDArray[np.bool_], gains: Floats | None = None) -> Floats:
    """The sums over each row of its chosen truths' gains, 1 each without any."""
    result: Floats = np.bincount(block.row_of[truths], gains, minlength=len(block.sizes)).astype(np.float64)
    return result


class Precision(RowTally):
    """See :func:`sylvan.metrics.precision`."""

    def rows(self, block: Block) -> Iterator[tuple[Floats, Floats]]:
        for k in self.at:
            yield _per_row(block, block.positions < k), np.full(len(block.sizes), float(k))


class Recall(RowTally):
    """See :func:`sylvan.metrics.recall`."""

    def rows(self, block: Block) -> Iterator[tuple[Floats, Floats]]:
        for k in self.at:
            yield _per_row(block, block.positions < k) / block.sizes, np.ones(len(block.sizes))


def _answered(block: Block, k: int) -> Floats:
    """How many answers each row has among the first ``k``."""
    result: Floats = np.count_nonzero(block.answers[:, :k] >= 0, axis=1).astype(np.float64)
    return result


class F1(RowTally):
    """See :func:`sylvan.metrics.evaluator`."""

    def rows(self, block: Block) -> Iterator[tuple[Floats, Floats]]:
        for k in self.at:
            both = _answered(block, k) + block.sizes
            yield 2 * _per_row(block, block.positions < k) / both, np.ones(len(block.sizes))


class MicroF1(RowTally):
    """See :func:`sylvan.metrics.micro_f1`."""

    def rows(self, block: Block) -> Iterator[tuple[Floats, Floats]]:
        for k in self.at:
            yield 2 * _per_row(block, block.positions < k), _answered(block, k) + block.sizes


class Ndcg(RowTally):
    """See :func:`sylvan.metrics.ndcg`."""

    def __init__(self, at: tuple[int, ...], graded: bool = False) -> None:
        super().__init__(at)
        self.graded = graded

    def rows(self, block: Block) -> Iterator[tuple[Floats, Floats]]:
        weights = discounts(max(*self.at, 1))
        gains = block.relevance.astype(np.float64) if self.graded else None
        if gains is None:
            reach = np.concatenate(([0.0], np.cumsum(weights)))
            best = np.stack([reach[np.minimum(block.sizes, k)] for k in self.at], axis=1)
        else:
            best = block.best_sums(gains, weights, self.at)
        for column, k in enumerate(self.at):
            hit = block.positions < k
            gained = weights[block.positions[hit]] * (1.0 if gains is None else gains[hit])
            yield _per_row(block, hit, gained) / best[:, column], np.ones(len(block.sizes))


class _Weighted(RowTally):
    """Gains of 1 / propensity, over the best gains that the same rows could have given."""

    def __init__(self, at: tuple[int, ...], propensities: npt.NDArray[np.float64]) -> None:
        super().__init__(at)
        self.gains = 1.0 / propensities

    def rows(self, block: Block) -> Iterator[tuple[Floats, Floats]]:
        highest = int(block.truths.max(initial=-1))
        if highest >= len(self.gains):
            raise DataError(
                f"Y has label {highest}, but propensities of {counted(len(self.gains), 'label')} were given."
            )
        gains = self.gains[block.truths]
        weights = self.weights(max(*self.at, 1))
        best = block.best_sums(gains, weights, self.at)
        for column, k in enumerate(self.at):
            hit = block.positions < k
            norms = self.norms(block, k)
            yield _per_row(block, hit, gains[hit] * weights[block.positions[hit]]) / norms, best[:, column] / norms

    def weights(self, n: int) -> npt.NDArray[np.float64]:
        """The weight of each position."""
        return np.ones(n)

    def norms(self, block: Block, k: int) -> npt.NDArray[np.float64]:
        """What each row's sum is divided by."""
        return np.full(len(block.sizes), float(k))


class Psp(_Weighted):
    """See :func:`sylvan.metrics.psp`."""


class Psndcg(_Weighted):
    """See :func:`sylvan.metrics.psndcg`."""

    def weights(self, n: int) -> npt.NDArray[np.float64]:
        return discounts(n)

    def norms(self, block: Block, k: int) -> npt.NDArray[np.float64]:
        reach: npt.NDArray[np.float64] = np.cumsum(discounts(k))
        norms: npt.NDArray[np.float64] = reach[np.minimum(block.sizes, k) - 1]
        return norms


class _PerLabel(Tally):
    """Counts of each label; they grow when a block names a higher label."""

    def __init__(self, at: tuple[int, ...]) -> None:
        super().__init__(at)
        self.n_labels = 0
        self.right = np.zeros((len(at), 0), np.int64)
        self.named = np.zeros((len(at), 0), np.int64)
        self.true = np.zeros(0, np.int64)

    def reserve(self, n_labels: int) -> None:
        """There are at least this many labels."""
        self.n_labels = max(self.n_labels, n_labels)
        more = self.n_labels - len(self.true)
        self.right, self.named = (np.pad(counts, ((0, 0), (0, more))) for counts in (self.right, self.named))
        self.true = np.pad(self.true, (0, more))

    def add(self, block: Block) -> None:
        highest = max(int(block.truths.max(initial=-1)), int(block.answers.max(initial=-1)))
        self.reserve(highest + 1)
        self.true += np.bincount(block.truths, minlength=self.n_labels)
        super().add(block)
        for column, k in enumerate(self.at):
            named = block.answers[:, :k]
            self.named[column] += np.bincount(named[named >= 0], minlength=self.n_labels)
            self.right[column] += np.bincount(block.truths[block.positions < k], minlength=self.n_labels)


class MacroPrecision(_PerLabel):
    """See :func:`sylvan.metrics.macro_precision`."""

    def result(self) -> dict[int, float]:
        shares = self.right / np.maximum(self.named, 1)
        return {k: float(shares[i].sum() / self.n_labels) for i, k in enumerate(self.at)}


class MacroRecall(MacroPrecision):
    """See :func:`sylvan.metrics.macro_recall`."""

    def result(self) -> dict[int, float]:
        shares = self.right / np.maximum(self.true, 1)
        return {k: float(shares[i].sum() / self.n_labels) for i, k in enumerate(self.at)}


class MacroF1(MacroPrecision):
    """See :func:`sylvan.metrics.macro_f1`."""

    def result(self) -> dict[int, float]:
        shares = 2 * self.right / np.maximum(self.named + self.true, 1)
        return {k: float(shares[i].sum() / self.n_labels) for i, k in enumerate(self.at)}


class Coverage(_PerLabel):
    """See :func:`sylvan.metrics.coverage`."""

    def result(self) -> dict[int, float]:
        there = np.count_nonzero(self.true)
        return {k: float(np.count_nonzero(self.right[i]) / there) for i, k in enumerate(self.at)}
