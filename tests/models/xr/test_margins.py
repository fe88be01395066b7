"""What rankers' own scores, which aren't bounded, become in probabilities and in means over trees."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest

from sylvan import XRLinear, metrics


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
    model = XRLinear(combine=combine, loss=loss, branching=32, calibration=None, n_jobs=2).fit(X[:2000], Y[:2000])
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
    model = XRLinear(n_trees=2, combine=combine, loss=loss, branching=32, calibration=None, n_jobs=2)
    model.fit(X[:2000], Y[:2000])
    alone = [copy.copy(model) for _ in range(2)]
    for number, one in enumerate(alone):
        one.fitted_ = replace(model.fitted_, rankers=[model.rankers_[number]])
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
