"""The parameters of Beam Tree, and what follows from them alone: how it is trained, and what weights are bound to."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.errors import ParameterError
from sylvan.indexing import LabelTree
from sylvan.matching.class_beam import SCORES, Scores
from sylvan.models.base import Estimator
from sylvan.models.beam_tree.examples import Classes, Examples
from sylvan.models.beam_tree.solver import (
    L2,
    LOSSES,
    TREE_LOSSES,
    ClassNoise,
    ClassTraining,
    Loss,
    Optimizer,
    Selected,
)
from sylvan.models.beam_tree.training import Learning
from sylvan.params.fields import Constraint, Range, Seed, Threads, parameterized
from sylvan.runtime.checkpoint import identity_of
from sylvan.store import JSON

Tree = Literal["kmeans", "random", "frequency"]
GIVEN = "given"  # what a tree is called that was a parameter
AUTOMATIC: tuple[Optimizer, ...] = ("averaged_sgd", "adagrad")  # what "auto" tries; without trials it is the first


@dataclass(frozen=True)
class TreeOf(Constraint):
    """A word that says how the tree is made, or a tree."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, LabelTree) or (isinstance(value, str) and value in get_args(Tree))

    def describe(self) -> str:
        return f"one of {', '.join(map(repr, get_args(Tree)))}, or a LabelTree"

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


@parameterized
class BeamTreeParameters(Estimator):
    """Base of BeamTreeClassifier, whose documentation describes each parameter."""

    branching: Annotated[int, Range(2, 1 << 20)] = 10
    n_candidates: Selected = 15
    n_noises: Selected = 10
    together: bool = True
    scores: Scores = "own"
    loss: Loss = "cane"
    tree: Annotated[Tree | LabelTree, TreeOf()] = "kmeans"
    learning_rate: Annotated[float | Literal["auto"], Range(0, open_low=True, word="auto")] = "auto"
    optimizer: Literal["auto", Optimizer] = "auto"
    epochs: Annotated[int, Range(1, 1_000_000)] = 10
    l2: L2 = 0.0
    bias: Annotated[float, Range(0)] = 1.0
    beam: Annotated[int, Range(1, validate.MAX_COLUMNS)] = 10
    noise: Literal["uniform", "unigram"] = "uniform"
    noise_power: Annotated[float, Range(0, 10)] = 0.75
    class_weight: Annotated[Literal["balanced"] | Mapping[Any, float] | None, ClassWeight()] = None
    seed: Seed = 0
    n_jobs: Threads = None

    def examples(
        self, X: Any, y: Any, sample_weight: Any, classes: Classes | None = None, rows: Any = None, names: Any = None
    ) -> tuple[Examples, Classes]:
        """What ``fit`` or ``partial_fit`` was given, verified; parameters as of :meth:`Examples.of`."""
        owner = type(self).__name__
        return Examples.of(X, y, sample_weight, self.class_weight, classes, owner=owner, rows=rows, names=names)

    def learning(
        self,
        examples: Examples,
        counts: npt.NDArray[np.int64],
        going_on: tuple[Optimizer, float] | None = None,
        epochs: int | None = None,
    ) -> Learning:
        """How these examples are learned from, where so many rows have been of each class.

        ``going_on`` are the optimiser and the rate of a training that goes on; ``epochs`` stands for the parameter,
        and rows are then shown in their order. Noise-contrastive estimation takes sums of shares for as many as there
        are classes, which they are at first.
        """
        automatic = AUTOMATIC if self.optimizer == "auto" else (self.optimizer,)
        tried = isinstance(self.learning_rate, str) and going_on is None
        optimizer, rate = going_on or (automatic[0], 1.0 if tried else float(self.learning_rate))
        same = ("loss", "n_noises", "together", "l2", "bias", "seed")
        training = ClassTraining(
            **{name: getattr(self, name) for name in same},
            n_candidates=min(self.n_candidates, examples.n_classes),
            optimizer=optimizer,
            learning_rate=rate,
            log_normalizer=math.log(examples.n_classes) if self.loss == "nce" else 0.0,
        )
        noise = None
        if self.noise != "uniform":  # a class without rows counts as one row
            noise = ClassNoise.of(np.maximum(counts, 1).astype(np.float64) ** self.noise_power, len(counts))
        return Learning(
            examples, training, automatic if tried else (), noise, self.scores_of_loss, self.tree, self.branching,
            self.beam, self.epochs if epochs is None else epochs, type(self).__name__, in_order=epochs is not None,
        )  # fmt: skip

    @property
    def scores_of_loss(self) -> Scores:
        """What a class's score is: for a loss without candidates always the sum of its path."""
        return self.scores if self.loss == "cane" else "path"

    def identity(self, examples: Examples) -> dict[str, JSON]:
        """What distinguishes this training from others, for its checkpoint."""
        parameters = {name: value for name, value in self._plain_params().items() if name != "n_jobs"}
        data = {"X": examples.X, "y": examples.ids, "the weight of rows": examples.weight}
        return identity_of(type(self).__name__, {**parameters, "tree": self.tree}, **data)

    def _plain_params(self) -> dict[str, Any]:
        """The parameters as a manifest can hold them; a tree among them is stored as that of the weights."""
        tree = None if isinstance(self.tree, LabelTree) else self.tree
        return {**super()._plain_params(), "class_weight": _weight_to_json(self.class_weight), "tree": tree}

    @classmethod
    def _params_from(cls, state: store.State) -> dict[str, Any]:
        params = super()._params_from(state)
        params["class_weight"] = _weight_from_json(params["class_weight"])
        params["tree"] = saved_tree(state) if params["tree"] is None else params["tree"]
        return params


def saved_tree(state: store.State) -> LabelTree:
    """The tree of the weights."""
    return LabelTree.from_state(store.need_part(state, "tree", "label-tree"))


def _weight_to_json(value: Any) -> JSON:
    """``class_weight`` as a manifest can hold it, whose keys are strings alone: pairs for a dict."""
    if not isinstance(value, Mapping):
        return value
    return [[key if isinstance(key, str) else int(key), float(weight)] for key, weight in value.items()]


def _weight_from_json(value: JSON) -> Any:
    """What :func:`_weight_to_json` was given; anything else as it is, for the constraint to refuse."""
    pairs = isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str | int) for pair in value
    )
    return dict(value) if pairs else value


@dataclass(frozen=True)
class Bound:
    """The parameters that weights are bound to, whatever is set later."""

    loss: str
    bias: float
    scores: Scores
    branching: int
    tree: str  # how it was made

    @classmethod
    def of(cls, model: BeamTreeParameters) -> Bound:
        """Those of a model."""
        tree = GIVEN if isinstance(model.tree, LabelTree) else model.tree
        return cls(model.loss, float(model.bias), model.scores_of_loss, int(model.branching), tree)

    @classmethod
    def from_state(cls, state: store.State) -> Bound:
        """What :meth:`to_json` gave, verified."""
        return cls(
            store.need_choice(state, "trained_loss", tuple(LOSSES)),
            store.need_float(state, "trained_bias", 0),
            store.need_choice(state, "trained_scores", SCORES),
            store.need_int(state, "trained_branching", 2, 1 << 20),
            store.need_choice(state, "trained_tree", (*get_args(Tree), GIVEN)),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {f"trained_{name}": value for name, value in vars(self).items()}

    def refuse_changes(self, model: BeamTreeParameters, tree: LabelTree) -> None:
        """Refuse to go on with parameters that the weights, of the edges of ``tree``, can't be carried over to."""
        if (model.loss, model.bias) != (self.loss, self.bias):
            raise ParameterError(
                f"loss={self.loss!r} and bias={self.bias:g} were what the first call learned with; partial_fit can't "
                f"go on with loss={model.loss!r} and bias={model.bias:g}."
            )
        if model.scores_of_loss != self.scores:
            raise ParameterError(
                f"scores={self.scores!r} was what the first call learned with; partial_fit can't go on with "
                f"scores={model.scores!r}."
            )
        if self.loss not in TREE_LOSSES:
            return
        if isinstance(model.tree, LabelTree):
            if model.tree != tree:
                raise ParameterError(
                    "The tree of the first call isn't the 'tree' that is set now: its weights belong to its edges, so "
                    "that partial_fit can't go on with another. fit learns anew."
                )
        elif (model.tree, model.branching) != (self.tree, self.branching):
            raise ParameterError(
                f"The tree was made by tree={self.tree!r} and branching={self.branching} in the first call; "
                f"partial_fit can't go on with tree={model.tree!r} and branching={model.branching}. fit learns anew."
            )
