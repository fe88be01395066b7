"""How near a plan comes to what the training then takes; JSON out.

``python benchmarks/plan.py --data DIR --sets eurlex57k,gutenberg,synthetic``. The plan and the training are processes
of their own, one after the other; seconds are CPU seconds on one thread.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import datasets
import measure
import records

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "negatives and combine as in the paper": {"negatives": "paper", "combine": "paper"},
    "three trees": {"n_trees": 3},
}


def one(step: str, folder: Path, params: dict[str, Any]) -> dict[str, float]:
    """A plan, or a training, in this process."""
    from sylvan import XRLinear

    X, Y = datasets.load(folder, "X.trn", "Y.trn")
    model = XRLinear(n_jobs=1, **params)
    with measure.Clock() as clock:
        done = model.plan(X, Y) if step == "plan" else model.fit(X, Y)
    if step == "plan":
        return {
            "took_s": clock.cpu, "seconds": done.seconds, "peak_mb": done.peak_bytes / 1e6,
            "model_mb": done.model_bytes / 1e6,
        }  # fmt: skip
    peak = measure.peak_resident() * measure.MIB / 1e6
    with tempfile.TemporaryDirectory() as scratch:
        model.save(Path(scratch) / "model")
        size = measure.folder_bytes(Path(scratch) / "model") / 1e6
    return {"seconds": clock.cpu, "peak_mb": peak, "model_mb": size}


def main() -> None:
    """Runs what the command line asks for."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg,synthetic")
    parser.add_argument("--one", help="(a step of this script itself)")
    options = parser.parse_args()
    if options.one:
        step, folder, params = json.loads(options.one)
        print(json.dumps(one(step, Path(folder), params)))
        return
    for name, folder in records.prepared(options):
        runs = []
        for words, params in SETTINGS.items():
            found = {}
            for step in ("plan", "fit"):
                command = [sys.executable, __file__, "--one", json.dumps([step, str(folder), params])]
                found[step] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            runs.append({"settings": words, **found})
        records.write("plan", name, options, runs=runs)


if __name__ == "__main__":
    main()
