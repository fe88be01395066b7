"""A part of a set's labels, hidden at first, and the rows with which they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import datasets
from sylvan import metrics

__all__ = ["AT", "Hidden"]

AT = (1, 3, 5)
HIDDEN, ROWS, DEPTH = 0.1, 10, 10


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
