"""Whether draws come from a distribution, and whether their mean is what it should be, with the chances of an error.

A test draws by a seed, so it passes or fails for good, but whatever changes how many numbers are drawn, or in which
order, is another seed. How many draws a comparison needs follows from its two errors and from what it must notice; with
fewer it fails.
"""

import functools
import math
from typing import Any

import numpy as np
from scipy import optimize, stats

FALSE_ALARM = 1e-9  # the chance that a comparison fails under another seed, though nothing is wrong
POWER = 0.99  # the chance that it fails where something is off by what it must notice
SIGMAS = float(stats.norm.isf(FALSE_ALARM / 2))  # so many standard errors a mean may be off: 6.1
_FEWEST = 25  # draws expected of a class; rarer ones are pooled, as tails would be heavier than chi-square's


@functools.cache
def draws_needed(n_classes: int, off_by: float) -> int:
    """Of how many draws a distribution over so many classes is noticed that is ``off_by`` so much.

    That is the root of the mean square, over what should be drawn, of each probability's relative error: 0.05 where
    each is off by a twentieth of itself.
    """
    degrees = max(n_classes - 1, 1)
    limit = stats.chi2.isf(FALSE_ALARM, degrees)
    excess = optimize.brentq(lambda excess: stats.ncx2.sf(limit, degrees, excess) - POWER, 1e-3, 1e6)
    return math.ceil(excess / off_by**2)


def p_value(ids: Any, probabilities: Any) -> float:
    """Of the chi-square test that these classes were drawn by probabilities (n_classes,); 0 if one can't be drawn."""
    probabilities = np.asarray(probabilities, np.float64)
    ids = np.asarray(ids).reshape(-1)
    seen = np.bincount(ids, minlength=len(probabilities))
    if (seen[probabilities == 0] > 0).any():
        return 0.0
    expected = probabilities / probabilities.sum() * len(ids)
    rarest_first = np.argsort(expected)
    pooled = max(int((expected < _FEWEST).sum()), 1)  # the rarest, and as many more as make a cell of them
    pooled = max(pooled, int(np.searchsorted(expected[rarest_first].cumsum(), _FEWEST)) + 1)
    starts = np.array([0, *range(pooled, len(expected))])
    observed, wanted = (np.add.reduceat(column[rarest_first], starts) for column in (seen, expected))
    return float(stats.chi2.sf(((observed - wanted) ** 2 / wanted).sum(), max(len(wanted) - 1, 1)))


def assert_drawn_by(ids: Any, probabilities: Any, off_by: float) -> None:
    """Fail unless classes were drawn by probabilities (n_classes,), or of too few draws to notice what is ``off_by``
    so much (:func:`draws_needed`)."""
    needed, n = draws_needed(len(probabilities), off_by), np.asarray(ids).size
    assert n >= needed, f"{n} draws are too few for {len(probabilities)} classes and {off_by}: {needed}"
    assert p_value(ids, probabilities) >= FALSE_ALARM


def assert_mean(values: Any, expected: float, off_by: float) -> None:
    """Fail unless independent values have this mean, or if a mean ``off_by`` so much might not be noticed."""
    values = np.asarray(values, np.float64)
    error = values.std() / math.sqrt(values.size)
    noticed = (SIGMAS + float(stats.norm.isf(1 - POWER))) * error
    assert noticed <= off_by, f"{values.size} values are too few: they notice what is off by {noticed:.3g}"
    assert abs(values.mean() - expected) <= SIGMAS * error, f"{values.mean()} is not {expected}, with {error:.3g}"
