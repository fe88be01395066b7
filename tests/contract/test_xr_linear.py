"""XRLinear keeps the contract: as one layer, as a tree, and with the other settings that change its arrays."""

from typing import Any

import pytest
from kit.known import Known, known

from contract.matrices import FEW_FORMS, MatrixContract
from sylvan import XRLinear


class TestXRLinear(MatrixContract):
    """A tree of three layers."""

    anew = "spawn"

    def make(self, **params: Any) -> XRLinear:
        return XRLinear(**{"branching": 2, "max_leaf": 3, "n_jobs": 1, **params})


class TestOneVersusRest(MatrixContract):
    """One layer, all defaults."""

    forms = FEW_FORMS

    def make(self, **params: Any) -> XRLinear:
        return XRLinear(**params)


class TestMatcherAware(MatrixContract):
    """Matcher-aware negatives, full precision, another loss and another way to combine."""

    forms = FEW_FORMS

    def make(self, **params: Any) -> XRLinear:
        own: dict[str, Any] = {
            "branching": 3, "max_leaf": 4, "negatives": "tfn+man", "loss": "logistic", "cost": 10.0,
            "weight_dtype": "float32", "combine": "sigmoid", "threshold": 0.0,
        }  # fmt: skip
        return XRLinear(**{**own, **params})


class TestSeveralTrees(MatrixContract):
    """The mean of three trees."""

    forms = FEW_FORMS

    def make(self, **params: Any) -> XRLinear:
        return XRLinear(**{"branching": 2, "max_leaf": 3, "n_trees": 3, "n_jobs": 1, **params})


class TestCalibrated(MatrixContract):
    """Rows enough to hold some out."""

    forms = FEW_FORMS

    @pytest.fixture
    def data(self) -> Known:
        return known(rows_per_label=20)

    def make(self, **params: Any) -> XRLinear:
        return XRLinear(**{"branching": 2, "max_leaf": 3, "calibration": "isotonic", "n_jobs": 1, **params})
