"""The only importer of the native module: everything else asks for its kernels here."""

from __future__ import annotations

from sylvan._native import bound_lines, check_compressed, format_lines, parse_lines

__all__ = ["bound_lines", "check_compressed", "format_lines", "parse_lines"]
