"""The section of docs/results.md on trainings on a cluster, from what ``benchmarks.cluster`` measured."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.common import markdown

__all__ = ["cluster_section"]

WORDS = (
    "By `python -m benchmarks.cluster`: `XRLinear` with one thread, in one process and on Ray clusters whose nodes are "
    "all on one machine, so that there is no speed to be gained and what is shown is what is lost. CPU seconds are "
    "those of all processes of the cluster while it trains; starting the cluster is a column of its own. Bytes sent "
    "are arrays that went into the object store, beside the features and labels once."
)
NAMES = ("eurlex57k", "gutenberg")


def cluster_section(folder: Path) -> list[str]:
    """A table for each set; nothing where none was measured."""
    lines: list[str] = []
    for name in NAMES:
        path = folder / f"cluster-{name}.json"
        if not path.exists():
            continue
        record = json.loads(path.read_text())
        head = (
            "| setting | nodes | training, CPU-s | to one process | wall, s | starting, CPU-s | MB sent | least, MB | "
            "same bits |"
        )
        rows = [
            [
                row["setting"], "one process" if not row["nodes"] else str(row["nodes"]), f"{row['cpu_s']:.2f}",
                "" if row["cpu_ratio"] is None else f"{row['cpu_ratio']:.2f}×", f"{row['wall_s']:.2f}",
                f"{row['start_cpu_s']:.1f}", f"{row['bytes_sent'] / 1e6:.0f}", f"{row['least_bytes'] / 1e6:.0f}",
                "yes" if row["same_bits"] else "**no**",
            ]
            for row in record["medians"]
        ]  # fmt: skip
        table = markdown.table(head, rows)
        lines += ["", f"### {name}: trainings on a cluster", "", markdown.taken(record), "", *table]
    return ["", "## Clusters", "", WORDS, *lines] if lines else []
