"""What scikit-learn's users meet: one class a row, numbers and names of classes, the score, weights, settings."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

pytest.importorskip("sklearn", minversion="1.6")

import sklearn
from sklearn.base import is_classifier
from sklearn.datasets import load_iris
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import sylvan
from sylvan import BeamTreeClassifier, Ensemble, NeighborRanker, TextModel, XRLinear, metrics
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ModelError
from sylvan.labels.targets import Targets, one_class_a_row

X = np.eye(4, dtype=np.float32).repeat(6, axis=0)
IDS = np.arange(4).repeat(6)
NAMES = np.array(["elm", "ash", "oak", "fir"])[IDS]
FAR = np.array([3, 9_783_161_484_100, 50_000_000, 7])[IDS]
MODELS = [
    lambda: XRLinear(n_jobs=1),
    lambda: NeighborRanker(n_jobs=1),
    lambda: Ensemble([XRLinear(n_jobs=1), NeighborRanker(n_jobs=1)], n_jobs=1),
]
models = pytest.mark.parametrize("make", MODELS, ids=["XRLinear", "NeighborRanker", "Ensemble"])


@models
def test_a_class_that_is_denied_is_predicted_for_no_row(make: Any) -> None:
    """Not even for a row without an answer, which otherwise has the most frequent class."""
    model = make().fit(np.r_[X, X[:1]], [*NAMES, "elm"])
    for options in ({"allowed": []}, {"denied": sorted(set(NAMES))}, {"allowed": [["oak"], []]}):
        with raises(DataError, "Row", "predict", "rank"):
            model.predict(X[:2], **options)
    few = model.predict(np.zeros((1, 4)), allowed=(name for name in ("elm", "ash")))
    assert few.tolist() in (["elm"], ["ash"])


@pytest.mark.parametrize(
    "Y",
    [IDS, IDS.tolist(), IDS.astype(float), IDS > 1, NAMES, NAMES.tolist(), NAMES.astype(object), FAR, FAR.tolist(),
     np.where(IDS > 1, 1, -1), np.where(IDS > 1, 1.0, -1.0), [0] * 24],
)  # fmt: skip
@models
def test_predict_gives_the_classes_that_fit_was_given(make: Any, Y: Any, tmp_path: Path) -> None:
    model = make().fit(X, Y)
    model.save(tmp_path / "model")
    for each in (model, sylvan.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert each.single_label_
        predicted = each.predict(X)
        assert isinstance(predicted, np.ndarray) and predicted.tolist() == np.asarray(Y).tolist()
        proba = each.predict_proba(X)
        assert each.classes_[proba.argmax(axis=1)].tolist() == predicted.tolist()
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
        assert proba.shape == (24, each.n_labels_) and each.score(X, Y) == 1


@pytest.mark.parametrize(
    "Y", [IDS[:, None].tolist(), NAMES[:, None].tolist(), sp.csr_matrix(np.eye(4)[IDS]), np.eye(4)[IDS]]
)
@models
def test_lists_and_matrices_have_an_indicator(make: Any, Y: Any) -> None:
    model = make().fit(X, IDS).fit(X, Y)
    assert not model.single_label_ and sp.issparse(model.predict(X)) and sp.issparse(model.predict_proba(X))
    assert model.predict(X).shape == (24, 4)


def test_a_rule_has_an_indicator() -> None:
    model = XRLinear(n_jobs=1).fit(X, IDS)
    for rule in ({"k": 2}, {"threshold": 0.3}, {"expected": "f1"}, {"precision": 0.5}):
        assert sp.issparse(model.predict(X, **rule))
    assert model.predict(X, beam=1).tolist() == IDS.tolist()
    with raises(sylvan.errors.ParameterError, "bean"):
        model.predict(X, bean=1)


def test_fewer_probabilities_than_classes_are_sparse() -> None:
    proba = XRLinear(n_jobs=1).fit(X, IDS).predict_proba(X, k=2)
    assert sp.issparse(proba) and np.diff(proba.indptr).tolist() == [2] * 24


def test_metrics_take_the_array_as_they_take_the_ranking() -> None:
    model = XRLinear(n_jobs=1).fit(X, IDS)
    proba, top = model.predict_proba(X), model.rank(X, k=4)
    for scores in (proba, sp.csr_array(proba)):
        assert metrics.precision(IDS, scores, at=(1, 3)) == metrics.precision(IDS, top, at=(1, 3))
        assert metrics.fit_thresholds(IDS, scores).shape == (4,)


def test_a_row_without_an_answer_is_of_the_most_frequent_class() -> None:
    rows, names = np.vstack([X, X[-1:]]), [*NAMES, "fir"]
    for model in (NeighborRanker(n_jobs=1), Ensemble([NeighborRanker(n_jobs=1)], n_jobs=1)):
        model.fit(rows, names)
        assert model.rank(np.zeros((1, 4)), k=1).labels.tolist() == [[-1]]
        assert model.predict(np.zeros((1, 4))).tolist() == ["fir"]
        assert model.predict_proba(np.zeros((1, 4))).tolist() == [[0.25] * 4]
    texts = [*NAMES, "fir"]
    tagger = TextModel(model=NeighborRanker(n_jobs=1)).fit(texts, texts)
    assert tagger.predict(["never seen", "oak"]).tolist() == ["fir", "oak"]


def test_models_of_text(tmp_path: Path) -> None:
    texts = [f"the wood of an {name}" for name in NAMES]
    model = TextModel(model=XRLinear(n_jobs=1))
    assert not is_classifier(model), "folds of lists can't be stratified"
    model.fit(texts, NAMES).save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    assert is_classifier(again) and again.single_label_ and again.predict(texts).tolist() == NAMES.tolist()
    assert not is_classifier(model.fit(texts, [[name] for name in NAMES])) and not model.single_label_
    assert not model.fit(texts, NAMES).fit_blocks([(texts, [[name] for name in NAMES])]).single_label_
    joined = Ensemble.of_fitted([again, TextModel(model=NeighborRanker()).fit(texts, NAMES)])
    assert joined.single_label_ and joined.predict(texts).tolist() == NAMES.tolist()
    assert Ensemble.of_fitted([model, again]).single_label_ is False


def test_what_one_class_a_row_is() -> None:
    for Y in ([1, 2], ("a", "b"), np.array([1.0]), np.array(["a"], object), [np.str_("a"), np.int64(3)]):
        assert one_class_a_row(Y)
    for Y in ([], [[1]], ["a", ["b"]], [{"a"}], np.eye(2), np.ones((2, 1)), sp.eye(2), {"a": 1}, "ab", None, iter([1])):
        assert not one_class_a_row(Y)


def test_names_in_a_matrix_are_refused() -> None:
    for Y, way in (([["a"], ["b"]], "Y.ravel()"), ([["a", "b"], ["b", "c"]], "a list of labels for each row")):
        with raises(DataError, way):
            XRLinear().fit(np.eye(2), np.array(Y))


def test_scikit_learn_stratifies_folds() -> None:
    rows, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    for classes, model in ((y, XRLinear(cost=100, n_jobs=1)), (names, NeighborRanker(n_neighbors=9, n_jobs=1))):
        assert is_classifier(model)
        assert cross_val_score(model, rows, classes).mean() > 0.9
        assert cross_val_score(model, rows, classes, scoring="accuracy").mean() > 0.9
        assert cross_val_score(model, rows, classes, scoring="neg_log_loss").mean() > -0.4
        predicted = cross_val_predict(model, rows, classes)
        assert predicted.shape == (150,) and accuracy_score(classes, predicted) > 0.9
        proba = cross_val_predict(model, rows, classes, method="predict_proba")
        assert log_loss(classes, proba) < 0.4 and roc_auc_score(classes, proba, multi_class="ovr") > 0.95


def test_a_folder_that_says_something_else_of_classes_and_columns_is_refused() -> None:
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    model = XRLinear(n_jobs=1).fit(frame, NAMES)
    for part in ("classes", "columns"):
        state = model.to_state()
        state.parts[part] = Vocabulary(["a", "b"]).to_state()
        with raises(ModelError, part, 4, 2):
            XRLinear.from_state(state)
    state = model.to_state()
    state.meta["single_label"] = "perhaps"
    with raises(ModelError, "single_label"):
        XRLinear.from_state(state)


def test_the_score_is_precision_at_one() -> None:
    model = XRLinear(n_jobs=1).fit(X, IDS)
    truth = np.where(IDS == 0, 3, IDS)
    assert model.score(X, truth) == 0.75
    assert model.score(X, sp.csr_matrix(np.eye(5)[truth])) == 0.75
    assert model.score(X, truth, sample_weight=np.where(IDS == 0, 2, 1)) == pytest.approx(0.6)
    assert model.score(X, [[]] * 24) == 0
    with raises(DataError, "X", 24, "(23, 4)"):
        model.score(X, truth[:-1])


def test_the_score_of_a_model_of_text() -> None:
    texts = ["whales", "bread", "whales", "bread"]
    tagger = TextModel().fit(texts, [["Sea"], ["Baking"], ["Sea"], ["Baking"]])
    assert tagger.score(texts, [["Sea"], ["Sea"], ["other"], "Baking"]) == 0.5
    assert TextModel().fit(texts, [[7], [9], [7], [9]]).score(texts, [[7], [9], [9], 9]) == 0.75


def test_names_that_are_numbers_leave_ints_to_places(tmp_path: Path) -> None:
    XRLinear(n_jobs=1).fit(X, FAR.astype(str)).save(tmp_path / "model")
    model = sylvan.load(tmp_path / "model")
    assert model.rank(X[:1], k=1, allowed=[0]).names == [[model.classes_[0]]]


def test_ids_in_lists_are_names_of_classes() -> None:
    assert Targets.read([0, 2, 1]).names is None, "the ids 0 to n - 1 are places too"
    assert list(Targets.read([0, 1, 999_999]).names or ()) == ["0", "1", "999999"]
    assert list(Targets.read([-1, 2_000_000_000]).names or ()) == ["-1", "2000000000"]
    assert Targets.read([[], []]).names is None
    with raises(DataError, "'4'", 2):
        XRLinear(n_jobs=1).fit(X[:2], [[0], [5]]).rank(X[:1], allowed=[4])


@given(st.lists(st.lists(st.sampled_from([0, 5, *FAR.tolist()]), max_size=4), min_size=1, max_size=9))
def test_numbers_are_encoded_as_by_hand(rows: list[list[int]]) -> None:
    rows = [*rows, [9_783_161_484_100]]  # an ISBN, beyond 32 bits
    targets = Targets.read(rows)
    different = sorted({number for row in rows for number in row})
    assert list(targets.vocabulary()) == [str(number) for number in different]
    matrix = targets.matrix.to_scipy().toarray()
    assert matrix.tolist() == [[float(number in row) for number in different] for row in rows]


@pytest.mark.parametrize("make", [*MODELS[:2], lambda: BeamTreeClassifier(n_candidates=2, n_jobs=1)])
def test_weights_of_rows_reach_fit(make: Any) -> None:
    model = make()
    order = np.random.default_rng(0).permutation(42)
    wrong = np.concatenate([IDS, [0] * 18])[order]
    rows, weight = np.vstack([X, X[6:]])[order], np.repeat([1.0, 0.0], [24, 18])[order]
    step = f"{type(model).__name__.lower()}__sample_weight"
    chain = make_pipeline(MaxAbsScaler(), make()).fit(rows, wrong, **{step: weight})
    assert chain.predict(X).tolist() == IDS.tolist()
    search = GridSearchCV(model, {"n_jobs": [1]}, cv=2).fit(rows, wrong, sample_weight=weight)
    assert search.best_estimator_.predict(X).tolist() == IDS.tolist()
    measured = cross_validate(model, rows, wrong, cv=2, params={"sample_weight": weight}, return_estimator=True)
    assert all(fitted.predict(X).tolist() == IDS.tolist() for fitted in measured["estimator"])


def test_weights_are_refused_where_scikit_learn_routes_metadata() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        GridSearchCV(XRLinear(n_jobs=1), {"n_jobs": [1]}, cv=2).fit(X, IDS)
        for tool in (make_pipeline(MaxAbsScaler(), XRLinear(n_jobs=1)), GridSearchCV(XRLinear(n_jobs=1), {}, cv=2)):
            with raises(TypeError, "sample_weight"):
                tool.fit(X, IDS, sample_weight=np.ones(24))


def test_sparse_arrays_where_scikit_learn_is_set_to_them() -> None:
    if "sparse_interface" not in sklearn.get_config():
        pytest.skip("this scikit-learn has matrices alone")
    model = XRLinear(n_jobs=1).fit(sp.csr_array(X), sp.csr_array(np.eye(4)[IDS]))
    for setting, kind in (("spmatrix", sp.csr_matrix), ("sparray", sp.csr_array)):
        with sklearn.config_context(sparse_interface=setting):
            for matrix in (model.predict(X), model.predict_proba(X)):
                assert type(matrix) is kind
    assert type(model.predict(X)) is sp.csr_matrix


# ---------------------------------------- a row of weight n counts as n equal rows

DRAWN = np.random.default_rng(7)
ROWS = DRAWN.standard_normal((24, 6)).astype(np.float32)
CLASSES = DRAWN.integers(0, 4, 24)
EXACT = {"calibration": None, "tolerance": 1e-4, "max_iterations": 3000, "threshold": 0.0, "weight_dtype": "float32"}
WEIGHED = {
    "one layer": lambda: XRLinear(scaling="none", n_jobs=1, **EXACT),
    "logistic": lambda: XRLinear(scaling="none", loss="logistic", n_jobs=1, **EXACT),
    "neighbours": lambda: NeighborRanker(n_neighbors=10_000, calibration=None, n_jobs=1),
}
weights = st.lists(st.integers(0, 4), min_size=24, max_size=24).filter(
    lambda w: len(set(CLASSES[np.array(w) > 0])) == 4
)


def scores(model: Any, rows: Any) -> np.ndarray:
    return model.rank(rows, k=4).to_csr(4).toarray()


@pytest.mark.parametrize("name", WEIGHED)
@settings(max_examples=6)
@given(weight=weights)
def test_weights_agree_with_repeated_rows(name: str, weight: list[int]) -> None:
    weighted = WEIGHED[name]().fit(ROWS, CLASSES, sample_weight=weight)
    repeated = WEIGHED[name]().fit(ROWS.repeat(weight, axis=0), CLASSES.repeat(weight))
    plain = WEIGHED[name]().fit(ROWS, CLASSES)
    found, expected = scores(weighted, ROWS), scores(repeated, ROWS)
    np.testing.assert_allclose(found, expected, atol=2e-3)
    if max(weight) > min(weight) + 2:
        assert not np.allclose(scores(plain, ROWS), expected, atol=2e-3), "else the weights wouldn't matter"


def test_weights_of_texts() -> None:
    texts, labels, weight = ["sea ship", "sea", "land", "land sea"], ["a", "a", "b", "b"], [1, 3, 2, 0]
    weighted = TextModel(model=XRLinear(n_jobs=1, **EXACT)).fit(texts, labels, sample_weight=weight)
    zeroed = TextModel(model=XRLinear(n_jobs=1, **EXACT)).fit(texts, labels, sample_weight=[1, 3, 2, 1])
    assert weighted.rank(["land sea"], k=2).scores.tolist() != zeroed.rank(["land sea"], k=2).scores.tolist()
