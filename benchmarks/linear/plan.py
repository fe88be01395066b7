"""How near a plan comes to what the training then takes; JSON out.

``python -m benchmarks.linear.plan --data DIR --sets eurlex57k,gutenberg,synthetic``. The plan and the training are
processes of their own, one after the other; seconds are CPU seconds on one thread.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, measure, process, records

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "negatives and combine as in the paper": {"negatives": "paper", "combine": "paper"},
    "three trees": {"n_trees": 3},
}


def one(job: dict[str, Any]) -> dict[str, float]:
    """A plan, or a training, in this process."""
    from sylvan import XRLinear

    X, Y = datasets.load(Path(job["set"]), "X.trn", "Y.trn")
    model = XRLinear(n_jobs=1, **job["params"])
    with measure.Clock() as clock:
        done = model.plan(X, Y) if job["step"] == "plan" else model.fit(X, Y)
    if job["step"] == "plan":
        return {
            "took_s": clock.cpu, "seconds": done.seconds, "peak_mb": done.peak_bytes / 1e6,
            "model_mb": done.model_bytes / 1e6,
        }  # fmt: skip
    peak = measure.peak_resident() * measure.MIB / 1e6
    model.save(Path(job["scratch"]) / "model")
    size = measure.folder_bytes(Path(job["scratch"]) / "model") / 1e6
    return {"seconds": clock.cpu, "peak_mb": peak, "model_mb": size}


def main() -> None:
    """Runs what the command line asks for."""
    if process.served(one):
        return
    options = records.command_line(__doc__, "eurlex57k,gutenberg,synthetic", threads=None).parse_args()
    for name, folder in records.prepared(options):
        runs = []
        for words, params in SETTINGS.items():
            job = {"set": str(folder), "params": params}
            found = {
                step: process.run(sys.executable, "benchmarks.linear.plan", job | {"step": step})
                for step in ("plan", "fit")
            }
            for step, figures in found.items():
                if "error" in figures:
                    sys.exit(f"{name}, {words}, {step}: {figures['error']}")
            runs.append({"settings": words, **found})
        records.write("plan", name, options, runs=runs)


if __name__ == "__main__":
    main()
