"""Weights of rows, and other arguments, through scikit-learn's tools."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import child_processes
import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("sklearn", minversion="1.6")

import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from sylvan import BeamTreeClassifier, NeighborRanker, TextModel, XRLinear
from sylvan.errors import ParameterError, UnsupportedError

X = np.eye(3, dtype=np.float32).repeat(8, axis=0)
Y = np.arange(3).repeat(8)


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


MODELS = [XRLinear(n_jobs=1), NeighborRanker(n_jobs=1), BeamTreeClassifier(n_candidates=2, n_jobs=1)]


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_weights_of_rows_reach_fit(model: Any) -> None:
    order = np.random.default_rng(0).permutation(40)
    wrong = np.concatenate([Y, [0] * 16])[order]
    rows, weight = np.vstack([X, X[8:]])[order], np.repeat([1.0, 0.0], [24, 16])[order]
    asking = clone(model).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    chain = make_pipeline(MaxAbsScaler(), asking).fit(rows, wrong, sample_weight=weight)
    assert chain.predict(X).tolist() == Y.tolist()
    search = GridSearchCV(asking, {"n_jobs": [1]}, cv=2).fit(rows, wrong, sample_weight=weight)
    assert search.best_estimator_.predict(X).tolist() == Y.tolist()
    assert search.best_score_ == 1
    scores = cross_validate(asking, rows, wrong, cv=2, params={"sample_weight": weight})["test_score"]
    assert scores.tolist() == [1, 1]


@pytest.mark.usefixtures("routing")
def test_weights_that_nobody_asked_for_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sample_weight.* are passed but are not explicitly set"):
        make_pipeline(MaxAbsScaler(), XRLinear(n_jobs=1)).fit(X, Y, sample_weight=np.ones(24))
    quiet = XRLinear(n_jobs=1).set_fit_request(sample_weight=False).set_score_request(sample_weight=True)
    GridSearchCV(quiet, {"n_jobs": [1]}, cv=2).fit(X, Y, sample_weight=np.ones(24))


@pytest.mark.usefixtures("routing")
def test_requests_go_with_clones_and_copies_and_not_into_parameters() -> None:
    model = XRLinear(n_jobs=1).set_fit_request(sample_weight="weight_of_rows")
    for each in (clone(model), pickle.loads(pickle.dumps(model)), clone(clone(model))):
        assert each.get_metadata_routing().fit.requests["sample_weight"] == "weight_of_rows"
        assert repr(each) == "XRLinear(n_jobs=1)"
    assert XRLinear().get_metadata_routing().fit.requests["sample_weight"] is None
    copy = clone(model).set_fit_request(sample_weight=True)
    assert model.get_metadata_routing().fit.requests["sample_weight"] == "weight_of_rows", "clones share nothing"
    assert copy.get_metadata_routing().fit.requests["sample_weight"] is True


@pytest.mark.usefixtures("routing")
def test_other_arguments_of_methods() -> None:
    model = XRLinear().set_predict_request(threshold=True).set_predict_proba_request(k=True)
    requests = model.get_metadata_routing()
    assert requests.predict.requests["threshold"] is True and requests.predict_proba.requests["k"] is True
    assert "X" not in requests.fit.requests and "Y" not in requests.fit.requests
    assert "sample_weight" in TextModel().get_metadata_routing().fit.requests
    assert "partial_fit" not in repr(requests) and not requests.partial_fit.requests
    assert "sample_weight" in BeamTreeClassifier().get_metadata_routing().partial_fit.requests
    with pytest.raises(ParameterError, match=r"XRLinear\.fit has no argument 'groups' .*\. It has: sample_weight"):
        XRLinear().set_fit_request(groups=True)
    with pytest.raises(ParameterError, match=r"must be True, False, None or a name\. Got 3 instead"):
        XRLinear().set_fit_request(sample_weight=3)  # type: ignore[arg-type]


def test_without_routing_a_request_would_do_nothing() -> None:
    with pytest.raises(UnsupportedError, match=r"set_fit_request has no effect .* call sklearn\.set_config"):
        XRLinear().set_fit_request(sample_weight=True)


def test_requests_load_no_scikit_learn() -> None:
    code = (
        "import sys, sylvan\n"
        "try: sylvan.XRLinear().set_fit_request(sample_weight=True)\n"
        "except sylvan.errors.UnsupportedError: sys.exit('sklearn' in sys.modules)"
    )
    assert child_processes.python("-c", code).returncode == 0


def test_sparse_arrays_where_scikit_learn_is_set_to_them() -> None:
    if "sparse_interface" not in sklearn.get_config():
        pytest.skip("this scikit-learn has matrices alone")
    model = XRLinear(n_jobs=1).fit(sp.csr_array(X), sp.csr_array(np.eye(3)[Y]))
    for setting, kind in (("spmatrix", sp.csr_matrix), ("sparray", sp.csr_array)):
        with sklearn.config_context(sparse_interface=setting):
            for matrix in (model.predict(X), model.predict_proba(X)):
                assert type(matrix) is kind
    assert type(model.predict(X)) is sp.csr_matrix
