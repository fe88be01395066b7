"""The figure of ``transformers.py``: P@5 against training time, a panel for each set and part of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import report_transformers
from figures import draw_figure, plain_log

__all__ = ["draw"]

Record = dict[str, Any]
# Okabe and Ito's colours, told apart by people who see few.
LOOKS = {
    "xr-linear": ("#000000", "o", "XR-Linear"),
    "frozen": ("#56B4E9", "s", "XR-Linear, frozen encoder"),
    "xr-transformer": ("#D55E00", "D", "XR-Transformer"),
    "x-transformer": ("#009E73", "^", "X-Transformer"),
    "libpecos-frozen": ("#999999", "s", "libpecos, frozen encoder"),
    "libpecos-xr-transformer": ("#0072B2", "v", "libpecos's XR-Transformer"),
}
MOST_COLUMNS = 2


def draw(runs: list[Record], path: Path) -> list[Path]:
    """Draws what there is, as PNG and SVG; nothing where matplotlib is missing."""
    known = {(run["set"], run.get("rows") or 0, run.get("tests") or 0) for run in runs}
    groups = sorted(known, key=lambda group: (report_transformers.ORDER.index(group[0]), *group[1:]))
    shown = {group: [run for run in report_transformers.of_group(runs, group) if run["train_s"]] for group in groups}
    shown = {group: found for group, found in shown.items() if len({run["contender"] for run in found}) > 1}
    return draw_figure(path, lambda figure: _fill(figure, shown)) if shown else []


def _fill(figure: Any, shown: dict[tuple[str, int, int], list[Record]]) -> None:
    columns = min(len(shown), MOST_COLUMNS)
    rows = -(-len(shown) // columns)
    figure.set_size_inches(5.5 * columns, 3.9 * rows + 0.3)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(shown) :]:
        axes.remove()
    for axes, (group, runs) in zip(panels, shown.items(), strict=False):
        for contender, (colour, marker, words) in LOOKS.items():
            for together in (False, True):  # an ensemble is hollow
                found = [run for run in runs if run["contender"] == contender and ("seeds" in run) == together]
                if found:
                    axes.plot(
                        [run["train_s"] for run in found], [run["P@5"] for run in found], marker, color=colour,
                        markerfacecolor="none" if together else colour,
                        label=f"{words}, ensemble" if together else words,
                    )  # fmt: skip
        size = f"{group[1]:,} texts" if group[1] else "all texts"
        axes.set(xscale="log", xlabel="training, seconds", title=f"{group[0]}, {size}")
        plain_log(axes.xaxis)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylabel("P@5, %")
    labels = {line.get_label(): line for axes in figure.axes for line in axes.lines}
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=3, fontsize=7, frameon=False)
