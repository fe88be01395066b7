"""Rows that say which pair of labels is right; which of the two, only a column that members overlook."""

from typing import Any

import numpy as np

from sylvan import NeighborRanker, Reranker, TopK, XRLinear

N_PAIRS = 4
SETTINGS: dict[str, Any] = {"scorer": "trees", "n_trees": 10, "depth": 2, "learning_rate": 0.3, "n_jobs": 1}
FAINT = 1e-4  # of the last feature, beside which all others are great


def pairs(n: int = 1200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels 2p and 2p + 1 have the features of pair p; the last feature is faint, and above 0 for 2p + 1."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2 * N_PAIRS, n)
    X = rng.normal(0, 0.2, (n, N_PAIRS + 1))
    X[np.arange(n), y // 2] += 1
    X[:, -1] = np.where(y % 2, FAINT, -FAINT)
    return X.astype(np.float32), y


X, y = pairs()


def members() -> list[Any]:
    return [XRLinear(max_leaf=30, n_jobs=1), NeighborRanker(n_neighbors=5, n_jobs=1)]


def parity(rows: Any, candidates: TopK) -> np.ndarray:
    """Whether a candidate is the one of its pair that the faint feature speaks for."""
    odd = np.asarray(rows[:, [N_PAIRS]].todense()) > 0
    return (candidates.labels % 2 == odd).astype(np.float32)[..., None]


def joined(fitted: list[Any], **params: Any) -> Reranker:
    """Of members that are fitted."""
    return Reranker.of_fitted(fitted, **{**SETTINGS, **params})


def reranker(**params: Any) -> Reranker:
    return Reranker(members(), **{**SETTINGS, **params})


def hits(model: Any) -> float:
    return float(model.score(*pairs(300, seed=9)))
