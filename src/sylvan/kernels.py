"""The only importer of the native module: everything else asks for its kernels here."""

from __future__ import annotations

from sylvan._native import (
    bound_lines,
    canonical_rows,
    check_compressed,
    count_dense,
    fill_dense,
    format_lines,
    parse_lines,
    renumber_features,
    solve_group,
    solver_scratch_floats,
    sort_triples,
)

__all__ = [
    "bound_lines",
    "canonical_rows",
    "check_compressed",
    "count_dense",
    "fill_dense",
    "format_lines",
    "parse_lines",
    "renumber_features",
    "solve_group",
    "solver_scratch_floats",
    "sort_triples",
]
