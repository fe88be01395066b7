"""One class a row: what a model is given so, it answers so, as scikit-learn's classifiers do."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.arrays.canonical import Csr
from sylvan.arrays.dlpack import numpy_of
from sylvan.arrays.frames import labels_of


def one_class_a_row(Y: Any) -> bool:
    """Whether labels are one class id or name for each row, and not lists, a matrix or a frame with several columns."""
    Y = numpy_of(labels_of(Y), "Y")
    if hasattr(Y, "__array__") and not sp.issparse(Y):
        array = np.asarray(Y)
        if array.ndim != 1 or array.dtype != object:
            return array.ndim == 1 and len(array) > 0
        Y = array.tolist()
    if sp.issparse(Y) or isinstance(Y, Csr | str | bytes | dict) or not hasattr(Y, "__len__"):
        return False
    return len(Y) > 0 and all(isinstance(row, str | numbers.Real | np.generic) for row in Y)
