"""Judges of a round of learning: how well its partitions and networks answer for holdout rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.bucket_scores import BucketQuery, rank_labels
from sylvan.models.irli.buckets import Buckets
from sylvan.models.irli.candidates import Candidates, Order, find_candidates
from sylvan.parallel import split_ranges

# Gives measures of which "score" decides, larger being better.
Judge = Callable[[Buckets, BucketNetwork], dict[str, float]]
_ROWS = 256
_SHARES = (256, 128, 64, 32, 16)  # of all labels, how small a part the candidates are


@dataclass(frozen=True, eq=False)
class RecallJudge:
    """Scores by the recall of candidates, averaged over several numbers of them. Called with Buckets and a
    BucketNetwork, it gives "score", and "recall at N" for each number of candidates: a 256th of the labels, a 128th,
    and so on to a sixteenth."""

    X: Any  # shape (n, n_features)
    truths: sp.csr_matrix  # shape (n, n_labels): the right labels of each row
    probes: int | None = None  # buckets looked into in each repetition; a sixteenth of them, at least 10, by default
    order: Order = "probability"  # which candidates come first
    n_jobs: int = 1  # threads

    def __call__(self, buckets: Buckets, network: BucketNetwork) -> dict[str, float]:
        n, n_jobs = self.X.shape[0], self.n_jobs
        limits = sorted({max(buckets.n_labels // share, 1) for share in _SHARES})
        m = min(max(network.n_buckets // 16, 10) if self.probes is None else self.probes, network.n_buckets)
        sums = np.zeros(len(limits))
        for start, stop in split_ranges(n, _ROWS):
            chosen, probabilities = network.top(self.X[start:stop], m, n_jobs)
            candidates = find_candidates(
                buckets, chosen, probabilities, order=self.order, limit=limits[-1], n_jobs=n_jobs
            )
            sums += candidate_recall(candidates, self.truths[start:stop], limits).sum(axis=0)
        recalls = sums / max(n, 1)
        return {"score": float(recalls.mean())} | {
            f"recall at {limit}": float(recall) for limit, recall in zip(limits, recalls, strict=True)
        }


@dataclass(frozen=True, eq=False)
class PrecisionJudge:
    """Scores by the mean of P@1, P@3 and P@5 of labels that are ranked as ``query`` says. The other parameters are
    those of :class:`RecallJudge`."""

    X: Any
    truths: sp.csr_matrix
    query: BucketQuery
    n_jobs: int = 1

    def __call__(self, buckets: Buckets, network: BucketNetwork) -> dict[str, float]:
        top = rank_labels(buckets, network, self.X, 5, self.query, n_jobs=self.n_jobs)
        rows, width = np.arange(self.X.shape[0], dtype=np.int64), self.truths.shape[1]
        right_keys = np.repeat(rows, np.diff(self.truths.indptr)) * width + self.truths.indices
        right = np.isin(rows[:, None] * width + top.labels, right_keys) & (top.labels >= 0)
        precision = {f"P@{k}": float(right[:, :k].mean()) for k in (1, 3, 5)}
        return {"score": float(np.mean(list(precision.values()))), **precision}


def candidate_recall(candidates: Candidates, truths: sp.csr_matrix, limits: list[int]) -> npt.NDArray[np.float64]:
    """Which share of its right labels each row has among its first candidates."""
    # Shape: truths (n, n_labels); returns (n, len(limits))
    n, n_labels = truths.shape
    rows = np.repeat(np.arange(n, dtype=np.int64), candidates.counts())
    places = np.arange(len(rows)) - np.repeat(candidates.offsets[:-1], candidates.counts())
    n_right = np.diff(truths.indptr)
    right_keys = np.repeat(np.arange(n, dtype=np.int64), n_right) * n_labels + truths.indices
    right = np.isin(rows * n_labels + candidates.labels, right_keys)
    recall = np.ones((n, len(limits)))
    for column, limit in enumerate(limits):
        hits = np.bincount(rows[right & (places < limit)], minlength=n)
        np.divide(hits, n_right, out=recall[:, column], where=n_right > 0)
    return recall
