"""XRLinear's own parameters: what reaches the index, and the paper's choices by one word."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

from sylvan import LabelTree, XRLinear, data, indexing, metrics
from sylvan.errors import DataError, ParameterError
from sylvan.text import TfidfVectorizer


@pytest.fixture(scope="module")
def books() -> tuple:
    train, test = data.load_sample()
    vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True)
    names = data.Vocabulary.from_labels(train.labels)
    X, Y = vectorizer.fit_transform(train.texts), names.encode(train.labels)
    return X, Y, vectorizer.transform(test.texts), names.encode(test.labels, unknown="ignore")


def test_overlapping_clusters(books: tuple) -> None:
    X, Y, X_test, Y_test = books
    model = XRLinear(overlap=2, n_jobs=2).fit(X, Y)
    assert model.tree_.n_leaves > model.tree_.n_labels == Y.shape[1]
    top = model.rank(X_test, k=10)
    for row in top.labels:
        assert len(set(row[row >= 0])) == (row >= 0).sum()
    assert metrics.precision(Y_test, top, at=(1,))[1] > 0.35


def test_the_share_of_label_features(books: tuple) -> None:
    X, Y, _, _ = books
    own = X[np.random.default_rng(0).integers(0, X.shape[0], Y.shape[1])]
    model = XRLinear(embedding="pifa_lf", alpha=0.0).fit(X, Y, label_features=own)
    by_hand = LabelTree.build(indexing.pifa_lf(X, Y, own, alpha=0.0), 16, 100, seed=0)
    assert model.tree_ == by_hand
    assert model.tree_ != XRLinear(embedding="pifa_lf", alpha=1.0).fit(X, Y, label_features=own).tree_


def test_the_papers_choices_are_lists_of_them(books: tuple) -> None:
    X, Y, X_test, _ = books
    word = XRLinear(negatives="paper", combine="paper", n_jobs=2).fit(X, Y)
    depth = word.tree_.depth
    upper = depth - 1
    spelled = XRLinear(
        negatives=["tfn"] * upper + ["tfn+man"], combine=["l3_hinge"] * upper + ["ranker"], n_jobs=1
    ).fit(X, Y)
    assert np.array_equal(word.rank(X_test).scores, spelled.rank(X_test).scores)


def measure(margin: float, combine: str | list[str], loss: str) -> float:
    """Where a margin lies between 0 and 1, in double precision and one at a time."""
    if loss == "logistic":
        return 1 / (1 + math.exp(-margin))
    power = 2 if isinstance(combine, list) else 3  # that of the layers above
    return math.exp(-(max(0.0, 1 - margin) ** power))


MARGINS = [("paper", "squared_hinge"), ("ranker", "hinge"), ("ranker", "logistic"), (["l2_hinge", "ranker"], "hinge")]


@pytest.mark.parametrize(("combine", "loss"), MARGINS)
def test_margins_become_probabilities_by_what_the_loss_makes_of_them(
    books: tuple, combine: str | list[str], loss: str
) -> None:
    X, Y, X_test, _ = books
    model = XRLinear(combine=combine, loss=loss, branching=32, n_jobs=2).fit(X, Y)
    top = model.rank(X_test[:200], k=20)
    by_hand = [[max(1e-7, measure(margin, combine, loss)) for margin in row] for row in top.scores.tolist()]
    found = model.probabilities(top).scores
    np.testing.assert_allclose(found, by_hand, rtol=1e-4)
    assert (np.diff(found) < 0).all(), "the order stays the same, also beyond a margin of 1"
    assert loss == "logistic" or top.scores.max() > 1


@pytest.mark.parametrize(("combine", "loss"), MARGINS)
def test_several_trees_of_margins_answer_by_the_mean_of_their_measures(
    books: tuple, combine: str | list[str], loss: str
) -> None:
    X, Y, X_test, _ = books
    model = XRLinear(n_trees=2, combine=combine, loss=loss, branching=32, n_jobs=2).fit(X, Y)
    alone = [copy.copy(model) for _ in range(2)]
    for number, one in enumerate(alone):
        one.rankers_ = [model.rankers_[number]]
    sums = np.zeros((50, Y.shape[1]))
    for one in alone:
        top = one.rank(X_test[:50], k=100)
        for row, (labels, scores) in enumerate(zip(top.labels.tolist(), top.scores.tolist(), strict=True)):
            for label, score in zip(labels, scores, strict=True):
                sums[row, label] += measure(score, combine, loss) / 2 if label >= 0 else 0
    top = model.rank(X_test[:50], k=10)
    np.testing.assert_allclose(np.take_along_axis(sums, top.labels, axis=1), top.scores, rtol=1e-4)
    np.testing.assert_allclose(-np.sort(-sums)[:, :10], top.scores, rtol=1e-4)
    assert (model.probabilities(top).scores == top.scores).all()


@pytest.mark.parametrize("n_trees", [1, 2])
def test_probabilities_of_margins_are_near_the_share_that_is_right(books: tuple, n_trees: int) -> None:
    X, Y, X_test, Y_test = books
    model = XRLinear(negatives="paper", combine="paper", n_trees=n_trees, n_jobs=2).fit(X[:3000], Y[:3000])
    error = metrics.calibration_error(Y_test, model.bounded(model.rank(X_test, k=5)))
    assert max(error.values()) < 0.1, "sigmoids of margins are off by more than 0.2"


@pytest.mark.parametrize("name", ["negatives", "combine"])
def test_a_list_must_name_every_layer(name: str, books: tuple) -> None:
    X, Y, _, _ = books
    words = {"negatives": ["tfn"] * 7, "combine": ["ranker"] * 7}[name]
    with pytest.raises(ParameterError, match=f"The '{name}' parameter of XRLinear names 7 layers, but the tree has"):
        XRLinear(**{name: words}).fit(X, Y)


def test_rows_of_any_length_rank_alike_when_normalized() -> None:
    X, Y = np.eye(4, dtype=np.float32).repeat(3, axis=0) + 0.1, np.arange(4).repeat(3)
    X[0] = 0
    scale = np.linspace(0.5, 20, 12, dtype=np.float32)[:, None]
    first, second = (XRLinear(normalize=True).fit(x, Y) for x in (X, X * scale))
    unit = XRLinear().fit(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9), Y)
    for model in (second, unit):
        rows = X * scale if model is second else X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
        np.testing.assert_allclose(first.rank(X, 4).scores, model.rank(rows, 4).scores, atol=1e-5)
    explanation = first.explain(X[5:6] * 7, 1)
    score = first.rank(X[5:6], 1).scores[0, 0]
    assert explanation.place == 1 and explanation.trees[0].paths[0].steps[-1].so_far == pytest.approx(score)


def test_hinges_have_one_power() -> None:
    with pytest.raises(ParameterError, match=r"one power of the hinge for all layers. Got l2_hinge, l3_hinge instead"):
        XRLinear(max_leaf=2, combine=["l3_hinge", "l2_hinge"]).fit(np.eye(3), np.eye(3))


def test_a_tree_of_other_labels_is_refused(books: tuple) -> None:
    X, Y, _, _ = books
    with pytest.raises(DataError, match=r"The tree has 3 labels, but Y has shape"):
        XRLinear(tree=LabelTree.flat(3)).fit(X, Y)


@pytest.mark.parametrize("integer", [np.int64, np.int32, np.uint8])
def test_a_seed_may_be_numpys(integer: type) -> None:
    X, Y = np.random.default_rng(0).random((40, 6)), np.arange(40) % 20
    plain = XRLinear(seed=3, max_leaf=4, n_trees=2).fit(X, Y).rank(X, 5)
    found = XRLinear(seed=integer(3), max_leaf=4, n_trees=2).fit(X, Y).rank(X, 5)
    assert found.scores.tobytes() == plain.scores.tobytes() and found.labels.tobytes() == plain.labels.tobytes()
