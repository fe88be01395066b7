"""What each part of training linear rankers takes of memory, counted from sizes alone, in bytes.

So it can be asked before anything is made. What is not counted is what the interpreter and the libraries take.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

__all__ = [
    "LANES",
    "beam_bytes",
    "csr_bytes",
    "laid_out_bytes",
    "pairing_bytes",
    "rows_bytes",
    "solved_bytes",
    "solver_bytes",
]

Sizes = TypeVar("Sizes", int, Any)

LANES = 16  # labels solved side by side; one 64-byte line of weights a feature


def csr_bytes(n_rows: int, n_entries: int) -> int:
    """A sparse matrix in memory: the features, the labels, or the positives of one layer."""
    return 8 * (n_rows + 1) + 8 * n_entries


def pairing_bytes(n_pairs: int) -> int:
    """A layer's (row, cluster) pairs while they are sorted: for a moment, above what :func:`rows_bytes` counts."""
    return 40 * n_pairs


def rows_bytes(n_pairs: int, n_clusters: int) -> int:
    """A layer's training rows, cluster by cluster."""
    return 4 * n_pairs + 8 * (n_clusters + 1)


def beam_bytes(n_rows: int, width: int) -> int:
    """Two beams, the one above and the one below, of all training rows; matcher-aware negatives only."""
    return 16 * n_rows * width


def solver_bytes(
    n_rows: Sizes, n_entries: Sizes, n_used: Sizes, n_columns: int, n_children: Sizes, weighted: bool, n_sets: int = 1
) -> Sizes:
    """What a thread holds while it solves one cluster, or each of several.

    Parameters
    ----------
    n_rows, n_entries : int or ndarray of int64
        The cluster's training rows and their feature values.
    n_used, n_columns : likewise
        Different features among these; features of the whole matrix.
    n_children : likewise
        Models of the cluster.
    weighted : bool
        Whether rows or positives have weights, which doubles the numbers a row.
    n_sets : int
        How many sets of weights are made: one, and one more for each fold of held-out rows.
    """
    rows = (20 + 64 * (2 if weighted else 1)) * n_rows
    features = (64 + 20) * n_used + 4 * n_columns
    # Weights that stay, in the solver's room, on their way and at their place: at most two of three where everything
    # is dense, and not more than a third of the entries that they are learned from.
    stored = np.minimum(2 * n_used * n_children, n_entries) // 3
    sets = n_sets * (28 * stored + 8 * stored + 8 * np.minimum(n_used, stored))
    found: Sizes = (rows + features) * (2 if n_sets > 2 else 1) + 4 * n_entries + sets
    return found


def solved_bytes(n_weights: int, n_rows: int) -> int:
    """A solved cluster, or several, until they are laid out; ``n_rows`` are the features with a weight."""
    return 8 * n_weights + 8 * n_rows


def laid_out_bytes(
    n_weights: int, n_rows: int, n_clusters: int, n_nodes: int, n_features: int, block_bits: int, weight_bytes: int = 1
) -> int:
    """A layer as it is searched and saved: entries, rows, block starts, offsets and intercepts."""
    blocks = -(-n_features // (1 << block_bits)) + 1
    keys = 1 if block_bits <= 8 else 2
    return (1 + weight_bytes) * n_weights + (1 + keys) * n_rows + (8 * blocks + 16) * n_clusters + 4 * n_nodes + 1024
