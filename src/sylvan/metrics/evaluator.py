"""The metrics as functions, and all of them at once over batches: by propensity, by slice, F1 and macro averages."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.arrays.canonical import as_array
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError, ParameterError
from sylvan.metrics import tallies
from sylvan.metrics.tallies import LabelTally, RowTally, Tally, blocks, check_answers, check_truth, is_inferred
from sylvan.params.fields import Range, check_values

At = int | Sequence[int]
_ALL = 2**31 - 1  # a k that no ranking reaches
SLICES = ("head", "torso", "tail")


def propensities(Y_train: Any, A: float = 0.55, B: float = 1.5) -> npt.NDArray[np.float64]:
    """The propensity of each label: ``p_l = 1 / (1 + C (N_l + B)^-A)`` with ``C = (log N - 1) (B + 1)^A``.

    ``N`` is the number of training rows and ``N_l`` how many of them have label ``l``. With fewer than
    three rows ``log N < 1`` and the model means nothing; ``C`` is then taken as 0 and every propensity is
    1.

    Parameters
    ----------
    Y_train : CSR, lists of label ids or class ids, shape (N, L)
        The labels that the model was trained on.
    A, B : float
        The extreme classification repository takes 0.5 and 0.4 for Wikipedia data, 0.6 and 2.6 for Amazon
        data, and 0.55 and 1.5 otherwise.

    Returns
    -------
    ndarray of float64, shape (L,)
        In (0, 1]; the rarer the label, the lower.

    Raises
    ------
    ParameterError
        When ``A`` or ``B`` is not a finite number, ``A`` is negative or ``B`` not above 0.
    DataError
        When ``Y_train`` is malformed or has no rows.

    References
    ----------
    Jain, Prabhu, Varma: Extreme multi-label loss functions for recommendation, tagging, ranking & other
    missing label applications. KDD 2016, Section 4, Eq. 3.

    Examples
    --------
    >>> from sylvan import metrics
    >>> metrics.propensities([[0], [0], [0, 1], [0]]).round(2).tolist()
    [0.8, 0.72]
    """
    labels = validate.labels(Y_train, name="Y_train")
    if labels.shape[0] == 0:
        raise DataError("Y_train has no rows to count labels in.")
    return propensities_of_counts(np.bincount(labels.indices, minlength=labels.shape[1]), labels.shape[0], A, B)


def propensities_of_counts(counts: Any, n_rows: int, A: float = 0.55, B: float = 1.5) -> npt.NDArray[np.float64]:
    """As :func:`propensities`, from what a model keeps of its training labels.

    Parameters
    ----------
    counts : array of int, shape (L,)
        How many training rows have each label.
    n_rows : int
        Number of training rows.
    A, B : float
        As in :func:`propensities`.

    Raises
    ------
    ParameterError
        When ``A`` is no finite number from 0, ``B`` none above 0, or ``n_rows`` no int from 1.
    DataError
        When a count is not in [0, n_rows].

    Examples
    --------
    >>> from sylvan import metrics
    >>> metrics.propensities_of_counts([4, 1], 4).round(2).tolist()
    [0.8, 0.72]
    """
    check_values({"A": Range(0), "B": Range(0, open_low=True)}, "propensities", A=A, B=B)
    times = as_array(counts, "counts")
    n_rows = validate.count(n_rows, "n_rows", owner="propensities_of_counts")
    if times.ndim != 1 or times.dtype.kind not in "iu":
        raise DataError(f"counts must be one int a label. Got {times.dtype} of shape {times.shape} instead.")
    if times.size and not 0 <= int(times.min()) <= int(times.max()) <= n_rows:
        raise DataError(f"counts must be in [0, {n_rows}], the number of rows.")
    factor = max(0.0, math.log(n_rows) - 1.0) * (B + 1.0) ** A
    return np.asarray(1.0 / (1.0 + factor * (times + B) ** -A), np.float64)


def check_propensities(values: Any) -> npt.NDArray[np.float64]:
    """Propensities as float64."""
    array = as_array(values, "propensities")
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise DataError(f"propensities must be one number a label. Got {array.dtype} of shape {array.shape} instead.")
    array = array.astype(np.float64)
    bad = ~((array > 0) & (array <= 1))
    if bad.any():
        label = int(bad.argmax())
        raise DataError(f"propensities must be in (0, 1]. Got {array[label]} for label {label} instead.")
    return array


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
    return one_metric(RowTally, tallies.precision, Y, top, at)


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
    return one_metric(RowTally, tallies.recall, Y, top, at)


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
    return one_metric(RowTally, partial(tallies.ndcg, graded=graded), Y, top, at)


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
    return one_metric(RowTally, partial(tallies.psp, propensities=check_propensities(propensities)), Y, top, at)


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
    likely = check_propensities(propensities)
    return one_metric(RowTally, partial(tallies.psp, propensities=likely, discounted=True), Y, top, at)


def macro_precision(Y: Any, top: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """Macro-P@k: of the rows with a label among the first k answers, the share where it is correct.

    The mean over labels: ``(1/L) sum_l tp_l / (tp_l + fp_l)``. A label that is never answered counts as
    0, and so does one that is never true, as in the source and in scikit-learn's
    ``precision_score(average="macro", zero_division=0)``. L is the number of columns of ``Y``, or when
    ``Y`` is lists one more than the highest label of these and of the answers.

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
    return one_metric(LabelTally, tallies.macro_precision, Y, top, at)


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
    return one_metric(LabelTally, tallies.coverage, Y, top, at)


class Evaluator:
    """Every metric at once, over as many batches of rows as there are.

    Parameters
    ----------
    at : int or sequence of int
        The k's.
    propensities : array of float, shape (L,), optional
        Adds PSP@k and PSnDCG@k; see :func:`psp`.
    n_labels : int, optional
        How many labels there are at least, for macro-P@k, when the batches' ``Y`` are lists; an id beyond counts too.

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
        self._at, self._n_rows = ks(at), 0
        rows: dict[str, Any] = {"P": tallies.precision, "R": tallies.recall, "nDCG": tallies.ndcg, "F1": tallies.f1}
        if propensities is not None:
            rows["PSP"] = partial(tallies.psp, propensities=check_propensities(propensities))
            rows["PSnDCG"] = partial(rows["PSP"], discounted=True)
        macro = LabelTally(self._at, tallies.macro_precision)
        if n_labels is not None:
            macro.reserve(validate.count(n_labels, "n_labels", owner="Evaluator"))
        self._rows = {name: RowTally(self._at, of_rows) for name, of_rows in rows.items()}
        coverage = LabelTally(self._at, tallies.coverage)
        self._tallies: dict[str, Tally] = {**self._rows, "macro-P": macro, "coverage": coverage}

    def add(self, Y: Any, top: Any) -> None:
        """Count a batch of rows in; arguments and errors as in :func:`precision`."""
        self._n_rows += add_rows(list(self._tallies.values()), Y, top, max(self._at))

    def result(self) -> dict[str, float]:
        """What :func:`evaluate` returns, of all rows so far."""
        used = self._rows["P"].n_rows
        need_rows(used)
        figures = {f"{name}@{k}": value for name, tally in self._tallies.items() for k, value in tally.result().items()}
        return {"rows": self._n_rows, "rows_without_labels": self._n_rows - used, **figures}

    def intervals(self, confidence: float = 0.95) -> dict[str, tuple[float, float]]:
        """What :func:`intervals` returns, of all rows so far."""
        from statistics import NormalDist  # a slow import, and seldom needed

        need_rows(self._rows["P"].n_rows)
        if not isinstance(confidence, numbers.Real) or not 0 < confidence < 1:
            raise ParameterError(f"The 'confidence' of metrics must be a float in (0, 1). Got {confidence!r} instead.")
        width = NormalDist().inv_cdf((1 + float(confidence)) / 2)
        results: dict[str, tuple[float, float]] = {}
        for name, tally in self._rows.items():
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
    several = not isinstance(at, (str, bytes)) and getattr(at, "shape", None) != ()
    values = list(at) if several and isinstance(at, Iterable) else [at]
    if not values:
        raise ParameterError("The 'at' parameter of metrics must name at least one k. Got none instead.")
    return tuple(dict.fromkeys(validate.count(k, "at", owner="metrics") for k in values))


def one_metric(kind: Any, metric: Any, Y: Any, top: Any, at: At) -> dict[int, float]:
    """A metric of rows or of labels, at each k."""
    at = ks(at)
    tally: Tally = kind(at, metric)
    add_rows([tally], Y, top, max(at))
    need_rows(tally.n_rows)
    return tally.result()


def need_rows(n_rows: int) -> None:
    """A DataError when there was nothing to measure."""
    if not n_rows:
        raise DataError("No row of Y has a true label: there is nothing to measure.")


def add_rows(counters: Sequence[Tally], Y: Any, top: Any, width: int | None) -> int:
    """Count rows into tallies, with so many answers or all; how many there were, those without true labels included."""
    of_labels = [tally for tally in counters if isinstance(tally, LabelTally)]
    truth, inferred = check_truth(Y, top, of_labels[0].others if of_labels else None), is_inferred(Y)
    answers = check_answers(top, truth, width or 0, inferred)
    if width is None:
        sizes = np.array([answers.k]) if isinstance(answers, TopK) else np.diff(answers.indptr)
        width = max(1, int(sizes.max(initial=0)))
    for counts in of_labels:
        counts.reserve(truth.shape[1])
    for block in blocks(truth, answers, width, inferred):
        for tally in counters:
            tally.add(block)
    return truth.shape[0]


def f1(Y: Any, top: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """F1@k: the harmonic mean of precision and recall of a row's first k answers; mean over rows.

    ``F1@k = (1/n) sum_i 2 |top_k(i) ∩ Y_i| / (|top_k(i)| + |Y_i|)``. Only answers that there are count, so that a row
    with fewer than k isn't at a disadvantage. It is the sample-based F1: scikit-learn's
    ``f1_score(average="samples")`` of an indicator of the first k answers, and Annif's ``F1@5``. Parameters, result
    and errors as in :func:`precision`.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2, 0], [1, 3]], np.int32), np.array([[0.9, 0.4], [0.7, 0.1]], np.float32))
    >>> metrics.f1([[0, 1], [1]], top, at=(1, 2))
    {1: 0.5, 2: 0.5833333333333333}
    """
    return one_metric(RowTally, tallies.f1, Y, top, at)


def micro_f1(Y: Any, top: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """Micro-F1@k: the F1 of all pairs of a row and one of its first k answers together.

    ``2 sum_i |top_k(i) ∩ Y_i| / sum_i (|top_k(i)| + |Y_i|)``: every pair counts the same, so rows with many labels
    count for more. Parameters, result and errors as in :func:`precision`.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2, 0], [1, 3]], np.int32), np.array([[0.9, 0.4], [0.7, 0.1]], np.float32))
    >>> metrics.micro_f1([[0, 1], [1]], top, at=1)
    {1: 0.4}
    """
    return one_metric(RowTally, tallies.micro_f1, Y, top, at)


class SetF1:
    """Three kinds of F1 of label sets of any size, over as many batches of rows as there are.

    Parameters
    ----------
    n_labels : int
        How many labels there are: the macro F1 is a mean over all of them.

    Examples
    --------
    >>> from sylvan import metrics
    >>> from scipy.sparse import csr_matrix
    >>> measured = metrics.SetF1(n_labels=2)
    >>> measured.add(csr_matrix([[1, 0]]), csr_matrix([[1, 1]]))
    >>> measured.add(csr_matrix([[0, 1]]), csr_matrix([[0, 1]]))
    >>> {name: round(value, 3) for name, value in measured.result().items()}
    {'labels': 1.5, 'F1': 0.833, 'micro-F1': 0.8, 'macro-F1': 0.833}
    """

    def __init__(self, n_labels: int = 0) -> None:
        self._rows, self._pairs = RowTally((_ALL,), tallies.f1), RowTally((_ALL,), tallies.micro_f1)
        self._labels = LabelTally((_ALL,), tallies.macro_f1)
        self._labels.reserve(n_labels)

    def add(self, Y: Any, answers: Any) -> None:
        """Count a batch of rows in; arguments and errors as in :func:`set_f1`."""
        add_rows([self._rows, self._pairs, self._labels], Y, answers, None)

    def result(self) -> dict[str, float]:
        """What :func:`set_f1` returns, of all rows so far."""
        need_rows(self._rows.n_rows)
        named = int(self._labels.named.sum())
        kinds = {"F1": self._rows, "micro-F1": self._pairs, "macro-F1": self._labels}
        return {"labels": named / self._rows.n_rows, **{name: tally.result()[_ALL] for name, tally in kinds.items()}}


def set_f1(Y: Any, answers: Any) -> dict[str, float]:
    """F1 of the label sets that a threshold or another rule has chosen, such as those of ``predict`` or ``choose``.

    Parameters
    ----------
    Y : CSR, lists of label ids or class ids, shape (n, L)
        The true labels. Rows without one are skipped.
    answers : sparse matrix of shape (n, L), or TopK of shape (n, k)
        All stored entries, or all labels, are answers; a row may have none.

    Returns
    -------
    dict of str to float
        ``"labels"``, the mean number of answers a row; ``"F1"``, the mean of the rows' F1 (scikit-learn's "samples",
        which Annif shows first); ``"micro-F1"``, that of all pairs of row and label together; ``"macro-F1"``, the mean
        of the labels' F1 over all L labels, 0 for one that is neither answered nor true.

    Raises
    ------
    DataError
        As in :func:`precision`.

    Examples
    --------
    >>> from sylvan import metrics
    >>> from scipy.sparse import csr_matrix
    >>> found = metrics.set_f1(csr_matrix([[1, 0, 0], [1, 0, 1]]), csr_matrix([[1, 1, 0], [1, 0, 1]]))
    >>> {name: round(value, 3) for name, value in found.items()}
    {'labels': 2.0, 'F1': 0.833, 'micro-F1': 0.857, 'macro-F1': 0.667}
    """
    measured = SetF1()
    measured.add(Y, answers)
    return measured.result()


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
    return one_metric(LabelTally, tallies.macro_recall, Y, top, at)


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
    return one_metric(LabelTally, tallies.macro_f1, Y, top, at)


def slice_labels(counts: Any, thresholds: tuple[int, int] | None = None) -> npt.NDArray[np.int8]:
    """Each label's slice: 0 for the head, 1 for the torso, 2 for the tail.

    Parameters
    ----------
    counts : array of int, shape (L,)
        How many training rows have each label, such as a model's ``label_counts_``.
    thresholds : pair of int, optional
        Labels of at least the second many training rows are the head, those of fewer than the first the tail. By
        default the most frequent labels that together hold a third of the training positives are the head, the rarest
        that hold a third are the tail; each slice then weighs alike, and the tail has by far the most labels.

    Raises
    ------
    DataError
        When ``counts`` isn't one int from 0 a label.
    ParameterError
        When ``thresholds`` aren't two ints from 0, the first not above the second.

    Examples
    --------
    >>> from sylvan import metrics
    >>> metrics.slice_labels([1, 6, 3, 1, 1, 0]).tolist()
    [2, 0, 1, 2, 2, 2]
    >>> metrics.slice_labels([1, 6, 3, 1, 1, 0], thresholds=(1, 3)).tolist()
    [1, 0, 0, 1, 1, 2]
    """
    times = as_array(counts, "counts")
    if times.ndim != 1 or times.dtype.kind not in "iu" or (times.size and int(times.min()) < 0):
        raise DataError(f"counts must be one int from 0 a label. Got {times.dtype} of shape {times.shape} instead.")
    if thresholds is not None:
        pair = tuple(thresholds) if isinstance(thresholds, (tuple, list, np.ndarray)) else ()
        integral = all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in pair)
        if len(pair) != 2 or not integral or not 0 <= pair[0] <= pair[1]:
            raise ParameterError(
                "The 'thresholds' parameter of slices must be two ints from 0, the first not above the second. "
                f"Got {thresholds!r} instead."
            )
        low, high = pair
        return np.where(times >= high, 0, np.where(times >= low, 1, 2)).astype(np.int8)
    order = np.argsort(-times.astype(np.int64), kind="stable")
    before = np.cumsum(times[order], dtype=np.int64) - times[order]
    result = np.full(times.size, 2, np.int8)
    result[order] = np.where(times[order] > 0, np.minimum(before * 3 // max(1, int(times.sum())), 2), 2)
    return result


class Slices:
    """Precision and recall of head, torso and tail over as many batches of rows as there are.

    Parameters
    ----------
    counts : array of int, shape (L,)
        How many training rows have each label.
    at : int or sequence of int
        The k's.
    thresholds : pair of int, optional
        See :func:`slice_labels`.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> measured = metrics.Slices([5, 3, 1], at=1)
    >>> for label in (0, 2):
    ...     measured.add([[2]], TopK(np.array([[label]], np.int32), np.array([[0.5]], np.float32)))
    >>> measured.result()["tail"]
    {'labels': 1, 'rows': 2, 'P@1': 0.5, 'R@1': 0.5}
    """

    def __init__(self, counts: Any, at: At = (1, 3, 5), thresholds: tuple[int, int] | None = None) -> None:
        self._at, self._slice_of = ks(at), slice_labels(counts, thresholds)
        of_slice = partial(tallies.of_slice, slice_of=self._slice_of)
        self._precisions, self._recalls = (
            [RowTally(self._at, partial(of_slice, number=number, recalled=recalled)) for number in range(len(SLICES))]
            for recalled in (False, True)
        )

    def add(self, Y: Any, top: Any) -> None:
        """Count a batch of rows in; arguments and errors as in :func:`precision`."""
        add_rows([*self._precisions, *self._recalls], Y, top, max(self._at))

    def result(self) -> dict[str, dict[str, float]]:
        """What :func:`slices` returns, of all rows so far."""
        need_rows(self._recalls[0].n_rows)
        results: dict[str, dict[str, float]] = {}
        for number, name in enumerate(SLICES):
            precisions, recalls = self._precisions[number], self._recalls[number]
            results[name] = {
                "labels": int(np.count_nonzero(self._slice_of == number)), "rows": int(recalls.possible[0]),
                **{f"P@{k}": value for k, value in precisions.result().items()},
                **{f"R@{k}": value for k, value in recalls.result().items()},
            }  # fmt: skip
        return results


def slices(
    Y: Any, top: Any, counts: Any, at: At = (1, 3, 5), *, thresholds: tuple[int, int] | None = None
) -> dict[str, dict[str, float]]:
    """Precision and recall of head, torso and tail: labels cut by how often they were in training.

    Parameters
    ----------
    Y, top, at
        As in :func:`precision`.
    counts : array of int, shape (L,)
        How many training rows have each label, such as a model's ``label_counts_``.
    thresholds : pair of int, optional
        Where to cut; thirds of the training positives by default. See :func:`slice_labels`.

    Returns
    -------
    dict of str to dict
        For ``"head"``, ``"torso"`` and ``"tail"``: ``"labels"``, how many labels the slice has; ``"rows"``, how many
        rows have a true label of it; ``"P@k"``, the share of the first k answers that are true and of the slice (the
        three add up to P@k); and ``"R@k"``, the share of a row's true labels of the slice that are among the first k
        answers, the mean over the rows that have any (0 where none has).

    Raises
    ------
    DataError, ParameterError
        As in :func:`precision` and :func:`slice_labels`; and when ``Y`` has labels beyond ``counts``.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[0, 2], [1, 0]], np.int32), np.array([[0.9, 0.4], [0.7, 0.1]], np.float32))
    >>> found = metrics.slices([[0, 2], [0]], top, [5, 3, 1], at=2)
    >>> {name: figures["R@2"] for name, figures in found.items()}
    {'head': 1.0, 'torso': 0.0, 'tail': 1.0}
    """
    measured = Slices(counts, at, thresholds)
    measured.add(Y, top)
    return measured.result()
