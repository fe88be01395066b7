"""Features of any scale: what costs, pruning and the bias mean doesn't depend on the unit that they are measured in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from sylvan.arrays.validate import Csr
from sylvan.data.parts.row_parts import Rows

# Columns whose values differ by more than this are of different units. Those of TF-IDF differ by about ten, and on
# purpose: rare words count for more.
_SPREAD = 100.0
_NEAR_1 = 1e-3  # lengths this near to 1 are 1, but for rounding
_RANGE = (1e-14, 1e14)  # beyond it float32 would overflow in squares


@dataclass(frozen=True)
class Scale:
    """What features are of another scale than TF-IDF's, whose rows have length 1."""

    length: float = 1.0  # the usual length of their rows
    # shape (n_features,), or None: what makes the columns' values about 1, where they are of different units
    factors: npt.NDArray[np.float32] | None = None

    @classmethod
    def of(cls, features: Rows, normalized: bool) -> Scale:
        """Of features whose rows are yet to be ``normalized`` to unit length, or aren't."""
        length = _usual_length(features)
        factors = None if length == 1 else _column_factors(features)
        if normalized:
            return cls(1.0, factors)
        return cls(length if factors is None else _usual_length(features.times_columns(factors)), factors)


@overload
def scaled(features: Csr, factors: npt.NDArray[np.float32] | None, normalized: bool) -> Csr: ...


@overload
def scaled(features: Rows, factors: npt.NDArray[np.float32] | None, normalized: bool) -> Rows: ...


def scaled(features: Rows, factors: npt.NDArray[np.float32] | None, normalized: bool) -> Rows:
    """Features as rankers see them: columns times ``factors``, then rows of unit length if they are ``normalized``."""
    features = features if factors is None else features.times_columns(factors)
    return features.unit_rows() if normalized else features


def _usual_length(features: Rows) -> float:
    """The median length of the rows that hold a value; 1 for rows of unit length."""
    lengths = np.sqrt(features.row_squares())
    lengths = lengths[lengths > 0]
    length = float(np.median(lengths)) if lengths.size else 1.0
    return 1.0 if abs(length - 1) < _NEAR_1 else float(np.clip(length, *_RANGE))


def _column_factors(features: Rows) -> npt.NDArray[np.float32] | None:
    """One by the root mean square of the values that each column holds; None where these are of one unit."""
    compact, columns = features.used_columns()
    squares, counts = compact.column_squares()
    filled = np.flatnonzero(squares > 0)
    if filled.size < 2:
        return None
    units = np.sqrt(squares[filled] / counts[filled])
    low, high = np.quantile(units, (0.01, 0.99))
    if high <= _SPREAD * low:
        return None
    factors = np.ones(features.shape[1], np.float32)
    factors[filled if columns is None else columns[filled]] = np.clip(1 / units, *_RANGE)
    return factors
