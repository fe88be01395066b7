"""What may change between two calls of partial_fit, and what the weights of a BeamTreeClassifier are bound to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from sylvan import store
from sylvan.errors import DataError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.models.beam_tree.classes import Classes, classes_of
from sylvan.models.beam_tree.settings import GIVEN, TREES
from sylvan.ranking.class_training import LOSSES, TREE_LOSSES

__all__ = ["Bound", "all_classes"]


@dataclass(frozen=True)
class Bound:
    """The parameters that weights are bound to, whatever is set later."""

    loss: str
    bias: float
    branching: int
    tree: str  # how it was made

    @classmethod
    def to(cls, params: Mapping[str, Any]) -> Bound:
        """Those of a model's parameters."""
        tree = GIVEN if isinstance(params["tree"], LabelTree) else params["tree"]
        return cls(params["loss"], float(params["bias"]), int(params["branching"]), tree)

    @classmethod
    def from_state(cls, state: store.State) -> Bound:
        """What :meth:`to_json` gave, verified.

        Raises
        ------
        ModelError
        """
        return cls(
            store.need_choice(state, "trained_loss", tuple(LOSSES)),
            store.need_float(state, "trained_bias", 0),
            store.need_int(state, "trained_branching", 2, 1 << 20),
            store.need_choice(state, "trained_tree", (*TREES, GIVEN)),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {f"trained_{name}": value for name, value in vars(self).items()}

    def refuse_changes(self, params: Mapping[str, Any], tree: LabelTree) -> None:
        """Refuse to go on with parameters that the weights, of the edges of ``tree``, can't be carried over to.

        Raises
        ------
        ParameterError
        """
        loss, bias = params["loss"], params["bias"]
        if (loss, bias) != (self.loss, self.bias):
            raise ParameterError(
                f"loss={self.loss!r} and bias={self.bias:g} were what the first call learned with; partial_fit can't "
                f"go on with loss={loss!r} and bias={bias:g}."
            )
        if self.loss not in TREE_LOSSES:
            return
        if isinstance(params["tree"], LabelTree):
            if params["tree"] != tree:
                raise ParameterError(
                    "The tree of the first call isn't the 'tree' that is set now: its weights belong to its edges, so "
                    "that partial_fit can't go on with another. fit learns anew."
                )
        elif (params["tree"], params["branching"]) != (self.tree, self.branching):
            raise ParameterError(
                f"The tree was made by tree={self.tree!r} and branching={self.branching} in the first call; "
                f"partial_fit can't go on with tree={params['tree']!r} and branching={params['branching']}. fit learns "
                "anew."
            )


def all_classes(y: Any, classes: Any, class_weight: Any, known: Classes | None) -> Classes | None:
    """The classes that partial_fit is given; None where a matrix ``y`` has them, or they are ``known`` already.

    Raises
    ------
    DataError, ParameterError
    """
    if class_weight == "balanced":
        raise ParameterError(
            "class_weight='balanced' is not for partial_fit, which doesn't see all rows at once: give a dict of "
            "weights, or sample_weight."
        )
    given = None if classes is None else classes_of(classes, name="classes")[0]
    if given is not None and not given.n:
        raise DataError("classes is empty: partial_fit must be told all classes that will ever come.")
    if given is None and known is None and not (sp.issparse(y) or getattr(y, "ndim", 1) == 2):
        raise DataError("The first call of partial_fit must be told all classes: partial_fit(X, y, classes=…).")
    if given is not None and known is not None and not given.same(known):
        raise DataError(
            f"The classes given, {given.n} of them, are not those of the first call, {known.n}: "
            "partial_fit adds no classes. fit learns anew with all of them."
        )
    return given
