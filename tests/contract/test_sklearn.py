"""scikit-learn's own checks of an estimator, where they apply.

Sylvan doesn't import scikit-learn; its tools ask an estimator for ``__sklearn_tags__``, and only then is it loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

pytest.importorskip("sklearn", minversion="1.6")

from kit.known import known
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MultiLabelBinarizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from sylvan import Ensemble, NeighborRanker, Reranker, TextModel, XRLinear
from sylvan.errors import UnsupportedError

SPARSE = "wants dense indicators and probabilities for several labels a row; ours are sparse"
WEIGHTS = "calls fit(X, y=...), where our parameter is Y; and weights of rows don't change how features are scaled"
NOT_APPLICABLE = {
    "check_estimators_unfitted": "wants scikit-learn's own NotFittedError, whose import Sylvan does without; ours is "
    "a ValueError and an AttributeError too, as theirs is",
    "check_dtype_object": "wants a TypeError with NumPy's words for a dict in X; ours is a DataError, which is a "
    "ValueError, and names X",
    "check_classifier_multioutput": SPARSE,
    "check_classifiers_multilabel_output_format_predict": SPARSE,
    "check_classifiers_multilabel_output_format_predict_proba": SPARSE,
    "check_classifiers_multilabel_representation_invariance": "takes lists of lists for rows of a matrix; they are "
    "each row's label ids here",
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    # Before scikit-learn 1.7 the same two had one name.
    "check_sample_weight_equivalence": WEIGHTS,
}
TRAINED_MEMBERS = "after fit, members are the trained ones; those that were given stay as they are"
OF_JOINED = {
    "check_estimators_overwrite_params": TRAINED_MEMBERS, "check_dont_overwrite_parameters": TRAINED_MEMBERS
}  # fmt: skip


def pair() -> list[Any]:
    return [XRLinear(n_jobs=1), NeighborRanker(n_jobs=1)]


@parametrize_with_checks(
    [*pair(), Ensemble(pair(), n_jobs=1), Reranker(pair(), scorer="trees", n_trees=2, n_jobs=1)],
    expected_failed_checks=lambda model: NOT_APPLICABLE | (OF_JOINED if hasattr(model, "members") else {}),
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_clone_and_pipeline_and_grid_search() -> None:
    data = known()
    model = clone(XRLinear(branching=4, max_leaf=4, n_jobs=1))
    assert repr(model) == "XRLinear(branching=4, max_leaf=4, n_jobs=1)"
    chain = make_pipeline(MaxAbsScaler(), model).fit(data.X, data.Y)
    assert (chain.predict(data.X) != data.Y).mean() < 0.05

    def precision(fitted: XRLinear, X: np.ndarray, Y: np.ndarray) -> float:
        best = fitted.rank(X, k=1).labels[:, 0]
        return float(Y[np.arange(len(Y)), best].mean())

    search = GridSearchCV(XRLinear(max_leaf=3, n_jobs=1), {"beam": [1, 4]}, scoring=precision, cv=2)
    assert search.fit(data.X, data.Y).best_score_ > 0.8


ESTIMATORS = [XRLinear(max_leaf=3, n_jobs=1), NeighborRanker(n_jobs=1)]


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("form", ["dense", "sparse", "lists", "names", "binarized"])
def test_cross_validation(model: Any, form: str) -> None:
    data = known()
    named = [[f"label {i:02d}" for i in row] for row in data.labels]
    Y = {
        "dense": data.Y,
        "sparse": sp.csr_matrix(data.Y),
        "lists": data.labels,
        "names": named,
        "binarized": MultiLabelBinarizer().fit_transform(named),
    }[form]
    if form == "sparse":  # cross_val_score takes no sparse labels from anybody
        assert GridSearchCV(model, {"n_jobs": [1]}, cv=3).fit(data.X, Y).best_score_ > 0.8
    elif form in ("lists", "names"):
        assert min(cross_val_score(model, data.X, Y, cv=KFold(3))) > 0.8
        with raises(ValueError, "MultiLabelBinarizer"):  # to be stratified, whatever model it is
            cross_val_score(model, data.X, Y, cv=3)
    else:
        assert min(cross_val_score(model, data.X, Y, cv=3)) > 0.8
    if form != "names" and form != "lists":
        predicted = cross_val_predict(model, data.X, Y, cv=3)
        assert predicted.shape == data.Y.shape and sp.issparse(predicted)
        assert (predicted.toarray() != data.Y).mean() < 0.15


def test_search_over_a_model_of_text() -> None:
    texts = ["whales at sea", "ships at sea", "bread and cakes", "flour and bread"] * 5
    labels = [["Sea"], ["Sea", "Ships"], ["Baking"], ["Baking"]] * 5
    search = GridSearchCV(TextModel(model=XRLinear(n_jobs=1)), {"model__cost": [0.5, 1.0]}, cv=2, refit=True)
    search.fit(texts, labels)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.rank(["bread"], k=1).names == [["Baking"]]
    assert min(cross_val_score(TextModel(), texts, [row[0] for row in labels], cv=2)) > 0.9


@pytest.mark.parametrize("model", [*ESTIMATORS, TextModel()], ids=lambda model: type(model).__name__)
def test_clones_take_the_same_parameters(model: Any) -> None:
    assert repr(clone(model)) == repr(model)


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_no_partial_fit(model: Any) -> None:
    assert not hasattr(model, "partial_fit")
    with raises(UnsupportedError, "partial_fit"):
        model.partial_fit(np.eye(2), [[0], [1]])
