"""Clusters without training rows: the intercept of -1 that Sylvan gives them beside the 0 of Eq. 10; JSON out.

``python -m benchmarks.linear.unreached --data DIR --sets eurlex57k,gutenberg,cpv-tenders``

A tenth of the labels, drawn at random, lose their training rows and stand in clusters of their own, as labels do that
are new in a given tree. They stay true labels of test rows. Each model is trained once and ranks with both intercepts.
"""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import datasets, measure, records
from benchmarks.common.process import say
from sylvan import LabelTree, XRLinear, indexing

COMBINES = ("damped", "l3_hinge", "paper")
SHARE, CLUSTER, DEEP = 10, 100, 100  # one label in ten; labels of a cluster; answers a row
Csr = sp.csr_matrix


def with_new_labels(tree: LabelTree, seen: np.ndarray, new: np.ndarray) -> LabelTree:
    """A tree of the labels ``seen``, and below a new node of each layer the labels ``new``."""
    matrices = [sp.coo_matrix(matrix) for matrix in tree.to_matrices()]
    clusters = np.arange(len(new)) // CLUSTER
    made = []
    for t, matrix in enumerate(matrices):
        last, parents = t == len(matrices) - 1, matrix.shape[1] if t else 0
        below = clusters if last else np.zeros(int(clusters[-1]) + 1 if t == len(matrices) - 2 else 1, np.int64)
        rows, own = (seen[matrix.row], new) if last else (matrix.row, matrix.shape[0] + np.arange(len(below)))
        places = np.concatenate([rows, own]), np.concatenate([matrix.col, parents + below])
        shape = (matrix.shape[0] + len(below), 1 if t == 0 else made[-1].shape[0])
        made.append(sp.coo_matrix((np.ones(len(places[0]), np.float32), places), shape=shape))
    return LabelTree.from_matrices(made)


def with_intercept(model: XRLinear, intercept: float) -> tuple[XRLinear, int]:
    """The model with another intercept where no training row was; how many labels that changes."""
    made, changed = copy.copy(model), 0
    rankers = []
    for ranker in model.rankers_:
        layers = []
        for layer in ranker.layers:
            empty = np.repeat(np.diff(layer.row_offsets) == 0, np.diff(layer.child_offsets))
            empty &= layer.intercepts == -1
            changed = int(empty.sum())
            intercepts = np.where(empty, np.float32(intercept), layer.intercepts)
            layers.append(dataclasses.replace(layer, intercepts=intercepts))
        rankers.append(dataclasses.replace(ranker, layers=layers))
    made.fitted_ = dataclasses.replace(model.fitted_, rankers=rankers)
    return made, changed


def measured(X: Csr, Y: Csr, X_test: Csr, Y_test: Csr, seed: int) -> list[dict[str, Any]]:
    """A row for each way of combining and each intercept."""
    drawn = np.random.default_rng(seed).permutation(Y.shape[1])
    new, seen = np.sort(drawn[: Y.shape[1] // SHARE]), np.sort(drawn[Y.shape[1] // SHARE :])
    tree = with_new_labels(LabelTree.build(indexing.pifa(X, Y[:, seen]), seed=seed), seen, new)
    left = Y.copy()
    left.data[np.isin(left.indices, new)] = 0
    left.eliminate_zeros()
    rows = []
    for combine in COMBINES:
        model = XRLinear(tree=tree, combine=combine, calibration=None, n_jobs=1, seed=seed).fit(X, left)
        for intercept in (-1.0, 0.0):
            other, changed = with_intercept(model, intercept)
            assert changed == len(new), "the new labels are those of clusters without rows"
            top = other.rank(X_test, DEEP)
            figures = measure.precision(top.labels, Y_test, Y) | measure.recall(top.labels, Y_test, (5, 10, DEEP))
            answered = {f"new@{k}": 100 * float(np.isin(top.labels[:, :k], new).mean()) for k in (5, DEEP)}
            rows.append({"combine": combine, "intercept": intercept, "seed": seed, **figures, **answered})
            say(f"{rows[-1]}")
    return rows


def main() -> None:
    """Measures every set."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg,cpv-tenders", threads=None)
    parser.add_argument("--seeds", default="0,1,2")
    options = parser.parse_args()
    for set_name, folder in records.prepared(options):
        matrices = datasets.load(folder, *datasets.NAMES)
        runs = records.Book(Path(options.results) / f"unreached-{set_name}.json").runs
        for seed in map(int, options.seeds.split(",")):
            if all(run["seed"] != seed for run in runs):
                runs += measured(*matrices, seed)
                records.write("unreached", set_name, options, runs=runs)


if __name__ == "__main__":
    main()
