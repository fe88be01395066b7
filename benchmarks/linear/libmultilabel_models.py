"""LibMultiLabel's linear models: its tree of one-vs-rest classifiers, and one classifier a label without a tree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.linear.contenders import BEAM, TOP, Contender, read

BATCH = 256  # rows at once, as in the library's own evaluation: scores of all labels are dense


class LibMultiLabelTree(Contender):
    """The tree with the library's defaults: 100 branches and up to 100 labels a leaf, squared hinge, C 1."""

    package = "libmultilabel"

    def load_imports(self) -> None:
        from libmultilabel import linear

        self._linear = linear

    def prepare(self, folder: Path, scratch: Path) -> None:
        self._X, self._Y = read(folder, "X.trn").astype(np.float64), read(folder, "Y.trn")

    def train(self, threads: int) -> None:
        _use_cores(threads)
        np.random.seed(self.seed)  # noqa: NPY002 (what its k-means draws from)
        self._model = self._fit()

    def _fit(self) -> Any:
        return self._linear.train_tree(self._Y, self._X, verbose=False)

    def save(self, folder: Path) -> None:
        self._linear.save_pipeline(str(folder), None, self._model)

    def open(self, folder: Path, threads: int) -> None:
        _use_cores(threads)
        _, self._model = self._linear.load_pipeline(str(folder / "linear_pipeline.pickle"))

    def queries(self, X: sp.csr_matrix) -> Any:
        return X.astype(np.float64)

    def rank_all(self, queries: Any) -> Any:
        return [self.rank_one(queries[at : at + BATCH]) for at in range(0, queries.shape[0], BATCH)]

    def top(self, answer: Any) -> np.ndarray:
        return np.vstack(answer).astype(np.int64)

    def rows(self, X: sp.csr_matrix) -> list[Any]:
        return super().rows(X.astype(np.float64))

    def rank_one(self, row: Any) -> Any:
        scores = self._scores(row)
        return self._linear.get_topk_labels(scores, np.arange(scores.shape[1]), TOP)[0]

    def _scores(self, rows: Any) -> Any:
        return self._model.predict_values(rows, beam_width=BEAM)


class LibMultiLabelOneVsRest(LibMultiLabelTree):
    """One classifier a label, each trained with all rows; its weights are dense, gigabytes for very many labels."""

    only_named = True

    def _fit(self) -> Any:
        return self._linear.train_1vsrest(self._Y, self._X, verbose=False)

    def _scores(self, rows: Any) -> Any:
        return self._model.predict_values(rows)


def _use_cores(threads: int) -> None:
    """Run on so many cores: it starts a thread for each core of the machine, and takes no other number."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
