"""What neighbours add to a tree of linear models, and what ways of favouring rare labels give; JSON out.

``python -m benchmarks.linear.neighbors --data DIR --sets eurlex57k,gutenberg``. Time, size and memory of each model are
those of a process of its own, as in ``defaults.py``. The weight of the neighbours in the mean is chosen on a tenth of
the training rows, held out of both models; the test rows are looked at once, at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import datasets, measure, records
from benchmarks.common.process import say
from benchmarks.linear import defaults
from benchmarks.linear.macro import MEASURES, select_macro
from sylvan import NeighborRanker, TopK, XRLinear, metrics

WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
AT = (1, 3, 5)
DEPTH = 100
TREES: dict[str, dict[str, Any]] = {
    "XRLinear": {},
    "XRLinear, negatives and combine as in the paper": {"negatives": "paper", "combine": "paper"},
}

Csr = sp.csr_matrix


def best(scores: Csr, k: int = DEPTH) -> TopK:
    """The ``k`` best columns of each row."""
    labels = measure.top_labels(scores, k).astype(np.int32)
    found = np.where(labels >= 0, 0.0, -np.inf).astype(np.float32)
    rows, places = np.nonzero(labels >= 0)
    found[rows, places] = np.asarray(scores[rows, labels[rows, places]]).ravel()
    return TopK(labels, found)


def joined(tree: Csr, neighbors: Csr, weight: float) -> TopK:
    """The weighted mean of two matrices of scores in [0, 1]."""
    return best(((1 - weight) * tree + weight * neighbors).tocsr())


def precisions(Y: Csr, top: TopK) -> dict[str, float]:
    """P@1/3/5 in percent."""
    return {f"P@{k}": 100 * value for k, value in metrics.precision(Y, top, AT).items()}


def figures(Y: Csr, top: TopK, Y_train: Csr) -> dict[str, float]:
    """Every measure of the tables, in percent."""
    found = precisions(Y, top)
    found |= {f"PSP@{k}": 100 * v for k, v in metrics.psp(Y, top, metrics.propensities(Y_train), AT).items()}
    macro = {"P": metrics.macro_precision, "R": metrics.macro_recall, "F1": metrics.macro_f1}
    found |= {f"macro-{name}@5": 100 * measured(Y, top, 5)[5] for name, measured in macro.items()}
    found["coverage@5"] = 100 * metrics.coverage(Y, top, 5)[5]
    counts = np.bincount(Y_train.indices, minlength=Y_train.shape[1])
    slices = metrics.slices(Y, top, counts, 5)
    return found | {f"{name} R@5": 100 * measured["R@5"] for name, measured in slices.items()}


def choose_weight(X: Csr, Y: Csr, settings: dict[str, Any], threads: int) -> tuple[float, dict[str, Any]]:
    """The weight of the neighbours that is best for P@1 + P@3 + P@5 of a tenth of the training rows."""
    order = np.random.default_rng(0).permutation(X.shape[0])
    held_out, rest = np.sort(order[: X.shape[0] // 10]), np.sort(order[X.shape[0] // 10 :])
    tree = XRLinear(**settings, n_jobs=threads).fit(X[rest], Y[rest]).predict_proba(X[held_out])
    neighbors = NeighborRanker(n_jobs=threads).fit(X[rest], Y[rest]).predict_proba(X[held_out])
    found = {str(weight): precisions(Y[held_out], joined(tree, neighbors, weight)) for weight in WEIGHTS}
    return max(WEIGHTS, key=lambda weight: sum(found[str(weight)].values())), found


def rankings(X: Csr, Y: Csr, Q: Csr, truth: Csr, threads: int) -> list[dict[str, Any]]:
    """Each model alone, and its mean with the neighbours."""
    neighbors = NeighborRanker(n_jobs=threads).fit(X, Y).predict_proba(Q)
    runs: list[dict[str, Any]] = [{"model": "NeighborRanker", **figures(truth, best(neighbors), Y)}]
    for name, settings in TREES.items():
        tree = XRLinear(**settings, n_jobs=threads).fit(X, Y).predict_proba(Q)
        weight, held_out = choose_weight(X, Y, settings, threads)
        runs.append({"model": name, **figures(truth, best(tree), Y)})
        found = figures(truth, joined(tree, neighbors, weight), Y)
        runs.append({"model": f"{name}, with neighbours", "weight": weight, "held_out": held_out, **found})
        say(f"{runs[-1]}")
    return runs


def tails(X: Csr, Y: Csr, Q: Csr, truth: Csr, threads: int) -> list[dict[str, Any]]:
    """Each way of favouring rare labels, with scores as they are and calibrated."""
    runs = []
    for calibration in (None, "isotonic"):
        model = XRLinear(calibration=calibration, n_jobs=threads).fit(X, Y)
        for tail in ("none", "psp", "macro_recall"):
            found = figures(truth, model.rank(Q, 5, tail=tail), Y)
            runs.append({"way": "plain" if tail == "none" else f'tail="{tail}"', "calibration": calibration, **found})
        probabilities = model.predict_proba(Q, k=DEPTH)
        for name in MEASURES:
            found = figures(truth, select_macro(probabilities, 5, name), Y)
            runs.append({"way": f'select_macro, "{name}"', "calibration": calibration, **found})
            say(f"{runs[-1]}")
    return runs


def main() -> None:
    """Measures every set."""
    options = records.command_line(__doc__, "eurlex57k,gutenberg").parse_args()
    for set_name, folder in records.prepared(options):
        X, Y, Q, truth = datasets.load(folder, *datasets.NAMES)
        costs = {
            name: defaults.measure_settings(folder, {"model": name}, options.threads)
            for name in ("XRLinear", "NeighborRanker")
        }
        found = {
            "costs": costs,
            "rankings": rankings(X, Y, Q, truth, options.threads),
            "tails": tails(X, Y, Q, truth, options.threads),
        }
        records.write("neighbors", set_name, options, **found)


if __name__ == "__main__":
    main()
