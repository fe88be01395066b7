"""The one place that draws: figures of panels, in one style; matplotlib is loaded when one is drawn."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sylvan.errors import DataError
from sylvan.lazy import need_extra

# Told apart by people who see few colours, on paper too (Okabe and Ito's palette).
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"
FORMATS = ".png, .svg or .pdf"  # in words


def need_matplotlib(reason: str = "Figures need") -> None:
    """Refuse to draw without matplotlib."""
    need_extra(f"{reason} matplotlib", "plot", "matplotlib", refusal=DataError)


def can_draw(path: str | os.PathLike[str]) -> bool:
    """Whether the name of a file ends in one of :data:`FORMATS`."""
    return os.path.splitext(path)[1].lower() in (".png", ".svg", ".pdf")


def draw_panels(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], title: str,
    panels: Sequence[Callable[[Any], None]], size: tuple[float, float] | None = None, rows: int = 1,
) -> None:  # fmt: skip
    """Draw panels, row by row from left to right, into each of ``paths``, whose endings say the format."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    paths = [paths] if isinstance(paths, str | os.PathLike) else paths
    if wrong := [os.fspath(path) for path in paths if not can_draw(path)]:
        raise DataError(f"A figure is drawn into a {FORMATS} file, not {wrong[0]!r}.")
    figure = Figure(figsize=size or (4.6 * len(panels), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title.replace("$", r"\$"), fontsize=11)  # which else begins a formula
    for axes, paint in zip(np.ravel(figure.subplots(rows, len(panels) // rows)), panels, strict=True):
        paint(axes)
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    # Neither dates nor random names inside, and one layout, which each format would move a little further: the same
    # figure gives the same file.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    dateless: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "sylvan", "svg.fonttype": "none"}):
        for path in paths:
            figure.savefig(path, dpi=150, metadata=dateless.get(os.path.splitext(path)[1].lower()))


def whole_numbers(axes: Any) -> None:
    """Marks of the x-axis at whole numbers only."""
    axes.xaxis.get_major_locator().set_params(integer=True)
