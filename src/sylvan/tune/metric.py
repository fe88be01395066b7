"""What a tuning maximises: a metric by name, and the score of each holdout row for its interval."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays.topk import TopK, resized
from sylvan.arrays.validate import Csr
from sylvan.errors import ParameterError
from sylvan.metrics import propensities_of_counts
from sylvan.metrics.rows import Block, blocks, hits
from sylvan.metrics.tallies import Ndcg, Precision, Psndcg, Psp, Recall, RowTally
from sylvan.ranking.stopping import StoppingRule

Floats = npt.NDArray[np.float64]
NAMES = ("P", "R", "nDCG", "PSP", "PSnDCG", "F1", "macro-recall")
_TAILS = {"PSP": "psp", "PSnDCG": "psp", "macro-recall": "macro_recall"}
_MOST = 100  # answers a row that trials are asked for


class F1(RowTally):
    """F1 of each row's first k answers; the mean over rows."""

    def rows(self, block: Block) -> Iterator[tuple[Floats, Floats]]:
        """See :class:`~sylvan.metrics.tallies.RowTally`."""
        for k in self.at:
            right = np.bincount(block.row_of[block.positions < k], minlength=len(block.sizes)).astype(np.float64)
            given = (block.answers[:, :k] >= 0).astype(np.float64).sum(axis=1)
            yield 2 * right / (given + block.sizes), np.ones(len(block.sizes))


@dataclass(frozen=True)
class RowScores:
    """What each row gained and what it could have; the score is the quotient of their sums."""

    gained: Floats
    possible: Floats

    def value(self, weights: Floats | None = None) -> float:
        """The score, of rows that count so many times each."""
        if weights is None:
            return float(self.gained.sum() / self.possible.sum())
        return float(weights @ self.gained) / max(float(weights @ self.possible), 1e-300)


@dataclass(frozen=True)
class LabelScores:
    """The row, the label and the success of every true label; the score is the mean over labels of their recall."""

    rows: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    right: npt.NDArray[np.bool_]
    n_labels: int

    def value(self, weights: Floats | None = None) -> float:
        """The score, of rows that count so many times each."""
        counted = np.ones(len(self.rows)) if weights is None else weights[self.rows]
        true = np.bincount(self.labels, counted, self.n_labels)
        right = np.bincount(self.labels, counted * self.right, self.n_labels)
        return float((right / np.where(true > 0, true, 1)).sum() / self.n_labels)


@dataclass(frozen=True)
class Metric:
    """A metric by its name, such as ``"P@5"``."""

    name: str  # as messages show it
    kind: str  # one of "P", "R", "nDCG", "PSP", "PSnDCG", "F1" and "macro-recall"
    k: int | None  # how many answers count; None for F1 of as many as the expected F1 says

    @classmethod
    def of(cls, name: Any) -> Metric:
        """The metric of that name."""
        match = re.fullmatch(r"([A-Za-z0-9-]+?)(?:@([0-9]+))?", name) if isinstance(name, str) else None
        kinds = {known.lower(): known for known in NAMES}
        kind = kinds.get(match[1].lower()) if match else None
        k = int(match[2]) if match and match[2] else None if kind == "F1" else 5
        if kind is None or (k is not None and not 1 <= k <= _MOST):
            known = ", ".join(f"{one}@k" for one in NAMES)
            raise ParameterError(
                f"The 'metric' parameter must be one of {known} with k in [1, {_MOST}], as in 'P@5', or 'F1'. "
                f"Got {name!r} instead."
            )
        return cls(kind if k is None else f"{kind}@{k}", kind, k)

    @property
    def tail(self) -> str | None:
        """The way of ranking that is made for this metric."""
        return _TAILS.get(self.kind)

    def scores(self, truth: Csr, top: TopK, counts: npt.NDArray[np.int64], n_rows: int) -> RowScores | LabelScores:
        """The score of each row of a ranking."""
        # Shape: counts (n_labels,)
        if self.k is None:
            top = StoppingRule.of(None, None, "f1", None, truth.shape[1])(top)
        k = max(1, top.k) if self.k is None else self.k
        top = resized(top, max(k, top.k))
        if self.kind == "macro-recall":
            return _label_scores(truth, top, k)
        simple: dict[str, Callable[[tuple[int, ...]], RowTally]] = {
            "P": Precision, "R": Recall, "nDCG": Ndcg, "F1": F1
        }  # fmt: skip
        if self.kind in simple:
            tally = simple[self.kind]((k,))
        else:
            likely = propensities_of_counts(counts, n_rows)
            tally = Psp((k,), likely) if self.kind == "PSP" else Psndcg((k,), likely)
        parts = [next(iter(tally.rows(block))) for block in blocks(truth, top, k)]
        return RowScores(np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]))


def _label_scores(truth: Csr, top: TopK, k: int) -> LabelScores:
    answers = TopK(top.labels[:, :k], top.scores[:, :k])
    right = hits(answers, truth)
    n_labels = np.int64(truth.shape[1])
    rows = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
    at = np.nonzero(right)
    found = at[0] * n_labels + answers.labels[at]
    return LabelScores(rows, truth.indices, np.isin(rows * n_labels + truth.indices, found), truth.shape[1])


def bootstrap(
    best: RowScores | LabelScores,
    usual: RowScores | LabelScores,
    n_rows: int,
    seed: int = 0,
    times: int = 1000,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """The interval of how much better ``best`` is than ``usual``, over other holdouts of the same kind. Both are scores
    of the same rows, which are drawn with replacement ``times`` times: a paired bootstrap (Efron and Tibshirani 1993,
    "An Introduction to the Bootstrap", Section 13.3, on percentile intervals). It doesn't know that the best was chosen
    among many on these rows, so its lower end is a little too high."""
    rng = np.random.default_rng(seed)
    differences = np.empty(times)
    for at in range(times):
        weights = np.bincount(rng.integers(0, n_rows, n_rows), minlength=n_rows).astype(np.float64)
        differences[at] = best.value(weights) - usual.value(weights)
    low, high = np.quantile(differences, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
