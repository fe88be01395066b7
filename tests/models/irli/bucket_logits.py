"""The logits of all of a network's buckets."""

from __future__ import annotations

from typing import Any

import numpy as np

from sylvan.models.irli.bucket_network import BucketNetwork


def all_logits(network: BucketNetwork, X: Any) -> np.ndarray:
    """The logit of every bucket, of shape (n, n_repetitions, n_buckets)."""
    hidden = network.hidden_values(X)
    return np.stack([network.bucket_logits(hidden, r) for r in range(network.n_repetitions)], axis=1)
