"""Per-label thresholds, fitted on holdout rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError, ParameterError
from sylvan.metrics.rows import check_answers, check_truth, is_inferred


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
        What ``predict_proba`` gives for them.
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
    if isinstance(default, bool) or not isinstance(default, int | float) or not 0 <= default <= 1:
        raise ParameterError(
            f"The 'default' parameter of fit_thresholds must be a float in [0, 1]. Got {default!r} instead."
        )
    truth = check_truth(Y, probabilities)
    if isinstance(probabilities, TopK):
        n_labels = max(truth.shape[1], int(probabilities.labels.max(initial=-1)) + 1)
        check_answers(probabilities, truth, 1, inferred=True)
        probabilities = probabilities.to_csr(n_labels)
    result = check_answers(probabilities, truth, 1, is_inferred(Y))
    if not isinstance(result, sp.csr_matrix) or not result.nnz:
        raise DataError("There are no probabilities to fit thresholds to.")
    n_labels = max(truth.shape[1], result.shape[1])
    positives = np.bincount(truth.indices, minlength=n_labels)
    thresholds = np.full(n_labels, default, np.float32)
    rows = np.repeat(np.arange(truth.shape[0], dtype=np.int64), np.diff(truth.indptr))
    keys = rows * n_labels + truth.indices
    asked = np.repeat(np.arange(result.shape[0], dtype=np.int64), np.diff(result.indptr)) * n_labels + result.indices
    order = np.lexsort((-result.data, result.indices))
    labels, values = result.indices[order], result.data[order].astype(np.float64)
    right = np.isin(asked[order], keys, assume_unique=True)
    begins = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    before = np.repeat(np.append(0, np.cumsum(right))[begins], np.diff(np.append(begins, len(labels))))
    answered = np.arange(len(labels)) - np.repeat(begins, np.diff(np.append(begins, len(labels)))) + 1
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
