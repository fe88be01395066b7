"""The only importer of the native module: everything else asks for its kernels here."""

from __future__ import annotations

from sylvan._native import canonical_rows, check_compressed, count_dense, fill_dense

__all__ = ["canonical_rows", "check_compressed", "count_dense", "fill_dense"]
