"""How sure a figure is, and a difference of two: rows drawn again and again, always by the same seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES, FLIPS = 2000, 20_000  # draws of an interval, and of a test
_BLOCK = 1 << 22  # numbers that are drawn at once
Floats = npt.NDArray[np.float64]


def patterns(values: Any) -> tuple[Floats, npt.NDArray[np.int64]]:
    """The distinct rows of a matrix, and how often each is there."""
    # Shape: values (n, m)
    code = np.zeros(len(values), np.int64)
    for column in values.T:
        distinct, places = np.unique(column, return_inverse=True)
        _, code = np.unique(code * len(distinct) + places, return_inverse=True)
    _, first, counts = np.unique(code, return_index=True, return_counts=True)
    return np.asarray(values[first], np.float64), counts


def resampled_sums(values: Any, n_resamples: int = RESAMPLES, seed: int = 0, counts: Any = None) -> Floats:
    """The sums over rows that are drawn at random, with replacement, as many as there are (Efron 1979). How often each
    distinct row is drawn is multinomial, so that a million rows take no longer than their kinds. ``counts`` says how
    often each row is there, where that is known."""
    # Shape: values (n, m); returns (n_resamples, m)
    rows, counts = patterns(values) if counts is None else (values, counts)
    n = int(counts.sum())
    rng, size = np.random.default_rng(seed), max(1, _BLOCK // max(1, len(counts)))
    sums = [
        rng.multinomial(n, counts / n, min(size, n_resamples - first)) @ rows
        for first in range(0, n_resamples, size)
    ]
    return np.concatenate(sums)


def interval(
    values: Any, figure: Callable[[Floats], Floats], confidence: float = 0.95, seed: int = 0, counts: Any = None
) -> tuple[float, float]:
    """Between what values a figure of the sums over rows lies, by the percentiles of resamples; NaN where it has no
    value in any. ``figure`` is given sums of shape (m, n_resamples)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found = figure(resampled_sums(values, seed=seed, counts=counts).T)
    found = found[np.isfinite(found)]
    if not len(found):
        return np.nan, np.nan
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def share_interval(
    part: Any, whole: Any, confidence: float = 0.95, seed: int = 0, counts: Any = None
) -> tuple[float, float]:
    """As :func:`interval`, of ``part / whole`` summed over rows. Where all is right, or nothing, resamples can't tell
    how sure that is: the other end is then Clopper and Pearson's of as many rows."""
    times = np.ones(len(part), np.int64) if counts is None else counts
    right, total, n_rows = (float(times @ each) for each in (part, whole, whole > 0))
    low, high = interval(np.stack([part, whole], axis=1), lambda sums: sums[0] / sums[1], confidence, seed, counts)
    beyond = ((1 - confidence) / 2) ** (1 / max(1, n_rows))
    if n_rows and right == total:
        low = beyond
    elif n_rows and not right:
        high = 1 - beyond
    return low, high


@dataclass(frozen=True)
class Difference:
    """By how much the mean over rows is higher, with its interval, and how often chance alone gives as much."""

    mean: float
    low: float
    high: float
    p: float


def difference(first: Any, second: Any, confidence: float = 0.95, seed: int = 0) -> Difference:
    """``second`` beside ``first``, row by row: the interval of the mean difference by the paired bootstrap, and the
    two-sided p-value of the paired permutation test, in which each row's two values change places with a chance of a
    half (Fisher 1935; Smucker, Allan and Carterette 2007)."""
    # Shape: first, second (n,)
    gaps = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    low, high = interval(gaps[:, None], lambda sums: sums[0] / len(gaps), confidence, seed)
    sizes, counts = patterns(np.abs(gaps).round(12)[:, None])
    rng, observed, n_extreme = np.random.default_rng(seed), abs(gaps.sum()), 0
    size = max(1, _BLOCK // max(1, len(counts)))
    for start in range(0, FLIPS, size):
        kept = rng.binomial(counts, 0.5, (min(size, FLIPS - start), len(counts)))  # in place, of rows with one gap
        n_extreme += int(np.count_nonzero(np.abs((2 * kept - counts) @ sizes[:, 0]) >= observed - 1e-9))
    return Difference(float(gaps.mean()), low, high, (1 + n_extreme) / (1 + FLIPS))
