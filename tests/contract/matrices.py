"""The part of the contract about arrays, for every model whose features are a matrix."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits, same_bits
from kit.errors import raises
from kit.known import Known, questions

import sylvan
from contract.suite import RankingContract
from sylvan import metrics
from sylvan.errors import DataError, ParameterError


def unsorted(X: np.ndarray) -> sp.csr_matrix:
    """``X`` with each row's indices backwards and every value in two halves."""
    csr = sp.csr_matrix(X)
    data, indices, indptr = [], [], [0]
    for start, stop in zip(csr.indptr, csr.indptr[1:], strict=False):
        data += list(csr.data[start:stop][::-1] / 2) * 2
        indices += list(csr.indices[start:stop][::-1]) * 2
        indptr.append(len(indices))
    matrix = sp.csr_matrix((np.array(data, csr.dtype), np.array(indices), np.array(indptr)), shape=X.shape)
    matrix.has_sorted_indices = True  # a lie that scipy believes
    matrix.has_canonical_format = True
    return matrix


def with_zeros(X: np.ndarray) -> sp.csr_matrix:
    """``X`` with a stored zero in every place that has none."""
    full = sp.csr_matrix(np.ones(X.shape, X.dtype))
    full.data[:] = X.ravel()
    return full


def frozen_csr(X: np.ndarray) -> sp.csr_matrix:
    csr = sp.csr_matrix(X)
    for array in (csr.data, csr.indices, csr.indptr):
        array.setflags(write=False)
    return csr


def strided(X: np.ndarray) -> np.ndarray:
    wide = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan, X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def data_frame(X: np.ndarray) -> Any:
    """A frame whose columns are numbered: names would become those of the features."""
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(X)


# Every form there is: tests/arrays. These see that a model asks for its features and labels there, and changes nothing.
FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "dense": np.array, "float64 csr": lambda X: sp.csr_matrix(X.astype(np.float64)), "csc_array": sp.csc_array,
    "unsorted and repeated": unsorted, "explicit zeros": with_zeros, "non-contiguous": strided,
    "read-only csr": frozen_csr, "list of lists": lambda X: X.tolist(), "data frame": data_frame,
}  # fmt: skip

Y_FORMS: dict[str, Callable[[Known], Any]] = {
    "bool": lambda data: data.Y.astype(bool),
    "int csr": lambda data: sp.csr_matrix(data.Y.astype(np.int64)),
    "explicit zeros": lambda data: with_zeros(data.Y),
    "unsorted bool": lambda data: unsorted(data.Y.astype(bool)),
    "lists of ids": lambda data: data.labels,
    "sets": lambda data: [set(ids) for ids in data.labels],
    "data frame": lambda data: data_frame(data.Y),
}


FEW_FORMS = {
    "X_form": ("csc_array", "unsorted and repeated", "list of lists"),
    "Y_form": ("unsorted bool", "lists of ids"),
}


class MatrixContract(RankingContract):
    """What holds for every model whose features are a matrix and whose labels are ids."""

    targets_name = "Y"  # what errors call the labels
    # An estimator with other settings asks for its arrays where the first one does, for which a few forms are enough.
    forms: ClassVar[dict[str, Any]] = {"X_form": FORMS, "Y_form": Y_FORMS}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        for name in self.forms.keys() & metafunc.fixturenames:
            metafunc.parametrize(name, self.forms[name])

    def test_every_form_of_the_features_is_one(self, fitted: Any, data: Known, X_form: str) -> None:
        X = FORMS[X_form](data.X)
        assert bits(fitted.rank(X, k=5)) == bits(fitted.rank(sp.csr_matrix(data.X), k=5))
        row = data.X[3:4]
        assert bits(fitted.rank(FORMS[X_form](row), k=5)) == bits(fitted.rank(sp.csr_matrix(row), k=5))
        same_bits(fitted, self.make().fit(X, self.targets(data)))

    def test_columns_of_frames_are_known_by_their_names(self, data: Known, tmp_path: Path) -> None:
        pandas = pytest.importorskip("pandas")
        names = [f"f{place}" for place in range(data.X.shape[1])]
        frame = pandas.DataFrame(data.X, columns=names)
        model = self.make().fit(frame, self.targets(data))
        model.save(tmp_path / "model")
        for each in (model, sylvan.load(tmp_path / "model")):
            assert each.feature_names_in_.tolist() == names
            assert bits(each.rank(frame, k=5)) == bits(each.rank(data.X, k=5))
            with raises(DataError, "order"):
                each.rank(frame[names[::-1]], k=5)
            with raises(DataError, "'x'", f"'{names[-1]}'"):
                each.predict(frame.rename(columns={names[-1]: "x"}))
        for last, said in (7, "X.columns"), ("f0", "f0"):
            unclear = pandas.DataFrame(data.X, columns=[*names[:-1], last])
            for call in (model.rank, lambda X: self.make().fit(X, self.targets(data))):
                with raises(DataError, said):
                    call(unclear)
        with pytest.raises(DataError):
            model.fit(frame.rename(columns=str.upper), data.Y[:-1])
        assert model.feature_names_in_.tolist() == names, "a failed fit leaves them"
        assert not hasattr(model.fit(data.X, self.targets(data)), "feature_names_in_")

    def test_every_form_of_the_labels_is_one(self, fitted: Any, data: Known, Y_form: str) -> None:
        same_bits(fitted, self.make().fit(sp.csr_matrix(data.X), Y_FORMS[Y_form](data)))

    def test_ids_in_lists_are_names(self, fitted: Any, data: Known) -> None:
        names = [1_000_000 * label + 7 for label in range(data.n_labels)]
        Y = [[names[label] for label in row] for row in data.labels]
        model = self.make().fit(sp.csr_matrix(data.X), Y)
        top = model.rank(data.X, k=5)
        assert model.classes_.tolist() == names and bits(top) == bits(fitted.rank(data.X, k=5))
        assert top.names == [[names[label] for label in row if label >= 0] for row in top.labels.tolist()]
        assert metrics.precision(Y, top, at=1) == metrics.precision(data.Y, fitted.rank(data.X, k=5), at=1)
        assert set(model.rank(data.X[:3], k=5, allowed=names[1:3]).labels.ravel().tolist()) <= {1, 2, -1}
        assert model.fit(data.X, self.targets(data)).vocabulary_ is None, "trained by ids it forgets the names"

    def test_names_of_one_form_are_one_label(self, fitted: Any, data: Known) -> None:
        forms = ["B\xe4ume {:03}", "Ba\u0308ume {:03}", " B\xe4ume {:03}\xa0"]
        Y = [[forms[row % 3].format(label) for label in labels] for row, labels in enumerate(data.labels)]
        model = self.make().fit(sp.csr_matrix(data.X), Y)
        assert model.classes_.tolist() == [forms[0].format(label) for label in range(data.n_labels)]
        assert bits(model.rank(data.X, k=5)) == bits(fitted.rank(data.X, k=5))

    def test_class_ids(self, data: Known) -> None:
        ids = np.array([labels[0] for labels in data.labels])
        one_hot = sp.csr_matrix((np.ones(len(ids), np.float32), (np.arange(len(ids)), ids)))
        same_bits(self.make().fit(data.X, ids), self.make().fit(data.X, one_hot))

    def test_labels_without_instances_are_never_a_crash(self, data: Known) -> None:
        Y = np.zeros((len(data.X), data.n_labels + 5), np.float32)
        Y[:, 2 : data.n_labels + 2] = data.Y
        model = self.make().fit(data.X, Y)
        assert model.n_labels_ == data.n_labels + 5
        X, expected = questions(data)
        assert model.rank(X, k=1).labels[:, 0].tolist() == (expected + 2).tolist()
        every = model.rank(X, k=data.n_labels + 5).labels
        assert every.max() < data.n_labels + 5

    def test_features_without_entries(self, data: Known) -> None:
        X = np.hstack([np.zeros((len(data.X), 3), np.float32), data.X, np.zeros((len(data.X), 4), np.float32)])
        model = self.make().fit(X, data.Y)
        assert model.n_features_ == X.shape[1]
        asked = np.zeros((1, X.shape[1]), np.float32)
        asked[0, [0, 3, 4, -1]] = 1
        assert model.rank(asked, k=1).labels.tolist() == [[0]]

    def test_no_feature_has_an_entry(self, data: Known) -> None:
        empty = np.zeros_like(data.X)
        top = self.make().fit(empty, data.Y).rank(empty[:2], k=3)
        assert np.isfinite(top.scores[top.labels >= 0]).all()

    def test_every_row_has_every_label(self, data: Known) -> None:
        top = self.make().fit(data.X, np.ones_like(data.Y)).rank(data.X[:3], k=3)
        assert (top.labels >= 0).all()

    @pytest.mark.parametrize("scale", [1e-30, 1e12])
    def test_large_and_small_values(self, data: Known, scale: float) -> None:
        X = data.X * np.float32(scale)
        top = self.make().fit(X, data.Y).rank(X, k=3)
        assert not np.isnan(top.scores).any()

    @pytest.mark.parametrize("scale", [1e18, 1e37])
    def test_values_whose_squares_are_no_floats(self, fitted: Any, data: Known, scale: float) -> None:
        X = data.X * np.float32(scale)
        with raises(DataError, "down"):
            self.make().fit(X, data.Y)
        assert not np.isnan(fitted.rank(X, k=3).scores).any()

    def test_rows_of_no_weight_teach_nothing(self, fitted: Any, data: Known) -> None:
        weight = np.ones(len(data.X), np.float32)
        weight[5:9] = 0
        Y = data.Y.copy()
        Y[5:9] = 1
        model = self.make().fit(data.X, Y, sample_weight=weight)
        Q, expected = questions(data)
        assert model.rank(Q, k=1).labels[:, 0].tolist() == expected.tolist()

    @pytest.mark.parametrize(("form", "bad"), [("dense", np.nan), ("csc_array", -np.inf)])
    def test_nan_and_infinity_are_refused(self, fitted: Any, data: Known, form: str, bad: float) -> None:
        X = data.X.copy()
        X[2, 1] = bad
        for call in (
            lambda: fitted.rank(FORMS[form](X), k=1),
            lambda: fitted.rank(FORMS[form](X[2:3]), k=1),
            lambda: self.make().fit(FORMS[form](X), self.targets(data)),
        ):
            with raises(DataError, "NaN"):
                call()

    def test_nan_or_less_than_nothing_among_the_labels_is_refused(self, data: Known) -> None:
        Y = data.Y.copy()
        Y[4, 4] = np.nan
        for form in (Y, sp.csr_matrix(Y)):
            with raises(DataError, "NaN"):
                self.make().fit(data.X, form)
        with raises(DataError, "row 0", "negative"):
            self.make().fit(data.X, -data.Y)
        with raises(DataError, -3):
            self.make().fit(data.X, [[-3], *data.labels[1:]])

    def test_mismatched_shapes_are_refused_with_both(self, fitted: Any, data: Known) -> None:
        n, d = data.X.shape
        with raises(DataError, f"({n}, {d - 1})", f"({n}, {d})"):
            fitted.rank(data.X[:, :-1], k=1)
        with raises(DataError, f"(1, {d + 2})", f"(1, {d})"):
            fitted.rank(sp.csr_matrix((1, d + 2), dtype=np.float32), k=1)
        with raises(DataError, f"({n}, {d})", f"({n - 1}, {data.n_labels})"):
            self.make().fit(data.X, data.Y[:-1])

    def test_what_is_no_matrix_is_refused(self, fitted: Any, data: Known) -> None:
        bad: Any
        for bad in ("text", None, np.zeros((1, 2, 3))):
            with pytest.raises(DataError):
                fitted.rank(bad, k=1)
            with pytest.raises(DataError):
                self.make().fit(bad, data.Y)

    def test_corrupt_matrices_are_refused(self, fitted: Any, data: Known) -> None:
        for attribute, at, value in (("indices", 0, 10**8), ("indptr", 1, -7)):
            X, Y = sp.csr_matrix(data.X), sp.csr_matrix(data.Y)
            getattr(X, attribute)[at] = value
            getattr(Y, attribute)[at] = value
            with raises(DataError, "X"):
                fitted.rank(X, k=1)
            with raises(DataError, "X"):
                self.make().fit(X, data.Y)
            with raises(DataError, self.targets_name):
                self.make().fit(data.X, Y)

    def test_no_rows_or_columns_to_learn_from(self, data: Known) -> None:
        with raises(DataError, "label"):
            self.make().fit(data.X, np.zeros_like(data.Y))
        for X, Y in (
            (data.X[:0], data.Y[:0]),
            (data.X[:, :0], data.Y),
            (data.X, data.Y[:, :0]),
            (data.X, [[] for _ in data.labels]),
            (data.X, None),
        ):
            with pytest.raises(DataError):
                self.make().fit(X, Y)

    def test_sample_weight(self, fitted: Any, data: Known) -> None:
        n = len(data.X)
        Q, expected = questions(data)
        model = self.make().fit(data.X, data.Y, sample_weight=np.full(n, 2.0))
        assert model.rank(Q, k=1).labels[:, 0].tolist() == expected.tolist()
        for bad, sentence in (
            (np.ones(n - 1), (f"({n - 1},)", f"({n},)")),
            (-np.ones(n), "sample_weight"),
            (np.full(n, np.nan), "sample_weight"),
            (np.ones((n, 2)), "sample_weight"),
            (["a"] * n, "sample_weight"),
        ):
            with raises(DataError, sentence):
                self.make().fit(data.X, data.Y, sample_weight=bad)

    def test_predict_is_a_sparse_indicator(self, fitted: Any, data: Known) -> None:
        predicted = fitted.predict(data.X)
        assert sp.issparse(predicted)
        assert predicted.format == "csr"
        assert predicted.shape == data.Y.shape
        assert set(np.unique(predicted.data)) <= {1}

    def test_predict_proba(self, fitted: Any, data: Known) -> None:
        probabilities = fitted.predict_proba(data.X)
        assert sp.issparse(probabilities) is not fitted._has_one_class, "an array after one class a row"
        assert probabilities.shape == data.Y.shape
        values = sp.csr_matrix(probabilities).data
        assert (values >= 0).all() and (values <= 1).all()

    def test_parameters_go_round(self, fitted: Any) -> None:
        params = fitted.get_params(deep=False)
        again = type(fitted)(**params)
        assert again.get_params(deep=False).keys() == params.keys()
        assert again.set_params(**params) is again
        assert repr(again) == repr(fitted)

    @pytest.mark.parametrize("value", [object(), "nonsense", -1, float("nan"), [1]])
    def test_bad_parameters_are_refused_when_fitting(self, data: Known, value: Any) -> None:
        for name in type(self.make()).constraints:
            model = self.make()
            if model.constraints[name].accepts(value):
                continue
            setattr(model, name, value)
            with raises(ParameterError, name):
                model.fit(data.X, data.Y)
