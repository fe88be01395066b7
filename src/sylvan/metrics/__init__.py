"""How good a ranking is: the field's metrics, streamed row block by row block, nothing ever dense.

Everywhere, ``Y`` holds the true labels (CSR, lists of label ids, or one class id a row; only whether a
label is there counts, unless a function says otherwise) and ``top`` the answers (a :class:`~sylvan.TopK`,
or a sparse matrix of scores whose stored entries are the answers). Results are dicts from k to a value in
[0, 1].

A row of ``Y`` without any true label is skipped by every metric, as no ranking could do well or badly
there; :func:`evaluate` says how many rows were skipped. An answer that is missing (a row with fewer than
k) counts as wrong.
"""

from __future__ import annotations

from sylvan.metrics.calibration import Reliability, calibration_error, reliability
from sylvan.metrics.evaluator import (
    Evaluator,
    coverage,
    evaluate,
    intervals,
    macro_precision,
    ndcg,
    precision,
    psndcg,
    psp,
    recall,
)
from sylvan.metrics.filtered import filter_answers
from sylvan.metrics.macro import macro_f1, macro_recall
from sylvan.metrics.propensity import propensities, propensities_of_counts
from sylvan.metrics.slices import Slices, slice_labels, slices
from sylvan.metrics.thresholds import fit_thresholds

__all__ = [
    "Evaluator", "Reliability", "Slices", "calibration_error", "coverage", "evaluate", "filter_answers",
    "fit_thresholds", "intervals", "macro_f1", "macro_precision", "macro_recall", "ndcg", "precision", "propensities",
    "propensities_of_counts", "psndcg", "psp", "recall", "reliability", "slice_labels", "slices",
]  # fmt: skip
