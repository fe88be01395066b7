"""``--filter-labels``: pairs of row and label that an evaluation leaves out of the answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan import data, metrics
from sylvan.errors import DataError
from sylvan.topk import TopK

__all__ = ["LeftOut"]


class LeftOut:
    """The pairs of a file, as the labels of a model; none without a file."""

    def __init__(self, path: str | None, model: Any) -> None:
        self.path = path
        pairs: Any = sp.csr_matrix(np.zeros((0, 0), np.float32)) if path is None else data.load_filter_labels(path)
        self._n_rows = pairs.shape[0]
        rows, labels = (ids.astype(np.int64) for ids in pairs.nonzero())
        if model.takes_texts:  # whose labels have names; numbers in the file are names too
            known = [model.vocabulary_.get(str(label)) for label in labels.tolist()]
            labels = np.array([-1 if label is None else label for label in known], np.int64)
        kept = (labels >= 0) & (labels < model.n_labels_)
        ones = np.ones(int(kept.sum()), np.float32)
        self._pairs = sp.csr_matrix((ones, (rows[kept], labels[kept])), shape=(self._n_rows, model.n_labels_))
        self.most = int(np.diff(self._pairs.indptr).max(initial=0))

    def apply(self, top: TopK, first: int, k: int) -> TopK:
        """The first ``k`` answers that count of the rows from ``first`` on."""
        if not self.most:
            return top
        pairs: Any = self._pairs[first : first + len(top)]
        pairs.resize((len(top), self._pairs.shape[1]))
        counting = metrics.leave_out(top, pairs)
        return TopK(counting.labels[:, :k], counting.scores[:, :k])

    def check(self, n_rows: int) -> None:
        """Refuse a file that names rows beyond the last."""
        if self._n_rows > n_rows:
            raise DataError(f"{self.path} names row {self._n_rows - 1}, but there are {n_rows} rows, counted from 0.")
