"""TextModel holds the contract of everything that ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from contract.data import Known
from contract.suite import RankingContract
from sylvan import TextModel, TfidfVectorizer, XRLinear


class TestTextModel(RankingContract):
    """Features become words that are repeated as often as they weigh, labels become names."""

    def make(self, **params: Any) -> Any:
        model = XRLinear(**{"branching": 3, "max_leaf": 4, **params})
        return TextModel(TfidfVectorizer(n_jobs=params.get("n_jobs")), model)

    def inputs(self, X: np.ndarray) -> Any:
        words = [f"word{column}" for column in range(X.shape[1])]
        return [" ".join(word for word, n in zip(words, row, strict=True) for _ in range(round(4 * n))) for row in X]

    def targets(self, data: Known) -> Any:
        return [[f"label {label}" for label in row] for row in data.labels]

    def answers(self, model: Any, top: Any) -> list[list[int]]:
        return [[int(name.split()[1]) for name in row] for row in top.names]

    def jobs(self, n_jobs: int | None) -> dict[str, Any]:
        return {"vectorizer__n_jobs": n_jobs, "model__n_jobs": n_jobs}
