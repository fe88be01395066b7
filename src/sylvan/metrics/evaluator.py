"""The metrics as functions, and all of them at once over batches."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from typing import Any

from sylvan.arrays import validate
from sylvan.errors import DataError, ParameterError
from sylvan.metrics import tallies
from sylvan.metrics.propensity import check_propensities
from sylvan.metrics.rows import blocks, check_answers, check_truth, is_inferred

At = int | Sequence[int]


def precision(Y: Any, top: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """P@k: the share of the first k answers that is correct; mean over rows.

    ``P@k = (1/n) sum_i |top_k(i) ∩ Y_i| / k``. A row with fewer than k true labels cannot reach 1.

    Parameters
    ----------
    Y : CSR, lists of label ids or class ids, shape (n, L)
        The true labels. Rows without one are skipped.
    top : TopK of shape (n, k), or sparse matrix of scores of shape (n, L)
        The answers. A sparse matrix's stored entries are the answers, the highest score first and the
        lower label first among equal scores.
    at : int or sequence of int
        The k's.

    Returns
    -------
    dict of int to float
        The metric at each k, in [0, 1].

    Raises
    ------
    DataError
        When the shapes differ, ``top`` has fewer than k answers per row, no row has a true label, or an answer occurs
        twice in a row.
    ParameterError
        When a k is not an int from 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2, 0], [1, 3]], np.int32), np.array([[0.9, 0.4], [0.7, 0.1]], np.float32))
    >>> metrics.precision([[0, 2], [3]], top, at=(1, 2))
    {1: 0.5, 2: 0.75}
    """
    return one_metric(tallies.Precision, Y, top, at)


def recall(Y: Any, top: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """R@k: the share of a row's true labels among the first k answers; mean over rows.

    ``R@k = (1/n) sum_i |top_k(i) ∩ Y_i| / |Y_i|``. Parameters, result and errors as in :func:`precision`.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2, 0], [1, 3]], np.int32), np.array([[0.9, 0.4], [0.7, 0.1]], np.float32))
    >>> metrics.recall([[0, 2], [3]], top, at=(1, 2))
    {1: 0.25, 2: 1.0}
    """
    return one_metric(tallies.Recall, Y, top, at)


def ndcg(Y: Any, top: Any, at: At = (1, 3, 5), *, graded: bool = False) -> dict[int, float]:
    """nDCG@k: discounted gain, divided by the highest possible for the row; mean over rows.

    ``DCG@k = sum_{j<=k} g(j-th answer) / log2(j + 1)`` with a gain of 1 for a true label, and the highest is
    that of an answer of ``min(k, |Y_i|)`` true labels, as the extreme classification repository defines it.
    With ``graded=True`` the gain is the label's relevance in ``Y``, as in scikit-learn's ``ndcg_score``.

    Other parameters, result and errors as in :func:`precision`.

    References
    ----------
    Järvelin, Kekäläinen: Cumulated gain-based evaluation of IR techniques. TOIS 2002. Bhatia and others:
    The extreme classification repository, http://manikvarma.org/downloads/XC/XMLRepository.html.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[1, 0]], np.int32), np.array([[0.9, 0.4]], np.float32))
    >>> round(metrics.ndcg([[0]], top, at=2)[2], 4)
    0.6309
    """
    return one_metric(lambda k: tallies.Ndcg(k, graded), Y, top, at)


def psp(Y: Any, top: Any, propensities: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """PSP@k: precision with more weight for rare labels, divided by the highest possible for the same rows.

    ``PSP@k = sum_i sum_{l in top_k(i) ∩ Y_i} 1/p_l  /  sum_i max_{|S|=k} sum_{l in S ∩ Y_i} 1/p_l``. This is a ratio of
    two sums over all rows, not a mean of the rows' ratios, as in the evaluation code of the extreme classification
    repository, so its tables are comparable. Other parameters, result and errors are as in :func:`precision`.

    Parameters
    ----------
    propensities : array of float, shape (L,)
        ``p_l`` in (0, 1], from :func:`~sylvan.metrics.propensities` of the training labels; not their
        inverses.

    References
    ----------
    Jain, Prabhu, Varma: Extreme multi-label loss functions for recommendation, tagging, ranking & other
    missing label applications. KDD 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[0], [1]], np.int32), np.array([[0.9], [0.4]], np.float32))
    >>> metrics.psp([[0, 1], [1]], top, np.array([0.5, 0.25]), at=1)
    {1: 0.75}
    """
    given = check_propensities(propensities)
    return one_metric(lambda k: tallies.Psp(k, given), Y, top, at)


def psndcg(Y: Any, top: Any, propensities: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """PSnDCG@k: nDCG with more weight for rare labels, divided by the highest possible for the same rows.

    It is ``sum_i PSDCG@k(i) / N_i`` of the answers, divided by the same sum of the best answers, where
    ``PSDCG@k = sum_{j<=k} [j-th answer true] / (p_l log2(j + 1))`` and ``N_i`` is the highest DCG@k
    without propensities, ``sum_{j<=min(k,|Y_i|)} 1 / log2(j + 1)``. As in :func:`psp` the sums over all
    rows are divided, as the repository's evaluation code does.

    Parameters, result, errors and references as in :func:`psp`.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[0, 1]], np.int32), np.array([[0.9, 0.4]], np.float32))
    >>> round(metrics.psndcg([[0, 1]], top, np.array([0.5, 0.25]), at=2)[2], 4)
    0.8597
    """
    given = check_propensities(propensities)
    return one_metric(lambda k: tallies.Psndcg(k, given), Y, top, at)


def macro_precision(Y: Any, top: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """Macro-P@k: of the rows with a label among the first k answers, the share where it is correct.

    The mean over labels: ``(1/L) sum_l tp_l / (tp_l + fp_l)``. A label that is never answered counts as
    0, and so does one that is never true, as in the source and in scikit-learn's
    ``precision_score(average="macro", zero_division=0)``. L is the number of columns of ``Y``, or one
    more than the highest label when ``Y`` is lists.

    Parameters, result and errors as in :func:`precision`.

    References
    ----------
    Schultheis, Wydmuch, Kotłowski, Babbar, Dembczyński: Generalized test utilities for long-tail
    performance in extreme multi-label classification. NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[0], [0], [1]], np.int32), np.array([[0.9], [0.4], [0.4]], np.float32))
    >>> metrics.macro_precision([[0], [1], [1]], top, at=1)
    {1: 0.75}
    """
    return one_metric(tallies.MacroPrecision, Y, top, at)


def coverage(Y: Any, top: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """Coverage@k: of the labels that are true for any row, the share found at least once among k answers.

    A model that only answers frequent labels covers few. Parameters, result and errors as in :func:`precision`.
    (Schultheis and others, see :func:`macro_precision`, divide by all L labels; here a perfect ranking reaches 1 where
    k allows.)

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[0], [0], [1]], np.int32), np.array([[0.9], [0.4], [0.4]], np.float32))
    >>> metrics.coverage([[0], [1], [0]], top, at=1)
    {1: 0.5}
    """
    return one_metric(tallies.Coverage, Y, top, at)


class Evaluator:
    """Every metric at once, over as many batches of rows as there are.

    Parameters
    ----------
    at : int or sequence of int
        The k's.
    propensities : array of float, shape (L,), optional
        Adds PSP@k and PSnDCG@k; see :func:`psp`.
    n_labels : int, optional
        How many labels there are, for macro-P@k, when the batches' ``Y`` are lists.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> evaluator = metrics.Evaluator(at=1)
    >>> for label in (3, 2):
    ...     evaluator.add([[3]], TopK(np.array([[label]], np.int32), np.array([[0.5]], np.float32)))
    >>> evaluator.result()["P@1"]
    0.5
    """

    def __init__(self, at: At = (1, 3, 5), propensities: Any = None, n_labels: int | None = None) -> None:
        self._at = ks(at)
        self._tallies: dict[str, tallies.Tally] = {
            "P": tallies.Precision(self._at),
            "R": tallies.Recall(self._at),
            "nDCG": tallies.Ndcg(self._at),
            "F1": tallies.F1(self._at),
        }
        if propensities is not None:
            given = check_propensities(propensities)
            self._tallies["PSP"] = tallies.Psp(self._at, given)
            self._tallies["PSnDCG"] = tallies.Psndcg(self._at, given)
        macro = tallies.MacroPrecision(self._at)
        if n_labels is not None:
            macro.reserve(validate.count(n_labels, "n_labels", owner="Evaluator"))
        self._tallies["macro-P"] = macro
        self._tallies["coverage"] = tallies.Coverage(self._at)
        self._n_rows = 0

    def add(self, Y: Any, top: Any) -> None:
        """Count a batch of rows in; arguments and errors as in :func:`precision`."""
        self._n_rows += add_rows(list(self._tallies.values()), Y, top, max(self._at))

    def result(self) -> dict[str, float]:
        """What :func:`evaluate` returns, of all rows so far."""
        used = self._tallies["P"].n_rows
        need_rows(used)
        result: dict[str, float] = {"rows": self._n_rows, "rows_without_labels": self._n_rows - used}
        for name, tally in self._tallies.items():
            result.update({f"{name}@{k}": value for k, value in tally.result().items()})
        return result

    def intervals(self, confidence: float = 0.95) -> dict[str, tuple[float, float]]:
        """What :func:`intervals` returns, of all rows so far."""
        from statistics import NormalDist  # a slow import, and seldom needed

        need_rows(self._tallies["P"].n_rows)
        if not isinstance(confidence, numbers.Real) or not 0 < confidence < 1:
            raise ParameterError(f"The 'confidence' of metrics must be a float in (0, 1). Got {confidence!r} instead.")
        width = NormalDist().inv_cdf((1 + float(confidence)) / 2)
        results: dict[str, tuple[float, float]] = {}
        for name, tally in self._tallies.items():
            if isinstance(tally, tallies.RowTally):
                errors = tally.standard_errors()
                for k, value in tally.result().items():
                    results[f"{name}@{k}"] = max(0.0, value - width * errors[k]), min(1.0, value + width * errors[k])
        return results


def intervals(
    Y: Any, top: Any, at: At = (1, 3, 5), propensities: Any = None, confidence: float = 0.95
) -> dict[str, tuple[float, float]]:
    """Confidence intervals: between what values other rows of the same kind would put each metric.

    Normal intervals around the values of :func:`evaluate`, with the standard error of a quotient of two sums over
    rows (the delta method), which is that of a mean for P, R, nDCG and F1. They say how much the choice of the test
    rows matters, and take some dozens of rows to be meaningful; the choice of the training rows isn't in them.

    Parameters
    ----------
    Y, top, at, propensities
        As in :func:`evaluate`.
    confidence : float in (0, 1), default 0.95
        The share of such intervals that hold the value over all rows.

    Returns
    -------
    dict of str to (float, float)
        Lower and upper end, in [0, 1], of ``"P@1"``, ``"R@1"``, ``"nDCG@1"``, ``"F1@1"`` and, with propensities,
        ``"PSP@1"`` and ``"PSnDCG@1"``, and so on for each k.

    Raises
    ------
    DataError, ParameterError
        As in :func:`evaluate`; and for a confidence outside (0, 1).

    References
    ----------
    Särndal, Swensson & Wretman: Model Assisted Survey Sampling (1992), section 5.6, on the variance of a ratio.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.zeros((100, 1), np.int32), np.ones((100, 1), np.float32))
    >>> low, high = metrics.intervals([[0]] * 80 + [[1]] * 20, top, at=1)["P@1"]
    >>> round(low, 3), round(high, 3)
    (0.721, 0.879)
    """
    evaluator = Evaluator(at, propensities)
    evaluator.add(Y, top)
    return evaluator.intervals(confidence)


def evaluate(Y: Any, top: Any, at: At = (1, 3, 5), propensities: Any = None) -> dict[str, float]:
    """Every metric at every k.

    Parameters
    ----------
    Y, top, at
        As in :func:`precision`.
    propensities : array of float, shape (L,), optional
        Adds PSP@k and PSnDCG@k; see :func:`psp`.

    Returns
    -------
    dict of str to number
        ``"rows"``, ``"rows_without_labels"`` (these are skipped by everything else), then ``"P@1"``,
        ``"R@1"``, ``"nDCG@1"``, ``"F1@1"``, ``"PSP@1"``, ``"PSnDCG@1"``, ``"macro-P@1"``, ``"coverage@1"`` and so
        on for each k.

    Raises
    ------
    DataError, ParameterError
        As in :func:`precision` and :func:`psp`.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2, 0], [1, 3]], np.int32), np.array([[0.9, 0.4], [0.7, 0.1]], np.float32))
    >>> found = metrics.evaluate([[0, 2], []], top, at=(1, 2))
    >>> found["rows"], found["rows_without_labels"], found["P@1"], found["R@1"]
    (2, 1, 1.0, 0.5)
    """
    evaluator = Evaluator(at, propensities)
    evaluator.add(Y, top)
    return evaluator.result()


def ks(at: At) -> tuple[int, ...]:
    """The k's as a tuple of distinct ints."""
    given = list(at) if isinstance(at, Iterable) and not isinstance(at, (str, bytes)) else [at]
    if not given:
        raise ParameterError("The 'at' parameter of metrics must name at least one k. Got none instead.")
    return tuple(dict.fromkeys(validate.count(k, "at", owner="metrics") for k in given))


def one_metric(make: Any, Y: Any, top: Any, at: At) -> dict[int, float]:
    """A metric at each k: ``make(at)`` is its tally."""
    at = ks(at)
    tally: tallies.Tally = make(at)
    add_rows([tally], Y, top, max(at))
    need_rows(tally.n_rows)
    return tally.result()


def need_rows(n_rows: int) -> None:
    """A DataError when there was nothing to measure."""
    if not n_rows:
        raise DataError("No row of Y has a true label: there is nothing to measure.")


def add_rows(counters: list[tallies.Tally], Y: Any, top: Any, width: int) -> int:
    """Count rows into tallies; how many rows there were, those without true labels included."""
    truth = check_truth(Y, top)
    answers = check_answers(top, truth, width, is_inferred(Y))
    for tally in counters:
        if isinstance(tally, tallies.MacroPrecision):
            tally.reserve(truth.shape[1])
    for block in blocks(truth, answers, width):
        for tally in counters:
            tally.add(block)
    return truth.shape[0]
