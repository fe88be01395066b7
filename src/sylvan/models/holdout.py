"""Rows held out of training, whose answers tell what a score means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr, take_rows
from sylvan.arrays.topk import TopK
from sylvan.metrics.rows import hits
from sylvan.ranking.calibrate import MIN_EACH, Calibrator

DEPTH = 50  # answers a held-out row is asked for: those further down share the last curve
MOST_ROWS = 5_000  # held out in a fold
_SHARE, _FEW = 10, 500
_PARTS = 5


def holdout_folds(
    n_rows: int, n_folds: int, weight: npt.NDArray[np.float32] | None = None, most: int = MOST_ROWS
) -> list[npt.NDArray[np.int32]]:
    """Disjoint sets of rows, rising row ids; none where there are too few rows to learn anything from. A fold is a
    tenth of the rows, yet 500 as long as that is no more than a quarter, and ``most`` at most: what a calibrator gains
    from more is small, and every held-out row costs time. Rows of no weight stay out of it. Which rows are taken
    depends on their number alone, not on a model's seed, so that models of one ensemble can hold out the same."""
    rows = np.arange(n_rows, dtype=np.int32) if weight is None else np.flatnonzero(weight > 0).astype(np.int32)
    size = min(max(len(rows) // _SHARE, min(_FEW, len(rows) // 4)), most, len(rows) // (n_folds + 1))
    if size < MIN_EACH:
        return []
    order = np.random.default_rng(0).permutation(len(rows))
    return [np.sort(rows[order[fold * size : (fold + 1) * size]]) for fold in range(n_folds)]


def held_out_rows(folds: Sequence[npt.NDArray[np.int32]]) -> npt.NDArray[np.int32]:
    """The rows of all folds, rising."""
    return np.sort(np.concatenate(folds))


def calibrated(
    method: str,
    top: TopK,
    rows: npt.NDArray[np.int32],
    labels: Csr,
    weight: npt.NDArray[np.float32] | None = None,
) -> Calibrator | None:
    """A calibrator from answers to rows that were held out; None where they are too few."""
    # Shapes: top (n_held_out, k); rows (n_held_out,); weight (n,)
    right = hits(top, take_rows(labels, rows))
    return Calibrator.fit(method, top, right, None if weight is None else weight[rows])


def crosswise(
    calibrator: Calibrator, top: TopK, rows: npt.NDArray[np.int32], labels: Csr,
    weight: npt.NDArray[np.float32] | None = None,
) -> TopK:  # fmt: skip
    """Answers to held-out rows with probabilities by curves that other held-out rows gave, of which there are five
    parts. What is learned from these probabilities sees them as they are for new rows: where few answers are right,
    curves know their own too well. A part gets the calibrator's, where the others are too few for curves."""
    right, part = hits(top, take_rows(labels, rows)), np.arange(len(rows)) % _PARTS
    scores = np.empty_like(top.scores)
    for each in range(min(_PARTS, len(rows))):
        own, others = part == each, part != each
        own_weight = None if weight is None else weight[rows[others]]
        curves = Calibrator.fit(calibrator.method, top.of_rows(others), right[others], own_weight) or calibrator
        scores[own] = curves(top.of_rows(own)).scores
    return TopK(top.labels, scores)
