"""A small network that scores candidates by their columns: stored and evaluated as a few arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store

__all__ = ["MOST_DEVIATIONS", "LayeredScorer"]

_Floats = npt.NDArray[np.float32]
_MOST_UNITS = 4096
_BOUND = 1e6  # of a weight
_GREATEST = float(np.finfo(np.float32).max)
MOST_DEVIATIONS = 8.0  # from a column's mean; what is farther off counts as that far


@dataclass(frozen=True, eq=False)
class LayeredScorer:
    """One hidden layer of rectified units over columns that are brought to mean 0 and deviation 1.

    A value more than 8 deviations from the mean counts as one of 8: what is unlike anything in training, such as the
    few rows of a new label, mustn't outweigh all else.

    Attributes
    ----------
    mean, scale : ndarray of float32, shape (n_features,)
        What is taken from each column, and what it is then multiplied with.
    first : ndarray of float32, shape (n_features, n_units)
    first_bias, second : ndarray of float32, shape (n_units,)
    second_bias : float
    """

    mean: _Floats
    scale: _Floats
    first: _Floats
    first_bias: _Floats
    second: _Floats
    second_bias: float

    def scores(self, columns: _Floats) -> _Floats:
        """One score for each row of shape (n, n_features).

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan.ranking.layered_scorer import LayeredScorer
        >>> one = np.ones(1, np.float32)
        >>> LayeredScorer(0 * one, one, one[None], 0 * one, one, 0.5).scores(np.array([[2.0], [-1.0]], np.float32))
        array([2.5, 0.5], dtype=float32)
        """
        far = (columns - self.mean.astype(np.float64)) * self.scale  # whose differences may be no float32
        standard = np.clip(far, -MOST_DEVIATIONS, MOST_DEVIATIONS).astype(np.float32)
        # An einsum adds up in one order, whatever the number of rows; a product by BLAS doesn't.
        hidden = np.einsum("nf,fu->nu", standard, self.first, optimize=False)
        hidden = np.maximum(hidden + self.first_bias, 0)
        result: _Floats = np.einsum("nu,u->n", hidden, self.second, optimize=False) + np.float32(self.second_bias)
        return result

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by the names that they are stored under."""
        return {
            "layers.mean": self.mean, "layers.scale": self.scale, "layers.first": self.first,
            "layers.first_bias": self.first_bias, "layers.second": self.second,
            "layers.second_bias": np.array([self.second_bias], np.float32),
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: store.State, n_features: int) -> LayeredScorer:
        """From :meth:`to_arrays`' result, verified.

        Raises
        ------
        ModelError
        """
        first = store.need_range(state, "layers.first", -_BOUND, _BOUND, np.float32, (n_features, None))
        if first.shape[1] > _MOST_UNITS:
            first = store.need_array(state, "layers.first", np.float32, (n_features, _MOST_UNITS))

        def need(name: str, size: int, bound: float = _BOUND) -> _Floats:
            return store.need_range(state, f"layers.{name}", -bound, bound, np.float32, (size,))

        n_units = first.shape[1]
        return cls(
            need("mean", n_features, _GREATEST), need("scale", n_features), first, need("first_bias", n_units),
            need("second", n_units), float(need("second_bias", 1)[0]),
        )  # fmt: skip
