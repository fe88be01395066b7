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


def test_scikit_learns_checks() -> None:
    """Those that apply to the other estimators, on a training of a few steps."""
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    pytest.importorskip("sklearn", minversion="1.6")
    from contract.test_sklearn import NOT_APPLICABLE

    small = {"n_buckets": 4, "n_repetitions": 2, "hidden": 8, "choices": 2, "rounds": 0}
    estimator = IRLIClassifier(**small, epochs_per_round=2, final_epochs=1, n_jobs=1)
    one_label = "class 0 of the ids 0 and 1 has no row, and is answered where its bucket is: only buckets are learned"
    shared = "two or three classes share buckets, within which they are ranked alike: it is made for many"
    excused = {**NOT_APPLICABLE, "check_classifiers_one_label": one_label, "check_classifiers_train": shared}
    checks.check_estimator(estimator, expected_failed_checks=excused, on_skip=None)
