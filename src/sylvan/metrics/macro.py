"""Means over labels: every label weighs alike, however often it occurs."""

from __future__ import annotations

from typing import Any

from sylvan.metrics import tallies
from sylvan.metrics.evaluator import At, one_metric


def macro_recall(Y: Any, top: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """Macro-R@k: of the rows where a label is true, the share where it is among the first k answers.

    The mean over labels: ``(1/L) sum_l tp_l / (tp_l + fn_l)``; a label that is never true counts as 0, as in
    :func:`macro_precision`, where L is explained too. Parameters, result, errors and references as there.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[0], [0], [1]], np.int32), np.array([[0.9], [0.4], [0.4]], np.float32))
    >>> metrics.macro_recall([[0], [1], [1]], top, at=1)
    {1: 0.75}
    """
    return one_metric(tallies.MacroRecall, Y, top, at)


def macro_f1(Y: Any, top: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """Macro-F1@k: the harmonic mean of a label's precision and recall among the first k answers.

    The mean over labels: ``(1/L) sum_l 2 tp_l / (2 tp_l + fp_l + fn_l)``; 0 for a label that is neither answered nor
    true. Parameters, result, errors and references as in :func:`macro_precision`.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[0], [0], [1]], np.int32), np.array([[0.9], [0.4], [0.4]], np.float32))
    >>> round(metrics.macro_f1([[0], [1], [1]], top, at=1)[1], 4)
    0.6667
    """
    return one_metric(tallies.MacroF1, Y, top, at)
