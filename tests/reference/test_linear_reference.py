"""The reference implementation itself, on cases worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reference import linear_reference as reference

# Two clusters of two labels: nodes 0 and 1 under the root, leaves 0 1 | 2 3 with labels 3 2 | 1 0.
TREE = ([np.array([0, 2]), np.array([0, 2, 4])], np.array([3, 2, 1, 0]))
WEIGHTS = [np.array([[0.5, 0.25]]), np.array([[1.0, 0.0, 2.0, 0.75]])]
ZERO = [np.zeros(2), np.zeros(4)]


def rank(combine: str, beam: int, k: int = 4, x: float = 1.0) -> reference.Ranking:
    return reference.rank_row(np.array([x]), WEIGHTS, ZERO, TREE, beam=beam, k=k, combine=combine)


def test_ranker_only_scores_by_the_last_layer() -> None:
    assert rank("ranker", beam=2).labels == [1, 3, 0, 2]
    assert rank("ranker", beam=2).scores == [2.0, 1.0, 0.75, 0.0]
    assert rank("ranker", beam=1).labels == [3, 2], "the beam of one keeps the first cluster, of 0.5"


def test_l3_hinge_multiplies_along_the_path() -> None:
    answer = rank("l3_hinge", beam=2)
    first, second = math.exp(-(0.5**3)), math.exp(-(0.75**3))
    assert answer.labels == [3, 1, 0, 2]
    np.testing.assert_allclose(answer.scores, [first, second, second * math.exp(-(0.25**3)), first * math.exp(-1.0)])


def test_sigmoid_multiplies_probabilities() -> None:
    sigmoid = lambda h: 1 / (1 + math.exp(-h))  # noqa: E731
    scores = dict(zip(rank("sigmoid", 2).labels, rank("sigmoid", 2).scores, strict=True))
    assert scores[1] == pytest.approx(sigmoid(0.25) * sigmoid(2.0))
    assert scores[2] == pytest.approx(sigmoid(0.5) * sigmoid(0.0))


def test_ties_go_to_the_lower_label() -> None:
    answer = rank("l3_hinge", beam=2, x=0.0)
    assert answer.labels == [0, 1, 2, 3]
    assert answer.margin == math.inf
    assert rank("l3_hinge", beam=1, x=0.0).labels == [2, 3], "and in the beam to the lower node"


def test_a_label_in_two_leaves_counts_once_with_its_best() -> None:
    tree = ([np.array([0, 2]), np.array([0, 2, 4])], np.array([0, 1, 0, 2]))
    answer = reference.rank_row(np.array([1.0]), WEIGHTS, ZERO, tree, beam=2, k=4, combine="ranker")
    assert answer.labels == [0, 2, 1]
    assert answer.scores == [2.0, 0.75, 0.0]


def test_truth_climbs_the_tree() -> None:
    Y = np.array([[1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]])
    inner, leaves = reference.truth(Y, TREE)
    assert leaves.tolist() == [[0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert inner.tolist() == [[0, 1], [1, 0], [0, 0]]


def test_negatives() -> None:
    Y = np.array([[1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]])
    reached = [[0], [0], [1]]
    assert reference.cluster_rows(Y, TREE, 1, "tfn") == [[1], [0]]
    assert reference.cluster_rows(Y, TREE, 1, "man", reached) == [[0, 1], [2]]
    assert reference.cluster_rows(Y, TREE, 1, "tfn+man", reached) == [[0, 1], [0, 2]]
    assert reference.cluster_rows(Y, TREE, 0, "tfn") == [[0, 1]]
    assert reference.cluster_rows(Y, TREE, 0, "man", [[0]] * 3) == [[0, 1, 2]]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_the_solver_finds_a_minimum(loss: str) -> None:
    random = np.random.default_rng(3)
    X, y = random.normal(size=(12, 4)), np.where(random.random(12) < 0.4, 1.0, -1.0)
    problem = reference.Problem(X, y, random.uniform(0.2, 2.0, 12), loss, bias=0.7)
    w, intercept = reference.solve(problem)
    least = problem.objective(w, intercept)
    for _ in range(200):
        step = random.normal(size=5) * 10.0 ** random.uniform(-4, 0)
        assert problem.objective(w + step[:4], intercept + step[4]) >= least - 1e-9


def test_one_point_by_hand() -> None:
    """min 1/2 w^2 + c (1 - w)^2 has its minimum at w = 2c / (1 + 2c); of the hinge, at min(1, c)."""
    one = np.array([[1.0]]), np.array([1.0]), np.array([0.75])
    assert reference.solve(reference.Problem(*one, "squared_hinge", bias=0.0))[0] == pytest.approx([0.6], abs=1e-6)
    assert reference.solve(reference.Problem(*one, "hinge", bias=0.0))[0] == pytest.approx([0.75])


def test_training_separates_what_is_separable() -> None:
    X = np.eye(4)
    model = reference.train(X, np.eye(4), TREE, negatives="tfn+man", cost=10.0)
    assert [model.rank(x, k=1).labels[0] for x in X] == [0, 1, 2, 3]
