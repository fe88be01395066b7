"""Matrices that are about to be written, or were just read from an array file: CSR, finite, sorted."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan import kernels
from sylvan.errors import DataError


def sound_csr(matrix: Any, name: str) -> sp.csr_matrix:
    """``matrix`` as CSR of float32 and int32 ids, sorted, repeated entries summed; stored zeros stay."""
    if not sp.issparse(matrix):
        matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            raise DataError(
                f"{name} must be a matrix of numbers. Got an array of dtype {matrix.dtype} and shape "
                f"{matrix.shape} instead."
            )
    if max(matrix.shape) >= 2**31:
        raise DataError(f"{name} must have fewer than {2**31} rows and columns. Got shape {matrix.shape} instead.")
    csr = sp.csr_matrix(matrix)
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(csr.data, dtype=np.float32)
    indptr = np.ascontiguousarray(csr.indptr, dtype=np.int64)
    indices = np.ascontiguousarray(csr.indices, dtype=np.int32)
    fault, row = kernels.check_compressed(indptr, indices, values, csr.shape[1])
    if fault == 1:
        raise DataError(f"{name}: the row offsets must start at 0, never fall, and end at the number of entries.")
    if fault == 2:
        raise DataError(f"{name}, row {row}: column ids must be in [0, {csr.shape[1] - 1}].")
    if fault == 3:
        raise DataError(f"{name}, row {row}: values must be finite float32 numbers.")
    if len(indices) <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    result = sp.csr_matrix((values, indices, indptr), shape=csr.shape)
    if fault == 4:
        if np.shares_memory(result.data, matrix.data) or np.shares_memory(result.indices, matrix.indices):
            result = result.copy()
        result.sum_duplicates()
        if not np.isfinite(result.data).all():
            raise DataError(f"{name}: repeated entries must sum to finite float32 numbers.")
    else:
        result.has_sorted_indices = result.has_canonical_format = True
    return result


def label_csr(matrix: Any, name: str) -> sp.csr_matrix:
    """:func:`sound_csr` of a label matrix: relevance must not be negative, and zeros are no labels."""
    csr = sound_csr(matrix, name)
    if (csr.data <= 0).any():
        if (csr.data < 0).any():
            raise DataError(f"{name}: a label's relevance must not be negative. Got {csr.data.min()} instead.")
        csr = csr.copy()
        csr.eliminate_zeros()
    return csr
