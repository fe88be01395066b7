"""IRLIClassifier keeps the contract."""

from typing import Any

import pytest
from kit.known import Known

from contract.matrices import FEW_FORMS, MatrixContract
from sylvan import IRLIClassifier

pytest.importorskip("torch")


class TestIRLIClassifier(MatrixContract):
    """Few buckets and large steps, for little data."""

    has_beam = False
    forms = FEW_FORMS

    def make(self, **params: Any) -> IRLIClassifier:
        small = {"n_buckets": 8, "n_repetitions": 6, "hidden": 24, "choices": 4, "rounds": 1, "batch_size": 24}
        return IRLIClassifier(**{**small, "learning_rate": 0.03, **params})

    def beside(self, data: Known) -> dict[str, Any]:
        return {"rows": (self.inputs(data.X), self.targets(data))}
