"""Figures of panels side by side, in one style; matplotlib is loaded when one is drawn."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sylvan.errors import DataError

# Told apart by people who see few colours, on paper too (Okabe and Ito's palette).
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"


def need_matplotlib() -> None:
    """Refuse to draw without matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise DataError('Figures need matplotlib: pip install "sylvan[plot]".') from error


def draw_panels(paths: Sequence[str | os.PathLike[str]], title: str, panels: Sequence[Callable[[Any], None]]) -> None:
    """Draw panels from left to right into each of ``paths``, whose endings say the format."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11)
    for axes, paint in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        paint(axes)
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    # Neither dates nor random names inside: the same figure gives the same file.
    for path in paths:
        dateless: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        with rc_context({"svg.hashsalt": "sylvan", "svg.fonttype": "none"}):
            figure.savefig(path, dpi=150, metadata=dateless.get(os.path.splitext(path)[1].lower()))
