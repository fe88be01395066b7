"""Answers as pairs of a row and a label: what a threshold or a number of answers gives, of all labels or of some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays.topk import TopK
from sylvan.metrics import tallies
from sylvan.metrics.resampling import interval, share_interval
from sylvan.metrics.tallies import check_truth, hits

GRID = np.arange(1, 100) / 100  # the thresholds that are tried for a wanted precision
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Pairs:
    """The answers of rows, pair by pair, and the true labels."""

    n_rows: int
    rows: Ints
    labels: Ints
    places: Ints  # from 0, the best answer of the row
    scores: npt.NDArray[np.float32]  # probabilities, where the answers have them
    right: Bools
    true_rows: Ints
    true_labels: Ints

    @classmethod
    def of(cls, Y: Any, top: TopK) -> Pairs:
        """Of true labels, in any form that metrics take, and a ranking."""
        truth = check_truth(Y, top)
        rows, places = np.nonzero(top.labels >= 0)
        true_rows = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
        right = hits(top, truth)[rows, places]
        return cls(
            len(top), rows, top.labels[rows, places], places, top.scores[rows, places], right, true_rows, truth.indices
        )  # fmt: skip

    def from_threshold(self, threshold: float) -> Bools:
        """The answers with at least this probability, as ``predict`` takes them."""
        return np.asarray(self.scores >= np.float32(threshold))

    def first(self, k: int) -> Bools:
        """The first answers of each row."""
        return self.places < k

    def counts(self, chosen: Bools, members: Bools | None = None) -> Ints:
        """For each row, how many answers are chosen, how many of them are right, and how many labels are true; of all
        labels, or only of ``members``, true for those that count."""
        # Shape: chosen (n_pairs,), members (n_labels,); returns (n_rows, 3)
        true = self.true_rows
        if members is not None:
            chosen, true = chosen & members[self.labels], true[members[self.true_labels]]
        rows = self.rows[chosen], self.rows[chosen & self.right], true
        return np.stack([np.bincount(each, minlength=self.n_rows) for each in rows], axis=1)

    def rates(self, chosen: Bools, members: Bools | None = None) -> dict[str, float]:
        """Precision, recall and F1 of the pairs together, and per row what is chosen; NaN for a share of nothing."""
        counts = self.counts(chosen, members)
        named, right, true = counts.sum(axis=0).tolist()
        wrong = counts[:, 0] > counts[:, 1]
        return {
            "precision": right / named if named else np.nan, "recall": right / true if true else np.nan,
            "f1": 2 * right / (named + true) if named + true else np.nan, "labels": named / self.n_rows,
            "none": float(np.mean(counts[:, 0] == 0)), "all_right": float(np.mean((counts[:, 0] > 0) & ~wrong)),
        }  # fmt: skip

    def intervals(self, chosen: Bools, members: Bools | None = None) -> dict[str, tuple[float, float]]:
        """Of precision, recall and F1, with other rows of the same kind: by the bootstrap over rows."""
        named, right, true = self.counts(chosen, members).T
        both = np.stack([2 * right, named + true], axis=1)
        return {
            "precision": share_interval(right, named), "recall": share_interval(right, true),
            "f1": interval(both, lambda sums: sums[0] / sums[1]),
        }  # fmt: skip

    def precisions(self, members: Bools | None = None) -> npt.NDArray[np.float64]:
        """The precision at each threshold of :data:`GRID`; NaN where there are no answers."""
        inside = slice(None) if members is None else members[self.labels]
        order = np.argsort(-self.scores[inside], kind="stable")
        right = np.concatenate([[0], np.cumsum(self.right[inside][order])])
        named = np.searchsorted(-self.scores[inside][order], -GRID.astype(np.float32), side="right")
        with np.errstate(invalid="ignore"):
            return np.asarray(right[named] / named)

    def macro_precisions(self) -> npt.NDArray[np.float64]:
        """As :meth:`precisions`, the mean over the labels that are among the answers at that threshold."""
        result = np.full(len(GRID), np.nan)
        for place, threshold in enumerate(GRID):
            chosen = self.from_threshold(threshold)
            named, right = np.bincount(self.labels[chosen]), np.bincount(self.labels[chosen], self.right[chosen])
            if len(named):
                result[place] = (right[named > 0] / named[named > 0]).mean()
        return result


def row_values(Y: Any, top: TopK, at: Sequence[int]) -> dict[str, npt.NDArray[np.float64]]:
    """P, R, nDCG and F1 of each row at each k, of which the metrics are means; every row has a true label."""
    # Returns arrays of shape (n, len(at))
    truth, at = check_truth(Y, top), tuple(at)
    measures = {"P": tallies.precision, "R": tallies.recall, "nDCG": tallies.ndcg, "F1": tallies.f1}
    found: dict[str, list[Any]] = {name: [] for name in measures}
    for block in tallies.blocks(truth, top, max(at)):
        for name, measure in measures.items():
            found[name].append(np.stack([gained / possible for gained, possible in measure(block, at)], axis=1))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def threshold_for(precisions: npt.NDArray[np.float64], wanted: float) -> float | None:
    """The lowest threshold of :data:`GRID` with at least the wanted precision; None where none has it."""
    enough = np.flatnonzero(precisions >= wanted)
    return float(GRID[enough[0]]) if len(enough) else None
