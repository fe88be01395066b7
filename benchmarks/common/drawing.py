"""Figures of the results, as SVG or PNG: the same bytes from the same figures, where matplotlib is there."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["draw_figure", "plain_log"]

DPI = 150


def draw_figure(path: Path, fill: Callable[[Any], None], kinds: Sequence[str] = ("svg",)) -> list[Path]:
    """Let ``fill`` draw on a figure and write it to ``path``, with each kind as suffix; nothing without matplotlib."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print("no figures: matplotlib is missing")
        return []
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    fill(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_name(f"{path.name}.{kind}") for kind in kinds]
    with rc_context({"svg.hashsalt": "sylvan", "svg.fonttype": "none"}):
        figure.savefig(io.BytesIO(), dpi=DPI)  # the constrained layout settles in a first pass
        for file in written:
            figure.savefig(file, dpi=DPI, metadata={"Date": None} if file.suffix == ".svg" else {"Software": None})
    return written


def plain_log(axis: Any) -> None:
    """Numbers, not powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
