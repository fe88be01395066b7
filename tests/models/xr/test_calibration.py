"""Probabilities of XRLinear: what margins become, calibration inside fit, and what predict makes of it."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import same_bits
from kit.books import books, load_sample
from kit.errors import raises
from label_scores import of_one_tree

from sylvan import TextModel, TfidfVectorizer, XRLinear, metrics
from sylvan.errors import DataError, ParameterError
from sylvan.ranking.calibrate import holdout_folds


@cache
def noisy(n: int = 1500, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Ten labels with two words each; a row has the words of one to three, and every fourth label is another."""
    random = np.random.default_rng(seed)
    X, Y = np.zeros((n, 24), np.float32), np.zeros((n, 10), np.float32)
    for row in range(n):
        for label in random.permutation(10)[: random.integers(1, 4)]:
            X[row, 2 * label + random.integers(0, 2, 2)] = 1
            Y[row, label if random.random() < 0.75 else random.integers(0, 10)] = 1
        X[row, 20 + random.integers(0, 4, 2)] = 1
    return sp.csr_matrix(X), sp.csr_matrix(Y)


def errors(model: XRLinear, X: sp.csr_matrix, Y: sp.csr_matrix) -> tuple[dict[int, float], dict[int, float]]:
    """ECE@k without and with calibration."""
    top = model.rank(X, k=10)
    return metrics.calibration_error(Y, model.bounded(top)), metrics.calibration_error(Y, model.probabilities(top))


# Solved as large data are, not as precisely as small ones.
SMALL: dict[str, Any] = {
    "branching": 2, "max_leaf": 3, "negatives": "tfn", "tolerance": 0.1, "max_iterations": 10, "scaling": "none",
    "n_jobs": 1,
}  # fmt: skip
MATCHED = {**SMALL, "negatives": "tfn+man"}


# What is calibrated, what share of the error may be left, and how much.
WAYS: dict[str, tuple[dict[str, Any], float, float]] = {
    "isotonic": ({**SMALL, "calibration": "isotonic"}, 0.5, 0.08),
    # A curve of Platt's form doesn't fit everywhere: the third and fourth labels of a row are mostly wrong.
    "platt": ({**SMALL, "calibration": "platt"}, 0.7, 0.11),
    "folds and trees": ({**MATCHED, "calibration": "isotonic", "calibration_folds": 3, "n_trees": 2}, 1.0, 1.0),
    "hinge": ({**MATCHED, "calibration": "platt", "loss": "hinge", "combine": "ranker"}, 1.0, 1.0),
    "logistic": ({**MATCHED, "calibration": "platt", "loss": "logistic", "combine": "ranker"}, 1.0, 1.0),
}


@pytest.mark.parametrize(("params", "share", "most"), WAYS.values(), ids=WAYS)
def test_the_error_falls_and_the_ranking_stays(params: dict[str, Any], share: float, most: float) -> None:
    X, Y = noisy(600, seed=1)
    model, plain = XRLinear(**params).fit(*noisy()), XRLinear(**{**params, "calibration": None}).fit(*noisy())
    assert model.calibrator_ is not None and plain.calibrator_ is None
    top = model.rank(X, k=10)
    same_bits(top, plain.rank(X, k=10))
    before, after = errors(model, X, Y)
    assert all(after[k] < before[k] * share and after[k] < most for k in (1, 3, 5)), (before, after)
    proba = model.predict_proba(X, k=10)
    assert metrics.precision(Y, proba) == metrics.precision(Y, top)
    assert (proba != model.probabilities(top).to_csr(10)).nnz == 0


def test_held_out_rows_are_disjoint_and_follow_from_their_number_alone() -> None:
    folds = holdout_folds(1000, 3)
    together = np.concatenate(folds)
    assert [len(rows) for rows in folds] == [250, 250, 250] and len(set(together.tolist())) == 750
    assert all((np.diff(rows) > 0).all() for rows in folds)
    assert [len(holdout_folds(n, 1)[0]) for n in (120, 1999, 20_000, 10**6)] == [30, 499, 2000, 5000]
    assert holdout_folds(119, 1) == [] == holdout_folds(200, 9)
    weight = np.float32(np.arange(1000) % 2)
    assert all((rows % 2 == 1).all() for rows in holdout_folds(1000, 2, weight))


def test_rows_of_no_weight_calibrate_nothing() -> None:
    X, Y = noisy(600)
    lies = sp.csr_matrix(1 - Y.toarray())
    weight = np.repeat([1.0, 0.0], 600)
    model = XRLinear(**SMALL, calibration="isotonic").fit(sp.vstack([X, X]), sp.vstack([Y, lies]), weight)
    test_X, test_Y = noisy(400, seed=3)
    _, after = errors(model, test_X, test_Y)
    assert max(after.values()) < 0.1, "with the lies it would be nearly 1"


def test_stopping_rules_on_a_model() -> None:
    X, Y = noisy(800, seed=4)
    model = XRLinear(**SMALL, calibration="isotonic").fit(*noisy())

    def row_f1(**rule: Any) -> float:
        found = model.predict(X, **rule)
        assert found.dtype == np.int8 and found.shape == Y.shape
        assert (found != (model.choose(X, **rule).to_csr(10) > 0).astype(np.int8)).nnz == 0
        met = found.multiply(Y).sum(axis=1).A1
        return float((2 * met / np.maximum(1, found.sum(axis=1).A1 + Y.sum(axis=1).A1)).mean())

    each = metrics.fit_thresholds(Y, model.predict_proba(X))
    others = ({}, {"k": 1}, {"k": 5}, {"precision": 0.9}, {"threshold": 0.4}, {"k": 2, "threshold": 0.3})
    assert row_f1(expected="f1") > max(row_f1(**rule) for rule in others) and row_f1(threshold=each) > 0
    careful = model.predict(X, precision=0.7)
    assert careful.multiply(Y).sum() / careful.sum() > 0.68
    assert (model.predict(X, k=2).sum(axis=1).A1 == 2).all()
    assert (model.predict(X, beam=1) != model.predict(X)).nnz > 0
    with raises(ParameterError, "rule"):
        model.predict(X, threshold=0.3, expected="f1")


def test_names_of_what_a_text_model_chooses() -> None:
    train, test = load_sample()
    tagger = TextModel(TfidfVectorizer(), XRLinear(calibration="isotonic", n_jobs=1))
    tagger.fit(train.texts[:800], train.labels[:800])
    texts = test.texts[:50]
    chosen, indicator = tagger.choose(texts, expected="f1"), tagger.predict(texts, expected="f1")
    assert [len(names) for names in chosen.names] == indicator.sum(axis=1).A1.tolist()
    assert all(len(names) >= 1 for names in chosen.names)
    both = zip(tagger.rank(texts, 30).names, chosen.names, strict=True)
    assert all(names[: len(found)] == found for names, found in both)
    named = tagger.probabilities(tagger.rank(texts, 5))
    assert named.names == tagger.rank(texts, 5).names and named.scores.max() < 1
    often = tagger.vocabulary_[0]
    assert tagger.predict(texts, threshold={often: 0.0}).shape == indicator.shape
    with raises(DataError, "nobody"):
        tagger.predict(texts, threshold={"nobody": 0.1})
    with raises(DataError, "threshold"):
        tagger.predict(texts, threshold={often: "much"})


def test_models_are_calibrated_by_default_and_the_fast_preset_is_not() -> None:
    X, Y = noisy(800)
    model, fast, plain = XRLinear().fit(X, Y), XRLinear.preset("fast").fit(X, Y), XRLinear(calibration=None).fit(X, Y)
    assert model.calibrator_ is not None and model.calibrator_.method == "isotonic"
    assert fast.calibrator_ is None and plain.calibrator_ is None
    top, other = model.rank(X, 5), plain.rank(X, 5)
    assert top.scores.tobytes() == other.scores.tobytes() and top.labels.tobytes() == other.labels.tobytes()
    assert XRLinear().fit(X[:100], Y[:100]).calibrator_ is None
    assert model.set_params(calibration=None).fit(X, Y).calibrator_ is None, "the curves of before are gone"


def test_held_out_rows_get_answers_of_a_model_that_has_not_seen_them() -> None:
    X, Y = noisy(1000)
    rows = holdout_folds(1000, 1)[0]
    settings: dict[str, Any] = {"branching": 2, "max_leaf": 3, "calibration": None}
    model = XRLinear(**settings)
    top = model.fit_holding_out(X, Y, rows)
    assert top is not None and top.labels.shape == (250, 10) and model.calibrator_ is None
    rest = np.setdiff1d(np.arange(1000), rows)
    without = XRLinear(**settings, tree=model.tree_).fit(X[rest], Y[rest])
    expected = without.bounded(without.rank(X[rows], 10))
    right = [metrics.precision(Y[rows], each, at=1)[1] for each in (top, expected)]
    assert abs(right[0] - right[1]) < 0.025
    learned = model.bounded(model.rank(X[rows], 10))
    mean = [float(np.abs(np.sort(each.scores) - np.sort(expected.scores)).mean()) for each in (top, learned)]
    assert mean[0] < 0.75 * mean[1]


def test_a_label_of_several_leaves_is_answered_once() -> None:
    X, Y = noisy(600)
    top = XRLinear(branching=2, max_leaf=3, overlap=2).fit_holding_out(X, Y, holdout_folds(600, 1)[0])
    assert top is not None
    for labels, scores in zip(top.labels.tolist(), top.scores.tolist(), strict=True):
        known = [label for label in labels if label >= 0]
        assert len(set(known)) == len(known) >= 5 and labels[len(known) :] == [-1] * (len(labels) - len(known))
        assert scores == sorted(scores, reverse=True)


def measure(margin: float, combine: str | list[str], loss: str) -> float:
    """Where a margin lies between 0 and 1, in double precision and one at a time."""
    if loss == "logistic":
        return 1 / (1 + math.exp(-margin))
    power = 2 if isinstance(combine, list) else 3  # that of the layers above
    return math.exp(-(max(0.0, 1 - margin) ** power))


@pytest.mark.parametrize(
    ("combine", "loss"),
    [("paper", "squared_hinge"), ("ranker", "hinge"), ("ranker", "logistic"), (["l2_hinge", "ranker"], "hinge")],
)
def test_margins_become_what_the_loss_makes_of_them(combine: str | list[str], loss: str) -> None:
    """Probabilities of each of two trees by itself, and of both the mean."""
    X, Y, X_test, _ = books(2000 if loss == "squared_hinge" else 800)
    given = {"combine": combine, "loss": loss, "branching": 32, "calibration": None, "n_jobs": 1}
    model = XRLinear(n_trees=2, **given).fit(X, Y)
    asked = X_test[:200]
    assert model.tree_.depth == 2
    sums, highest = np.zeros((200, Y.shape[1])), []
    for ranker in model.rankers_:
        alone = of_one_tree(model, ranker)
        top = alone.rank(asked, k=100)
        by_hand = [[max(1e-7, measure(margin, combine, loss)) for margin in row] for row in top.scores[:, :20].tolist()]
        found = alone.probabilities(top).scores[:, :20]
        np.testing.assert_allclose(found, by_hand, rtol=1e-4)
        assert (np.diff(found) < 0).all(), "the order stays the same, also beyond a margin of 1"
        for row, (labels, scores) in enumerate(zip(top.labels.tolist(), top.scores.tolist(), strict=True)):
            for label, score in zip(labels, scores, strict=True):
                sums[row, label] += measure(score, combine, loss) / 2 if label >= 0 else 0
        highest.append(top.scores.max())
    assert loss == "logistic" or max(highest) > 1
    top = model.rank(asked, k=10)
    np.testing.assert_allclose(np.take_along_axis(sums, top.labels, axis=1), top.scores, rtol=1e-4)
    np.testing.assert_allclose(-np.sort(-sums)[:, :10], top.scores, rtol=1e-4)
    assert (model.probabilities(top).scores == top.scores).all()


@pytest.mark.parametrize("n_trees", [1, 3])
def test_margins_are_bounded_once(n_trees: int) -> None:
    """A mean over trees is of bounded scores already; of one tree the scores are margins."""
    X, Y = noisy(200)
    model = XRLinear(**SMALL, n_trees=n_trees, combine="ranker", calibration=None).fit(X, Y)
    top = model.rank(X, 10)
    bounded = model.probabilities(top).scores
    assert (top.scores.max() > 1) == (n_trees == 1) and ((bounded >= 0) & (bounded <= 1)).all()
    assert (bounded == np.clip(top.scores, 0, 1)).all() == (n_trees == 3)
