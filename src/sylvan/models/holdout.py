"""Rows held out of training, whose answers tell what a score means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sylvan.canonical import Csr, take_rows
from sylvan.metrics.rows import hits
from sylvan.models.base import Estimator
from sylvan.ranking.calibrate import MIN_EACH, Calibrator
from sylvan.topk import TopK

__all__ = ["calibrated", "holdout_folds"]

DEPTH = 100  # answers a held-out row is asked for
_SHARE, _FEW, _MOST = 10, 500, 5_000


def holdout_folds(
    n_rows: int, n_folds: int, weight: npt.NDArray[np.float32] | None = None
) -> list[npt.NDArray[np.int32]]:
    """Disjoint sets of rows, rising row ids; none where there are too few rows to learn anything from.

    A fold is a tenth of the rows, yet 500 as long as that is no more than a quarter, and at most 5,000: what a
    calibrator gains from more is small, and every held-out row costs time. Rows of no weight stay out of it. Which
    rows are taken depends on their number alone, not on a model's seed, so that models of one ensemble can hold out
    the same.
    """
    rows = np.arange(n_rows, dtype=np.int32) if weight is None else np.flatnonzero(weight > 0).astype(np.int32)
    size = min(max(len(rows) // _SHARE, min(_FEW, len(rows) // 4)), _MOST, len(rows) // (n_folds + 1))
    if size < MIN_EACH:
        return []
    order = np.random.default_rng(0).permutation(len(rows))
    return [np.sort(rows[order[fold * size : (fold + 1) * size]]) for fold in range(n_folds)]


def calibrated(
    method: str,
    fold_models: Sequence[Estimator],
    folds: Sequence[npt.NDArray[np.int32]],
    features: Csr,
    labels: Csr,
    weight: npt.NDArray[np.float32] | None = None,
) -> Calibrator | None:
    """A calibrator from answers to rows that were held out; None where they are too few.

    Parameters
    ----------
    method : {"isotonic", "platt"}
    fold_models : sequence of Estimator
        Models that weren't trained on the rows of one fold each.
    folds : sequence of ndarray of int32
        The row ids of each fold.
    features, labels : Csr
        Of all training rows.
    weight : ndarray of float32, shape (n,), optional
        Weights of rows.
    """
    tops, right = [], []
    for model, rows in zip(fold_models, folds, strict=True):
        top = model.bounded(model.rank_plainly(take_rows(features, rows), min(DEPTH, labels.shape[1])))
        tops.append(top)
        right.append(hits(top, take_rows(labels, rows)))
    together = TopK(np.concatenate([top.labels for top in tops]), np.concatenate([top.scores for top in tops]))
    row_weight = None if weight is None else weight[np.concatenate(folds)]
    return Calibrator.fit(method, together, np.concatenate(right), row_weight)
