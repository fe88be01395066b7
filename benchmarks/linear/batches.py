"""Ranking a batch, beside libpecos, on one thread; JSON out.

``python -m benchmarks.linear.batches --data DIR --sets eurlex57k,gutenberg,cpv-tenders,synthetic --python PEER_PYTHON``

Each contender trains once, as in ``peers.py``. Then they rank all test rows in turns, ``--repeats`` times, each time in
a process of its own.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import records
from benchmarks.common.process import say
from benchmarks.linear.peers import find, run

CONTENDERS = ("sylvan", "sylvan-fast", "libpecos")
ROUNDS = 7  # of all test rows, in each process


def measured(folder: Path, pythons: dict[str, str], repeats: int) -> list[dict[str, Any]]:
    """A row for each contender: milliseconds and precision of every repeat."""
    raw: dict[str, list[dict[str, Any]]] = {name: [] for name in pythons}
    with tempfile.TemporaryDirectory() as scratch:
        jobs = {
            name: {"contender": name, "set": str(folder), "model": str(Path(scratch) / name), "threads": 1}
            for name in pythons
        }
        for name, python in pythons.items():
            trained = run(python, jobs[name] | {"step": "train"})
            if "error" in trained:
                sys.exit(f"{name} didn't train: {trained['error']}")
        for _ in range(repeats):
            for name, python in pythons.items():
                figures = run(python, jobs[name] | {"step": "rank", "rounds": ROUNDS})
                if "error" in figures:
                    sys.exit(f"{name} didn't rank: {figures['error']}")
                raw[name].append({key: figures[key] for key in ("ms_per_row", "cpu_ms_per_row", "P@1", "P@5")})
                say(f"{folder.name} {name}: {1e3 * figures['cpu_ms_per_row']:.1f} µs of CPU time a row")
    return [
        {"contender": name, **{key: statistics.median(each[key] for each in rows) for key in rows[0]}, "raw": rows}
        for name, rows in raw.items()
    ]


def main() -> None:
    """Measures every set."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg,cpv-tenders,synthetic", threads=None)
    parser.add_argument("--python", action="append", default=[], help="interpreter with libpecos; may be repeated")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    pythons = {}
    for name in CONTENDERS:
        found = find(name, [sys.executable, *options.python])
        if found is None:
            sys.exit(f"No interpreter imports {name}: name one with --python.")
        pythons[name] = found["python"]
    for set_name, folder in records.prepared(options):
        records.write("batches", set_name, options, runs=measured(folder, pythons, options.repeats))


if __name__ == "__main__":
    main()
