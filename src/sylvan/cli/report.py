"""Numbers and tables as people read them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sylvan.hub.card_text import size_words

__all__ = ["Intervals", "folder_size", "metric_table", "shortened", "size_words", "slice_table", "threshold_line"]


def folder_size(folder: str) -> str:
    """The size of a folder's files in words, like ``20.9 MB``."""
    places = (os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)
    return size_words(sum(os.stat(path).st_size for path in places))


# Lower and upper ends, by measure and cut-off.
Intervals = Mapping[str, Mapping[int, tuple[float, float]]]


def metric_table(
    measures: Mapping[str, Mapping[int, float]], at: Sequence[int], intervals: Intervals | None = None
) -> str:
    """Percentages, a row a measure and a column a cut-off; after each ± half of its interval, where there is one."""
    width = 8 if intervals is None else 14
    lines = [" " * 8 + "".join(f"{f'@{k}':>8}".ljust(width) for k in at).rstrip()]
    for name, values in measures.items():
        cells = []
        for k in at:
            low, high = (intervals or {}).get(name, {}).get(k, (np.nan, np.nan))
            half = 100 * max(values[k] - low, high - values[k])
            cells.append(f"{100 * values[k]:8.2f}" + ("" if np.isnan(half) else f" ±{half:<4.2f}"))
        lines.append(f"{name:<8}" + "".join(cell.ljust(width) for cell in cells).rstrip())
    return "\n".join(lines)


def slice_table(slices: Mapping[str, Mapping[str, Any]], at: Sequence[int]) -> str:
    """Recall in percent of labels by how often they were in training: a row a slice, a column a cut-off."""
    lines = [f"{'recall':<8}" + "".join(f"{f'@{k}':>8}" for k in at) + f"{'labels':>12}{'rows':>10}"]
    for name, values in slices.items():
        cells = "".join(f"{100 * values['R'][k]:8.2f}" for k in at)
        lines.append(f"{name:<8}{cells}{values['labels']:>12,}{values['rows']:>10,}")
    return "\n".join(lines)


def threshold_line(values: Mapping[str, float]) -> str:
    """F1 of the labels with at least some probability, in percent: of rows, of pairs of row and label, of labels."""
    kinds = ", ".join(f"{name} {100 * values[key]:.2f}" for name, key in _KINDS)
    return f"Labels with a probability of {values['threshold']:g} or more, {values['labels']:.2f} a row: F1 {kinds}."


_KINDS = (("by rows", "F1"), ("micro", "micro-F1"), ("macro", "macro-F1"))


def shortened(text: str, length: int) -> str:
    """``text`` on one line, cut to ``length`` characters."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
