"""The arrays of a trained BeamTreeClassifier in a saved model, and its parameters."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.indexing import LabelTree
from sylvan.matching.class_beam import ClassWeights
from sylvan.models.beam_tree.settings import weight_from_json, weight_to_json

__all__ = ["arrays_of", "parameters_from", "plain_parameters", "weights_from"]


def plain_parameters(params: dict[str, Any]) -> dict[str, Any]:
    """A model's parameters for its manifest; a tree among them is stored as that of the weights."""
    tree = None if isinstance(params["tree"], LabelTree) else params["tree"]
    return {**params, "class_weight": weight_to_json(params["class_weight"]), "tree": tree}


def parameters_from(state: store.State, names: Collection[str], tree: LabelTree) -> dict[str, Any]:
    """What :func:`plain_parameters` was given, not yet checked.

    Raises
    ------
    ModelError
    """
    params = store.need_params(state, names)
    params["class_weight"] = weight_from_json(params["class_weight"])
    params["tree"] = tree if params["tree"] is None else params["tree"]
    return params


def arrays_of(weights: ClassWeights, dense: bool) -> dict[str, npt.NDArray[Any]]:
    """Weights as they lie in memory: by feature where rows are compressed, which a mapped file then is too."""
    arrays = {"weights": weights.weights} if weights.squares is None else {
        "weights": weights.weights, "squares": weights.squares
    }  # fmt: skip
    return {name: array if dense else array.T for name, array in arrays.items()}


def weights_from(state: store.State, tree: LabelTree, n_features: int, dense: bool) -> ClassWeights:
    """What :func:`arrays_of` gave, verified. Weights that are no numbers rank last.

    Raises
    ------
    ModelError
        When an array is missing, or of another type or shape.
    """
    n_edges, n_weights = sum(tree.layer_sizes), n_features + 1
    shape = (n_edges, n_weights) if dense else (n_weights, n_edges)
    weights = store.need_array(state, "weights", np.float32, shape)
    squares = store.need_array(state, "squares", np.float32, shape) if "squares" in state.arrays else None
    return ClassWeights.from_stored(tree, weights, squares, by_feature=not dense)
