"""The figures of ``python -m benchmarks.beam_tree``: SVG, the same bytes for the same results."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks.beam_tree.contenders import CONTENDERS, is_tree
from benchmarks.beam_tree.tables import TREES, Runs, by_rule
from benchmarks.common.drawing import draw_figure

__all__ = ["draw"]

Record = dict[str, Any]
# Okabe and Ito's colours, told apart by people who see few; CANE's three differ in their dashes too.
COLOURS = {
    "CANE-1v9": "#D55E00", "CANE-5v5": "#D55E00", "CANE-9v1": "#D55E00", "softmax": "#000000", "NCE-10": "#0072B2",
    "BlackOut-10": "#56B4E9", "negative-sampling-10": "#CC79A7", "HSM": "#009E73", "softmax-batches": "#777777",
}  # fmt: skip
STYLES = {"CANE-1v9": ":", "CANE-5v5": "--", "softmax-batches": "--"}
PEER_STYLES = {"VW-filter-tree": "v", "VW-LOMTree": "^", "VW-recall-tree": "D"}
SETS = ("clinc150", "cpv-tenders", "digits", "made-1000", "made-10000")


def draw(part: str, runs: Runs, folder: Path, prefix: str = "beam_tree") -> list[Path]:
    """Draws a part's figure; nothing where there is none, or matplotlib is missing."""
    fill = {"accuracy": _accuracy, "speed": _speed}.get(part)
    if fill is None:
        return []
    return draw_figure(folder / f"{prefix}_{part}", lambda figure: fill(figure, runs))


def _accuracy(figure: Any, runs: Runs) -> None:
    """Accuracy by epoch: a column a set, a row an optimiser; VW's trees at the last epoch."""
    names = [name for name in SETS if any(run["set"] == name for run in runs["accuracy"])]
    optimizers = [one for one in ("adagrad", "sgd") if any(run["optimizer"] == one for run in runs["accuracy"])]
    if not names or not optimizers:
        return
    figure.set_size_inches(3.4 * len(names) + 1.4, 3.0 * len(optimizers))
    panels = figure.subplots(len(optimizers), len(names), squeeze=False)
    for down, optimizer in enumerate(optimizers):
        for across, name in enumerate(names):
            axes = panels[down][across]
            least = _curves(axes, runs, name, optimizer)
            axes.spines[["top", "right"]].set_visible(False)
            if least is not None:
                axes.set_ylim(bottom=least)
            if down == 0:
                axes.set_title(name)
            if down == len(optimizers) - 1:
                axes.set_xlabel("epoch")
        panels[down][0].set_ylabel(f"test rows right, %, {optimizer}")
    handles = {label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(),
                                                                           strict=True)}  # fmt: skip
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=7, frameon=False)


def _curves(axes: Any, runs: Runs, name: str, optimizer: str) -> float | None:
    """The curves of a panel; where its vertical axis may begin so that the last epochs can be told apart."""
    ends = []
    for contender, colour in COLOURS.items():
        group = by_rule(runs, name, contender, optimizer, "half")
        if group:
            epochs = [point["epoch"] for point in group[0]["curve"]]
            values = [statistics.mean(run["curve"][at]["accuracy"] for run in group) for at in range(len(epochs))]
            axes.plot(epochs, values, STYLES.get(contender, "-"), color=colour, label=contender, linewidth=1.3)
            ends.append(values[-1])
    for peer in TREES:
        group = by_rule(runs, name, peer, "vw", "half")
        if group:
            value = statistics.mean(run["accuracy"] for run in group)
            axes.plot([group[0]["epochs"]], [value], PEER_STYLES[peer], color="#E69F00", markersize=5, label=peer,
                      clip_on=False)  # fmt: skip
            ends.append(value)
    return max(0.0, statistics.median(ends) - 25) if ends else None


def _speed(figure: Any, runs: Runs) -> None:
    """Microseconds of a step and of ranking a row, by classes."""
    figure.set_size_inches(10.5, 3.6)
    panels = dict(zip(("adagrad", "sgd", "ranking"), figure.subplots(1, 3), strict=True))
    for optimizer in ("adagrad", "sgd"):
        for contender, colour in COLOURS.items():
            _line(panels[optimizer], _of(runs, contender, optimizer), "step_us", contender, colour)
        panels[optimizer].set_ylabel(f"training step, {optimizer}, µs")
    for contender in ("CANE-9v1", "HSM", "softmax", "softmax-batches"):
        rows = [
            {
                "n_classes": run["n_classes"],
                "alone": 1e3 * run["ranking"]["p50_ms"],
                "batch": 1e3 * run["ranking"]["cpu_ms_per_row"],
            }
            for run in _of(runs, contender, "adagrad")
        ]
        _line(panels["ranking"], rows, "batch", f"{contender}, batch", COLOURS[contender], "-")
        _line(panels["ranking"], rows, "alone", f"{contender}, alone", COLOURS[contender], ":")
    panels["ranking"].set_ylabel("ranking a row, µs")
    for axes in panels.values():
        axes.set(xscale="log", yscale="log", xlabel="classes")
        if axes.lines:
            axes.legend(fontsize=6, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)


def _of(runs: Runs, contender: str, optimizer: str) -> list[Record]:
    own = [run for run in runs["speed"] if run["contender"] == contender and run["optimizer"] == optimizer]
    return sorted(own, key=lambda run: int(run["n_classes"]))


def _line(axes: Any, rows: list[Record], key: str, label: str, colour: str, style: str | None = None) -> None:
    if rows:
        usual = STYLES.get(label, "-") if label in CONTENDERS else "-"
        marker = "o" if is_tree(label) else "s"
        axes.plot([row["n_classes"] for row in rows], [row[key] for row in rows], style or usual, color=colour,
                  marker=marker, markersize=3, label=label, linewidth=1.2)  # fmt: skip
