"""Parameters that only classifiers of one class a row have: what their tree is, and what a class weighs."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.data import Vocabulary
from sylvan.errors import ParameterError
from sylvan.indexing import LabelTree
from sylvan.models.beam_tree.classes import Classes
from sylvan.params import Constraint
from sylvan.store import JSON

__all__ = ["GIVEN", "TREES", "ClassWeight", "TreeOf", "row_weights", "weight_from_json", "weight_to_json"]

TREES = ("kmeans", "random", "frequency")
GIVEN = "given"  # what a tree is called that was a parameter


@dataclass(frozen=True)
class TreeOf(Constraint):
    """A word that says how the tree is made, or a tree."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, LabelTree) or (isinstance(value, str) and value in TREES)

    def describe(self) -> str:
        return f"one of {', '.join(map(repr, TREES))}, or a LabelTree"

    def _parse(self, text: str) -> Any:
        return text


@dataclass(frozen=True)
class ClassWeight(Constraint):
    """None, "balanced", or a weight for some of the classes."""

    optional: bool = True

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return value == "balanced"
        return isinstance(value, Mapping) and all(
            isinstance(key, (str, numbers.Integral)) and not isinstance(key, bool) and _is_weight(weight)
            for key, weight in value.items()
        )

    def describe(self) -> str:
        return "None, 'balanced', or a dict from classes to floats in [0, inf)"

    def _parse(self, text: str) -> Any:
        return text


def _is_weight(weight: Any) -> bool:
    if not isinstance(weight, numbers.Real) or isinstance(weight, bool):
        return False
    try:
        return math.isfinite(float(weight)) and float(weight) >= 0
    except OverflowError:
        return False


def weight_to_json(value: Any) -> JSON:
    """``class_weight`` as a manifest can hold it, whose keys are strings alone: pairs for a dict."""
    if not isinstance(value, Mapping):
        return value
    return [[key if isinstance(key, str) else int(key), float(weight)] for key, weight in value.items()]


def weight_from_json(value: JSON) -> Any:
    """What :func:`weight_to_json` was given; anything else as it is, for the constraint to refuse."""
    pairs = isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str | int) for pair in value
    )
    return dict(value) if pairs else value


def row_weights(
    class_weight: Any,
    classes: Classes,
    ids: npt.NDArray[np.int32],
    weight: npt.NDArray[np.float32] | None,
    names: Vocabulary | None = None,
) -> npt.NDArray[np.float32] | None:
    """The weight of each row: its own times its class's; None where all are 1.

    With ``names``, classes are called by these, ints by their digits.

    Raises
    ------
    ParameterError
        For a class that there isn't, and when no row has a weight.
    """
    if class_weight is None:
        return weight
    present, place = np.unique(ids, return_inverse=True)  # of all classes there may be very many
    if isinstance(class_weight, str):  # "balanced": each class that occurs weighs as much as any other
        counts = np.bincount(place, weights=weight)
        each = np.divide(counts.sum(), (counts > 0).sum() * counts, out=np.zeros(len(counts)), where=counts > 0)
    else:
        each = np.ones(len(present))
        for label, factor in class_weight.items():
            number = classes.id_of(label) if names is None else names.get(str(label))
            if number is None:
                raise ParameterError(f"class_weight names {label!r}, which is none of the {classes.n} classes of y.")
            each[present == number] = factor
    with np.errstate(over="ignore"):
        rows: npt.NDArray[np.float32] = (each[place] * (1.0 if weight is None else weight)).astype(np.float32)
    if not np.isfinite(rows).all():
        raise ParameterError("class_weight makes a row's weight larger than a float32 can be: take smaller ones.")
    if not rows.any():
        raise ParameterError("class_weight leaves no row a weight above 0: there is nothing to learn from.")
    return rows
