"""Weights of classes and their training: what is refused. What a step does is asked in tests/reference."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

from sylvan import LabelTree
from sylvan.errors import DataError, ParameterError
from sylvan.indexing.tree import balanced_tree
from sylvan.matching.class_beam import ClassWeights, rank_classes
from sylvan.models.beam_tree.solver import ClassNoise, ClassTrainer, ClassTraining

K, D, N = 60, 16, 20
CANE = ClassTraining("cane", n_candidates=9, n_noises=1, optimizer="sgd", learning_rate=0.5)
X, y = np.ones((N, D), np.float32), np.arange(N, dtype=np.int32)


def untrained(**states: bool) -> ClassWeights:
    return ClassWeights.zeros(balanced_tree(np.arange(K), 4), D).trainable(**states)


WRONG: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
    ({"X": np.zeros((N, D + 1), np.float32)}, (DataError, "X", 17, 16)),
    ({"X": np.zeros((N, D))}, (DataError, "float32")),
    ({"X": np.zeros((D, N), np.float32).T}, (DataError, "float32")),
    ({"noise": ClassNoise.of(np.ones(K - 1))}, (ValueError, "noise")),
]


@pytest.mark.parametrize(("wrong", "refusal"), WRONG)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any], refusal: tuple[Any, ...]) -> None:
    weights = untrained()
    with raises(*refusal):
        ClassTrainer(weights, training=CANE, **{"X": X, "y": y, **wrong}).run(np.arange(5))
    assert not weights.weights.any()


def test_weights_that_cannot_be_trained() -> None:
    weights = untrained()
    assert not untrained(delays=True).averages(0).weights.any()
    with raises(DataError, "averaged"):
        weights.averages(1)
    weights.weights.flags.writeable = False
    with raises(TypeError, "incompatible"):
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
    with raises(ParameterError, next(iter(wrong))):
        replace(CANE, **wrong)


def test_weights_that_fit_no_tree() -> None:
    tree = balanced_tree(np.arange(5), 2)
    for weights in (np.zeros((3, 4), np.float32), np.zeros((10, 4)), np.zeros((10, 8), np.float32)[:, ::2], None):
        with raises(DataError, "weights"):
            ClassWeights(tree, weights)  # type: ignore[arg-type]
    sound = np.zeros((10, 4), np.float32)
    for squares in (np.zeros((10, 5), np.float32), np.zeros((4, 10), np.float32).T, np.zeros((10, 4))):
        with raises(DataError, "squares"):
            ClassWeights(tree, sound, squares)
        with raises(DataError, "delays"):
            ClassWeights(tree, sound, delays=squares)
    twice = LabelTree((np.array([0, 2]), np.array([0, 1, 3])), np.array([0, 0, 1]), 2)
    with raises(DataError, "leaf"):
        ClassWeights.zeros(twice, 3)
