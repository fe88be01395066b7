"""Stopping rules: how many of a row's ranked labels to answer, given their probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sylvan.arrays import validate
from sylvan.arrays.topk import TopK, keep
from sylvan.arrays.types import Array, Float32, Float64, Int64
from sylvan.errors import DataError, ParameterError
from sylvan.parallel import split_ranges
from sylvan.params.fields import Number, check_value
from sylvan.params.wording import counted

Expected = Literal["f1"]

DEPTH = 100  # answers that a rule looks at, where k doesn't ask for more
_BLOCK_VALUES = 1 << 20  # doubles of the table of one block of rows


@dataclass(frozen=True, eq=False)
class StoppingRule:
    """Which of a row's ranked labels to answer."""

    depth: int  # number of answers that it looks at
    k: int | None  # most answers
    threshold: float | Float32 | None  # shape (n_labels,), or None
    f1: bool
    precision: float | None

    @classmethod
    def of(cls, k: Any, threshold: Any, expected: Any, precision: Any, n_labels: int) -> StoppingRule:
        """The rule that the arguments of ``predict`` name."""
        rules = {"threshold": threshold, "expected": expected, "precision": precision}
        named = [name for name, value in rules.items() if value is not None]
        if len(named) > 1:
            raise ParameterError(f"predict takes one rule for when to stop. Got {' and '.join(named)} instead.")
        if k is not None:
            k = validate.count(k, "k", owner="predict")
        if expected not in (None, *get_args(Expected)):
            raise ParameterError(f"The 'expected' parameter of predict must be 'f1' or None. Got {expected!r} instead.")
        if precision is not None:
            check_value("precision", precision, Number(float, 0, 1, open_low=True), "predict")
            precision = float(precision)
        if threshold is not None or not (named or k):
            threshold = _threshold(0.5 if threshold is None else threshold, n_labels)
        depth = min(k if k is not None and not named else max(DEPTH, k or 0), n_labels)
        return cls(max(1, depth), k, threshold, expected == "f1", precision)

    def __call__(self, top: TopK) -> TopK:
        """The chosen answers of a ranking whose scores are probabilities."""
        answered = top.labels >= 0
        if self.threshold is not None:
            least = self.threshold[top.labels] if isinstance(self.threshold, np.ndarray) else self.threshold
            chosen = answered & (top.scores >= least)
            return keep(top, chosen if self.k is None else chosen & (np.cumsum(chosen, axis=1) <= self.k))
        lengths = np.full(len(top), top.k if self.k is None else self.k, np.int64)
        filled = np.where(answered, top.scores, 0)
        if self.f1:
            lengths = np.minimum(lengths, lengths_for_f1(filled, self.k))
        elif self.precision is not None:
            lengths = np.minimum(lengths, lengths_for_precision(filled, self.precision))
        return keep(top, answered & (np.arange(top.k) < lengths[:, None]))


def _threshold(value: Any, n_labels: int) -> float | Float32:
    if np.ndim(value) == 0:
        check_value("threshold", value, Number(float, 0, 1), "predict")
        return float(value)
    array = validate.real_numbers(value, "threshold")
    if array.shape != (n_labels,):
        raise DataError(
            f"threshold has shape {array.shape}, but the model has {counted(n_labels, 'label')}: give one number, or "
            "one a label."
        )
    if not (array >= 0).all() or not (array <= 1).all():
        wrong = int(np.argmin((array >= 0) & (array <= 1)))
        raise DataError(f"threshold must hold numbers in [0, 1]. Got {array[wrong]} for label {wrong} instead.")
    return array.astype(np.float32)


def lengths_for_precision(probabilities: Array, precision: float) -> Int64:
    """How long each row's list may be for an expected precision of at least ``precision``. The expected precision of
    the first m answers is the mean of their probabilities."""
    # Shape: probabilities (n, k)
    places = np.arange(1, probabilities.shape[1] + 1)
    # Sums of float32 values in double precision: a mean that is the bound itself must not fall short of it.
    enough = np.cumsum(probabilities, axis=1, dtype=np.float64) >= precision * places * (1 - 1e-9)
    return np.asarray(np.where(enough & (probabilities > 0), places, 0).max(axis=1, initial=0))


def lengths_for_f1(probabilities: Array, most: int | None = None) -> Int64:
    """How many answers make the expected F1 of each row greatest: at least one, at most ``most``. Parameters and source
    as in :func:`expected_f1`; of equally good lengths the shortest."""
    n, k = probabilities.shape
    if not k:
        return np.zeros(n, np.int64)
    best: Int64 = expected_f1(probabilities)[:, :most].argmax(axis=1) + 1
    n_answers: Int64 = (probabilities > 0).sum(axis=1)
    return np.minimum(best, n_answers)


def expected_f1(probabilities: Array) -> Float64:
    """The expected F1 of answering with the first 1, 2, ..., k labels of each row, exactly. Labels are taken to be true
    independently of each other, each with its probability; labels that aren't among the k count as wrong. With T of the
    first m labels true and R of the others, F1 is ``2 T / (m + T + R)``. Its mean takes a table of T's distribution,
    and ``E[1 / (s + R)]`` for every s from that of one label less: O(k^2) a row (Ye, Chai, Lee and Chieu 2012,
    "Optimizing F-measure: A tale of two approaches", Section 4)."""
    # Shape: probabilities (n, k); returns (n, k)
    n, k = probabilities.shape
    result = np.zeros((n, k))
    rows = max(1, _BLOCK_VALUES // max(1, k * (k + 1)))
    for first, last in split_ranges(n, rows):
        p = np.asarray(probabilities[first:last], np.float64)
        true = np.zeros((k + 1, len(p), k + 1))  # true[m, :, t]: how likely t of the first m labels are true
        true[0, :, 0] = 1
        for m in range(1, k + 1):
            chance = p[:, m - 1, None]
            true[m, :, : m + 1] = true[m - 1, :, : m + 1] * (1 - chance)
            true[m, :, 1 : m + 1] += true[m - 1, :, :m] * chance
        inverse = np.tile(1 / np.maximum(np.arange(2 * k + 1), 1), (len(p), 1))  # E[1 / (s + R)], here R = 0
        for m in range(k, 0, -1):
            weights, t = inverse[:, m : 2 * m + 1], np.arange(m + 1)
            result[first:last, m - 1] = 2 * np.einsum("it,t,it->i", true[m, :, : m + 1], t, weights)
            chance = p[:, m - 1, None]
            inverse[:, 1 : 2 * m] = chance * inverse[:, 2 : 2 * m + 1] + (1 - chance) * inverse[:, 1 : 2 * m]
    return result
