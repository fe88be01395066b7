"""New labels, learned from ten rows each with the model's own rows and without any, beside training anew; JSON out.

``python -m benchmarks.linear.new_labels --data DIR --sets eurlex57k,gutenberg``. A tenth of the labels are hidden. Of
each, up to ten rows come later; other rows that have a hidden label are left out, so that none lacks a label that it
has. The labels come all at once, and then a hundred of them one after the other, each in an update of its own.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from benchmarks.common import datasets, measure, records
from benchmarks.linear.updates import AT
from sylvan import XRLinear, metrics
from sylvan.ranking import added_labels

HIDDEN, ROWS, ALONE, DEPTH = 0.1, 10, 100, 10


class Hidden:
    """The rows to train on first, those of the hidden labels, and labels numbered with the hidden ones last."""

    def __init__(self, folder: Path, seed: int, rows: int | None = None) -> None:
        X, Y, self.X_test, Y_test = datasets.load(folder, *datasets.NAMES)
        if rows is not None:  # the first of these, a quarter as many to test, and the labels that they have
            X, Y = X[:rows], Y[:rows]
            there = np.flatnonzero(np.diff(Y.tocsc().indptr))
            Y, Y_test = Y[:, there].tocsr(), Y_test[:, there].tocsr()
            tested = np.flatnonzero(np.diff(Y_test.indptr))[: rows // 4]
            self.X_test, Y_test = self.X_test[tested], Y_test[tested]
        random = np.random.default_rng(seed)
        used = np.flatnonzero(np.diff(Y.tocsc().indptr))
        hidden = np.zeros(Y.shape[1], bool)
        hidden[random.permutation(used)[: int(HIDDEN * len(used))]] = True
        order = np.argsort(hidden, kind="stable")
        Y, self.Y_test, self.n_known = Y[:, order].tocsr(), Y_test[:, order].tocsr(), int((~hidden).sum())
        columns = Y.tocsc()
        each = [random.permutation(columns[:, label].indices)[:ROWS] for label in range(self.n_known, Y.shape[1])]
        new = np.unique(np.concatenate(each))
        first = np.flatnonzero((np.diff(Y[:, self.n_known :].indptr) == 0) & (np.diff(Y.indptr) > 0))
        self.X, self.Y, self.X_new, self.Y_new = X[first], Y[first], X[new], Y[new]

    def first(self) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """What the models are trained on first."""
        return self.X, self.Y[:, : self.n_known]

    def new(self, begin: int, end: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """The new rows of hidden labels ``begin`` to ``end`` - 1, and their labels so far."""
        rows = np.flatnonzero(np.diff(self.Y_new[:, self.n_known + begin : self.n_known + end].indptr))
        return self.X_new[rows], self.Y_new[rows, : self.n_known + end]

    def judged(self, model: Any, n_new: int) -> dict[str, Any]:
        """P@k of all labels so far, and recall@10 of the new ones among them, in percent."""
        n_labels = self.n_known + n_new
        top, truth = model.rank(self.X_test, DEPTH), self.Y_test[:, :n_labels].tocsr()
        found = metrics.precision(truth, top, at=AT)
        new = truth[:, self.n_known :].tocsr()
        indptr = np.concatenate(([0], np.cumsum((top.labels >= 0).sum(axis=1))))
        answers = sp.csr_matrix((np.ones(indptr[-1]), top.labels[top.labels >= 0], indptr), shape=(len(top), n_labels))
        right = answers[:, self.n_known :].multiply(new > 0).nnz
        share = float((top.labels[:, : AT[-1]] >= self.n_known).mean())
        recall = 100 * right / new.nnz if new.nnz else None
        return {"P": [100 * found[k] for k in AT], "recall_new": recall, "new_in_top": 100 * share}


def measured(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One set's figures."""
    came, settings = Hidden(folder, options.seed), {"n_jobs": options.threads}
    with measure.Clock() as clock:
        kept = XRLinear(keep_rows=True, **settings).fit(*came.first())
    first_s = clock.cpu
    plain = XRLinear(**settings).fit(*came.first())
    n_hidden = came.Y_new.shape[1] - came.n_known
    parts = {"at once": [(0, n_hidden)], "one by one": [(at, at + 1) for at in range(min(ALONE, n_hidden))]}
    figures: dict[str, Any] = {}
    for name, ranges in parts.items():
        last = ranges[-1][1]
        ways = {"before": (came.judged(plain, last), 0.0)}
        for way, model in (("without rows", plain), ("without stand-ins", plain), ("rows kept", kept)):
            ways[way] = _updated(way, copy.copy(model), came, ranges)
        with measure.Clock() as clock:
            anew = XRLinear(**settings).fit(*_all(came, last))
        ways["trained anew"] = (came.judged(anew, last), clock.cpu)
        figures[name] = {way: {**judged, "cpu_s": spent} for way, (judged, spent) in ways.items()}
        print(name, figures[name], flush=True)
    sizes = {"first_rows": came.X.shape[0], "new_rows": came.X_new.shape[0], "known": came.n_known, "new": n_hidden}
    return {"seed": options.seed, **sizes, "alone": len(parts["one by one"]), "first_cpu_s": first_s, "parts": figures}


def _updated(way: str, model: Any, came: Hidden, ranges: list[tuple[int, int]]) -> tuple[dict[str, Any], float]:
    """What a model gives when labels come in these updates, and the seconds of all of them."""
    nothing = np.zeros(0, np.int64)
    beside = (lambda *_: nothing) if way == "without stand-ins" else added_labels.leaves_beside
    with patch.object(added_labels, "leaves_beside", beside), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with measure.Clock() as clock:
            for begin, end in ranges:
                model.update(*came.new(begin, end))
    return came.judged(model, ranges[-1][1]), clock.cpu


def _all(came: Hidden, n_new: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """The first rows and those of the first hidden labels."""
    X, Y = came.new(0, n_new)
    return sp.vstack([came.X, X]).tocsr(), sp.vstack([came.Y[:, : came.n_known + n_new], Y]).tocsr()


def main() -> None:
    """Runs what the command line asks for."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, folder in records.prepared(options):
        records.write("new-labels", name, options, **measured(folder, options))


if __name__ == "__main__":
    main()
