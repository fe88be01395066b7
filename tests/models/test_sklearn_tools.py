"""Weights of rows through scikit-learn's tools, and results as it is set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

pytest.importorskip("sklearn", minversion="1.6")

import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from sylvan import BeamTreeClassifier, NeighborRanker, XRLinear

X = np.eye(3, dtype=np.float32).repeat(8, axis=0)
Y = np.arange(3).repeat(8)
MODELS = [XRLinear(n_jobs=1), NeighborRanker(n_jobs=1), BeamTreeClassifier(n_candidates=2, n_jobs=1)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_weights_of_rows_reach_fit(model: Any) -> None:
    order = np.random.default_rng(0).permutation(40)
    wrong = np.concatenate([Y, [0] * 16])[order]
    rows, weight = np.vstack([X, X[8:]])[order], np.repeat([1.0, 0.0], [24, 16])[order]
    step = f"{type(model).__name__.lower()}__sample_weight"
    chain = make_pipeline(MaxAbsScaler(), clone(model)).fit(rows, wrong, **{step: weight})
    assert chain.predict(X).tolist() == Y.tolist()
    search = GridSearchCV(model, {"n_jobs": [1]}, cv=2).fit(rows, wrong, sample_weight=weight)
    assert search.best_estimator_.predict(X).tolist() == Y.tolist()
    measured = cross_validate(model, rows, wrong, cv=2, params={"sample_weight": weight}, return_estimator=True)
    assert all(fitted.predict(X).tolist() == Y.tolist() for fitted in measured["estimator"])


def test_weights_are_refused_where_scikit_learn_routes_metadata() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        GridSearchCV(XRLinear(n_jobs=1), {"n_jobs": [1]}, cv=2).fit(X, Y)
        for tool in (make_pipeline(MaxAbsScaler(), XRLinear(n_jobs=1)), GridSearchCV(XRLinear(n_jobs=1), {}, cv=2)):
            with raises(TypeError, "sample_weight"):
                tool.fit(X, Y, sample_weight=np.ones(24))


def test_sparse_arrays_where_scikit_learn_is_set_to_them() -> None:
    if "sparse_interface" not in sklearn.get_config():
        pytest.skip("this scikit-learn has matrices alone")
    model = XRLinear(n_jobs=1).fit(sp.csr_array(X), sp.csr_array(np.eye(3)[Y]))
    for setting, kind in (("spmatrix", sp.csr_matrix), ("sparray", sp.csr_array)):
        with sklearn.config_context(sparse_interface=setting):
            for matrix in (model.predict(X), model.predict_proba(X)):
                assert type(matrix) is kind
    assert type(model.predict(X)) is sp.csr_matrix
