"""IRLIClassifier keeps the contract."""

from __future__ import annotations

from typing import Any

import pytest
from kit.known import Known

from contract.matrices import MatrixContract
from sylvan import IRLIClassifier

pytest.importorskip("torch")


class TestIRLIClassifier(MatrixContract):
    """Few buckets and many steps, for little data."""

    has_beam = False

    def make(self, **params: Any) -> IRLIClassifier:
        small = {"n_buckets": 8, "n_repetitions": 6, "hidden": 24, "choices": 4, "rounds": 1, "batch_size": 8}
        return IRLIClassifier(**{**small, "learning_rate": 0.01, **params})

    # A training takes a third of a second, and asks for its arrays where the others do.

    @pytest.mark.parametrize("form", ["csc_array", "unsorted and repeated", "list of lists"])
    def test_every_form_of_the_features_is_one(self, fitted: Any, data: Known, form: str) -> None:
        super().test_every_form_of_the_features_is_one(fitted, data, form)

    @pytest.mark.parametrize("form", ["unsorted bool", "lists of ids"])
    def test_every_form_of_the_labels_is_one(self, fitted: Any, data: Known, form: str) -> None:
        super().test_every_form_of_the_labels_is_one(fitted, data, form)

    def beside(self, data: Known) -> dict[str, Any]:
        return {"rows": (self.inputs(data.X), self.targets(data))}
