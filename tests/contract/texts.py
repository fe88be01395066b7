"""What ranks texts is asked in words, and answers by names."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from kit.errors import raises
from kit.known import Known

from contract.suite import RankingContract
from sylvan.errors import DataError


class TextContract(RankingContract):
    """Features become words that are repeated as often as they weigh, labels become names."""

    def inputs(self, X: np.ndarray) -> Any:
        words = [f"word{column}" for column in range(X.shape[1])]
        return [" ".join(word for word, n in zip(words, row, strict=True) for _ in range(round(4 * n))) for row in X]

    def targets(self, data: Known) -> Any:
        return [[f"label {label}" for label in row] for row in data.labels]

    def test_what_is_no_text_is_refused(self, fitted: Any, data: Known) -> None:
        n, texts = len(data.X), self.inputs(data.X)
        bad: list[tuple[Any, object]] = [
            (np.eye(n), "matrix"), (sp.eye(n, format="csr"), "matrix"), ("one text", "string"),
            ([*texts[:1], 2, *texts[2:]], "row 1"), ([*texts[:-1], None], (f"row {n - 1}", "NoneType")),
        ]  # fmt: skip
        for given, said in bad:
            for ask in (fitted.rank, lambda X: self.make().fit(X, self.targets(data))):
                with raises(DataError, said):
                    ask(given)

    def answers(self, model: Any, top: Any) -> list[list[int]]:
        return [[int(name.split()[1]) for name in row] for row in top.names]
