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
OURS, THEIRS = "C0", "0.35"


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
    figure.set_size_inches(4.4 * len(records), 3.4)
    for axis, record in zip(figure.subplots(1, len(records), squeeze=False)[0], records, strict=True):
        shown = {name: point for name in NAMES if (point := _point(record, name)) is not None}
        own, others = ({n: p for n, p in shown.items() if (n in PRESETS) == ours} for ours in (True, False))
        line = zip(*(own[name] for name in PRESETS), strict=True)
        axis.plot(*line, "o-", color=OURS, zorder=3, label="Sylvan's presets")
        if others:
            axis.plot(*zip(*others.values(), strict=True), "s", color=THEIRS, label="other libraries")
        lowest = min(others, key=lambda name: others[name][1], default="")  # its name below, as another may be near
        for name, point in own.items():
            word = {"sylvan": "balanced", "sylvan-fast": "fast", "sylvan-accurate": "accurate"}[name]
            axis.annotate(word, point, (-7, 3), textcoords="offset points", ha="right", fontsize=9, color=OURS)
        for name, point in others.items():
            apart = (0, -14 if name == lowest else 7)
            axis.annotate(NAMES[name], point, apart, textcoords="offset points", ha="center", fontsize=9, color=THEIRS)
        axis.set_xscale("log")
        plain_log(axis.xaxis)
        axis.margins(0.28)
        axis.set_title(f"{record['set']}, {record['labels']:,} labels", fontsize=10)
        axis.set_xlabel("training, CPU seconds", fontsize=9)
        axis.set_ylabel(f"{KEY}, %", fontsize=9)
        axis.tick_params(labelsize=9)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        if record is records[0]:
            axis.legend(fontsize=9, frameon=False, loc="lower right")
