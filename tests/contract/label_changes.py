"""The part of the contract about labels that get other names, or are removed."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from kit.bits import bits
from kit.errors import raises
from kit.known import Known

import sylvan
from sylvan.errors import DataError, NotFittedError, UnsupportedError

GONE = [1, 4, 5, 11]


def answer(model: Any, X: Any, **options: Any) -> Any:
    return bits(model.rank(X, k=12, **options))


class LabelChangesContract:
    """Without a label, a model answers as one that is denied it; mixed into everything that ranks."""

    loses_labels: ClassVar[bool] = True

    def test_without_labels_is_as_if_they_were_denied(self, fitted: Any, data: Known, tmp_path: Path) -> None:
        X = self.inputs(data.X)  # type: ignore[attr-defined]
        if not self.loses_labels:
            with raises(UnsupportedError, "removed"):
                fitted.without_labels(GONE)
            return
        before = answer(fitted, X)
        smaller = fitted.without_labels(GONE[:3]).without_labels(GONE[3])
        assert smaller.removed_labels_.tolist() == GONE
        assert answer(smaller, X) == answer(fitted, X, denied=GONE)
        assert (smaller.rank(X, k=3, allowed=[GONE[0]]).labels == -1).all()
        assert (smaller.n_labels_, smaller.predict_proba(X).shape) == (fitted.n_labels_, fitted.predict_proba(X).shape)
        assert (answer(fitted, X), fitted.removed_labels_.tolist()) == (before, [])
        smaller.save(tmp_path / "model")
        for mmap in (False, True):
            again = sylvan.load(tmp_path / "model", mmap=mmap)
            assert answer(again, X) == answer(smaller, X)
            assert again.removed_labels_.tolist() == GONE
            assert again.without_labels([0]).removed_labels_.tolist() == [0, *GONE]

    def test_a_removed_label_is_unknown_afterwards(self, fitted: Any, data: Known) -> None:
        if not self.loses_labels:
            return
        name = GONE[0] if fitted.vocabulary_ is None else fitted.vocabulary_[GONE[0]]
        smaller = fitted.without_labels(name)
        row = self.inputs(data.X[:1])  # type: ignore[attr-defined]
        with raises(DataError, name):
            smaller.without_labels(name)
        with raises(DataError, name):
            smaller.explain(row, name)
        with raises(DataError, "removed"):
            smaller.without_labels(np.array(GONE[:1]))
        counts = getattr(smaller, "label_counts_", None)
        assert counts is None or (counts[GONE[0]] == 0 and counts.sum() < fitted.label_counts_.sum())

    def test_labels_that_can_not_be_removed(self, fitted: Any) -> None:
        bad: Any
        for bad in (10**6, [-1], [1.5], "never heard of", None, [True], [[1]]):
            with raises(DataError, "labels"):
                fitted.without_labels(bad)
        with raises(DataError, "removed", 12):
            fitted.without_labels(np.arange(12))
        with pytest.raises(NotFittedError):
            self.make().without_labels([1])  # type: ignore[attr-defined]

    def test_other_names_for_labels(self, fitted: Any, data: Known, tmp_path: Path) -> None:
        X = self.inputs(data.X)  # type: ignore[attr-defined]
        if fitted.vocabulary_ is None:
            with raises(DataError, "ids", "without"):
                fitted.with_label_names({"a": "b"})
            return
        first, second, third = fitted.vocabulary_[0], fitted.vocabulary_[1], fitted.vocabulary_[2]
        other = fitted.with_label_names({first: second, second: first, third: "another"})
        assert answer(other, X) == answer(fitted, X)
        swapped = {first: second, second: first, third: "another"}
        names = [[swapped.get(name, name) for name in row] for row in fitted.rank(X, k=5).names]
        other.save(tmp_path / "model")
        for model in (other, sylvan.load(tmp_path / "model")):
            assert model.rank(X, k=5).names == names
        assert fitted.vocabulary_[0] == first
        for new, why in ((second, "label 1"), (3, "id 0"), ("\ud800", "character")):
            with raises(DataError, why):
                fitted.with_label_names({first: new})
        with raises(DataError, "new"):
            fitted.with_label_names({first: "new", second: "new"})
        with raises(DataError, "never heard of"):
            fitted.with_label_names({"never heard of": "new"})
