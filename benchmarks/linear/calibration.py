"""What calibration costs in training, and what it and the rules for when to stop give; JSON out.

``python -m benchmarks.linear.calibration --data DIR --sets eurlex57k,gutenberg``. Models take turns: without
calibration, isotonic, Platt, in as many rounds as ``--repeats`` says; seconds are medians. The rules answer the test
rows with the probabilities of the isotonic model.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import datasets, measure, records
from sylvan import TopK, XRLinear, metrics

AT = (1, 3, 5)
METHODS = (None, "isotonic", "platt")
RULES: dict[str, dict[str, Any]] = {
    "five labels": {"k": 5},
    "three labels": {"k": 3},
    "probability of at least 0.5": {"threshold": 0.5},
    "highest expected F1": {"expected": "f1"},
    "expected precision of at least 0.9": {"precision": 0.9},
}


def errors(Y: sp.csr_matrix, top: TopK) -> list[float]:
    """ECE@1/3/5 in percent."""
    return [100 * value for value in metrics.calibration_error(Y, top, at=AT).values()]


def answered(Y: sp.csr_matrix, top: TopK) -> dict[str, float]:
    """Precision, recall and F1 over all answers and as means over rows, in percent; labels a row."""
    given = TopK(top.labels, np.ones_like(top.scores)).to_csr(Y.shape[1])
    right = np.asarray(given.multiply(Y > 0).sum(axis=1)).ravel()
    n_given, n_true = given.getnnz(axis=1), Y.getnnz(axis=1)
    by_row = 2 * right / np.maximum(1, n_given + n_true)
    return {
        "precision": 100 * right.sum() / max(1, n_given.sum()),
        "recall": 100 * right.sum() / n_true.sum(),
        "f1": 200 * right.sum() / (n_given.sum() + n_true.sum()),
        "row_f1": 100 * by_row.mean(),
        "labels": float(n_given.mean()),
    }


def measured(set_folder: Any, options: argparse.Namespace) -> dict[str, Any]:
    """One set's figures."""
    X, Y, X_test, Y_test = datasets.load(set_folder, *datasets.NAMES)
    seconds: dict[str | None, list[float]] = {method: [] for method in METHODS}
    models: dict[str | None, Any] = {}
    for _ in range(options.repeats):
        for method in METHODS:
            with measure.Clock() as clock:
                models[method] = XRLinear(calibration=method, n_jobs=options.threads).fit(X, Y)
            seconds[method].append(clock.cpu)
    tops = {method: model.rank(X_test, k=max(AT)) for method, model in models.items()}
    plain = statistics.median(seconds[None])
    runs = []
    for method in METHODS:
        probabilities = models[method].probabilities(tops[method])
        found = metrics.precision(Y_test, tops[method], at=AT)
        runs.append({
            "method": method, "ece": errors(Y_test, probabilities), "P": [100 * found[k] for k in AT],
            "cpu_s": statistics.median(seconds[method]), "factor": statistics.median(seconds[method]) / plain,
        })  # fmt: skip
    rules = {name: answered(Y_test, models["isotonic"].choose(X_test, **rule)) for name, rule in RULES.items()}
    return {"repeats": options.repeats, "calibrations": runs, "rules": rules}


def main() -> None:
    """Runs what the command line asks for."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for name, folder in records.prepared(options):
        records.write("calibration", name, options, **measured(folder, options))


if __name__ == "__main__":
    main()
