"""Parameters of functions, held to their ranges in the sentence that every parameter has; columns in use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sylvan.errors import ParameterError
from sylvan.params import Constraint
from sylvan.validate import Csr

__all__ = ["check_number", "used_columns"]

_FEW_COLUMNS = 1 << 22


def check_number(name: str, value: object, constraint: Constraint) -> None:
    """Raise ``ParameterError`` unless ``value`` is one that ``constraint`` allows."""
    if value is None and constraint.optional:
        return
    if value is None or not constraint.accepts(value):
        raise ParameterError(f"The {name!r} parameter must be {constraint.describe()}. Got {value!r} instead.")


def used_columns(matrix: Csr) -> tuple[Csr, npt.NDArray[np.int32] | None]:
    """A matrix of very many columns without those that are empty, and which ones are left; else as it is, and None.

    The kernels keep arrays of all columns: a hashed feature space of two thousand million must not cost gigabytes.
    """
    if matrix.shape[1] <= max(_FEW_COLUMNS, 2 * matrix.nnz):
        return matrix, None
    columns, indices = np.unique(matrix.indices, return_inverse=True)
    shape = (matrix.shape[0], max(1, columns.size))
    return Csr(matrix.indptr, indices.astype(np.int32), matrix.data, shape), columns
