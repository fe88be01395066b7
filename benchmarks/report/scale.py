"""The section of docs/results/ on ever more rows and labels, from what ``linear/scale.py`` measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common import markdown

__all__ = ["scale_section"]

WORDS = (
    "By `python -m benchmarks.linear.scale`: synthetic sets with 300,000 features, branching 16, leaves of up to 100 "
    "labels, beam 10, one tree. Peak memory is that of the whole process while it trains, features and labels "
    "included; with a memory limit, without pages of mapped files, which the system can reclaim. Models with the same "
    "bits have the same checksum."
)
PHASES = {
    "checks": "checking the input", "embeddings": "PIFA", "clustering": "clustering", "rows": "rows of the clusters",
    "searching": "searching", "solving": "solving", "layout": "layout", "saving": "saving",
}  # fmt: skip
Record = dict[str, Any]


def scale_section(folder: Path) -> list[str]:
    """Two tables: what each training took, and what its phases took."""
    record = markdown.book(folder / "scale.json")
    if record is None:
        return []
    rows = [_row(run) for run in record["runs"]]
    head = (
        "| rows × labels | setting | training, CPU-s | wall, s | peak memory, GB | model, GB | P@1/3/5 | "
        "batch, CPU-ms a row | one query p50, ms | checksum |"
    )
    phased = [run for run in record["runs"] if "phases" in run]
    words = "CPU seconds of each phase, and in brackets the peak of the process's memory in it, in GB:"
    where = " ".join(dict.fromkeys(map(markdown.taken, record["runs"])))
    lines = ["", "## Very many labels", "", f"{WORDS} {where}", "", *markdown.table(head, rows)]
    if not phased:
        return lines
    heads = ["rows × labels", "setting", *PHASES.values()]
    return [*lines, "", words, "", *markdown.table(heads, [_phases(run) for run in phased])]


def _name(run: Record) -> list[str]:
    limit = f", memory_limit={run['memory_limit']}" if run.get("memory_limit") else ""
    return [f"{run['rows']:,} × {run['labels']:,}", f"{run['setting']}{limit}, {run['threads']} threads"]


def _row(run: Record) -> list[str]:
    if "error" in run:
        return [*_name(run), f"not finished within {run['memory_gb']:g} GB: {run['error']}", *["–"] * 7]
    peak = run["private_peak_mb"] if run.get("memory_limit") else run["peak_mb"]
    memory = [f"{peak * (1 << 20) / 1e9:.2f}", f"{run['model_mb'] / 1e3:.2f}"]
    speed = [f"{run['cpu_ms_per_row']:.3f}", f"{run['p50_ms']:.3f}"]
    times = [f"{run['cpu_s']:.0f}", f"{run['wall_s']:.0f}"]
    return [*_name(run), *times, *memory, markdown.at(run, "P"), *speed, run.get("bits", "–")]


def _phases(run: Record) -> list[str]:
    cells = []
    for name in PHASES:
        phase = run["phases"].get(name)
        shown = "–" if phase is None else f"{phase['cpu_s']:.1f} ({phase['peak_mb'] * (1 << 20) / 1e9:.2f})"
        cells.append(shown)
    return [*_name(run), *cells]
