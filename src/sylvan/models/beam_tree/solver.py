"""Training of linear classifiers over many classes, one example after the other: CANE and its rivals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.arrays.canonical import Csr
from sylvan.arrays.types import Float32, Float64, Int32, Int64
from sylvan.matching.class_beam import ClassWeights, class_features
from sylvan.parallel import advance, split_ranges
from sylvan.params.fields import Parameterized, Range, check_values, parameterized

Loss = Literal["cane", "softmax", "nce", "blackout", "negative_sampling", "hsm"]
LOSSES: dict[Loss, int] = {loss: code for code, loss in enumerate(get_args(Loss))}  # as the kernels know them
TREE_LOSSES = ("cane", "hsm")  # the others are meant for a flat tree
_WORK = 3e8  # products between two looks at Ctrl-C: some hundredths of a second


# The ranges of the settings, whose defaults each model chooses for itself.
Selected = Annotated[int, Range(1, 1 << 20)]  # classes for each example
Optimizer = Literal["averaged_sgd", "sgd", "adagrad"]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)
L2 = Annotated[float, Range(0)]


@parameterized
class ClassTraining(Parameterized):
    """How classes are trained: Algorithm 2 of Han, Huang and Zhang, "Candidates vs. Noises Estimation for Large
    Multi-Class Classification Problem" (ICML 2018), and the losses that it is compared with."""

    # With the scores s, the class y of the example, noises j and their distribution q:
    # "cane": the candidates C are found by beam search, which doesn't look at y; noises are drawn outside them by
    #   q_x(j) = q(j) / (1 - sum of q over C). Eqs. (2) and (3), with the gradients (7) and (8) on the selected paths,
    #   (10) and (11); edges on all of them are left alone (Proposition 1). When no class is left outside, the sum is
    #   the candidates' alone. Where a class's score is its own edge's (`ClassWeights.scores`), that edge alone has
    #   these gradients; of the edges above, those that the beam followed in a layer and the one on the path to y are a
    #   softmax of their own.
    # "softmax": Eq. (1), all classes. "hsm": a softmax over the children of every node on the path to y
    # "nce": -ln sigma(s_y - ln Z - ln n q_y) - sum over j of ln sigma(ln n q_j + ln Z - s_j)
    # "negative_sampling": -ln sigma(s_y) - sum over j != y of ln sigma(-s_j)
    # "blackout": with p the softmax over y and the noises of s - ln q, -ln p_y - sum over j != y of ln(1 - p_j)
    loss: Loss
    n_candidates: Selected  # classes that CANE's beam search selects for each example: the width of its beam
    n_noises: Selected  # draws for each example, with repetition
    # AdaGrad divides each weight's step by the root of its summed squared gradients. "averaged_sgd" makes the steps of
    # "sgd" and keeps what `averages` needs
    optimizer: Optimizer
    learning_rate: Annotated[float, Range(0, open_low=True)]
    # a weight decays by `learning_rate * l2` of itself (with AdaGrad, the gradient holds `l2` times the weight)
    # whenever its edge takes a step on a row that has its feature; intercepts don't
    l2: L2 = 0.0
    bias: Annotated[float, Range()] = 1.0  # what the intercepts are multiplied with; 0 for none
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0  # of the draws. The same seed gives the same bits
    # ln Z, what NCE takes from every score. 0 lets scores be log-probabilities themselves
    log_normalizer: Annotated[float, Range()] = 0.0
    # for CANE, an extension: all noises T in one sum, that of exp(s) over C plus the mean over T of exp(s_j) / q_x(j),
    # instead of one loss each, whose mean Eq. (2) is; a y that is no candidate takes the place of one of them
    together: bool = False

    def __post_init__(self) -> None:
        check_values(self.constraints, **{name: getattr(self, name) for name in self.constraints})


@dataclass(frozen=True, eq=False)
class ClassNoise:
    """A distribution over classes, prepared for draws."""

    # probabilities, sums: shape (K,): probabilities that add up to 1, and their running sums
    probabilities: Float64
    sums: Float64
    # shape (K,): the class that a coin of `i / K` falls on: where the search for one a little higher begins
    guide: Int32

    @classmethod
    def of(cls, noise: npt.ArrayLike) -> ClassNoise:
        """Prepare the numbers that are proportional to the classes' probabilities."""
        masses = np.asarray(noise, np.float64)
        masses = masses / masses.max()
        probabilities = masses / masses.sum()
        sums, n_classes = np.cumsum(probabilities), len(masses)
        coins = np.arange(n_classes) / n_classes * sums[-1]
        guide = np.minimum(np.searchsorted(sums, coins, side="right"), n_classes - 1).astype(np.int32)
        return cls(probabilities, sums, guide)


class ClassTrainer:
    """Shows examples to weights, which are changed where they are, by one step for each. It is one sequence of steps,
    on one thread: the same seed gives the same bits. After Ctrl-C the weights are as the steps made so far have left
    them. What an optimiser needs beside the weights, :func:`going_on` gives them; the kernel looks at every class and
    row number."""

    def __init__(
        self,
        weights: ClassWeights,  # with `squares` for AdaGrad, with `delays` for averaging
        X: Csr | Float32,  # shape (n, n_features)
        y: Int32,  # shape (n,): the class of each row
        training: ClassTraining,
        *,
        noise: ClassNoise | None = None,  # None for all classes alike
        row_weights: Float32 | None = None,  # shape (n,): factor of each row's loss; a row of weight 0 is passed over
        step: int = 0,  # examples shown before: with the seed, it settles the draws
        n_averaged: int = 0,  # as many of these are in the averages, the last ones
    ) -> None:
        self.weights, self.training = weights, training
        self.step, self.n_averaged = step, n_averaged
        stored, squares, delays = weights.stored
        self._features = class_features(X, weights.n_features)
        self._trainer = kernels.ClassTrainer(
            weights.handle, stored, weights.by_feature, squares if training.optimizer == "adagrad" else None,
            delays if training.optimizer == "averaged_sgd" else None, LOSSES[training.loss],
            int(training.n_candidates), int(training.n_noises), bool(training.together), weights.scores == "own",
            float(training.log_normalizer), float(training.l2), float(training.bias), int(training.seed),
        )  # fmt: skip
        self._rows_at_once = _rows_at_once(weights, X, training)
        self._classes = np.ascontiguousarray(y, np.int32)
        self._factors = None if row_weights is None else np.ascontiguousarray(row_weights, np.float32)
        self._noise: tuple[Any, Any, Any] = (None, None, None)
        if noise is not None:
            self._noise = noise.probabilities, noise.sums, noise.guide

    def run(self, order: Int64) -> tuple[float, float]:
        """One step for each row of ``order``, in this order; a row may be shown again. What it measured of each row
        before its own step, weighted by ``row_weights``: the mean loss, no finite number when the learning rate was far
        too high; and CANE's coverage, the share of rows whose class was among the candidates. NaN without rows, and
        coverage for other losses."""
        rows = np.ascontiguousarray(order, np.int64)
        rate, sums = float(self.training.learning_rate), np.zeros(3)
        for first, last in split_ranges(len(rows), self._rows_at_once):
            sums += self._trainer.train(
                self._features, rows[first:last], self._classes, self._factors, *self._noise, rate, self.step + first,
                self.n_averaged + first,
            )  # fmt: skip
            advance(last - first)
        self.step, self.n_averaged = self.step + len(rows), self.n_averaged + len(rows)
        loss, covered, total = sums.tolist()
        if total <= 0:
            return math.nan, math.nan
        return loss / total, covered / total if self.training.loss == "cane" else math.nan


def going_on(weights: ClassWeights, optimizer: Optimizer) -> ClassWeights:
    """Weights that an optimiser can go on with, from where another one ended or from its own state."""
    return weights.trainable(squares=optimizer == "adagrad", delays=optimizer == "averaged_sgd")


def ranked_by(weights: ClassWeights, optimizer: Optimizer, n_averaged: int) -> ClassWeights:
    """What classes are ranked by: the weights that training goes on from, or their averages."""
    return weights.averages(n_averaged) if optimizer == "averaged_sgd" else weights


def _rows_at_once(weights: ClassWeights, X: Csr | Float32, training: ClassTraining) -> int:
    """How many steps make about ``_WORK`` products."""
    width = len(X.data) / max(1, X.shape[0]) if isinstance(X, Csr) else X.shape[1]
    layers, n_edges = weights.tree.child_offsets, len(weights.weights)
    if training.loss != "softmax":
        widest = max(int(np.diff(offsets).max()) for offsets in layers)
        opened = (training.n_candidates if training.loss == "cane" else 1) * widest + training.n_noises
        n_edges = min(n_edges, opened * len(layers))
    return int(np.clip(_WORK / (n_edges * (width + 1.0)), 1, 1 << 16))
