"""One revision of Sylvan beside another, in turn in one run: training, ranking, memory, size, import; JSON out.

``python -m benchmarks.linear.revisions --before OTHER/src --data DIR --sets eurlex57k,gutenberg``

OTHER is a checkout of the revision to compare with, its kernels built. Each figure is the median over the rounds of the
ratios after / before, pair by pair, so that a machine whose speed drifts doesn't matter; whether both saved the same
arrays is compared bit by bit.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.common import records
from benchmarks.common.process import environment, run, say

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"negatives": "paper", "combine": "paper"},
    {"n_trees": 3, "clustering": "kmeans"},
)
FIGURES = ("cpu_s", "peak_mb", "model_mb", "load_s", "cpu_ms_per_row", "p50_ms")
_IMPORT = "import time; start = time.process_time(); import sylvan; print(time.process_time() - start)"


def measure_once(source: Path, folder: Path, settings: dict[str, Any], threads: int) -> dict[str, Any]:
    """Trains and ranks with the Sylvan of one folder of sources."""
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model"
        job = {"contender": "sylvan", "set": str(folder), "model": str(model), "settings": settings}
        job |= {"threads": threads, "single": 1000}
        figures: dict[str, Any] = {}
        for step in ("train", "rank"):
            figures |= run(
                sys.executable, "benchmarks.linear.worker", job | {"step": step}, threads=threads,
                PYTHONPATH=_path(source),
            )  # fmt: skip
        return figures | {"arrays": arrays_checksum(model)}


def arrays_checksum(model: Path) -> str:
    """Of all arrays of a saved model, by name; the manifest may differ."""
    digest = hashlib.sha256()
    for file in sorted(model.rglob("*.npy")):
        name, _, _ = file.name.rsplit(".", 2)  # without the mark of the save
        digest.update(name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def import_seconds(source: Path) -> float:
    """CPU seconds of ``import sylvan`` in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT], env=environment(PYTHONPATH=_path(source)), capture_output=True, check=True,
        text=True,
    )  # fmt: skip
    return float(done.stdout)


def _path(source: Path) -> str:
    return os.pathsep.join((str(ROOT), str(source.resolve())))


def pairs(before: Path, after: Path, folder: Path, settings: dict[str, Any], options: Any) -> dict[str, Any]:
    """The rounds of one setting: medians of both, and the medians of their ratios."""
    rounds = [
        [measure_once(source, folder, settings, options.threads) for source in (before, after)]
        for _ in range(options.rounds)
    ]
    wrong = next((one["error"] for both in rounds for one in both if "error" in one), None)
    if wrong is not None:
        return {"settings": settings, "error": wrong}
    record: dict[str, Any] = {"settings": settings, "rounds": options.rounds}
    for name in FIGURES:
        record[name] = {
            "before": statistics.median(old[name] for old, _ in rounds),
            "after": statistics.median(new[name] for _, new in rounds),
            "ratio": statistics.median(new[name] / old[name] for old, new in rounds),
        }
    record["same_arrays"] = len({one["arrays"] for both in rounds for one in both}) == 1
    record["P@1"] = rounds[0][1]["P@1"]
    return record


def main() -> None:
    """Measures every setting on every set, then the import."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg")
    parser.add_argument("--before", required=True, type=Path, help="sources to compare with: a checkout's src/")
    parser.add_argument("--after", default=ROOT / "src", type=Path, help="sources to compare")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for set_name, folder in records.prepared(options):
        runs = []
        for settings in SETTINGS:
            runs.append(pairs(options.before, options.after, folder, settings, options))
            say(f"{set_name} {settings}: {runs[-1]}")
        records.write("revisions", set_name, options, runs=runs)
    times = [(import_seconds(options.before), import_seconds(options.after)) for _ in range(4 * options.rounds)]
    figures = {
        "before": statistics.median(old for old, _ in times), "after": statistics.median(new for _, new in times),
        "ratio": statistics.median(new / old for old, new in times),
    }  # fmt: skip
    say(f"import: {figures}")
    records.write("revisions", "import", options, cpu_s=figures)


if __name__ == "__main__":
    main()
