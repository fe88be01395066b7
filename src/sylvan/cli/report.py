"""Numbers and tables as people read them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

__all__ = ["folder_size", "metric_table", "shortened"]


def folder_size(folder: str) -> str:
    """The size of a folder's files in words, like ``20.9 MB``."""
    size = float(sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()))
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def metric_table(measures: Mapping[str, Mapping[int, float]], at: Sequence[int]) -> str:
    """Percentages, a row a measure and a column a cut-off."""
    lines = [" " * 8 + "".join(f"{f'@{k}':>8}" for k in at)]
    for name, values in measures.items():
        lines.append(f"{name:<8}" + "".join(f"{100 * values[k]:8.2f}" for k in at))
    return "\n".join(lines)


def shortened(text: str, length: int) -> str:
    """``text`` on one line, cut to ``length`` characters."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
