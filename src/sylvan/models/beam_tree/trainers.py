"""Trainers of the weights of a tree of classes, in the layout that suits the rows, and what a model keeps of both."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.indexing import LabelTree
from sylvan.matching.class_beam import ClassWeights, Scores
from sylvan.models.beam_tree.examples import Examples
from sylvan.models.beam_tree.solver import ClassNoise, ClassTrainer, ClassTraining, Optimizer


def new_trainer(
    examples: Examples, training: ClassTraining, tree: LabelTree, noise: ClassNoise | None, scores: Scores
) -> ClassTrainer:
    """Trains weights of 0, in the order that suits the rows."""
    by_feature = not isinstance(examples.X, np.ndarray)
    weights = ClassWeights.zeros(tree, examples.X.shape[1], by_feature=by_feature, scores=scores)
    return trainer_of(examples, training, going_on(weights, training.optimizer), noise)


def trainer_of(
    examples: Examples,
    training: ClassTraining,
    weights: ClassWeights,
    noise: ClassNoise | None,
    step: int = 0,
    n_averaged: int = 0,
) -> ClassTrainer:
    """Trains weights on, of which ``step`` examples were shown and the last ``n_averaged`` of them averaged."""
    return ClassTrainer(
        weights, examples.X, examples.ids, training, noise=noise, row_weights=examples.weight, step=step,
        n_averaged=n_averaged,
    )  # fmt: skip


def going_on(weights: ClassWeights, optimizer: Optimizer) -> ClassWeights:
    """Weights that an optimiser can go on with, from where another one ended or from its own state."""
    return weights.trainable(squares=optimizer == "adagrad", delays=optimizer == "averaged_sgd")


def ranked_by(weights: ClassWeights, optimizer: Optimizer, n_averaged: int) -> ClassWeights:
    """What classes are ranked by: the weights that training goes on from, or their averages."""
    return weights.averages(n_averaged) if optimizer == "averaged_sgd" else weights


def state_arrays(
    weights: ClassWeights, trained: ClassWeights, *, by_feature: bool
) -> dict[str, npt.NDArray[np.float32]]:
    """Arrays for a saved model: what it ranks by, and, under other names, what training goes on from."""
    arrays = trained.to_arrays(by_feature=by_feature)
    if trained is weights:
        return arrays
    arrays["last_weights"] = arrays["weights"]
    return {**arrays, **weights.to_arrays(by_feature=by_feature)}


def weights_from(
    state: store.State, tree: LabelTree, n_features: int, by_feature: bool, scores: Scores, *, averaged: bool
) -> tuple[ClassWeights, ClassWeights]:
    """What :func:`state_arrays` was given, verified."""
    weights = ClassWeights.from_arrays(state, tree, n_features, by_feature=by_feature, scores=scores)
    if not averaged:
        return weights, weights
    shape = weights.weights.shape[::-1] if by_feature else weights.weights.shape
    last, delays = (store.need_array(state, name, np.float32, shape) for name in ("last_weights", "delays"))
    return weights, ClassWeights.from_stored(tree, last, None, delays, by_feature=by_feature, scores=scores)
