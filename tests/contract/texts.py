"""What ranks texts is asked in words, and answers by names."""

from __future__ import annotations

from typing import Any

import numpy as np
from kit.known import Known

from contract.suite import RankingContract


class TextContract(RankingContract):
    """Features become words that are repeated as often as they weigh, labels become names."""

    def inputs(self, X: np.ndarray) -> Any:
        words = [f"word{column}" for column in range(X.shape[1])]
        return [" ".join(word for word, n in zip(words, row, strict=True) for _ in range(round(4 * n))) for row in X]

    def targets(self, data: Known) -> Any:
        return [[f"label {label}" for label in row] for row in data.labels]

    def answers(self, model: Any, top: Any) -> list[list[int]]:
        return [[int(name.split()[1]) for name in row] for row in top.names]
