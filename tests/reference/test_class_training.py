"""The kernel that trains classes and searches for them equals its reference, whose gradients are its losses'."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reference.class_reference import ReferenceTraining
from sylvan import LabelTree, kernels
from sylvan.arrays import validate
from sylvan.matching.class_beam import ClassWeights, all_scores, rank_classes
from sylvan.models.beam_tree.solver import LOSSES, OPTIMIZERS, ClassNoise, ClassTrainer, ClassTraining

TOO_CLOSE = 1e-4  # scores that float32 may order otherwise


def uneven_tree(rng: np.random.Generator, depth: int, most: int) -> LabelTree:
    """Any tree with all leaves in the last layer, nodes of one child among them."""
    offsets, n_parents = [], 1
    for _ in range(depth):
        offsets.append(np.concatenate(([0], np.cumsum(rng.integers(1, most + 1, n_parents)))))
        n_parents = int(offsets[-1][-1])
    return LabelTree(tuple(offsets), rng.permutation(n_parents).astype(np.int32), n_parents)


def started(
    seed: int,
    depth: int,
    most: int,
    n_features: int,
    training: ClassTraining,
    by_feature: bool = False,
    scores: str = "path",
) -> tuple[ClassWeights, ReferenceTraining]:
    rng = np.random.default_rng(seed)
    tree = uneven_tree(rng, depth, most)
    scores = scores if training.loss == "cane" else "path"  # the others have no use for edges that only find
    weights = ClassWeights.zeros(tree, n_features, by_feature=by_feature, scores=scores).trainable(
        squares=training.optimizer == "adagrad", delays=training.optimizer == "averaged_sgd"
    )
    weights.weights[:] = rng.normal(size=weights.weights.shape)
    squares = None
    if weights.squares is not None:
        weights.squares[:] = rng.uniform(0.5, 1.5, weights.squares.shape)
        squares = weights.squares.astype(np.float64)
    reference = ReferenceTraining(tree, weights.weights.astype(np.float64), training, squares=squares)
    reference.own_scores = scores == "own"
    return weights, reference


def rows(seed: int, n: int, n_features: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 1])
    values = rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.7)
    return values.astype(np.float32)


shapes = st.tuples(st.integers(0, 2**30), st.integers(1, 4), st.integers(1, 4), st.integers(1, 20))
trainings = st.builds(
    ClassTraining,
    st.sampled_from(sorted(LOSSES)), st.integers(1, 12), st.integers(1, 6), st.sampled_from(OPTIMIZERS),
    st.floats(0.01, 0.5), st.sampled_from([0.0, 0.1]), st.sampled_from([0.0, 1.0, 0.5]), st.integers(0, 2**62),
    st.sampled_from([0.0, 2.0]), st.booleans(),
)  # fmt: skip
scorings = st.sampled_from(["own", "path"])
sortings = st.sampled_from(["uniform", "some", "one"])


def noise_of(kind: str, n_classes: int, rng: np.random.Generator) -> np.ndarray | None:
    if kind == "uniform":
        return None
    masses = rng.random(n_classes) * (rng.random(n_classes) < 0.8)
    if kind == "one":  # nearly everything is drawn from one class
        masses = np.where(np.arange(n_classes) == rng.integers(n_classes), 1.0, masses * 1e-9)
    return masses if masses.any() else np.ones(n_classes)


@settings(max_examples=80, deadline=None)
@given(shapes, trainings, sortings, st.booleans(), st.booleans(), st.booleans(), scorings)
def test_training(
    shape: tuple[int, int, int, int],
    training: ClassTraining,
    noise: str,
    compressed: bool,
    weighted: bool,
    by_feature: bool,
    scores: str,
) -> None:
    weights, reference = started(*shape, training, by_feature, scores)
    rng = np.random.default_rng([shape[0], 2])
    X, n_classes = rows(shape[0], 5, shape[3]), reference.tree.n_labels
    y = rng.integers(n_classes, size=5).astype(np.int32)
    order = rng.integers(5, size=4)
    factors = rng.choice([0.0, 0.5, 2.0], 5).astype(np.float32) if weighted else None
    masses = noise_of(noise, n_classes, rng)
    reference.q = None if masses is None else masses / masses.max() / (masses / masses.max()).sum()
    losses, covered, total = 0.0, 0.0, 0.0
    averages, shares = np.zeros_like(reference.weights), 0.0
    for i, row in enumerate(order.tolist()):
        factor = 1.0 if factors is None else float(factors[row])
        if factor > 0:
            loss, inside = reference.step(X[row], int(y[row]), 40 + i, factor, 0.5)
            losses, covered, total = losses + factor * loss, covered + factor * inside, total + factor
        averages, shares = averages + (i + 1) * reference.weights, shares + i + 1
    assume(reference.gap > TOO_CLOSE)
    noises = None if masses is None else ClassNoise.of(masses)
    mean_loss, coverage = ClassTrainer(
        weights, validate.features(X) if compressed else X, y,
        replace(training, learning_rate=0.5 * training.learning_rate), noise=noises, row_weights=factors, step=40,
    ).run(order)  # fmt: skip
    np.testing.assert_allclose(weights.weights, reference.weights, rtol=1e-4, atol=5e-5)
    if weights.squares is not None:
        np.testing.assert_allclose(weights.squares, reference.squares, rtol=1e-3, atol=1e-4)
    if weights.delays is not None:
        found = weights.averages(len(order)).weights
        np.testing.assert_allclose(found, averages / shares, rtol=1e-4, atol=5e-5)
    if total == 0:
        assert math.isnan(mean_loss)
        return
    assert mean_loss == pytest.approx(losses / total, rel=1e-4, abs=1e-4)
    if training.loss == "cane":
        assert coverage == pytest.approx(covered / total)


@settings(max_examples=25, deadline=None)
@given(shapes, trainings, scorings)
def test_gradients_are_those_of_the_losses(
    shape: tuple[int, int, int, int], training: ClassTraining, scores: str
) -> None:
    """Differences of the losses (2), (3) and the baselines' against a step of plain descent, selections fixed."""
    training = replace(training, optimizer="sgd", l2=0.0, learning_rate=1.0)
    seed, depth, most, n_features = shape[0], shape[1], shape[2], min(shape[3], 3)
    weights, reference = started(seed, depth, most, n_features, training, scores=scores)
    x, y = rows(seed, 1, n_features)[0], seed % reference.tree.n_labels
    chosen = reference.select(x, y, 0)
    assume(reference.gap > TOO_CLOSE)
    before, gradient = reference.weights.copy(), np.zeros_like(reference.weights)
    for at in np.ndindex(*before.shape):
        sides = []
        for change in (1e-5, -1e-5):
            reference.weights[at] = before[at] + change
            sides.append(reference.loss(x, y, chosen) + reference.finding_loss(x, y))
        reference.weights[at] = before[at]
        gradient[at] = (sides[0] - sides[1]) / 2e-5
    ClassTrainer(weights, x[None], np.array([y], np.int32), training).run(np.array([0]))
    np.testing.assert_allclose(before - weights.weights, gradient, rtol=1e-3, atol=2e-4)


@settings(max_examples=30, deadline=None)
@given(
    shapes, st.integers(1, 12), st.integers(1, 12), st.booleans(), st.sampled_from(["own", "path", "log"]),
    st.sampled_from([1, 2]), st.booleans(),
)  # fmt: skip
def test_ranking(
    shape: tuple[int, int, int, int], beam: int, k: int, compressed: bool, scores: str, n_jobs: int, by_feature: bool
) -> None:
    log_probabilities = scores == "log"
    cane = ClassTraining("cane", 1, 1, "sgd", 1.0)
    weights, reference = started(*shape, cane, by_feature, "own" if scores == "own" else "path")
    X = rows(shape[0], 6, shape[3])
    features = validate.features(X) if compressed else X
    sums = np.full(6, np.nan, np.float32)
    found = rank_classes(weights, features, k, beam, n_jobs, log_probabilities=log_probabilities, log_sums=sums)
    for row in range(6 if compressed or weights.tree.depth > 1 else 0):  # alone, whose search goes another way
        part = validate.features(X[row : row + 1]) if compressed else X[row : row + 1]
        alone = rank_classes(weights, part, k, beam, log_probabilities=log_probabilities)
        assert np.array_equal(alone.labels[0], found.labels[row]) and np.array_equal(alone.scores[0], found.scores[row])
    reached = rank_classes(weights, features, weights.n_classes, beam, log_probabilities=log_probabilities).scores
    np.testing.assert_allclose(sums, np.log(np.exp(reached.astype(np.float64)).sum(axis=1)), rtol=1e-4, atol=1e-4)
    for row, x in enumerate(X):
        reference.gap = math.inf
        expected = reference.search(x, beam, k, log_probabilities)
        values = [score for _, score in expected]
        if reference.gap < TOO_CLOSE or np.abs(np.diff(values)).min(initial=1) < TOO_CLOSE:
            continue
        assert found.labels[row].tolist() == [label for label, _ in expected] + [-1] * (k - len(expected))
        np.testing.assert_allclose(found.scores[row, : len(expected)], values, rtol=1e-4, atol=1e-4)
    exact = all_scores(weights, features, log_probabilities=log_probabilities)
    if log_probabilities:
        np.testing.assert_allclose(np.exp(exact.astype(np.float64)).sum(axis=1), 1, rtol=1e-4)
    else:
        np.testing.assert_allclose(exact, [reference.scores(x) for x in X], rtol=1e-4, atol=1e-4)
    widest = rank_classes(weights, features, weights.n_classes, weights.n_edges, log_probabilities=log_probabilities)
    assert np.array_equal(np.sort(widest.labels, axis=1), np.tile(np.arange(weights.n_classes), (6, 1)))
    np.testing.assert_allclose(np.take_along_axis(exact, widest.labels, 1), widest.scores, rtol=1e-4, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(shapes, trainings)
def test_all_classes_as_candidates_are_the_full_softmax(
    shape: tuple[int, int, int, int], training: ClassTraining
) -> None:
    X = rows(shape[0], 5, shape[3])
    steps = []
    for loss in ("cane", "softmax"):
        weights, _ = started(*shape, training)
        y = (np.arange(5) * 7 % weights.n_classes).astype(np.int32)
        own = replace(training, loss=loss, n_candidates=weights.n_classes)
        mean_loss, _ = ClassTrainer(weights, X, y, own).run(np.arange(5))
        steps.append((weights.weights, mean_loss))
    np.testing.assert_allclose(steps[0][0], steps[1][0], rtol=1e-4, atol=5e-5)
    assert steps[0][1] == pytest.approx(steps[1][1], rel=1e-4, abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(shapes, trainings, st.booleans())
def test_edges_on_every_selected_path_stay_as_they_are(
    shape: tuple[int, int, int, int], training: ClassTraining, by_feature: bool
) -> None:
    """Proposition 1, to the bit, decay and AdaGrad included; all other selected edges move."""
    training = replace(training, loss="cane", n_candidates=min(training.n_candidates, 3), bias=1.0)
    weights, reference = started(*shape, training, by_feature)
    x, y = rows(shape[0], 1, shape[3])[0], shape[0] % weights.n_classes
    chosen = reference.select(x, y, 0)
    assume(reference.gap > TOO_CLOSE)
    paths = [set(reference.paths[label]) for label in {*chosen.candidates, *chosen.noises, y}]
    before = weights.weights.copy()
    ClassTrainer(weights, x[None], np.array([y], np.int32), training).run(np.array([0]))
    still = {edge for edge in range(weights.n_edges) if np.array_equal(before[edge], weights.weights[edge])}
    assert set.intersection(*paths) <= still
    assert set(range(weights.n_edges)) - set.union(*paths) <= still
    gradient = reference.edge_gradient(x, y, chosen)
    assert not {edge for edge in still if abs(gradient.get(edge, 0.0)) > 1e-4}


def call() -> dict[str, Any]:
    n, k, d = 6, 5, 3
    weights = ClassWeights.zeros(LabelTree.flat(k), d)
    probabilities = np.full(k, 1 / k)
    return {
        "features": kernels.ClassFeatures(np.zeros((n, d), np.float32), None, None, None, d),
        "order": np.arange(n), "classes": np.zeros(n, np.int32), "row_weights": np.ones(n, np.float32),
        "probabilities": probabilities, "sums": np.cumsum(probabilities), "guide": np.zeros(k, np.int32),
        "rate": 0.1, "step": 0, "n_averaged": 0,
        "trainer": kernels.ClassTrainer(weights.handle, weights.weights, False, None, None, 0, 2, 1, False, False, 0.0,
                                        0.0, 1.0, 0),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("order", np.array([6])), ("order", np.array([-1])), ("classes", np.full(6, 5, np.int32)),
        ("classes", np.full(6, -1, np.int32)), ("classes", np.zeros(5, np.int32)),
        ("row_weights", np.ones(5, np.float32)), ("sums", None), ("probabilities", None), ("sums", np.ones(4)),
        ("guide", np.full(5, 5, np.int32)), ("guide", np.full(5, -1, np.int32)), ("order", np.zeros(1, np.int32)),
        ("features", kernels.ClassFeatures(np.zeros((6, 4), np.float32), None, None, None, 4)),
    ],
)  # fmt: skip
def test_the_kernel_refuses_what_does_not_fit(name: str, wrong: Any) -> None:
    good = call()
    good.pop("trainer").train(**good)
    bad = {**call(), name: wrong}
    with pytest.raises((ValueError, TypeError)):
        bad.pop("trainer").train(**bad)


@pytest.mark.parametrize(
    ("starts", "leaves"),
    [
        ([0, 2], [0, 0]), ([0, 2], [0, 2]), ([0, 3], [0, 1]), ([1, 2], [0, 1]), ([0], [0]), ([0, 2, 2, 4], [0, 1]),
        ([0, 1, 3], [0, -1]), ([0, 2, 3, 3, 5], [0, 1, 2]), ([0, 0, 2, 3], [0]),
        ([0, -5, 2], [0]), ([0, 2], []), ([0, 3, 4, 5], [0, 1, 2]),
    ],
)  # fmt: skip
def test_the_kernel_refuses_what_is_no_tree(starts: list[int], leaves: list[int]) -> None:
    with pytest.raises(ValueError, match=r"tree|starts|class|leaves|sizes"):
        kernels.ClassTree(np.array(starts, np.int64), np.array(leaves, np.int32))
    assert kernels.ClassTree(np.array([0, 2, 3, 5]), np.array([1, 2, 0], np.int32)) is not None


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [([0, 3], [0, 1]), ([0, 2, 1], [0, 1]), ([-1, 2], [0, 1]), ([0, 2], [0, 3]), ([0, 2], [-1, 0]), ([], [])],
)
def test_the_kernel_refuses_rows_that_are_none(indptr: list[int], indices: list[int]) -> None:
    with pytest.raises(ValueError, match=r"offsets|feature|arrays"):
        kernels.ClassFeatures(
            None, np.array(indptr, np.int64), np.array(indices, np.int32), np.ones(len(indices), np.float32), 3
        )


@pytest.mark.parametrize("poison", [np.nan, -np.inf, 3e38])
@pytest.mark.parametrize("loss", LOSSES)
def test_hostile_numbers_stay_within_the_arrays(loss: str, poison: float) -> None:
    rng = np.random.default_rng(0)
    for where in ("weights", "squares", "delays", "X"):
        for optimizer, by_feature, own in itertools.product(OPTIMIZERS, (False, True), (False, True)):
            training = ClassTraining(loss, 3, 4, optimizer, 0.5, l2=0.1, together=own)
            weights, _ = started(3, 3, 4, 9, training, by_feature, "own" if own else "path")
            X = rows(0, 8, 9)
            target = {"weights": weights.weights, "squares": weights.squares, "delays": weights.delays,
                      "X": X}[where]  # fmt: skip
            if target is not None:
                target.flat[::5] = poison
            y = rng.integers(weights.n_classes, size=8).astype(np.int32)
            ClassTrainer(weights, X, y, training).run(np.tile(np.arange(8), 4))
            for log_probabilities in (False, True)[: 2 - (weights.scores == "own")]:
                found = rank_classes(weights, X, 4, 3, log_probabilities=log_probabilities).labels
                assert found.min() >= -1
                assert found.max() < weights.n_classes
