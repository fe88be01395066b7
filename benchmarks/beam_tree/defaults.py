"""Beam Tree's defaults, before a change and after, beside a tuned softmax, NCE and XRLinear; JSON out.

``python -m benchmarks.beam_tree.defaults --data DATA --before OTHER/src``

Short sparse texts of many classes, sets with dense rows of the same, and made ones, each split by three seeds. Every
row is a process on one thread, written to ``results/beam_tree_defaults.json`` when it is finished; the same command
again runs what is missing. Softmax and NCE are tuned with the first seed: each rate of a grid, for gradient descent,
its averages and AdaGrad, is trained on nine in ten rows, and the rate and number of passes that rank the tenth best are
trained on all rows.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.beam_tree import short_texts
from benchmarks.common import measure, process, records, resuming

Row = dict[str, Any]
SETS = short_texts.SETS
SEEDS = (0, 1, 2)
EPOCHS = 10
CONTENDERS: dict[str, Row] = {
    "before": {},  # the defaults of another checkout
    "BeamTreeClassifier": {},
    "path": {"scores": "path"},
    "paper": {"scores": "path", "together": False, "n_candidates": 9, "n_noises": 1},
    "CANE-9v10": {"n_candidates": 9},
    "softmax": {"loss": "softmax", "tuned": True},
    "NCE-10": {"loss": "nce", "n_noises": 10, "noise": "unigram", "tuned": True},
    "XRLinear": {"xr": True},
    "logistic": {"logistic": True, "tuned": True},
}
# What a first step adds to the score of a row of unit length, as in the model's own trials.
GRID = {"averaged_sgd": (1.0, 3.0, 10.0), "sgd": (1.0, 3.0), "adagrad": (0.3, 1.0, 3.0)}
WORKER = "benchmarks.beam_tree.defaults"
CANE = ("before", "BeamTreeClassifier", "path", "paper", "CANE-9v10")
INVERSES = (1.0, 10.0, 100.0)  # of the logistic regression's l2


def planned(seeds: tuple[int, ...] = SEEDS) -> Iterator[Row]:
    """The rows of the table; tuned ones have the settings that the first seed's tuning chose."""
    for seed in seeds:
        for name in SETS:
            for contender in CONTENDERS:
                yield {"set": name, "contender": contender, "seed": seed, "step": "train"}


def model_of(row: Row, **more: Any) -> Any:
    """The contender, untrained."""
    import sylvan

    own = {key: value for key, value in CONTENDERS[row["contender"]].items() if key not in ("tuned", "xr", "logistic")}
    if CONTENDERS[row["contender"]].get("logistic"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.multiclass import OneVsRestClassifier

        return OneVsRestClassifier(LogisticRegression(solver="liblinear", random_state=row["seed"], **more))
    if CONTENDERS[row["contender"]].get("xr"):
        return sylvan.XRLinear(seed=row["seed"], n_jobs=1)
    return sylvan.BeamTreeClassifier(seed=row["seed"], n_jobs=1, **own, **more)


def right(model: Any, X: Any, y: np.ndarray) -> float:
    """Percent of rows whose class is ranked first."""
    if not hasattr(model, "rank"):
        return 100 * float((model.predict(X) == y).mean())
    return 100 * float((np.asarray(model.rank(X, k=1).labels)[:, 0] == y).mean())


def tune(row: Row, X: Any, y: np.ndarray) -> Row:
    """The settings that rank a tenth of the training rows best."""
    order = np.random.default_rng([row["seed"], 5]).permutation(len(y))
    held, shown = np.split(order, [len(order) // 10])
    if CONTENDERS[row["contender"]].get("logistic"):
        found = {C: right(model_of(row, C=C).fit(X[shown], y[shown]), X[held], y[held]) for C in INVERSES}
        most = max(found, key=lambda C: found[C])
        return {"C": most, "right": found[most]}
    return tune_passes(row, X, y, held, shown)


def tune_passes(row: Row, X: Any, y: np.ndarray, held: np.ndarray, shown: np.ndarray) -> Row:
    """The optimiser, the rate and the number of passes that rank the held rows best."""
    length = float(X.multiply(X).sum() if sp.issparse(X) else np.square(X, dtype=np.float64).sum()) / len(y)
    absolute = float(abs(X).sum()) / len(y)
    best: Row = {"right": -1.0}
    for optimizer, steps in GRID.items():
        for step in steps:
            rate = step / ((absolute if optimizer == "adagrad" else length) + 1)
            model = model_of(row, optimizer=optimizer, learning_rate=rate)
            found = []
            for epoch in range(EPOCHS):
                rows = np.random.default_rng([row["seed"], epoch]).permutation(shown)
                model.partial_fit(X[rows], y[rows], classes=np.arange(int(y.max()) + 1))
                found.append(right(model, X[held], y[held]))
                if epoch - int(np.argmax(found)) >= 3:
                    break
            if max(found) > best["right"]:
                passes = int(np.argmax(found)) + 1
                best = {"optimizer": optimizer, "rate": rate, "epochs": passes, "right": max(found)}
    return best


def worked(job: Row) -> Row:
    """A row's figures: of a tuning, or of a training and its test rows."""
    row = job["row"]
    X, y, X_test, y_test = short_texts.load(Path(job["set"]), row["seed"])
    if job["step"] == "tune":
        with measure.Clock() as clock:
            best = tune(row, X, y)
        return {"settings": best, "cpu_s": clock.cpu}
    chosen = job["settings"]
    names = {"optimizer": "optimizer", "rate": "learning_rate", "epochs": "epochs", "C": "C"}
    more = {} if chosen is None else {names[key]: value for key, value in chosen.items() if key in names}
    model = model_of(row, **more)
    with measure.Clock() as clock:
        model.fit(X, y)
    figures = {"accuracy": right(model, X_test, y_test), "cpu_s": clock.cpu, "rows": len(y), "n_features": X.shape[1],
               "n_classes": int(y.max()) + 1, "dense": not sp.issparse(X)}  # fmt: skip
    if hasattr(model, "history_"):
        figures |= {"passes": len(model.history_), "learning_rate": model.learning_rate_}
        figures["optimizer"] = getattr(model, "optimizer_", "adagrad")
    if row["contender"] in CANE and hasattr(model, "coverage"):
        figures["coverage"] = 100 * model.coverage(X_test, y_test)
    return figures


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", help="folder of gutenberg/, cpv-tenders/ and clinc150/")
    parser.add_argument("--before", help="src/ of another checkout with its kernels built")
    parser.add_argument("--sets", type=resuming.words, default=list(SETS))
    parser.add_argument("--contenders", type=resuming.words, default=list(CONTENDERS))
    parser.add_argument("--seeds", type=resuming.numbers, default=list(SEEDS))
    parser.add_argument("--cache", type=Path, default=records.CACHE)
    parser.add_argument("--results", type=Path, default=records.RESULTS)
    options = parser.parse_args()
    book = records.Book(options.results / "beam_tree_defaults.json")
    for row in planned(tuple(options.seeds)):
        if row["set"] not in options.sets or row["contender"] not in options.contenders or book.find(row):
            continue
        if row["contender"] == "before" and not options.before:
            continue
        folder = short_texts.prepare(row["set"], Path(options.data), options.cache)
        job: Row = {"row": row, "set": str(folder), "step": "train", "settings": None}
        if CONTENDERS[row["contender"]].get("tuned"):
            tuning = {**row, "seed": SEEDS[0], "step": "tune"}
            found = book.find(tuning)
            if found is None:
                found = tuning | process.run(sys.executable, WORKER, {**job, "row": tuning, "step": "tune"})
                book.add(found)
            job["settings"] = found["settings"]
        before = row["contender"] == "before"
        more = {"PYTHONPATH": os.pathsep.join((options.before, str(process.ROOT)))} if before else {}
        figures = process.run(sys.executable, WORKER, job, **more)
        process.say(f"{row}: {figures}")
        if "error" not in figures:
            book.add({**row, **figures})


if __name__ == "__main__":
    if not process.served(worked):
        main()
