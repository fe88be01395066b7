"""What weights of fewer bits, and fewer of them, cost and give; JSON out.

``python -m benchmarks.linear.compression --data DIR --sets eurlex57k,gutenberg``

For two presets: a model trained with each type of weights, and the one of ``uint8`` compressed to shares of its size.
All models of a preset are ranked with in turns, in one process and from mapped folders.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import sylvan
from benchmarks.common import datasets, measure, records
from benchmarks.common.process import say
from sylvan import XRLinear

PRESETS = ("fast", "balanced")
TYPES = ("float32", "uint8", "uint4")
SHARES = (0.56, 0.4, 0.25)  # of the size with uint8
ROUNDS = 5
SINGLE = 500  # queries asked one at a time, in each round


def make_models(folder: Path, scratch: Path, preset: str, threads: int) -> dict[str, dict[str, Any]]:
    """Trains and compresses models, each in a folder of ``scratch``; what was done and the size, by name."""
    X, Y = datasets.load(folder, "X.trn", "Y.trn")
    found: dict[str, dict[str, Any]] = {}

    def save(name: str, model: XRLinear, seconds: float) -> None:
        model.save(scratch / name)
        size, types = measure.folder_bytes(scratch / name), sorted(model.weight_dtypes())
        found[name] = {"weights": "+".join(types), "cpu_s": seconds, "model_mb": size / 1e6}
        found[name]["n_weights"] = sum(layer.n_entries for ranker in model.rankers_ for layer in ranker.layers)

    for dtype in TYPES:
        with measure.Clock() as clock:
            model = XRLinear.preset(preset, weight_dtype=dtype, calibration=None, n_jobs=threads, seed=0).fit(X, Y)
        save(dtype, model, clock.cpu)
    trained = sylvan.load(scratch / "uint8")
    trained.set_params(n_jobs=threads)
    for share in SHARES:
        with measure.Clock() as clock:
            small = trained.compress(int(share * found["uint8"]["model_mb"] * 1e6))
        save(f"compressed to {share}", small, clock.cpu)
    return found


def measure_preset(folder: Path, preset: str, threads: int) -> list[dict[str, Any]]:
    """One row a model."""
    X, Y, Y_train = datasets.load(folder, "X.tst", "Y.tst", "Y.trn")
    with tempfile.TemporaryDirectory() as scratch:
        found = make_models(folder, Path(scratch), preset, threads)
        models = {name: sylvan.load(Path(scratch) / name) for name in found}
        rows = [X[row] for row in range(min(SINGLE, X.shape[0]))]
        batches: dict[str, list[float]] = {name: [] for name in found}
        singles: dict[str, list[float]] = {name: [] for name in found}
        for number in range(ROUNDS):  # in turns: what else the machine does is spread over all
            for name, model in models.items():
                model.set_params(n_jobs=threads)
                spent, top = measure.batch(lambda model=model: model.rank(X, k=5), X.shape[0], 1)
                batches[name].append(spent["cpu_ms_per_row"])
                singles[name].append(measure.one_by_one(lambda x, model=model: model.rank(x, k=5), rows)["p50_ms"])
                if number == 0:
                    found[name] |= measure.precision(top.labels, Y, Y_train)
        for name, figures in found.items():
            figures |= {"batch_ms": statistics.median(batches[name]), "p50_ms": statistics.median(singles[name])}
    return [{"preset": preset, "model": name, **figures} for name, figures in found.items()]


def main() -> None:
    """Measures every preset on every set."""
    options = records.command_line(__doc__, "eurlex57k,gutenberg").parse_args()
    for set_name, folder in records.prepared(options):
        runs = []
        for preset in PRESETS:
            runs += measure_preset(folder, preset, options.threads)
            for run in runs[-len(TYPES) - len(SHARES) :]:
                say(f"{set_name} {run}")
        records.write("compression", set_name, options, runs=runs)


if __name__ == "__main__":
    main()
