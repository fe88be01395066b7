"""Calibration error and reliability of the first k probabilities; thresholds of labels, fitted for F1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.canonical import pair_keys, within
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError
from sylvan.labels.vocabulary import NamedTopK
from sylvan.metrics.evaluator import At, ks
from sylvan.metrics.tallies import as_top, check_answers, check_truth, hits, is_inferred, refuse_twice
from sylvan.params.fields import Choice, Range, check_value

Binning = Literal["width", "mass"]


@dataclass(frozen=True)
class Reliability:
    """The bins of a reliability diagram.

    Attributes
    ----------
    edges : ndarray of float64, shape (n_bins + 1,)
        Bin b has the answers with probability in ``[edges[b], edges[b + 1])``; the last one includes its upper edge.
    counts : ndarray of int64, shape (n_bins,)
        Answers in each bin.
    predicted : ndarray of float64, shape (n_bins,)
        Their mean probability; NaN in an empty bin.
    observed : ndarray of float64, shape (n_bins,)
        The share of correct answers among them; NaN in an empty bin.
    """

    edges: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    predicted: npt.NDArray[np.float64]
    observed: npt.NDArray[np.float64]

    @property
    def error(self) -> float:
        """The expected calibration error: the mean of ``|predicted - observed|`` over all answers."""
        used = self.counts > 0
        gaps = np.abs(self.predicted[used] - self.observed[used])
        return float((gaps * self.counts[used]).sum() / max(1, self.counts.sum()))


@dataclass(frozen=True)
class ExpectedHits:
    """How many answers were to be right by their probabilities, and how many were.

    Attributes
    ----------
    expected : float
        The sum of the probabilities.
    right : int
        The right answers.
    error : float
        The standard error of ``expected - right`` over other rows of the same kind.
    """

    expected: float
    right: int
    error: float

    @property
    def ratio(self) -> float:
        """Expected over right answers: 1 is best, and more is too sure."""
        return self.expected / self.right if self.right else float("inf") if self.expected else 1.0

    def holds(self, within: float = 0.1) -> bool:
        """Whether the two agree within a share of the right answers, or as far as so few rows can tell."""
        return abs(self.expected - self.right) <= max(within * self.right, 2 * self.error)


def calibration_error(
    Y: Any, top: Any, at: At = (1, 3, 5), *, n_bins: int = 15, bins: Binning = "width"
) -> dict[int, float]:
    """ECE@k: the difference between the probabilities of the first k answers and the share that is correct.

    The answers are put into bins by probability. The error is the difference between a bin's mean probability and the
    share of correct answers in it, averaged over answers (Naeini, Cooper and Hauskrecht 2015). Over all labels it would
    be nearly 0 for any model, because nearly all probabilities are nearly 0. So only the first k are used (ECE@k of
    Ullah, Schultheis, Zhang and Babbar 2024, "Labels in Extremes", arXiv 2411.04276).

    Parameters
    ----------
    Y : CSR, lists of label ids or class ids, shape (n, L)
        The true labels. Rows without one are skipped.
    top : TopK of shape (n, k) with probabilities for scores, or sparse matrix of them of shape (n, L)
        Such as from :meth:`~sylvan.XRLinear.predict_proba`. Missing answers are skipped.
    at : int or sequence of int
        The k's.
    n_bins : int, default 15
    bins : {"width", "mass"}, default "width"
        Bins of equal width in [0, 1], or with nearly the same number of answers.

    Returns
    -------
    dict of int to float
        The error at each k, in [0, 1]; 0 is best.

    Raises
    ------
    DataError
        As :func:`precision`, and when scores are outside [0, 1].
    ParameterError
        When a k or ``n_bins`` is not an int from 1, or ``bins`` is another word.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2], [1]], np.int32), np.array([[0.8], [0.7]], np.float32))
    >>> round(metrics.calibration_error([[2], [3]], top, at=1, n_bins=2)[1], 4)
    0.25
    """
    at = ks(at)
    top, right = _answers(Y, top, max(at))
    return {k: _binned(top, right, k, n_bins, bins).error for k in at}


def reliability(Y: Any, top: Any, k: int = 5, *, n_bins: int = 15, bins: Binning = "width") -> Reliability:
    """The bins behind ECE@k, for a reliability diagram.

    Parameters and errors as in :func:`calibration_error`, at one k.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2], [1]], np.int32), np.array([[0.8], [0.7]], np.float32))
    >>> found = metrics.reliability([[2], [3]], top, k=1, n_bins=2)
    >>> found.counts.tolist(), found.observed[1].item()
    ([0, 2], 0.5)
    """
    k = validate.count(k, "k", owner="reliability")
    top, right = _answers(Y, top, k)
    return _binned(top, right, k, n_bins, bins)


def expected_hits(Y: Any, top: Any, k: int = 5) -> ExpectedHits:
    """What the probabilities of the first k answers add up to, and how many of these answers are right.

    Unlike :func:`calibration_error`, over all rows: those without true labels have no right answer.

    Parameters and errors as in :func:`calibration_error`, at one k.

    Returns
    -------
    ExpectedHits

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2], [1]], np.int32), np.array([[0.8], [0.7]], np.float32))
    >>> found = metrics.expected_hits([[2], [3]], top, k=1)
    >>> round(found.expected, 2), found.right, found.holds()
    (1.5, 1, True)
    """
    k = validate.count(k, "k", owner="expected_hits")
    top, right = _answers(Y, top, k, labelled=False)
    rows = np.where(top.labels >= 0, top.scores, 0).sum(axis=1, dtype=np.float64) - right.sum(axis=1)
    n_right = int(right.sum())
    return ExpectedHits(float(rows.sum()) + n_right, n_right, float(rows.std() * np.sqrt(len(rows))))


def _answers(Y: Any, top: Any, width: int, labelled: bool = True) -> tuple[TopK, npt.NDArray[np.bool_]]:
    """The first answers of the rows that have true labels (or of all rows), and which of them are true."""
    truth = check_truth(Y, top)
    result = as_top(check_answers(top, truth, width, is_inferred(Y)), width)
    _need_probabilities(result.scores[result.labels >= 0])
    refuse_twice(result.labels, np.arange(len(result)))
    used = np.diff(truth.indptr) > 0
    if not used.any():
        raise DataError("No row of Y has a true label: there is nothing to measure.")
    used |= not labelled
    return TopK(result.labels[used], result.scores[used]), hits(result, truth)[used]


def _need_probabilities(scores: npt.NDArray[Any]) -> None:
    if scores.size and not (scores.min() >= 0 and scores.max() <= 1):
        worst = float(scores.max() if scores.min() >= 0 else scores.min())
        ways = "predict_proba gives some, and so does model.probabilities(top)"
        raise DataError(f"Probabilities must be in [0, 1]. Got {worst:.6g}: {ways}.")


def _binned(top: TopK, right: npt.NDArray[np.bool_], k: int, n_bins: int, bins: Binning) -> Reliability:
    n_bins = validate.count(n_bins, "n_bins", owner="calibration_error")
    check_value("bins", bins, Choice(get_args(Binning)), "calibration_error")
    filled = top.labels[:, :k] >= 0
    order = np.argsort(top.scores[:, :k][filled], kind="stable")
    scores = top.scores[:, :k][filled][order].astype(np.float64)
    true = right[:, :k][filled][order]
    if bins == "width":
        edges = np.linspace(0, 1, n_bins + 1)
        starts = np.searchsorted(scores, edges[:-1])
    else:  # equal probabilities stay together
        inner = scores[np.arange(1, n_bins) * len(scores) // n_bins] if len(scores) else np.zeros(n_bins - 1)
        edges = np.concatenate(([0.0], inner, [1.0]))
        starts = np.concatenate(([0], np.searchsorted(scores, inner)))
    ends = np.append(starts[1:], len(scores))
    counts = ends - starts
    sums = np.stack([np.append(0.0, np.cumsum(values))[[starts, ends]] for values in (scores, true)])
    with np.errstate(invalid="ignore"):
        predicted, observed = (sums[:, 1] - sums[:, 0]) / counts
    return Reliability(edges, counts.astype(np.int64), predicted, observed)


def fit_thresholds(
    Y: Any, probabilities: Any, *, default: float = 0.5, min_positives: int = 5
) -> npt.NDArray[np.float32]:
    """The threshold of each label that gives that label the highest F1 on holdout rows, for ``predict``.

    Every label is looked at alone (the SCut of Yang 2001): of all cuts between two of its probabilities the one with
    the highest ``2 true / (answered + positives)`` is taken, the highest threshold among equals. Labels with few
    positives keep the default, as two or three say nothing.

    Parameters
    ----------
    Y : CSR, lists of label ids or class ids, shape (n, L)
        The true labels of rows that the model was not trained on.
    probabilities : sparse matrix of shape (n, L), or TopK of shape (n, k)
        What ``predict_proba`` gives for them; after one class a row, where its rows sum to 1, what
        ``model.probabilities(model.rank(X))`` gives, with which ``predict`` compares thresholds.
    default : float in [0, 1], default 0.5
        The threshold of labels with fewer positives than ``min_positives``.
    min_positives : int, default 5

    Returns
    -------
    ndarray of float32, shape (L,)
        For ``predict(X, threshold=...)``.

    Raises
    ------
    DataError
        When the shapes differ or there is nothing to fit.
    ParameterError
        When ``default`` is no number in [0, 1] or ``min_positives`` no int from 1.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from sylvan import metrics
    >>> proba = sp.csr_matrix(np.array([[0.75], [0.5], [0.25], [0.1]], np.float32))
    >>> metrics.fit_thresholds([[0], [0], [], []], proba, min_positives=2).tolist()
    [0.375]
    """
    min_positives = validate.count(min_positives, "min_positives", owner="fit_thresholds")
    check_value("default", default, Range(0, 1), "fit_thresholds")
    truth = check_truth(Y, probabilities)
    if isinstance(probabilities, NamedTopK):  # `predict` takes no thresholds of labels that it doesn't know
        truth = within(truth, len(probabilities.vocabulary))
    if isinstance(probabilities, TopK):
        n_labels = max(truth.shape[1], int(probabilities.labels.max(initial=-1)) + 1)
        check_answers(probabilities, truth, 1, inferred=True)
        refuse_twice(probabilities.labels, np.arange(len(probabilities)))
        probabilities = probabilities.to_csr(n_labels)
    result = check_answers(probabilities, truth, 1, is_inferred(Y))
    if not isinstance(result, sp.csr_matrix) or not result.nnz:
        raise DataError("There are no probabilities to fit thresholds to.")
    _need_probabilities(result.data)
    n_labels = max(truth.shape[1], result.shape[1])
    positives = np.bincount(truth.indices, minlength=n_labels)
    thresholds = np.full(n_labels, default, np.float32)
    order = np.lexsort((-result.data, result.indices))
    labels, values = result.indices[order], result.data[order].astype(np.float64)
    right = np.isin(pair_keys(result, n_labels)[order], pair_keys(truth, n_labels), assume_unique=True)
    begins = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    counts = np.diff(np.append(begins, len(labels)))
    before = np.repeat(np.append(0, np.cumsum(right))[begins], counts)
    answered = np.arange(len(labels)) - np.repeat(begins, counts) + 1
    f1 = 2 * (np.cumsum(right) - before) / (answered + positives[labels])
    last = np.append(labels[1:] != labels[:-1], True)  # no cut between equal probabilities
    below = np.where(last, 0.0, np.append(values[1:], 0.0))
    f1[~last & (values == below)] = -1
    best = np.lexsort((answered, -f1, labels))[begins]
    chosen = labels[best]
    enough = (positives[chosen] >= min_positives) & (f1[best] > 0)
    middle = np.where(last[best], values[best], (values[best] + below[best]) / 2).astype(np.float32)
    middle = np.maximum(middle, np.nextafter(below[best].astype(np.float32), np.float32(np.inf)))
    thresholds[chosen[enough]] = middle[enough]
    return thresholds
