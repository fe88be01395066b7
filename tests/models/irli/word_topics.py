"""Rows of words that tell their labels, a classifier small enough to learn from them in no time, and all its logits."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.models.irli.bucket_network import BucketNetwork

N_LABELS = 40
SMALL: dict[str, Any] = {"n_buckets": 12, "n_repetitions": 6, "hidden": 32, "learning_rate": 0.01}


def topics(n: int = 800, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Sparse rows of words: each label has words of its own, and two labels make a row."""
    random = np.random.default_rng(seed)
    labels = np.sort(np.argsort(random.random((n, N_LABELS)), axis=1)[:, :2], axis=1)
    words = np.concatenate([labels * 3 + random.integers(0, 3, labels.shape), 120 + random.integers(0, 30, (n, 2))], 1)
    X = sp.csr_matrix((np.ones(words.size), words.ravel(), np.arange(0, words.size + 1, 4)), shape=(n, 150))
    Y = sp.csr_matrix((np.ones(2 * n), labels.ravel(), np.arange(0, 2 * n + 1, 2)), shape=(n, N_LABELS))
    X.sort_indices()
    return X, Y


def share_found(found: np.ndarray, right: np.ndarray) -> float:
    """The share of the right ids of a row that were found, in the mean over rows."""
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), right.tolist(), strict=True)]))


def all_logits(network: BucketNetwork, X: Any) -> np.ndarray:
    """The logit of every bucket, of shape (n, n_repetitions, n_buckets)."""
    hidden = network.hidden_values(X)
    return np.stack([network.bucket_logits(hidden, r) for r in range(network.n_repetitions)], axis=1)
