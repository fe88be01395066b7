"""Checksums of what is trained on: another set of the same size is told from the one that a training began with."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["checksum", "checksum_of_matrices"]

_AT_ONCE = 1 << 20  # numbers of an array that are copied at a time
_PERIOD = 1009  # of the weights that tell values from the same values in other places


def checksum(arrays: Iterable[np.ndarray[Any, Any]]) -> str:
    """CRC-32 of integers and of the arrays' lengths, whatever their dtypes and the machine's order of bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan.tasks.checksum import checksum
    >>> checksum([np.array([1, 2], np.int32)]) == checksum([np.array([1, 2], np.int64)])
    True
    """
    found = 0
    for array in arrays:
        found = zlib.crc32(f"{len(array)};".encode(), found)
        for at in range(0, len(array), _AT_ONCE):
            found = zlib.crc32(array[at : at + _AT_ONCE].astype("<i8").tobytes(), found)
    return f"{found:08x}"


def checksum_of_matrices(features: sp.csr_matrix, labels: sp.csr_matrix) -> str:
    """Checksum of where features and labels stand, and seven digits of the features' values.

    Values that came of texts may differ in their last bits between processors, on which a training may well go on.
    They are therefore summed, weighted by their places, and the sum rounded; what rows hold is counted exactly.
    """
    total = 0.0
    for at in range(0, features.nnz, _AT_ONCE):
        values = features.data[at : at + _AT_ONCE].astype(np.float64)
        total += float(np.sum(values * (1 + np.arange(at, at + len(values)) % _PERIOD)))
    places = (part for matrix in (features, labels) for part in (matrix.indptr, matrix.indices))
    return f"{checksum(places)} {total:.6e}"
