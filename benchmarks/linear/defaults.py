"""Which defaults serve best: presets, negatives, weight types and ways of combining, on the shared sets; JSON out.

``python -m benchmarks.linear.defaults --data DIR --sets eurlex57k,gutenberg,synthetic``; each setting in a process of
its own.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import records
from benchmarks.common.process import say
from benchmarks.linear import peers
from sylvan.models.xr import presets

PRESETS = {name: settings for name, settings in presets.PRESETS.items() if name != "paper"}  # see paper_settings.py
SETTINGS: tuple[dict[str, Any], ...] = (
    *map(dict, PRESETS.values()),
    {"negatives": "tfn", "combine": "l3_hinge"},
    {"negatives": "tfn", "combine": "sigmoid"},
    {"negatives": "tfn", "combine": "ranker"},
    {"negatives": "tfn", "combine": "paper"},
    {"negatives": "man"},
    {"negatives": "tfn+man"},
    {"man_threshold": 0.0},
    {"negative_cost": 1.0},
    {"combine": "l3_hinge"},
    {"combine": "paper"},
    {"clustering": "kmeans"},
    {"max_leaf": 50},
    {"max_leaf": 200},
    {"beam": 20},
    {"weight_dtype": "float32"},
    {"weight_dtype": "uint4"},
)


def measure_settings(folder: Path, settings: dict[str, Any], threads: int) -> dict[str, Any]:
    """Trains and ranks with one setting."""
    with tempfile.TemporaryDirectory() as scratch:
        job = {"contender": "sylvan", "set": str(folder), "model": str(Path(scratch) / "model"), "settings": settings}
        job |= {"threads": threads, "single": 1000}
        figures: dict[str, Any] = {"settings": settings}
        for step in ("train", "rank"):
            figures |= peers.run(sys.executable, job | {"step": step})
        return figures


def main() -> None:
    """Measures every setting on every set."""
    options = records.command_line(__doc__, "eurlex57k,gutenberg,synthetic").parse_args()
    for set_name, folder in records.prepared(options):
        runs = []
        for settings in SETTINGS:
            figures = measure_settings(folder, settings, options.threads)
            say(f"{set_name} {settings}: {figures}")
            if "error" not in figures:
                names = [name for name, parameters in PRESETS.items() if dict(parameters) == settings]
                runs.append({"preset": names[0] if names else None, **figures})
        records.write("defaults", set_name, options, runs=runs)


if __name__ == "__main__":
    main()
