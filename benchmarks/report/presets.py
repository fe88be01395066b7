"""The figure of README.md: what the presets of texts, and the other libraries, give for the time they train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common.drawing import draw_figure, plain_log
from benchmarks.report.linear import NAMES, by_order

__all__ = ["draw_presets"]

Record = dict[str, Any]
SETS = ("eurlex57k", "gutenberg")
KEY = "P@1"  # what is shown
OURS, THEIRS = "C0", "0.35"


def draw_presets(results: Path, path: Path) -> list[Path]:
    """Draw P@1 by CPU seconds of training on one thread, a panel a set whose presets were measured; nothing without
    one. Other libraries learn from finished features, whose time isn't theirs."""
    peers = {record["set"]: record for record in by_order(results, "peers")}
    records = [
        {**record, "contenders": peers.get(record["set"], {}).get("contenders", {})}
        for record in by_order(results, "presets") if record["set"] in SETS
    ]
    return draw_figure(path, lambda figure: _fill(figure, records), ("svg", "png")) if records else []


def _point(record: Record, name: str) -> tuple[float, float] | None:
    steps = record["contenders"].get(name, {}).get("median", {})
    seconds, points = steps.get("train 1", {}).get("cpu_s"), steps.get("rank 1", {}).get(KEY)
    return None if seconds is None or points is None else (float(seconds), float(points))


def _fill(figure: Any, records: list[Record]) -> None:
    figure.set_size_inches(4.4 * len(records), 3.4)
    for axis, record in zip(figure.subplots(1, len(records), squeeze=False)[0], records, strict=True):
        own = {run["preset"]: (run["train_cpu_s"], run[KEY]) for run in record["runs"]}
        peers = {name: _point(record, name) for name in NAMES if not name.startswith("sylvan")}
        others = {name: point for name, point in peers.items() if point is not None}
        axis.plot(*zip(*own.values(), strict=True), "o-", color=OURS, zorder=3, label="Sylvan's presets")
        if others:
            axis.plot(*zip(*others.values(), strict=True), "s", color=THEIRS, label="other libraries")
        lowest = min(others, key=lambda name: others[name][1], default="")  # its name below, as another may be near
        for word, point in own.items():
            axis.annotate(word, point, (-7, 3), textcoords="offset points", ha="right", fontsize=9, color=OURS)
        for name, point in others.items():
            apart = (0, -14 if name == lowest else 7)
            axis.annotate(NAMES[name], point, apart, textcoords="offset points", ha="center", fontsize=9, color=THEIRS)
        axis.set_xscale("log")
        plain_log(axis.xaxis)
        axis.margins(0.28)
        axis.set_title(f"{record['set']}, {record['runs'][0]['labels']:,} labels", fontsize=10)
        axis.set_xlabel("training, CPU seconds", fontsize=9)
        axis.set_ylabel(f"{KEY}, %", fontsize=9)
        axis.tick_params(labelsize=9)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        if record is records[0]:
            axis.legend(fontsize=9, frameon=False, loc="upper left")
