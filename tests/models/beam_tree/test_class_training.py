"""Training of classes: what it learns, what it promises about seeds and candidates, what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sylvan import LabelTree
from sylvan.arrays import validate
from sylvan.errors import DataError, ParameterError
from sylvan.indexing.tree import balanced_tree, class_centers, class_tree
from sylvan.matching.class_beam import ClassWeights, all_scores, rank_classes
from sylvan.models.beam_tree.solver import LOSSES, TREE_LOSSES, ClassTrainer, ClassTraining

K, D, N = 60, 16, 1500
CANE = ClassTraining("cane", n_candidates=9, n_noises=1, optimizer="sgd", learning_rate=0.5)


@pytest.fixture(scope="module")
def made() -> tuple[np.ndarray, np.ndarray]:
    """Classes around centres that are themselves in groups."""
    rng = np.random.default_rng(0)
    centers = np.repeat(rng.normal(size=(6, D)), 10, axis=0) + rng.normal(size=(K, D))
    y = rng.integers(K, size=N).astype(np.int32)
    return ((centers[y] + 0.5 * rng.normal(size=(N, D))) / 4).astype(np.float32), y


def begin(training: ClassTraining, X: np.ndarray, y: np.ndarray) -> ClassWeights:
    tree = class_tree(class_centers(X, y, K), 4) if training.loss in TREE_LOSSES else LabelTree.flat(K)
    squares, delays = training.optimizer == "adagrad", training.optimizer == "averaged_sgd"
    return ClassWeights.zeros(tree, X.shape[1], squares=squares, delays=delays)


def epochs(weights: ClassWeights, X: Any, y: np.ndarray, training: ClassTraining, n: int = 1, **more: Any) -> Any:
    passed = None
    for epoch in range(n):
        order = np.random.default_rng([7, epoch]).permutation(len(y))
        passed = ClassTrainer(weights, X, y, training, step=epoch * len(y), **more).run(order)
    return passed


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "averaged_sgd"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns(loss: str, optimizer: str, made: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = made
    n_noises = 1 if loss == "cane" else 10
    rate = 0.1 if optimizer == "adagrad" else 0.5
    training = replace(CANE, loss=loss, optimizer=optimizer, n_noises=n_noises, learning_rate=rate)
    weights = begin(training, X, y)
    first = epochs(weights, X, y, training)
    passed = epochs(weights, X, y, training, 15)
    assert passed.mean_loss < 0.7 * first.mean_loss
    assert math.isnan(passed.coverage) == (loss != "cane")
    best = rank_classes(weights, X, 1, 9, log_probabilities=loss == "hsm").labels[:, 0]
    assert (best == y).mean() > 0.8


@pytest.mark.parametrize("loss", LOSSES)
def test_same_seed_same_bits(loss: str, made: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = made
    training = replace(CANE, loss=loss, n_noises=3, seed=5)
    one, two, other = (begin(training, X, y) for _ in range(3))
    epochs(one, X, y, training, 2)
    order = np.concatenate([np.random.default_rng([7, epoch]).permutation(N) for epoch in range(2)])
    ClassTrainer(two, X, y, training).run(order[:700])  # however the examples are cut into calls
    ClassTrainer(two, X, y, training, step=700).run(order[700:])
    assert one.weights.tobytes() == two.weights.tobytes()
    epochs(other, X, y, replace(training, seed=6), 2)
    assert (one.weights.tobytes() == other.weights.tobytes()) == (loss in ("softmax", "hsm"))


def test_coverage_rises_with_the_candidates(made: tuple[np.ndarray, np.ndarray]) -> None:
    """Table 3."""
    X, y = made
    coverage = []
    for n_candidates in (1, 5, 9, K):
        training = replace(CANE, n_candidates=n_candidates)
        coverage.append(epochs(begin(training, X, y), X, y, training).coverage)
    assert coverage == sorted(coverage)
    assert coverage[0] < coverage[1] < coverage[2] < coverage[3] == 1


def test_rows_of_weight_zero_are_passed_over(made: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = made
    one, two = begin(CANE, X, y), begin(CANE, X, y)
    factors = np.zeros(N, np.float32)
    assert math.isnan(ClassTrainer(one, X, y, CANE, row_weights=factors).run(np.arange(N)).mean_loss)
    assert not one.weights.any()
    factors[:50] = 1
    ClassTrainer(one, X, y, CANE, row_weights=factors).run(np.arange(N))
    ClassTrainer(two, X, y, CANE).run(np.arange(50))
    assert one.weights.tobytes() == two.weights.tobytes()


def test_too_high_a_rate_ends_in_no_number_and_nothing_worse(made: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = made
    for loss in LOSSES:
        training = replace(CANE, loss=loss, n_noises=4, learning_rate=1e30)
        weights = begin(training, X, y)
        passed = epochs(weights, X * 1e10, y, training, 3)
        assert not abs(passed.mean_loss) < 1e6
        with np.errstate(all="ignore"):
            rank_classes(weights, X, 3, 4, log_probabilities=loss == "hsm")
            all_scores(weights, X, log_probabilities=loss == "hsm")


ONE_EACH = (ValueError, "^one class and one weight a row are needed$")  # the kernel's own sentences
WRONG: list[tuple[dict[str, Any], tuple[type[Exception], str]]] = [
    ({"y": np.zeros(3, np.int32)}, ONE_EACH),
    ({"y": np.full(N, K, np.int32)}, (ValueError, "^a class is out of range$")),
    ({"y": np.full(N, -1, np.int32)}, (ValueError, "^a class is out of range$")),
    ({"order": np.array([N])}, (ValueError, "^a row is out of range$")),
    ({"X": np.zeros((N, D + 1), np.float32)}, (DataError, "^X has 17 features, but the weights are for 16")),
    ({"X": np.zeros((N, D))}, (DataError, "float32 matrix in C order")),
    ({"X": np.zeros((D, N), np.float32).T}, (DataError, "float32 matrix in C order")),
    ({"row_weights": np.ones(3)}, ONE_EACH),
    ({"noise": np.ones(K - 1)}, (ValueError, "^the noise and the classes disagree$")),
]


@pytest.mark.parametrize(("wrong", "refusal"), WRONG)
def test_what_does_not_fit_is_refused(
    wrong: dict[str, Any], refusal: tuple[type[Exception], str], made: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = made
    weights = begin(CANE, X, y)
    call = {"X": X, "y": y, "order": np.arange(5), **wrong}
    order = call.pop("order")
    with pytest.raises(refusal[0], match=refusal[1]):
        ClassTrainer(weights, training=CANE, **call).run(order)
    assert not weights.weights.any()


@pytest.mark.parametrize("by_feature", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("loss", ["cane", "softmax"])
def test_averages_are_those_of_every_step(
    loss: str, compressed: bool, by_feature: bool, made: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = made
    training = replace(CANE, loss=loss, optimizer="averaged_sgd", l2=1e-2)
    tree, rows = class_tree(class_centers(X, y, K), 4), validate.features(X) if compressed else X
    whole, parts = (ClassWeights.zeros(tree, D, delays=True, by_feature=by_feature) for _ in range(2))
    ClassTrainer(whole, rows, y, training).run(np.arange(50))
    slow = np.zeros(whole.weights.shape)
    for step in range(50):  # one trainer a step: nothing is kept but the arrays and the counts
        ClassTrainer(parts, rows, y, training, step=step, n_averaged=step).run(np.array([step]))
        slow += (step + 1) * parts.weights.astype(np.float64)
    for array, other in zip(whole.stored, parts.stored, strict=True):
        assert (array is None and other is None) or array.tobytes() == other.tobytes()
    np.testing.assert_allclose(whole.averages(50).weights, slow / (50 * 51 / 2), rtol=1e-4, atol=1e-6)
    assert whole.averages(50).by_feature == by_feature
    assert not ClassWeights.zeros(tree, D, delays=True).averages(0).weights.any()


def test_weights_that_cannot_be_trained(made: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = made
    weights = begin(CANE, X, y)
    with pytest.raises(DataError, match="weren't averaged"):
        weights.averages(1)
    weights.weights.flags.writeable = False
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ClassTrainer(weights, X, y, CANE).run(np.arange(5))
    rank_classes(weights, X, 1, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss": "sofmax"}, {"n_candidates": 0}, {"n_noises": 0}, {"optimizer": "adam"}, {"learning_rate": 0.0},
        {"learning_rate": math.inf}, {"l2": -1.0}, {"bias": math.nan}, {"seed": -1},
    ],
)  # fmt: skip
def test_parameters_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=f"'{next(iter(wrong))}' parameter must be"):
        replace(CANE, **wrong)


def test_weights_that_fit_no_tree() -> None:
    tree = balanced_tree(np.arange(5), 2)
    for weights in (np.zeros((3, 4), np.float32), np.zeros((10, 4)), np.zeros((10, 8), np.float32)[:, ::2], None):
        with pytest.raises(DataError, match="weights of classes must"):
            ClassWeights(tree, weights)  # type: ignore[arg-type]
    sound = np.zeros((10, 4), np.float32)
    for squares in (np.zeros((10, 5), np.float32), np.zeros((4, 10), np.float32).T, np.zeros((10, 4))):
        with pytest.raises(DataError, match="squares of classes must"):
            ClassWeights(tree, sound, squares)
        with pytest.raises(DataError, match="delays of classes must"):
            ClassWeights(tree, sound, delays=squares)
    twice = LabelTree((np.array([0, 2]), np.array([0, 1, 3])), np.array([0, 0, 1]), 2)
    with pytest.raises(DataError, match="exactly one leaf"):
        ClassWeights.zeros(twice, 3)


def test_compressed_rows_learn_as_dense_ones_do(made: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = made
    X = X * (np.random.default_rng(1).random(X.shape) < 0.6)
    for optimizer in ("sgd", "adagrad", "averaged_sgd"):
        training = replace(CANE, optimizer=optimizer, l2=1e-3, learning_rate=0.1)
        dense, sparse = begin(training, X, y), begin(training, X, y)
        passed = ClassTrainer(dense, X, y, training).run(np.arange(300))
        assert passed.mean_loss == pytest.approx(
            ClassTrainer(sparse, validate.features(X), y, training).run(np.arange(300)).mean_loss, rel=1e-3
        )
        np.testing.assert_allclose(dense.weights, sparse.weights, rtol=1e-2, atol=1e-3)
        answers = [rank_classes(weights, rows, 5, 4) for weights in (dense,) for rows in (X, validate.features(X))]
        np.testing.assert_allclose(answers[0].scores, answers[1].scores, rtol=1e-4, atol=1e-5)


def test_stored_weights_come_back_as_they_were(made: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = made
    training = replace(CANE, optimizer="adagrad")
    for by_feature in (False, True):
        tree = class_tree(class_centers(X, y, K), 4)
        weights = ClassWeights.zeros(tree, D, squares=True, by_feature=by_feature)
        epochs(weights, X, y, training)
        stored, squares, _ = weights.stored
        assert stored.flags.c_contiguous
        assert np.shares_memory(stored, weights.weights)
        again = ClassWeights.from_stored(tree, stored.copy(), squares.copy(), by_feature=by_feature)
        assert again.by_feature == by_feature
        assert np.array_equal(rank_classes(again, X, 5, 4).scores, rank_classes(weights, X, 5, 4).scores)
        epochs(again, X, y, training)
        epochs(weights, X, y, training)
        assert again.weights.tobytes() == weights.weights.tobytes()
