"""scikit-learn's own checks of an estimator, where they apply.

Sylvan doesn't import scikit-learn; its tools ask an estimator for ``__sklearn_tags__``, and only then is it loaded.
"""

import functools
from collections.abc import Iterator
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
from sklearn.utils.estimator_checks import estimator_checks_generator

from sylvan import BeamTreeClassifier, Ensemble, IRLIClassifier, NeighborRanker, Reranker, TextModel, XRLinear
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
OF_JOINED = NOT_APPLICABLE | {
    "check_estimators_overwrite_params": TRAINED_MEMBERS, "check_dont_overwrite_parameters": TRAINED_MEMBERS
}  # fmt: skip
ORDER = "rows are shown one after another in an order drawn for their number; one of weight 2 is not one shown twice"
OF_CLASSES = {name: NOT_APPLICABLE[name] for name in ("check_estimators_unfitted", "check_dtype_object")} | {
    **{name: ORDER for name in NOT_APPLICABLE if "sample_weight_equivalence" in name},
    "check_supervised_y_2d": "wants a warning of scikit-learn's own class, whose import Sylvan does without",
}
OF_BUCKETS = NOT_APPLICABLE | {
    "check_classifiers_one_label": "class 0 of the ids 0 and 1 has no row, and is answered where its bucket is: only "
    "buckets are learned",
    "check_classifiers_train": "two or three classes share buckets, within which they are ranked alike: it is made for "
    "many",
}


def pair() -> list[Any]:
    return [XRLinear(n_jobs=1), NeighborRanker(n_jobs=1)]


def few_steps() -> IRLIClassifier:
    small = {"n_buckets": 4, "n_repetitions": 2, "hidden": 8, "choices": 2, "rounds": 0}
    return IRLIClassifier(**small, epochs_per_round=2, final_epochs=1, n_jobs=1)


def checks() -> Iterator[tuple[Any, functools.partial[None]]]:
    """Each estimator and scikit-learn's checks of it, without those that don't apply."""
    for estimator, excused in (
        *((one, NOT_APPLICABLE) for one in pair()),
        (Ensemble(pair(), n_jobs=1), OF_JOINED),
        (Reranker(pair(), scorer="trees", n_trees=2, n_jobs=1), OF_JOINED),
        (BeamTreeClassifier(n_jobs=1), OF_CLASSES),
        (few_steps(), OF_BUCKETS),
    ):
        found = estimator_checks_generator(estimator)
        yield from ((one, check) for one, check in found if check.func.__name__ not in excused)


@pytest.mark.parametrize(("estimator", "check"), list(checks()), ids=lambda it: getattr(it, "func", type(it)).__name__)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    if isinstance(estimator, IRLIClassifier):
        pytest.importorskip("torch")
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
        "dense": data.Y, "sparse": sp.csr_matrix(data.Y), "lists": data.labels, "names": named,
        "binarized": MultiLabelBinarizer().fit_transform(named),
    }[form]  # fmt: skip
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
