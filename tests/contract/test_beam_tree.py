"""BeamTreeClassifier fulfils the contract, as far as it is for one class a row."""

from typing import Any

import numpy as np
import pytest
from kit.errors import raises
from kit.known import Known, known, questions

from contract.matrices import FEW_FORMS, MatrixContract
from sylvan import BeamTreeClassifier
from sylvan.errors import DataError


class TestBeamTree(MatrixContract):
    """Candidates versus noises over a small deep tree."""

    targets_name = "y"
    loses_labels = False

    @pytest.fixture
    def data(self) -> Known:
        return known(most=1)

    def make(self, **params: Any) -> BeamTreeClassifier:
        own: dict[str, Any] = {"branching": 3, "n_candidates": 4, "n_noises": 2, "epochs": 5, "learning_rate": 0.3}
        return BeamTreeClassifier(**{**own, "n_jobs": 1, **params})

    # What the contract asks with several labels a row, or with none, is asked of one class a row here.

    def test_rows_without_labels_or_features(self, data: Known) -> None:
        labels = [list(ids) for ids in data.labels]
        labels[3] = []
        with raises(DataError, "row 3"):
            self.fit(Known(data.X, labels, data.n_labels))
        X = data.X.copy()
        X[[0, 7, 20]] = 0
        Q, expected = questions(data)
        model = self.fit(Known(X, data.labels, data.n_labels))
        assert model.rank(self.inputs(Q), k=1).labels[:, 0].tolist() == expected.tolist()

    def test_every_row_has_every_label(self, data: Known) -> None:
        with raises(DataError, "row 0", 12, "XRLinear"):
            self.make().fit(data.X, np.ones_like(data.Y))

    def test_labels_without_instances_are_never_a_crash(self, data: Known) -> None:
        Y = np.zeros((len(data.X), data.n_labels + 5), np.float32)
        Y[:, 2 : data.n_labels + 2] = data.Y
        model = self.make().fit(data.X, Y)
        X, expected = questions(data)
        assert model.rank(X, k=1).labels[:, 0].tolist() == (expected + 2).tolist()
        assert model.n_labels_ == data.n_labels + 5 and model.rank(X, k=17, beam=17).labels.max() == 16

    def test_rows_of_no_weight_teach_nothing(self, fitted: Any, data: Known) -> None:
        weight = np.ones(len(data.X), np.float32)
        weight[5:9] = 0
        ids = np.argmax(data.Y, axis=1)
        ids[5:9] = 0
        model = self.make().fit(data.X, ids, sample_weight=weight)
        X, expected = questions(data)
        assert model.rank(X, k=1).labels[:, 0].tolist() == expected.tolist()
        others = np.r_[0:5, 9 : len(ids)]
        assert model.label_counts_.sum() == len(ids)
        assert model.history_.shape == self.make().fit(data.X[others], ids[others]).history_.shape

    def test_predict_is_a_sparse_indicator(self, fitted: Any, data: Known) -> None:
        """Not of a classifier of one class a row: it is the class."""
        predicted = fitted.predict(data.X)
        assert predicted.shape == (len(data.X),) and predicted.dtype == np.int64
        assert (predicted == np.argmax(data.Y, axis=1)).mean() > 0.9

    def test_probabilities_of_a_row_add_up(self, fitted: Any, data: Known) -> None:
        every = fitted.predict_proba(data.X, exact=True)
        assert np.count_nonzero(every) == data.Y.size
        np.testing.assert_allclose(every.sum(axis=1), 1, rtol=1e-5)
        wide = fitted.predict_proba(data.X, beam=1000)
        np.testing.assert_allclose(wide, every, rtol=1e-4, atol=1e-6)
        narrow = fitted.predict_proba(data.X, beam=1)
        np.testing.assert_allclose(narrow.sum(axis=1), 1, rtol=1e-5)
        assert np.count_nonzero(narrow, axis=1).max() <= 3


class TestFlatSoftmax(TestBeamTree):
    """Every class by itself, plain gradient descent, the learning rate chosen."""

    forms = FEW_FORMS

    def make(self, **params: Any) -> BeamTreeClassifier:
        own = {"loss": "softmax", "optimizer": "sgd", "learning_rate": "auto", "epochs": 20}
        return super().make(**{**own, **params})

    def test_probabilities_of_a_row_add_up(self, fitted: Any, data: Known) -> None:
        np.testing.assert_allclose(fitted.predict_proba(data.X).sum(axis=1), 1, rtol=1e-5)


class TestHierarchicalSoftmax(TestBeamTree):
    """A softmax at every node, over a random tree."""

    forms = FEW_FORMS

    def make(self, **params: Any) -> BeamTreeClassifier:
        return super().make(**{"loss": "hsm", "tree": "random", "epochs": 20, **params})

    def test_probabilities_of_a_row_add_up(self, fitted: Any, data: Known) -> None:
        every = fitted.predict_proba(data.X, exact=True)
        np.testing.assert_allclose(every.sum(axis=1), 1, rtol=1e-5)
        some = fitted.predict_proba(data.X, beam=1)
        assert (some.sum(axis=1) < 1 + 1e-5).all()
