"""Affinity of labels to buckets: Definitions 1 and 2 of the IRLI paper, block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.matching.bucket_network import BucketNetwork, Inputs, best_columns, sigmoid
from sylvan.parallel import map_parallel, split_ranges

__all__ = ["best_buckets_by_instances", "best_buckets_by_vectors", "expected_affinity"]

_BLOCK_VALUES = 1 << 24  # probabilities in memory at once
Int32 = npt.NDArray[np.int32]


def best_buckets_by_vectors(network: BucketNetwork, vectors: Inputs, choices: int, n_jobs: int = 1) -> Int32:
    """The buckets that each label has most affinity to, by Definition 2: the network's answer to its vector.

    Parameters
    ----------
    network : BucketNetwork
        Of one repetition; see :meth:`BucketNetwork.only`.
    vectors : ndarray of float32, shape (n_labels, n_features)
    choices : int
        How many buckets a label; the paper's K.
    n_jobs : int
        Threads.

    Returns
    -------
    ndarray of int32, shape (n_labels, choices)
        Best first.
    """
    return network.top(vectors, choices, n_jobs)[0][:, 0]


def best_buckets_by_instances(network: BucketNetwork, X: Any, truths: sp.csr_matrix, choices: int) -> Int32:
    """The buckets that each label has most affinity to, by Definition 1: the sum over its instances.

    Parameters
    ----------
    network : BucketNetwork
        Of one repetition.
    X : ndarray of float32, or CSR matrix, of shape (n, n_features)
    truths : csr_matrix of shape (n, n_labels)
        Whose instance each row is; every stored value counts once.
    choices : int
        How many buckets a label; the paper's K.

    Returns
    -------
    ndarray of int32, shape (n_labels, choices)
        Best first, lower bucket first among equals; -1 for labels without an instance.

    Notes
    -----
    The sums of all labels to all buckets are never made: some buckets are computed at a time, and of these for some
    labels at a time, and each label keeps the best so far.
    """
    n, n_labels = truths.shape
    by_label = sp.csr_matrix((np.ones(truths.nnz, np.float32), truths.indices, truths.indptr), truths.shape).T.tocsr()
    rows = split_ranges(n, network.block_rows())
    hidden = np.concatenate([network.hidden_values(X[slice(*part)]) for part in rows])
    best = np.full((n_labels, choices), -1, np.int32)
    values = np.full((n_labels, choices), -np.inf, np.float32)
    for start, stop in split_ranges(network.n_buckets, max(_BLOCK_VALUES // max(n, 1), 16)):
        some = BucketNetwork(
            network.first, network.first_bias, network.second[:, :, start:stop], network.second_bias[:, start:stop]
        )
        scores = np.concatenate([sigmoid(some.bucket_logits(hidden[slice(*part)], 0)) for part in rows])
        for part in split_ranges(n_labels, max(_BLOCK_VALUES // (stop - start), 1)):
            here = slice(*part)
            sums = np.asarray(by_label[here] @ scores)
            columns, most = best_columns(sums, min(choices, stop - start))
            together = np.concatenate([values[here], most], axis=1)
            numbers = np.concatenate([best[here], columns + np.int32(start)], axis=1)
            places, values[here] = best_columns(together, choices)  # those of lower buckets stand first
            best[here] = np.take_along_axis(numbers, places, axis=1)
    best[np.diff(by_label.indptr) == 0] = -1
    return best


def expected_affinity(
    network: BucketNetwork, X: Any, truths: sp.csr_matrix, assignment: Int32, n_jobs: int = 1
) -> float:
    """The mean probability of the bucket that a label is in, over inputs, their labels and repetitions.

    This is what Theorem 1 of the paper says grows by a re-partition and the training after it.

    Parameters
    ----------
    network : BucketNetwork
    X : ndarray of float32, or CSR matrix, of shape (n, n_features)
    truths : csr_matrix of shape (n, n_labels)
    assignment : ndarray of int32, shape (n_repetitions, n_labels)
    n_jobs : int
        Threads.
    """

    def work(part: tuple[int, int]) -> float:
        here = truths[slice(*part)]
        rows = np.repeat(np.arange(here.shape[0]), np.diff(here.indptr))
        hidden = network.hidden_values(X[slice(*part)])
        total = 0.0
        for repetition in range(network.n_repetitions):
            logits = network.bucket_logits(hidden, repetition)
            total += float(sigmoid(logits[rows, assignment[repetition, here.indices]]).sum(dtype=np.float64))
        return total

    sums = map_parallel(work, split_ranges(X.shape[0], network.block_rows()), n_jobs)
    return sum(sums) / max(truths.nnz * network.n_repetitions, 1)
