"""What may change of a BeamTreeClassifier between two calls of partial_fit, and what its weights are bound to."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from sylvan.errors import DataError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.models.beam_tree.classes import Classes, classes_of
from sylvan.models.beam_tree.settings import GIVEN
from sylvan.ranking.class_training import TREE_LOSSES

__all__ = ["bind", "rate_of", "refuse_changes", "told_classes"]


def bind(model: Any) -> None:
    """Keep the parameters that a model's weights are bound to, whatever is set later."""
    model._loss, model._bias, model._branching = model.loss, float(model.bias), int(model.branching)
    model._grown = GIVEN if isinstance(model.tree, LabelTree) else model.tree


def rate_of(model: Any) -> float:
    """The learning rate to go on with: the parameter, or for "auto" the one that was chosen or was there last."""
    return float(model.learning_rate_ if isinstance(model.learning_rate, str) else model.learning_rate)


def told_classes(model: Any, y: Any, classes: Any) -> Classes | None:
    """What partial_fit is told of classes; None for nothing, which only a first call by a matrix and later ones may.

    Raises
    ------
    DataError, ParameterError
    """
    if model.class_weight == "balanced":
        raise ParameterError(
            "class_weight='balanced' is not for partial_fit, which doesn't see all rows at once: give a dict of "
            "weights, or sample_weight."
        )
    given = None if classes is None else classes_of(classes, name="classes")[0]
    if given is not None and not given.n:
        raise DataError("classes is empty: partial_fit must be told all classes that will ever come.")
    if given is None and not model._is_fitted() and not (sp.issparse(y) or getattr(y, "ndim", 1) == 2):
        raise DataError("The first call of partial_fit must be told all classes: partial_fit(X, y, classes=…).")
    return given


def refuse_changes(model: Any, given: Classes | None) -> None:
    """Refuse to go on with other classes, or with what the weights can't be carried over to.

    Raises
    ------
    DataError, ParameterError
    """
    if given is not None and not given.same(model._classes):
        raise DataError(
            f"The classes given, {given.n} of them, are not those of the first call, {model._classes.n}: "
            "partial_fit adds no classes. fit learns anew with all of them."
        )
    if (model.loss, model.bias) != (model._loss, model._bias):
        raise ParameterError(
            f"loss={model._loss!r} and bias={model._bias:g} were what the first call learned with; partial_fit can't "
            f"go on with loss={model.loss!r} and bias={model.bias:g}."
        )
    if model._loss not in TREE_LOSSES:
        return
    if isinstance(model.tree, LabelTree):
        if model.tree != model.tree_:
            raise ParameterError(
                "The tree of the first call isn't the 'tree' that is set now: its weights belong to its edges, so that "
                "partial_fit can't go on with another. fit learns anew."
            )
    elif (model.tree, model.branching) != (model._grown, model._branching):
        raise ParameterError(
            f"The tree was made by tree={model._grown!r} and branching={model._branching} in the first call; "
            f"partial_fit can't go on with tree={model.tree!r} and branching={model.branching}. fit learns anew."
        )
