"""The figure of README.md: what the presets of XRLinear, and the other libraries, give for the time they train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common.drawing import draw_figure, plain_log
from benchmarks.report.linear import NAMES, by_order

__all__ = ["draw_presets"]

Record = dict[str, Any]
PRESETS = ("sylvan-fast", "sylvan", "sylvan-accurate")
SETS = ("eurlex57k", "gutenberg", "synthetic")
KEY, STEP = "P@1", 1  # what is shown, and on how many threads


def draw_presets(results: Path, path: Path) -> list[Path]:
    """Draw P@1 by CPU seconds of training, a panel a set in which all presets were measured; nothing without one."""
    records = [record for record in by_order(results, "peers") if record["set"] in SETS and _of_all(record)]
    return draw_figure(path, lambda figure: _fill(figure, records), ("svg", "png")) if records else []


def _of_all(record: Record) -> bool:
    return all(_point(record, name) is not None for name in PRESETS)


def _point(record: Record, name: str) -> tuple[float, float] | None:
    steps = record["contenders"].get(name, {}).get("median", {})
    seconds, points = steps.get(f"train {STEP}", {}).get("cpu_s"), steps.get(f"rank {STEP}", {}).get(KEY)
    return None if seconds is None or points is None else (float(seconds), float(points))


def _fill(figure: Any, records: list[Record]) -> None:
    figure.set_size_inches(4 * len(records), 3.2)
    for axis, record in zip(figure.subplots(1, len(records), squeeze=False)[0], records, strict=True):
        shown = {name: point for name in NAMES if (point := _point(record, name)) is not None}
        line = [shown[name] for name in PRESETS]
        axis.plot(*zip(*line, strict=True), "o-", color="C0", zorder=3)
        others = [point for name, point in shown.items() if name not in PRESETS]
        if others:
            axis.plot(*zip(*others, strict=True), "s", color="0.45")
        for name, point in shown.items():
            own = name in PRESETS
            word = {"sylvan": "balanced", "sylvan-fast": "fast", "sylvan-accurate": "accurate"}.get(name, NAMES[name])
            color, apart = ("C0" if own else "0.3"), (6 if own or name == "omikuji" else -12)  # often near libpecos
            axis.annotate(word, point, (0, apart), textcoords="offset points", ha="center", fontsize=8, color=color)
        axis.set_xscale("log")
        plain_log(axis.xaxis)
        axis.margins(0.25)
        axis.set_title(record["set"], fontsize=10)
        axis.set_xlabel("training, CPU seconds", fontsize=9)
        axis.set_ylabel(f"{KEY}, %", fontsize=9)
        axis.grid(alpha=0.3)
