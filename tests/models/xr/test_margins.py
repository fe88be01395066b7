"""What rankers' own scores, which aren't bounded, become in probabilities and in means over trees."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.books import books

from sylvan import XRLinear, metrics


def measure(margin: float, combine: str | list[str], loss: str) -> float:
    """Where a margin lies between 0 and 1, in double precision and one at a time."""
    if loss == "logistic":
        return 1 / (1 + math.exp(-margin))
    power = 2 if isinstance(combine, list) else 3  # that of the layers above
    return math.exp(-(max(0.0, 1 - margin) ** power))


def of_one_tree(model: XRLinear, ranker: Any) -> XRLinear:
    alone = copy.copy(model)
    alone.fitted_ = replace(model.fitted_, rankers=[ranker])
    return alone


@pytest.mark.parametrize(
    ("combine", "loss"),
    [("paper", "squared_hinge"), ("ranker", "hinge"), ("ranker", "logistic"), (["l2_hinge", "ranker"], "hinge")],
)
def test_margins_become_what_the_loss_makes_of_them(combine: str | list[str], loss: str) -> None:
    """Probabilities of each of two trees by itself, and of both the mean."""
    X, Y, X_test, _ = books(400)
    given = {"combine": combine, "loss": loss, "branching": 16, "max_leaf": 40, "calibration": None, "n_jobs": 1}
    model = XRLinear(n_trees=2, **given).fit(X, Y)
    asked = sp.vstack([X[:25], X_test[:25]]).tocsr()
    assert model.tree_.depth == 2
    sums, highest = np.zeros((50, Y.shape[1])), []
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
    assert loss != "hinge" or max(highest) > 1
    top = model.rank(asked, k=10)
    np.testing.assert_allclose(np.take_along_axis(sums, top.labels, axis=1), top.scores, rtol=1e-4)
    np.testing.assert_allclose(-np.sort(-sums)[:, :10], top.scores, rtol=1e-4)
    assert (model.probabilities(top).scores == top.scores).all()


def test_probabilities_of_margins_are_near_the_share_that_is_right() -> None:
    X, Y, X_test, Y_test = books(3000)
    both = XRLinear(negatives="paper", combine="paper", n_trees=2, n_jobs=1).fit(X, Y)
    for model in (both, of_one_tree(both, both.rankers_[0])):
        error = metrics.calibration_error(Y_test, model.bounded(model.rank(X_test, k=5)))
        assert max(error.values()) < 0.1, "sigmoids of margins are off by more than 0.2"
