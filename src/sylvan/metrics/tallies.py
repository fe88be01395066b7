"""One small class a metric: it adds up blocks of rows and divides at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from sylvan.errors import DataError
from sylvan.metrics.rows import Block

__all__ = ["Coverage", "MacroPrecision", "Ndcg", "Precision", "Psndcg", "Psp", "Recall", "Tally", "discounts"]


def discounts(n: int) -> npt.NDArray[np.float64]:
    """``1 / log2(position + 1)`` for the positions 1 to n."""
    result: npt.NDArray[np.float64] = 1.0 / np.log2(np.arange(2, n + 2))
    return result


class Tally(ABC):
    """A metric at several k, added up block by block."""

    def __init__(self, at: tuple[int, ...]) -> None:
        self.at = at
        self.sums = np.zeros(len(at))
        self.n_rows = 0

    def add(self, block: Block) -> None:
        """Count some rows in."""
        self.n_rows += len(block.sizes)
        for column, k in enumerate(self.at):
            self._add_at(block, column, k)

    @abstractmethod
    def _add_at(self, block: Block, column: int, k: int) -> None:
        """Count some rows in, at one k."""

    def result(self) -> dict[int, float]:
        """The metric at each k."""
        return {k: float(total / self.n_rows) for k, total in zip(self.at, self.sums, strict=True)}


class Precision(Tally):
    """See :func:`sylvan.metrics.precision`."""

    def _add_at(self, block: Block, column: int, k: int) -> None:
        self.sums[column] += np.count_nonzero(block.positions < k) / k


class Recall(Tally):
    """See :func:`sylvan.metrics.recall`."""

    def _add_at(self, block: Block, column: int, k: int) -> None:
        self.sums[column] += (1.0 / block.sizes)[block.row_of[block.positions < k]].sum()


class Ndcg(Tally):
    """See :func:`sylvan.metrics.ndcg`."""

    def __init__(self, at: tuple[int, ...], graded: bool = False) -> None:
        super().__init__(at)
        self.graded = graded

    def add(self, block: Block) -> None:
        self.n_rows += len(block.sizes)
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
            self.sums[column] += (gained / best[block.row_of[hit], column]).sum()

    def _add_at(self, block: Block, column: int, k: int) -> None:
        raise NotImplementedError


class _Weighted(Tally):
    """Gains of 1 / propensity, over the best gains that the same rows could have given."""

    def __init__(self, at: tuple[int, ...], propensities: npt.NDArray[np.float64]) -> None:
        super().__init__(at)
        self.gains = 1.0 / propensities
        self.best = np.zeros(len(at))

    def add(self, block: Block) -> None:
        self.n_rows += len(block.sizes)
        highest = int(block.truths.max(initial=-1))
        if highest >= len(self.gains):
            raise DataError(f"Y has label {highest}, but propensities of {len(self.gains)} labels were given.")
        gains = self.gains[block.truths]
        weights = self.weights(max(*self.at, 1))
        best = block.best_sums(gains, weights, self.at)
        for column, k in enumerate(self.at):
            hit = block.positions < k
            norms = self.norms(block, k)
            gained = gains[hit] * weights[block.positions[hit]]
            self.sums[column] += (gained / norms[block.row_of[hit]]).sum()
            self.best[column] += (best[:, column] / norms).sum()

    def _add_at(self, block: Block, column: int, k: int) -> None:
        raise NotImplementedError

    def weights(self, n: int) -> npt.NDArray[np.float64]:
        """The weight of each position."""
        return np.ones(n)

    def norms(self, block: Block, k: int) -> npt.NDArray[np.float64]:
        """What each row's sum is divided by."""
        return np.full(len(block.sizes), float(k))

    def result(self) -> dict[int, float]:
        return {k: float(self.sums[i] / self.best[i]) for i, k in enumerate(self.at)}


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

    def _add_at(self, block: Block, column: int, k: int) -> None:
        named = block.answers[:, :k]
        self.named[column] += np.bincount(named[named >= 0], minlength=self.n_labels)
        self.right[column] += np.bincount(block.truths[block.positions < k], minlength=self.n_labels)


class MacroPrecision(_PerLabel):
    """See :func:`sylvan.metrics.macro_precision`."""

    def result(self) -> dict[int, float]:
        shares = self.right / np.maximum(self.named, 1)
        return {k: float(shares[i].sum() / self.n_labels) for i, k in enumerate(self.at)}


class Coverage(_PerLabel):
    """See :func:`sylvan.metrics.coverage`."""

    def result(self) -> dict[int, float]:
        there = np.count_nonzero(self.true)
        return {k: float(np.count_nonzero(self.right[i]) / there) for i, k in enumerate(self.at)}
