"""How a BeamTreeClassifier is trained: its tree, its learning rate, its passes over the rows (CANE, Algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from sylvan import validate
from sylvan.canonical import Csr, shape_text, take_rows
from sylvan.data import Vocabulary
from sylvan.errors import DataError, MemoryLimitError
from sylvan.indexing import LabelTree, balanced_tree, class_centers, class_tree
from sylvan.indexing.class_tree import check_class_tree
from sylvan.matching.class_beam import ClassWeights
from sylvan.models.beam_tree.classes import Classes, classes_of
from sylvan.models.beam_tree.search import rank_by_beam
from sylvan.models.beam_tree.settings import row_weights
from sylvan.parallel import progress, resolve_jobs
from sylvan.ranking.class_training import TREE_LOSSES, ClassNoise, ClassTraining, train_classes
from sylvan.runtime.machine import available_bytes
from sylvan.runtime.memory import shown_bytes

__all__ = [
    "RATES_TRIED",
    "Examples",
    "Learned",
    "changeable",
    "examples_of",
    "learn",
    "make_tree",
    "noise_of",
    "rate_of",
    "train_epochs",
    "training_of",
]

_DENSE = 0.25  # share of stored values from which rows are taken as dense ones
_FEWEST_HELD_OUT = 50  # rows from which on some are held out to judge a learning rate
_MOST_JUDGED = 2000
_FEWEST_SHOWN = 1000  # examples, at least, by which a learning rate is judged
# What a first step may add to a row's score, times the learning rate: of AdaGrad, whose first steps are all of the
# size of the rate, and of plain gradient descent.
_STEPS = {"adagrad": (0.3, 1.0, 3.0, 10.0, 30.0), "sgd": (0.3, 1.0, 3.0, 10.0, 30.0)}
RATES_TRIED = 5
_PLACES = 10  # of a ranking, that count


@dataclass(frozen=True)
class Examples:
    """What is learned from: rows, the id of each one's class, and weights.

    Attributes
    ----------
    X : Csr or ndarray of float32, shape (n, d)
    ids : ndarray of int32, shape (n,)
    n_classes : int
    weight : ndarray of float32, shape (n,), or None
    """

    X: Any
    ids: npt.NDArray[np.int32]
    n_classes: int
    weight: npt.NDArray[np.float32] | None = None

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return int(self.X.shape[1])

    def counts(self) -> npt.NDArray[np.int64]:
        """How many rows each class has."""
        return np.bincount(self.ids, minlength=self.n_classes).astype(np.int64)

    def taught(self) -> npt.NDArray[np.int64]:
        """The rows that have a weight above 0."""
        if self.weight is None:
            return np.arange(len(self.ids), dtype=np.int64)
        return np.flatnonzero(self.weight > 0)


@dataclass(frozen=True, eq=False)
class Learned:
    """What training from nothing gives."""

    weights: ClassWeights
    learning_rate: float
    history: npt.NDArray[np.float64]
    n_shown: int


def examples_of(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    known: Classes | None = None,
    rows: Any = None,
    names: Vocabulary | None = None,
) -> tuple[Examples, Classes]:
    """What a model is given to learn from, verified; rows are dense where a quarter of their values are stored.

    Parameters
    ----------
    model : BeamTreeClassifier
    X, y, sample_weight : as in its ``fit``
    known : Classes, optional
        The classes that there are; by default those of ``y``.
    rows : Csr or ndarray, optional
        X, verified already.
    names : Vocabulary, optional
        What the columns of ``y`` are called, for the weights of classes.

    Raises
    ------
    DataError, ParameterError
    """
    owner, begins = type(model).__name__, rows is None
    if begins:
        rows = validate.dense_features(X)
    if rows is None:
        rows = validate.features(X, min_rows=1, owner=owner)
    if known is None:
        known, ids = classes_of(y)
    else:
        ids = known.find(y, owner=owner)
    if rows.shape[0] != len(ids):
        has = (len(ids), known.n) if getattr(y, "ndim", 1) == 2 else (len(ids),)
        raise DataError(
            f"X and y must have the same number of rows, but X has shape {shape_text(rows.shape)} and y has shape "
            f"{shape_text(has)}."
        )
    if not rows.shape[0]:
        raise DataError(f"X has shape {shape_text(rows.shape)}: there is no row to learn from.")
    if isinstance(rows, Csr):
        validate.learnable(rows)
    if begins:
        stored = rows.data.size if isinstance(rows, Csr) else int(np.count_nonzero(rows))
        dense = stored >= _DENSE * rows.shape[0] * rows.shape[1]
        if dense != isinstance(rows, np.ndarray):
            rows = rows.to_scipy().toarray() if dense else validate.features(rows)
    own = validate.sample_weight(sample_weight, rows.shape[0])
    return Examples(rows, ids, known.n, row_weights(model.class_weight, known, ids, own, names)), known


def training_of(model: Any, learning_rate: float, n_classes: int) -> ClassTraining:
    """The kernel's options, by the model's parameters.

    Noise-contrastive estimation takes sums of shares for as many as there are classes, which they are at first.
    """
    return ClassTraining(
        model.loss, min(int(model.n_candidates), n_classes), int(model.n_noises), model.optimizer,
        float(learning_rate), float(model.l2), float(model.bias), int(model.seed),
        log_normalizer=math.log(n_classes) if model.loss == "nce" else 0.0,
    )  # fmt: skip


def learn(model: Any, examples: Examples, epochs: int, force: bool) -> Learned:
    """Make the tree, choose the learning rate where that is "auto", and train.

    Raises
    ------
    DataError, MemoryLimitError
    """
    n = examples.n_classes
    if not force:
        need_room(model, examples)
    jobs = resolve_jobs(model.n_jobs)
    tree = make_tree(model, examples, n_jobs=jobs)
    noise, rows = noise_of(model.noise, model.noise_power, examples.counts()), examples.taught()

    def zeros() -> ClassWeights:
        return zero_weights(tree, examples, model.optimizer == "adagrad")

    auto = isinstance(model.learning_rate, str)
    training = training_of(model, 1.0 if auto else model.learning_rate, n)
    if auto and n > 1:
        rate = choose_rate(examples, training, rows, zeros, noise=noise, epochs=epochs, beam=model.beam, n_jobs=jobs)
        training = replace(training, learning_rate=rate)
    weights = zeros()
    if n == 1:
        return Learned(weights, training.learning_rate, np.zeros((0, 2)), 0)
    history = train_epochs(weights, examples, training, rows, [1.0] * epochs, noise=noise)
    return Learned(weights, training.learning_rate, history, epochs * len(rows))


def rate_of(model: Any) -> float:
    """The learning rate to go on with: the parameter, or for "auto" the one that was chosen or was there last."""
    return float(model.learning_rate_ if isinstance(model.learning_rate, str) else model.learning_rate)


def go_on(
    model: Any, examples: Examples, counts: npt.NDArray[np.int64], step: int
) -> tuple[npt.NDArray[np.float64], int]:
    """One more pass, changing the model's weights: what :func:`train_epochs` tells of it, and how many rows it showed.

    Raises
    ------
    DataError
        When weights go out of bounds; they are lost then.
    """
    noise, rows = noise_of(model.noise, model.noise_power, counts), examples.taught()
    training = training_of(model, rate_of(model), examples.n_classes)
    return train_epochs(model.weights_, examples, training, rows, [1.0], noise=noise, step=step), len(rows)


def zero_weights(tree: LabelTree, examples: Examples, squares: bool) -> ClassWeights:
    """Weights of 0, in the order that suits the rows."""
    by_feature = not isinstance(examples.X, np.ndarray)
    return ClassWeights.zeros(tree, examples.n_features, squares=squares, by_feature=by_feature)


def need_room(model: Any, examples: Examples) -> None:
    """Refuse weights that the machine has no memory for.

    Raises
    ------
    MemoryLimitError
        With the sizes and what would take less.
    """
    n_edges = layer = n_classes = examples.n_classes
    n_features, squares = examples.n_features, model.optimizer == "adagrad"
    while model.loss in TREE_LOSSES and layer > model.branching:
        layer = -(-layer // model.branching)
        n_edges += layer
    n_bytes, available = n_edges * (n_features + 1) * 4 * (1 + squares), available_bytes()
    if available is not None and n_bytes > available:
        raise MemoryLimitError(
            f"The weights of {n_classes:,} classes over {n_features:,} features would take about "
            f"{shown_bytes(n_bytes)} of memory, but there are only {shown_bytes(available)}. What takes less: fewer "
            "features; optimizer='sgd', half as much; or, where ids have gaps, classes by name (strings), of which "
            "only those count that occur. Or go on regardless with force=True (--force)."
        )


def make_tree(model: Any, examples: Examples, *, n_jobs: int) -> LabelTree:
    """The tree over the classes: the one given, or one made of the examples; a flat one for losses without a tree.

    Raises
    ------
    DataError
        When a given tree doesn't hold each class in one leaf.
    """
    n, spec, branching = examples.n_classes, model.tree, int(model.branching)
    if isinstance(spec, LabelTree):
        check_class_tree(spec, n, owner=type(model).__name__)
    if model.loss not in TREE_LOSSES:
        return LabelTree.flat(n)
    if isinstance(spec, LabelTree):
        return spec
    if spec == "kmeans":
        centers = class_centers(examples.X, examples.ids, n)
        return class_tree(centers, branching, seed=int(model.seed), n_jobs=n_jobs)
    if spec == "frequency":
        return balanced_tree(np.argsort(-examples.counts(), kind="stable"), branching)
    return balanced_tree(np.random.default_rng([model.seed, 1]).permutation(n), branching)


def changeable(weights: ClassWeights, optimizer: str) -> ClassWeights:
    """The weights to go on with: a copy where they are a mapped file's, or lack what the optimizer needs."""
    values, squares = weights.weights, weights.squares
    if optimizer != "adagrad":
        squares = None
    elif squares is None:
        squares = np.zeros_like(values)
    squares = squares if squares is None or squares.flags.writeable else np.array(squares)
    return ClassWeights(weights.tree, values if values.flags.writeable else np.array(values), squares)


def noise_of(kind: str, power: float, counts: npt.NDArray[np.int64]) -> ClassNoise | None:
    """What noises are drawn by; None for all classes alike. A class without rows counts as one row."""
    if kind == "uniform":
        return None
    return ClassNoise.of(np.maximum(counts, 1).astype(np.float64) ** power, len(counts))


def train_epochs(
    weights: ClassWeights,
    examples: Examples,
    training: ClassTraining,
    rows: npt.NDArray[np.int64],
    rates: Sequence[float],
    *,
    noise: ClassNoise | None,
    step: int = 0,
) -> npt.NDArray[np.float64]:
    """A pass over ``rows``, in an order of its own, for each of ``rates``, the factors of the learning rate.

    Returns
    -------
    ndarray of float64, shape (n_epochs, 2)
        Each pass's mean loss, and the share of rows whose class was among the candidates.
    """
    told = np.empty((len(rates), 2))
    with progress("Training", len(rates) * len(rows), "row") as bar:
        for number, rate in enumerate(rates):
            order = rows[np.random.default_rng([training.seed, 2, step]).permutation(len(rows))]
            found = train_classes(
                weights,
                examples.X,
                examples.ids,
                training,
                order=order,
                rate=rate,
                noise=noise,
                row_weights=examples.weight,
                step=step,
            )
            if not math.isfinite(found.mean_loss):
                _refuse_rate(training.learning_rate)
            told[number] = found.mean_loss, found.coverage
            step += len(rows)
            bar.update(len(rows))
    return told


def _refuse_rate(learning_rate: float) -> NoReturn:
    raise DataError(
        f"Training went out of bounds: with learning_rate={learning_rate:g} scores left the range of numbers. Take a "
        "lower rate or 'auto', a smaller l2 or bias, or scale X down."
    )


def choose_rate(
    examples: Examples,
    training: ClassTraining,
    rows: npt.NDArray[np.int64],
    fresh: Callable[[], ClassWeights],
    *,
    noise: ClassNoise | None,
    epochs: int,
    beam: int,
    n_jobs: int,
) -> float:
    """The learning rate that ranks held-out rows best after half a pass over the others (appendix D).

    The rates compared are multiples of one that suits the size of the features. Where rows are too few to hold any
    out, those that were shown judge themselves. Of several equal rates the one in their middle is taken.
    """
    order = rows[np.random.default_rng([training.seed, 3]).permutation(len(rows))]
    if len(order) < _FEWEST_HELD_OUT:
        judged = shown = order
    else:
        held_out = len(order) // 10
        judged, shown = order[: min(held_out, _MOST_JUDGED)], order[held_out:]
    shown = np.resize(shown, max(len(order) // 2, min(_FEWEST_SHOWN, epochs * len(order))))
    truth, worth = examples.ids[judged], None if examples.weight is None else examples.weight[judged]
    asked = _take(examples.X, judged)
    found: dict[float, tuple[float, float]] = {}
    for rate in _rates(examples, training, order[:_MOST_JUDGED]):
        weights = fresh()
        told = train_classes(
            weights,
            examples.X,
            examples.ids,
            replace(training, learning_rate=rate),
            order=shown,
            noise=noise,
            row_weights=examples.weight,
        )
        if not math.isfinite(told.mean_loss):
            break  # as every higher one would
        top = rank_by_beam(
            weights,
            asked,
            min(_PLACES, examples.n_classes),
            beam,
            loss=training.loss,
            bias=training.bias,
            raw=True,
            n_jobs=n_jobs,
        )
        right = top.labels == truth[:, None]
        first = np.average(right[:, 0], weights=worth)
        places = np.average((right / np.arange(1, right.shape[1] + 1)).sum(axis=1), weights=worth)
        found[rate] = round(float(first), 9), round(float(places), 9)
    if not found:
        return _rates(examples, training, order[:_MOST_JUDGED])[0]
    equal = [rate for rate in found if found[rate] == max(found.values())]
    return equal[len(equal) // 2]


def _rates(examples: Examples, training: ClassTraining, rows: npt.NDArray[np.int64]) -> list[float]:
    """Learning rates to try, rising: steps of certain sizes, over what a row's features turn a step into."""
    X = _take(examples.X, rows)
    values = np.abs((X.data if isinstance(X, Csr) else X).astype(np.float64))
    power = 1 if training.optimizer == "adagrad" else 2
    size = float((values**power).sum()) / max(len(rows), 1) + abs(training.bias) ** power
    return [float(f"{step / max(size, 1e-30):.2g}") for step in _STEPS[training.optimizer]]


def _take(X: Any, rows: npt.NDArray[np.int64]) -> Any:
    return take_rows(X, rows) if isinstance(X, Csr) else X[rows]
