"""Sparse matrices out of a manifest's arrays, verified."""

from __future__ import annotations

import numpy as np

from sylvan import kernels
from sylvan.arrays.canonical import Csr
from sylvan.errors import ModelError
from sylvan.store.needs import need_array, need_offsets
from sylvan.store.state import State


def need_csr(state: State, name: str, shape: tuple[int, int]) -> Csr:
    """The matrix in the arrays ``name.indptr``, ``name.indices`` and ``name.data``: columns rise, values are finite."""
    indptr = need_offsets(state, f"{name}.indptr", length=shape[0] + 1)
    size = (int(indptr[-1]),)
    indices = need_array(state, f"{name}.indices", np.int32, size)
    data = need_array(state, f"{name}.data", np.float32, size)
    fault, row = kernels.check_compressed(indptr, indices, data, shape[1])
    if fault:
        where = state.where or f"The {state.kind}"
        raise ModelError(
            f"{where!r} is damaged: row {row} of {name!r} must hold rising columns in [0, {shape[1] - 1}] and finite "
            "values."
        )
    return Csr(indptr, indices, data, shape)
