"""IRLIClassifier keeps the contract."""

from __future__ import annotations

from typing import Any

import pytest

from contract.matrices import MatrixContract
from sylvan import IRLIClassifier

pytest.importorskip("torch")


class TestIRLIClassifier(MatrixContract):
    """Few buckets and many steps, for little data."""

    has_beam = False

    def make(self, **params: Any) -> IRLIClassifier:
        small = {"n_buckets": 8, "n_repetitions": 6, "hidden": 24, "choices": 4, "rounds": 1, "batch_size": 8}
        return IRLIClassifier(**{**small, "learning_rate": 0.01, **params})
