"""The section of docs/results/ on trainings on a cluster, from what ``benchmarks.cluster`` measured."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.common import markdown

__all__ = ["cluster_section"]

WORDS = (
    "By `python -m benchmarks.cluster`: `XRLinear` with one thread, in one process and on Ray clusters whose nodes, of "
    "one CPU each, are all on one machine, so that there is no speed to be gained and what is shown is what is lost. "
    "CPU seconds are those of all processes of the cluster while it trains; starting the cluster is a column of its "
    "own. Features are in memory (and go into the object store once), or in 32 parts on the disk, of which each job "
    "reads its rows; then workers also write what they make, and the driver lays out the model from there. MB moved "
    "are arrays that went to the workers and those that came back. Ratios are to one process with one thread, or with "
    "two where there are several nodes: with both cores of the machine at work, each does less in a second."
)
PHASES = (
    "What each phase moves, with two nodes and rows in parts (`balanced`): what many jobs read is put into the object "
    "store once, what belongs to one job is sent with it. The least possible for all phases together is the labels "
    "once: {least:.1f} MB. Features ({features:.1f} MB) don't go through the driver."
)
MEMORY = (
    "By `python -m benchmarks.cluster --memory`: peaks of the private memory of each process above what it had before "
    "the training (`fast`, rows in parts), with parts of the rows. Pages of mapped files, which the system can take "
    "back, aren't counted. The largest worker has the top of the tree, whose one job reads all rows; the others have "
    "the median."
)
NAMES = ("eurlex57k", "gutenberg")


def cluster_section(folder: Path) -> list[str]:
    """Tables for each set; nothing where none was measured."""
    lines: list[str] = []
    for name in NAMES:
        path = folder / f"cluster-{name}.json"
        if path.exists():
            lines += _costs(name, json.loads(path.read_text()))
    for name in NAMES:
        path = folder / f"cluster-memory-{name}.json"
        if path.exists():
            lines += _memory(name, json.loads(path.read_text()))
    return ["", "## Clusters", "", WORDS, *lines] if lines else []


def _costs(name: str, record: dict[str, Any]) -> list[str]:
    head = (
        "| setting | nodes | rows in | training, CPU-s | to one process | wall, s | starting, CPU-s | MB to workers | "
        "MB back | same bits |"
    )
    rows = [
        [
            row["setting"], str(row["nodes"]) if row["nodes"] else _alone(row["threads"]), row["rows"],
            f"{row['cpu_s']:.2f}", "" if row["cpu_ratio"] is None else f"{row['cpu_ratio']:.2f}×",
            f"{row['wall_s']:.2f}", f"{row['start_cpu_s']:.1f}",
            _mb(sum(phase["bytes_shared"] + phase["bytes_sent"] for phase in row["phases"])),
            _mb(sum(phase["bytes_returned"] for phase in row["phases"])), "yes" if row["same_bits"] else "**no**",
        ]
        for row in record["medians"]
    ]  # fmt: skip
    table = markdown.table(head, rows)
    lines = ["", f"### {name}: trainings on a cluster", "", markdown.taken(record), "", *table]
    for row in record["medians"]:
        if (row["setting"], row["nodes"], row["rows"]) != ("balanced", 2, "parts"):
            continue
        words = PHASES.format(least=row["bytes_Y"] / 1e6, features=row["bytes_X"] / 1e6)
        ways = ("bytes_shared", "bytes_sent", "bytes_returned")
        phases = [[phase["name"], str(phase["n_jobs"]), *(_mb(phase[way]) for way in ways)] for phase in row["phases"]]
        lines += ["", words, "", *markdown.table("| phase | tasks | MB shared | MB sent | MB back |", phases)]
    return lines


def _memory(name: str, record: dict[str, Any]) -> list[str]:
    head = "| rows | X, MB | nodes | driver, MB | largest worker, MB | median worker, MB |"
    rows = []
    for row in record["rows"]:
        if "error" in row:
            continue
        workers = [peak for process, peak in row["peaks"].items() if process != "driver"]
        busy = [peak for peak in workers if peak > 0]
        rows.append([
            f"{row['n_rows']:,}", _mb(row["bytes_X"]), "one process" if not row["nodes"] else str(row["nodes"]),
            _mb(row["peaks"].get("driver", 0)), _mb(max(busy)) if busy else "–",
            _mb(statistics.median(busy)) if busy else "–",
        ])  # fmt: skip
    table = markdown.table(head, rows)
    return ["", f"### {name}: memory of a cluster's processes", "", MEMORY, "", markdown.taken(record), "", *table]


def _alone(threads: int) -> str:
    return f"one process, {threads} thread{'' if threads == 1 else 's'}"


def _mb(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:.1f}"
