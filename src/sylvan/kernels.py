"""The only importer of the native module: everything else asks for its kernels here."""

from __future__ import annotations

from sylvan._native import (
    check_compressed,
    renumber_features,
    solve_group,
    solver_scratch_floats,
    sort_triples,
)

__all__ = [
    "check_compressed",
    "renumber_features",
    "solve_group",
    "solver_scratch_floats",
    "sort_triples",
]
