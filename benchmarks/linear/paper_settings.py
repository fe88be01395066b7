"""XR-Linear by its defaults and as PECOS has it, and the two readings of its Eq. 13, on the shared sets; JSON out.

``python -m benchmarks.linear.paper_settings --data DIR --sets eurlex57k,gutenberg``. CPU seconds are those of all
threads. Of a setting whose other reading of Eq. 13 stands above it, the share of test rows is told whose five answers
aren't the same.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import datasets, records
from benchmarks.common.process import say
from sylvan import XRLinear, metrics

AT = (1, 3, 5)
CHOICES = {"negatives": "paper", "combine": "paper", "calibration": None}  # with the other defaults
PRODUCT = ", product along the path"  # the other reading of Eq. 13, a row above
# What a row of the table is called, the preset that it begins with, and what differs.
SETTINGS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("defaults", "balanced", {"calibration": None}),
    ("defaults, three trees", "accurate", {"calibration": None}),
    ("the paper's negatives and combiner", "balanced", CHOICES),
    ("the same, three trees", "accurate", CHOICES),
    (f"paper{PRODUCT}", "paper", {"combine": "paper"}),
    ("paper", "paper", {}),
    ("paper, teacher forcing", "paper", {"negatives": "tfn"}),
    (f"paper, Eq. 13 in all layers{PRODUCT}", "paper", {"negatives": "tfn", "combine": "l3_hinge"}),
    ("paper, Eq. 13 in all layers", "paper", {"negatives": "tfn", "combine": "l3_hinge:nested"}),
)


def measured(folder: Path, preset: Any, changes: dict[str, Any], threads: int) -> tuple[dict[str, Any], np.ndarray]:
    """Trains and ranks once: precision in percent and CPU seconds; and the five answers of each test row, by id."""
    X, Y, X_test, Y_test = datasets.load(folder, *datasets.NAMES)
    model = XRLinear.preset(preset, **changes, n_jobs=threads)
    started = time.process_time()
    model.fit(X, Y)
    trained = time.process_time()
    top = model.rank(X_test, max(AT))
    ranked = time.process_time()
    found = {f"P@{k}": 100 * value for k, value in metrics.precision(Y_test, top, AT).items()}
    return found | {"train_cpu_s": trained - started, "rank_cpu_s": ranked - trained}, np.sort(top.labels, axis=1)


def main() -> None:
    """Measures every setting on every set."""
    options = records.command_line(__doc__, "eurlex57k,gutenberg").parse_args()
    for set_name, folder in records.prepared(options):
        runs: list[dict[str, Any]] = []
        before = np.zeros((0, 0))
        for name, preset, changes in SETTINGS:
            figures, answers = measured(folder, preset, changes, options.threads)
            run = {"setting": name, "preset": preset, "changes": changes, **figures}
            if runs and name + PRODUCT == runs[-1]["setting"]:
                run["other_five"] = 100 * float((answers != before).any(axis=1).mean())
            runs.append(run)
            before = answers
            say(f"{set_name}: {run}")
            records.write("paper-settings", set_name, options, runs=runs)


if __name__ == "__main__":
    main()
