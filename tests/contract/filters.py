"""The part of the contract about labels that are allowed or denied."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from kit.bits import bits
from kit.errors import raises
from kit.known import Known

from sylvan.errors import DataError


class FilterContract:
    """A filtered ranking is the exhaustive one, filtered; mixed into everything that ranks."""

    has_beam: bool

    def everywhere(self) -> dict[str, Any]:
        """The options of ``rank`` that make it exhaustive."""
        return {"beam": 1000} if self.has_beam else {}

    def among(self, fitted: Any, X: Any, n_labels: int, open_: np.ndarray) -> list[list[int]]:
        """The exhaustive ranking, filtered by a mask a row."""
        full = fitted.rank(X, k=n_labels, **self.everywhere()).labels.tolist()
        return [[label for label in row if label >= 0 and mask[label]] for row, mask in zip(full, open_, strict=True)]

    def answered(self, fitted: Any, X: Any, n_labels: int, **given: Any) -> list[list[int]]:
        top = fitted.rank(X, k=n_labels, **self.everywhere(), **given)
        assert np.isneginf(top.scores[top.labels < 0]).all()
        return [[label for label in row if label >= 0] for row in top.labels.tolist()]

    def test_allowed_and_denied_for_every_row(self, fitted: Any, data: Known) -> None:
        X, n, n_labels = self.inputs(data.X), len(data.X), data.n_labels  # type: ignore[attr-defined]
        some = np.zeros((n, n_labels), bool)
        some[:, [1, 4, 5]] = True
        assert self.answered(fitted, X, n_labels, allowed=[1, 4, 5]) == self.among(fitted, X, n_labels, some)
        assert self.answered(fitted, X, n_labels, denied=[1, 4, 5]) == self.among(fitted, X, n_labels, ~some)
        some[:, 4] = False
        assert self.answered(fitted, X, n_labels, allowed=[1, 4, 5], denied=[4, 0]) == self.among(
            fitted, X, n_labels, some
        )

    def test_a_mask_for_each_row(self, fitted: Any, data: Known) -> None:
        X, n, n_labels = self.inputs(data.X), len(data.X), data.n_labels  # type: ignore[attr-defined]
        mask = np.random.default_rng(0).random((n, n_labels)) < 0.4
        expected = self.among(fitted, X, n_labels, mask)
        for given in ({"allowed": mask}, {"allowed": sp.csr_array(mask)}, {"denied": ~mask}):
            assert self.answered(fitted, X, n_labels, **given) == expected
        one = self.inputs(data.X[3:4])  # type: ignore[attr-defined]
        assert self.answered(fitted, one, n_labels, allowed=mask[3:4]) == expected[3:4]

    def test_nothing_allowed_is_no_answer(self, fitted: Any, data: Known) -> None:
        X = self.inputs(data.X[:3])  # type: ignore[attr-defined]
        for given in ({"allowed": []}, {"denied": range(data.n_labels)}, {"allowed": [2], "denied": [2]}):
            top = fitted.rank(X, k=2, **given)
            assert (top.labels == -1).all() and np.isneginf(top.scores).all()

    def test_every_label_allowed_changes_no_bit(self, fitted: Any, data: Known) -> None:
        X = self.inputs(data.X)  # type: ignore[attr-defined]
        plain = fitted.rank(X, k=5)
        nothing = np.zeros((len(data.X), data.n_labels), bool)
        for given in ({"allowed": range(data.n_labels)}, {"denied": []}, {"denied": nothing}):
            top = fitted.rank(X, k=5, **given)
            assert bits(top) == bits(plain)

    def test_labels_that_are_none_are_refused(self, fitted: Any, data: Known) -> None:
        X, bad = self.inputs(data.X), ([10**6], [-1], 3, "never heard of", [1.5], np.ones((2, 2), bool))  # type: ignore[attr-defined]
        for name in ("allowed", "denied"):
            for value in bad:
                with raises(DataError, name):
                    fitted.rank(X, k=1, **{name: value})
