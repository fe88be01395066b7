"""Vowpal Wabbit's multi-class reductions and what is asked of them: Filter Tree, LOMTree, Recall Tree.

Needs NumPy, SciPy and vowpalwabbit. Rows are read from a cache of parsed examples that is written first, so that no
text is read while the clock runs; they lie there in shuffled order, which is the same in every pass.
"""

from __future__ import annotations

import math
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.beam_tree import sets
from benchmarks.common import measure

__all__ = ["accuracy_of", "version"]

MOST_BITS = 27  # of the weights: 2 GB
_NODE = r"\x88"  # the recall tree's own namespace; crossed with the features, as its documentation has it


def version() -> str:
    """The installed version."""
    return metadata.version("vowpalwabbit")


def bits(reduction: str, n_features: int, n_classes: int, nodes: int = 1) -> int:
    """Enough weights for every feature of every predictor, so that none share one."""
    predictors = {"ect": 1, "oaa": 1, "log_multi": nodes, "recall_tree": 4}[reduction] * n_classes
    if reduction == "recall_tree":
        n_features *= 4  # each is crossed with the nodes of a path
    return min(MOST_BITS, math.ceil(math.log2(n_features + 2)) + math.ceil(math.log2(predictors)))


def options(row: dict[str, Any], found: sets.ClassSet) -> list[str]:
    """The reduction's arguments, rate and passes apart."""
    reduction, nodes = row["vw"], row.get("nodes", 1)
    size = bits(reduction, found.X.shape[1], found.n_classes, nodes)
    arguments = [f"--{reduction}", str(nodes * found.n_classes), "-b", str(size), "--random_seed", str(row["seed"])]
    arguments += ["--loss_function", "logistic", "--quiet"]
    if reduction == "log_multi":
        arguments += ["--swap_resistance", str(row["swap_resistance"])]
    if reduction == "recall_tree":
        arguments += ["-q", f"{_NODE}:"]
    return arguments


def write(path: Path, X: Any, y: np.ndarray) -> None:
    """Rows in VW's text, classes from 1."""
    with open(path, "w", encoding="ascii") as file:
        for at, label in enumerate(y):
            if sp.issparse(X):
                columns, values = (part[X.indptr[at] : X.indptr[at + 1]] for part in (X.indices, X.data))
            else:
                columns, values = np.arange(X.shape[1]), X[at]
            pairs = zip(columns.tolist(), values.tolist(), strict=True)
            file.write(f"{label + 1} | {' '.join(f'{column}:{value:.7g}' for column, value in pairs)}\n")


def run(arguments: list[str]) -> measure.Clock:
    """VW's driver from begin to end, model written and files closed."""
    from vowpalwabbit import Workspace

    with measure.Clock() as clock:
        Workspace(arg_list=arguments).finish()
    return clock


class Caches:
    """The rows in VW's own form, half of the training rows where ``half``; all rates are tried on the same ones."""

    def __init__(self, row: dict[str, Any], found: sets.ClassSet, scratch: Path, *, half: bool) -> None:
        order = np.random.default_rng(row["seed"]).permutation(len(found.y))
        if half:
            order = order[: len(order) // 2]
        self.shared, self.scratch, self.truth = options(row, found), scratch, found.y_test
        self.of: dict[str, list[str]] = {}
        for part, X, y in (("train", found.X[order], found.y[order]), ("test", found.X_test, found.y_test)):
            text = scratch / part
            write(text, X, y)
            self.of[part] = ["--cache_file", f"{text}.cache"]
            run([*self.shared, "-t", "-d", str(text), "-k", *self.of[part]])
            text.unlink()

    def train(self, rate: float, passes: int) -> measure.Clock:
        """Trains and writes the model."""
        arguments = ["--passes", str(passes), "--holdout_off", "-l", str(rate)]
        return run([*self.shared, *arguments, *self.of["train"], "-f", str(self.scratch / "model")])

    def ask(self, *more: str) -> measure.Clock:
        """Goes through the test rows with the model."""
        model = ["-t", "-i", str(self.scratch / "model"), "--quiet", "--passes", "1"]
        return run([*model, *self.of["test"], *more])

    def right(self) -> tuple[float, measure.Clock]:
        """Percent of the test rows that the model answers rightly."""
        path = self.scratch / "answers"
        clock = self.ask("-p", str(path))
        answers = np.loadtxt(path, dtype=np.int64, ndmin=1)
        if answers.shape != self.truth.shape:
            raise RuntimeError(f"VW answered {len(answers)} of {len(self.truth)} rows")
        return 100 * float((answers - 1 == self.truth).mean()), clock


def marks_of(row: dict[str, Any], found: sets.ClassSet, scratch: Path) -> list[list[list[float]]]:
    """For each rate, what is right after half a pass and after all."""
    marks: list[list[list[float]]] = [[] for _ in row["rates"]]
    for epochs in dict.fromkeys((0.5, row["epochs"])):
        caches = Caches(row, found, scratch, half=epochs == 0.5)
        for at, rate in enumerate(row["rates"]):
            caches.train(rate, math.ceil(epochs))
            marks[at].append([epochs, caches.right()[0]])
    return marks


def accuracy_of(row: dict[str, Any], found: sets.ClassSet, scratch: Path) -> dict[str, Any]:
    """Trains ``row["epochs"]`` passes and asks for the test rows' classes."""
    caches = Caches(row, found, scratch, half=False)
    measure.forget_peak()
    training = caches.train(row["rate"], row["epochs"])
    peak = measure.peak_resident()
    opening = caches.ask("--examples", "1")  # reading the model isn't ranking
    right, testing = caches.right()
    n = len(found.y_test)
    return {
        "version": version(),
        "accuracy": right,
        "bits": int(caches.shared[caches.shared.index("-b") + 1]),
        "training": {"wall_s": training.wall, "cpu_s": training.cpu, "peak_mb": peak},
        "ranking": {
            "ms_per_row": 1e3 * max(0.0, testing.wall - opening.wall) / n,
            "cpu_ms_per_row": 1e3 * max(0.0, testing.cpu - opening.cpu) / n,
        },
    }
