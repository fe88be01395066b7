"""What every label scores for every row."""

from __future__ import annotations

from typing import Any

import numpy as np


def label_scores(model: Any, X: Any) -> np.ndarray:
    """(n, n_labels), NaN where a label isn't answered."""
    top = model.rank(X, k=model.n_labels_, beam=10_000)
    found = np.full((X.shape[0], model.n_labels_), np.nan)
    rows, places = np.nonzero(top.labels >= 0)
    found[rows, top.labels[rows, places]] = top.scores[rows, places]
    return found
