"""How good a ranking is: the field's metrics, streamed row block by row block, nothing ever dense.

Everywhere, ``Y`` holds the true labels (CSR, lists of label ids, or one class id a row; only whether a
label is there counts, unless a function says otherwise) and ``top`` the answers (a :class:`~sylvan.TopK`,
or a sparse matrix of scores whose stored entries are the answers). Results are dicts from k to a value in
[0, 1].

A row of ``Y`` without any true label is left out of every metric, as no ranking could do well or badly
there; :func:`evaluate` says how many rows were left out. An answer that is missing (a row with fewer than
k) counts as wrong.
"""

from __future__ import annotations

from sylvan.metrics.evaluator import (
    Evaluator,
    coverage,
    evaluate,
    macro_precision,
    ndcg,
    precision,
    psndcg,
    psp,
    recall,
)
from sylvan.metrics.propensity import propensities, propensities_of_counts

__all__ = [
    "Evaluator",
    "coverage",
    "evaluate",
    "macro_precision",
    "ndcg",
    "precision",
    "propensities",
    "propensities_of_counts",
    "psndcg",
    "psp",
    "recall",
]
