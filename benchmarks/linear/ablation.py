"""The ablation of PECOS's Table 6 on the shared sets: branching, number of trees, random clusters; JSON out.

``python -m benchmarks.linear.ablation --data DIR --sets eurlex57k,gutenberg``. Negatives are TFN, the beam is 10 and
leaves hold up to 100 labels, which gives the depths of the paper. What is finished is written at once, and ``--resume``
goes on from there. ``--quick`` trains on 2,000 rows and ranks 500, to see that everything works; it writes
``quick-ablation-SET.json``, which no document reads.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, records
from benchmarks.common.process import say
from sylvan import XRLinear, metrics

AT = (1, 3, 5)
NAMES = ("n_trees", "branching", "clustering")
FIXED: dict[str, Any] = {"negatives": "tfn", "beam": 10, "max_leaf": 100, "calibration": None}
SETTINGS: tuple[dict[str, Any], ...] = (
    *({"n_trees": 1, "branching": branching} for branching in (32, 8, 2)),
    *({"n_trees": n_trees, "branching": 32, "clustering": "random"} for n_trees in (1, 3)),
    *({"n_trees": 3, "branching": branching} for branching in (32, 8, 2)),
)


def measured(folder: Path, settings: dict[str, Any], threads: int, rows: int | None) -> dict[str, Any]:
    """Trains and ranks once: precision in percent, CPU seconds of both, all threads together."""
    X, Y, X_test, Y_test = datasets.load(folder, *datasets.NAMES)
    if rows is not None:
        X, Y, X_test, Y_test = X[:rows], Y[:rows], X_test[: rows // 4], Y_test[: rows // 4]
    model = XRLinear(**FIXED, **settings, n_jobs=threads)
    started = time.process_time()
    model.fit(X, Y)
    trained = time.process_time()
    top = model.rank(X_test, max(AT))
    ranked = time.process_time()
    found = {f"P@{k}": 100 * value for k, value in metrics.precision(Y_test, top, AT).items()}
    depth = len(model.layers_)
    return settings | found | {"depth": depth, "train_cpu_s": trained - started, "rank_cpu_s": ranked - trained}


def main() -> None:
    """Measures every setting on every set, the cheap ones first."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg", threads=2)
    parser.add_argument("--resume", action="store_true", help="keep the runs that the results hold already")
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it works")
    options = parser.parse_args()
    kind = "quick-ablation" if options.quick else "ablation"
    for set_name, folder in records.prepared(options):
        finished = records.Book(Path(options.results) / f"{kind}-{set_name}.json").runs
        runs = finished if options.resume else []
        for settings in SETTINGS:
            if any(settings == {key: run[key] for key in NAMES if key in run} for run in runs):
                continue
            runs.append(measured(folder, settings, options.threads, 2000 if options.quick else None))
            say(f"{set_name}: {runs[-1]}")
            records.write(kind, set_name, options, runs=runs)


if __name__ == "__main__":
    main()
