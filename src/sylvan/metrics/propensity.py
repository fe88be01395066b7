"""How likely a true label is to be noted down at all, by how often it was in training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.errors import DataError, ParameterError


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
        When ``A`` or ``B`` is not a finite number, ``A`` is negative or ``B`` not above 0.
    DataError
        When a count is not in [0, n_rows].

    Examples
    --------
    >>> from sylvan import metrics
    >>> metrics.propensities_of_counts([4, 1], 4).round(2).tolist()
    [0.8, 0.72]
    """
    for name, value in (("A", A), ("B", B)):
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0 or (name == "B" and value == 0):
            bounds = "[0, inf)" if name == "A" else "(0, inf)"
            raise ParameterError(
                f"The {name!r} parameter of propensities must be a float in {bounds}. Got {value!r} instead."
            )
    times = np.asarray(counts)
    if times.ndim != 1 or times.dtype.kind not in "iu" or n_rows < 1:
        raise DataError(f"counts must be one int a label. Got {times.dtype} of shape {times.shape} instead.")
    if times.size and not 0 <= int(times.min()) <= int(times.max()) <= n_rows:
        raise DataError(f"counts must be in [0, {n_rows}], the number of rows.")
    factor = max(0.0, math.log(n_rows) - 1.0) * (B + 1.0) ** A
    result: npt.NDArray[np.float64] = 1.0 / (1.0 + factor * (times + B) ** -A)
    return result


def check_propensities(values: Any) -> npt.NDArray[np.float64]:
    """Propensities as float64."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise DataError(f"propensities must be one number a label. Got {array.dtype} of shape {array.shape} instead.")
    array = array.astype(np.float64)
    bad = ~((array > 0) & (array <= 1))
    if bad.any():
        label = int(bad.argmax())
        raise DataError(f"propensities must be in (0, 1]. Got {array[label]} for label {label} instead.")
    return array
