"""The picture of a training: its loss and its validation measure over epochs."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from sylvan.errors import DataError
from sylvan.neural.loop.history import History

__all__ = ["draw_convergence"]

# Told apart by people who see few colours, on paper too (Okabe and Ito's palette).
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#767676"


def draw_convergence(history: History, paths: Sequence[str | os.PathLike[str]], title: str = "") -> None:
    """Draw how the training loss and the validation measure went, into each of ``paths`` (PNG, SVG or PDF).

    Raises
    ------
    DataError
        When there is nothing to draw, or matplotlib is missing.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DataError('The picture of a training needs matplotlib: pip install "sylvan[plot]".') from error
    if not history.epochs:
        raise DataError("There is nothing to draw: the training has no evaluation yet.")
    figure = Figure(figsize=(9.2, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize=11)
    loss, measure = figure.subplots(1, 2)
    _draw(loss, history, "loss", _ORANGE, "training loss")
    _draw(measure, history, history.metric, _BLUE, f"validation {history.metric}")
    if history.best is not None and math.isfinite(history.best[history.metric]):
        at, value = history.best["step"], history.best[history.metric]
        measure.scatter([at], [value], s=70, facecolors="none", edgecolors=_GREY, zorder=3)
        measure.annotate(
            f"{value:.4g}", (at, value), textcoords="offset points", xytext=(0, 8), ha="center", fontsize=9
        )
        measure.margins(y=0.14)
    # Neither dates nor random names inside: the same training gives the same file.
    for path in paths:
        dateless: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        with rc_context({"svg.hashsalt": "sylvan", "svg.fonttype": "none"}):
            figure.savefig(path, dpi=150, metadata=dateless.get(os.path.splitext(path)[1].lower()))


def _draw(axes: Any, history: History, key: str, colour: str, label: str) -> None:
    shown = [entry for entry in history.epochs if math.isfinite(entry[key])]
    steps, values = [entry["step"] for entry in shown], [entry[key] for entry in shown]
    axes.plot(steps, values, marker="o", markersize=3.5, color=colour)
    axes.set(xlabel="steps", ylabel=label)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
