"""Judges of partitions in learning: recall of held-out inputs against the number of candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.canonical import Csr
from sylvan.indexing.buckets import Buckets
from sylvan.matching.bucket_network import BucketNetwork
from sylvan.matching.candidates import Candidates, find_candidates
from sylvan.parallel import split_ranges

__all__ = ["Judge", "candidate_recall", "recall_judge"]

Judge = Callable[[Buckets, BucketNetwork], dict[str, float]]
_ROWS = 256
_SHARES = (256, 128, 64, 32, 16)  # of all labels, how small a part the candidates are


def recall_judge(
    X: Any, truths: Any, *, probes: int | None = None, order: str = "probability", n_jobs: int = 1
) -> Judge:
    """A judge whose score is the recall of held-out inputs, averaged over several numbers of candidates.

    Parameters
    ----------
    X : ndarray of float32, or CSR matrix, of shape (n, n_features)
    truths : CSR matrix of shape (n, n_labels)
        What should be found for each.
    probes : int, optional
        Buckets looked into in each repetition; a sixteenth of them, at least 10, by default.
    order : {"probability", "votes"}
        Which candidates are kept.
    n_jobs : int
        Threads.

    Returns
    -------
    callable
        Gives "score", and "recall at N" for each number of candidates: a 256th of the labels, a 128th, and so on to a
        sixteenth.
    """
    inputs = X.to_scipy() if isinstance(X, Csr) else X
    wanted = truths.to_scipy() if isinstance(truths, Csr) else truths.tocsr()

    def judge(buckets: Buckets, network: BucketNetwork) -> dict[str, float]:
        limits = sorted({max(buckets.n_labels // share, 1) for share in _SHARES})
        m = min(max(network.n_buckets // 16, 10) if probes is None else probes, network.n_buckets)
        sums = np.zeros(len(limits))
        for start, stop in split_ranges(inputs.shape[0], _ROWS):
            chosen, probabilities = network.top(inputs[start:stop], m, n_jobs)
            found = find_candidates(buckets, chosen, probabilities, order=order, limit=limits[-1], n_jobs=n_jobs)
            sums += candidate_recall(found, wanted[start:stop], limits).sum(axis=0)
        recalls = sums / max(inputs.shape[0], 1)
        return {"score": float(recalls.mean())} | {
            f"recall at {limit}": float(recall) for limit, recall in zip(limits, recalls, strict=True)
        }

    return judge


def candidate_recall(found: Candidates, truths: sp.csr_matrix, limits: list[int]) -> npt.NDArray[np.float64]:
    """Which share of its true labels each input finds among its first candidates.

    Parameters
    ----------
    found : Candidates
        Best first.
    truths : csr_matrix of shape (n, n_labels)
    limits : list of int
        How many candidates count.

    Returns
    -------
    ndarray of float64, shape (n, len(limits))
        1 for inputs without a label.
    """
    n, n_labels = truths.shape
    counts = np.diff(found.offsets)
    rows = np.repeat(np.arange(n, dtype=np.int64), counts)
    places = np.arange(len(rows)) - np.repeat(found.offsets[:-1], counts)
    true_rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(truths.indptr))
    right = np.isin(rows * n_labels + found.labels, true_rows * n_labels + truths.indices)
    wanted = np.diff(truths.indptr)
    recall = np.ones((n, len(limits)))
    for column, limit in enumerate(limits):
        hits = np.bincount(rows[right & (places < limit)], minlength=n)
        np.divide(hits, wanted, out=recall[:, column], where=wanted > 0)
    return recall
