"""Metrics of rankings, computed in blocks of rows and never dense.

Everywhere, ``Y`` has the true labels (CSR, lists of label ids, or one class id per row; values don't matter, unless a
function says otherwise) and ``top`` the answers (a :class:`~sylvan.TopK`, or a sparse matrix of scores whose stored
entries are the answers). Results are dicts from k to a value in [0, 1].

Rows of ``Y`` without true labels are skipped by every metric; :func:`evaluate` says how many. A missing answer (in a
row with fewer than k) counts as wrong.
"""

from __future__ import annotations

from sylvan.metrics.calibration import (
    ExpectedHits,
    Reliability,
    calibration_error,
    expected_hits,
    fit_thresholds,
    reliability,
)
from sylvan.metrics.evaluator import (
    Evaluator,
    SetF1,
    Slices,
    coverage,
    evaluate,
    f1,
    intervals,
    macro_f1,
    macro_precision,
    macro_recall,
    micro_f1,
    ndcg,
    precision,
    propensities,
    propensities_of_counts,
    psndcg,
    psp,
    recall,
    set_f1,
    slice_labels,
    slices,
)
from sylvan.metrics.tallies import filter_answers

__all__ = [
    "Evaluator", "ExpectedHits", "Reliability", "SetF1", "Slices", "calibration_error", "coverage", "evaluate",
    "expected_hits", "f1", "filter_answers", "fit_thresholds", "intervals", "macro_f1", "macro_precision",
    "macro_recall", "micro_f1", "ndcg", "precision", "propensities", "propensities_of_counts", "psndcg", "psp",
    "recall", "reliability", "set_f1", "slice_labels", "slices",
]  # fmt: skip
