"""A trained BeamTreeClassifier as plain values and arrays, and back."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store, validate
from sylvan.indexing import LabelTree
from sylvan.matching.class_beam import ClassWeights
from sylvan.models.beam_tree.classes import Classes
from sylvan.models.beam_tree.settings import GIVEN, TREES, weight_from_json, weight_to_json
from sylvan.ranking.class_training import LOSSES

__all__ = ["KIND", "parameters_of", "restore", "state_of"]

KIND = "beam-tree"


def state_of(model: Any) -> store.State:
    """The parts of a model; a tree that was a parameter is kept as that of the weights."""
    params = model.get_params(deep=False)
    params["class_weight"] = weight_to_json(params["class_weight"])
    params["tree"] = None if isinstance(params["tree"], LabelTree) else params["tree"]
    meta = {
        "n_features": model.n_features_,
        "n_rows": model.n_rows_,
        "n_labels": model.n_labels_,
        "n_shown": model._step,
        "dense": model._dense,
        "trained_loss": model._loss,
        "trained_bias": model._bias,
        "trained_rate": model.learning_rate_,
        "trained_branching": model._branching,
        "trained_tree": model._grown,
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "weights": _as_stored(model.weights_.weights, model._dense),
        "history": model.history_,
        "label_counts": model.label_counts_,
    }
    if model.weights_.squares is not None:
        arrays["squares"] = _as_stored(model.weights_.squares, model._dense)
    if model._classes.values is not None:
        arrays["class_values"] = model._classes.values
    parts = {"tree": model.tree_.to_state(), **model._names_to_parts()}
    return store.State(KIND, 1, params, meta, arrays, parts)


def _as_stored(array: npt.NDArray[Any], dense: bool) -> npt.NDArray[Any]:
    """Weights as they lie in memory: by feature where rows are compressed, which a mapped file then is too."""
    return array if dense else array.T


def parameters_of(state: store.State, names: Collection[str]) -> tuple[dict[str, Any], LabelTree]:
    """The constructor's parameters, not yet checked, and the tree.

    Raises
    ------
    ModelError
    """
    params = store.need_params(state, names)
    tree = LabelTree.from_state(store.need_part(state, "tree", "label-tree"))
    params["class_weight"] = weight_from_json(params["class_weight"])
    params["tree"] = tree if params["tree"] is None else params["tree"]
    return params, tree


def restore(model: Any, state: store.State, tree: LabelTree) -> None:
    """Give an unfitted model what :func:`state_of` took from a fitted one. Weights that are no numbers rank last.

    Raises
    ------
    ModelError
        When something is missing, of the wrong kind or inconsistent.
    """
    n_labels = store.need_int(state, "n_labels", tree.n_labels, tree.n_labels)
    model.n_features_ = store.need_int(state, "n_features", 0, validate.MAX_COLUMNS)
    model.n_rows_ = store.need_int(state, "n_rows", 1)
    model._step = store.need_int(state, "n_shown", 0, 2**62)
    model._dense = store.need_bool(state, "dense")
    model._loss = store.need_choice(state, "trained_loss", tuple(LOSSES))
    model._bias = store.need_float(state, "trained_bias", 0)
    model.learning_rate_ = store.need_float(state, "trained_rate", 0)
    model._branching = store.need_int(state, "trained_branching", 2, 1 << 20)
    model._grown = store.need_choice(state, "trained_tree", (*TREES, GIVEN))
    n_edges, n_weights = sum(tree.layer_sizes), model.n_features_ + 1
    shape = (n_edges, n_weights) if model._dense else (n_weights, n_edges)
    weights = store.need_array(state, "weights", np.float32, shape)
    squares = store.need_array(state, "squares", np.float32, shape) if "squares" in state.arrays else None
    model.weights_ = ClassWeights.from_stored(tree, weights, squares, by_feature=not model._dense)
    model.history_ = store.need_array(state, "history", np.float64, (None, 2))
    model.label_counts_ = store.need_array(state, "label_counts", np.int64, (n_labels,))
    model.n_labels_ = n_labels
    model._names_from_parts(state)
    model._classes = Classes(n_labels, model.vocabulary_).values_from(state)
