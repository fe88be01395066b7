"""LexicalMatcher holds the contract of everything that ranks texts; labels have names of their features' words."""

from typing import Any

import numpy as np
from kit.known import Known

from contract.texts import TextContract
from sylvan import LexicalMatcher

NAMED = 12  # labels of the known data that have features of their own


def word(column: int) -> str:
    """What a column of the known data is called: two of each label's name, others of nothing."""
    return f"{('thing', 'stuff')[column % 2]}{column // 2}" if column < 2 * NAMED else f"common{column}"


class TestLexicalMatcher(TextContract):
    """Few trees."""

    has_beam = False

    def make(self, **params: Any) -> LexicalMatcher:
        return LexicalMatcher(**{"n_trees": 20, **params})

    def inputs(self, X: np.ndarray) -> list[str]:
        rows = ([" ".join([word(at)] * round(4 * value)) for at, value in enumerate(row) if value] for row in X)
        return [". ".join(["label", *row]) for row in rows]  # so that every label is a candidate

    def targets(self, data: Known) -> list[list[str]]:
        return [[self.name(label) for label in row] for row in data.labels]

    def name(self, label: int) -> str:
        return f"label thing{label} stuff{label}" if label < NAMED else "common28"

    def answers(self, model: Any, top: Any) -> list[list[int]]:
        return [[NAMED if name == "common28" else int(name.split("stuff")[1]) for name in row] for row in top.names]
