"""How Beam Tree is trained: its tree, its learning rate, its passes over the rows (CANE, Algorithm 2), as jobs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.canonical import Csr
from sylvan.errors import DataError, MemoryLimitError, ModelError
from sylvan.indexing import LabelTree, balanced_tree, class_centers, class_tree
from sylvan.indexing.class_tree import check_class_tree
from sylvan.indexing.tree import TREE
from sylvan.matching.class_beam import ClassWeights
from sylvan.models.beam_tree.examples import Examples
from sylvan.models.beam_tree.search import rank_by_beam
from sylvan.parallel import map_parallel
from sylvan.ranking.class_training import TREE_LOSSES, ClassNoise, ClassTrainer, ClassTraining
from sylvan.runtime import ARRAY, Folder, Job, Runner, checkpointed
from sylvan.runtime.machine import available_bytes
from sylvan.runtime.memory import shown_bytes

__all__ = ["Learned", "Learning", "learn", "learn_on", "new_trainer", "train_pass"]

_FEWEST_ROWS = 50  # from which on some are the holdout that judges a learning rate
_MOST_JUDGED = 2000
_FEWEST_SHOWN = 1000  # examples, at least, by which a learning rate is judged
# What a first step may add to a row's score, times the learning rate: of AdaGrad, whose first steps are all of the
# size of the rate, and of plain gradient descent.
_STEPS = {"adagrad": (0.3, 1.0, 3.0, 10.0, 30.0), "sgd": (0.3, 1.0, 3.0, 10.0, 30.0)}
_PLACES = 10  # of a ranking, that count
_KIND = "beam-tree-passes"


@dataclass(frozen=True, eq=False)
class Learned:
    """What training from nothing gives.

    Attributes
    ----------
    weights : ClassWeights
    learning_rate : float
    history : ndarray of float64, shape (n_epochs, 2)
        Each pass's mean loss, and the share of rows whose class was among the candidates.
    n_shown : int
        Examples shown.
    """

    weights: ClassWeights
    learning_rate: float
    history: npt.NDArray[np.float64]
    n_shown: int


@dataclass(frozen=True, eq=False)
class Learning:
    """What is learned from, and how; every piece of the work is a job.

    Attributes
    ----------
    examples : Examples
    training : ClassTraining
    auto : bool
        Whether learning rates are tried, of which the best takes the place of the training's own.
    noise : ClassNoise or None
    tree : LabelTree or {"kmeans", "random", "frequency"}
    branching, beam, epochs : int
    owner : str
        Who learns, for errors.
    """

    examples: Examples
    training: ClassTraining
    auto: bool
    noise: ClassNoise | None
    tree: LabelTree | str
    branching: int
    beam: int
    epochs: int
    owner: str

    def need_room(self) -> None:
        """Refuse weights that the machine has no memory for.

        Raises
        ------
        MemoryLimitError
            With the sizes and what would take less.
        """
        n_classes, n_features = self.examples.n_classes, self.examples.X.shape[1]
        n_edges = layer = n_classes
        while self.training.loss in TREE_LOSSES and layer > self.branching:
            layer = -(-layer // self.branching)
            n_edges += layer
        n_bytes, available = self._weight_bytes(n_edges), available_bytes()
        if available is not None and n_bytes > available:
            raise MemoryLimitError(
                f"The weights of {n_classes:,} classes over {n_features:,} features would take about "
                f"{shown_bytes(n_bytes)} of memory, but there are only {shown_bytes(available)}. What takes less: "
                "fewer features; optimizer='sgd', half as much; or, where ids have gaps, classes by name (strings), of "
                "which only those count that occur. Or go on regardless with force=True (--force)."
            )

    def _weight_bytes(self, n_edges: int) -> int:
        squares = self.training.optimizer == "adagrad"
        return int(n_edges * (self.examples.X.shape[1] + 1) * 4 * (1 + squares))

    # ---------------------------------------- the jobs

    def tree_job(self, n_jobs: int) -> Job[LabelTree]:
        """The tree over the classes."""
        inputs = {
            "examples": self.examples, "tree": self.tree, "branching": self.branching, "loss": self.training.loss,
            "seed": self.training.seed, "owner": self.owner, "n_jobs": n_jobs,
        }  # fmt: skip
        return Job("tree", _make_tree, inputs, packing=TREE, title="making the tree")

    def rate_jobs(self, tree: LabelTree, n_jobs: int) -> list[Job[npt.NDArray[np.float64]]]:
        """What is reached by each learning rate that is tried, from the lowest to the highest: none unless "auto".

        Half a pass is made over the rows that aren't holdout. Where there are too few for a holdout, the rows that were
        shown judge themselves.
        """
        if not self.auto or self.examples.n_classes == 1:
            return []
        size = self._weight_bytes(sum(tree.layer_sizes))
        rows = self.examples.weighted()
        order = rows[np.random.default_rng([self.training.seed, 3]).permutation(len(rows))]
        judged = shown = order
        if len(order) >= _FEWEST_ROWS:
            n_holdout = len(order) // 10
            judged, shown = order[: min(n_holdout, _MOST_JUDGED)], order[n_holdout:]
        shown = np.resize(shown, max(len(order) // 2, min(_FEWEST_SHOWN, self.epochs * len(order))))
        inputs = {
            "examples": self.examples, "holdout": self.examples.only(judged), "shown": shown, "tree": tree,
            "noise": self.noise, "beam": self.beam, "n_jobs": n_jobs,
        }  # fmt: skip
        rates = _rates(self.examples.only(order[:_MOST_JUDGED]), self.training)
        return [
            Job(
                f"rate{number}", _try_rate, {**inputs, "training": replace(self.training, learning_rate=rate)},
                cost=len(shown), peak_bytes=size, packing=ARRAY, title="trying a learning rate",
            )
            for number, rate in enumerate(rates)
        ]  # fmt: skip

    def passes_job(self, tree: LabelTree, training: ClassTraining, folder: Folder | None = None) -> Job[Learned]:
        """All passes over the rows; with a ``folder`` it stores what it has reached, and goes on from there."""
        epochs = self.epochs if self.examples.n_classes > 1 else 0
        inputs = {
            "examples": self.examples, "training": training, "tree": tree, "noise": self.noise, "epochs": epochs,
            "folder": folder,
        }  # fmt: skip
        cost, size = epochs * len(self.examples.weighted()), self._weight_bytes(sum(tree.layer_sizes))
        return Job("passes", _train, inputs, cost, size, title="training the edges")


def learn(learning: Learning, runner: Runner, force: bool = False) -> Learned:
    """Make the tree, choose the learning rate where that is "auto", and train.

    Raises
    ------
    MemoryLimitError
        Unless ``force`` is given, when the machine has no memory for the weights.
    DataError
        When a given tree doesn't hold each class in one leaf, or the weights leave the range of numbers.
    """
    if not force:
        learning.need_room()
    tree = runner.one(learning.tree_job(runner.n_jobs))
    training = learning.training
    if rates := learning.rate_jobs(tree, runner.n_jobs):
        training = _best_rate(rates, runner)
    folder = runner.folder("passes") if learning.examples.n_classes > 1 else None
    return runner.run([learning.passes_job(tree, training, folder)], "Training")[0]


def learn_on(learning: Learning, weights: ClassWeights, step: int) -> npt.NDArray[np.float64]:
    """One more pass, which changes the weights where they are; ``step`` examples were shown before.

    Returns
    -------
    ndarray of float64, shape (1, 2)
        As in the history of :class:`Learned`.

    Raises
    ------
    DataError
        When weights go out of bounds; they are lost then.
    """
    rows = learning.examples.weighted()
    trainer = _trainer(learning.examples, learning.training, weights, learning.noise, step)
    passes = map_parallel(partial(train_pass, trainer), [rows], costs=[len(rows)], description="Training")
    return np.array(passes)


def train_pass(trainer: ClassTrainer, rows: npt.NDArray[np.int64]) -> tuple[float, float]:
    """A pass over ``rows`` in an order of its own: its mean loss, and the share of rows that candidates covered.

    Raises
    ------
    DataError
        When weights go out of bounds; they are lost then.
    """
    order = rows[np.random.default_rng([trainer.training.seed, 2, trainer.step]).permutation(len(rows))]
    done = trainer.run(order)
    if not math.isfinite(done.mean_loss):
        raise DataError(
            f"Training went out of bounds: with learning_rate={trainer.training.learning_rate:g} scores left the range "
            "of numbers. Take a lower rate or 'auto', a smaller l2 or bias, or scale X down."
        )
    return done.mean_loss, done.coverage


# ---------------------------------------- the tree


def _make_tree(
    examples: Examples, tree: LabelTree | str, branching: int, loss: str, seed: int, owner: str, n_jobs: int
) -> LabelTree:
    """The tree given, or one made of the examples; a flat one for losses without a tree."""
    n_classes = examples.n_classes
    if isinstance(tree, LabelTree):
        check_class_tree(tree, n_classes, owner=owner)
    if loss not in TREE_LOSSES:
        return LabelTree.flat(n_classes)
    if isinstance(tree, LabelTree):
        return tree
    if tree == "kmeans":
        return class_tree(class_centers(examples.X, examples.ids, n_classes), branching, seed=seed, n_jobs=n_jobs)
    if tree == "frequency":
        return balanced_tree(np.argsort(-examples.counts(), kind="stable"), branching)
    return balanced_tree(np.random.default_rng([seed, 1]).permutation(n_classes), branching)


# ---------------------------------------- the learning rate


def _best_rate(jobs: list[Job[npt.NDArray[np.float64]]], runner: Runner) -> ClassTraining:
    """The training with the learning rate that ranks holdout rows best (appendix D); of several the middle one."""
    tried: list[tuple[ClassTraining, list[float]]] = []
    for job in jobs:
        reached = runner.one(job).tolist()
        if not math.isfinite(reached[0]):
            break  # as with every higher one
        tried.append((job.inputs["training"], reached))
    if not tried:
        lowest: ClassTraining = jobs[0].inputs["training"]
        return lowest
    best = max(reached for _, reached in tried)
    equal = [training for training, reached in tried if reached == best]
    return equal[len(equal) // 2]


def _rates(examples: Examples, training: ClassTraining) -> list[float]:
    """Learning rates to try, rising: steps of certain sizes, over what a row's features turn a step into."""
    X = examples.X
    values = np.abs((X.data if isinstance(X, Csr) else X).astype(np.float64))
    power = 1 if training.optimizer == "adagrad" else 2
    size = float((values**power).sum()) / max(len(examples.ids), 1) + abs(training.bias) ** power
    return [float(f"{step / max(size, 1e-30):.2g}") for step in _STEPS[training.optimizer]]


def _try_rate(
    examples: Examples,
    holdout: Examples,
    shown: npt.NDArray[np.int64],
    training: ClassTraining,
    tree: LabelTree,
    noise: ClassNoise | None,
    beam: int,
    n_jobs: int,
) -> npt.NDArray[np.float64]:
    """The share of holdout rows whose class is ranked first, and the mean of 1 / its place; NaN out of bounds."""
    trainer = new_trainer(examples, training, tree, noise)
    if not math.isfinite(trainer.run(shown).mean_loss):
        return np.full(2, np.nan)
    top = rank_by_beam(
        trainer.weights, holdout.X, min(_PLACES, examples.n_classes), beam, loss=training.loss, bias=training.bias,
        raw=True, n_jobs=n_jobs,
    )  # fmt: skip
    right = top.labels == holdout.ids[:, None]
    places = (right / np.arange(1, right.shape[1] + 1)).sum(axis=1)
    means = [float(np.average(each, weights=holdout.weight)) for each in (right[:, 0], places)]
    return np.array([round(mean, 9) for mean in means])


# ---------------------------------------- the passes


def new_trainer(
    examples: Examples, training: ClassTraining, tree: LabelTree, noise: ClassNoise | None
) -> ClassTrainer:
    """Trains weights of 0, in the order that suits the rows."""
    squares, by_feature = training.optimizer == "adagrad", not isinstance(examples.X, np.ndarray)
    weights = ClassWeights.zeros(tree, examples.X.shape[1], squares=squares, by_feature=by_feature)
    return _trainer(examples, training, weights, noise)


def _trainer(
    examples: Examples, training: ClassTraining, weights: ClassWeights, noise: ClassNoise | None, step: int = 0
) -> ClassTrainer:
    return ClassTrainer(
        weights, examples.X, examples.ids, training, noise=noise, row_weights=examples.weight, step=step
    )


def _train(
    examples: Examples,
    training: ClassTraining,
    tree: LabelTree,
    noise: ClassNoise | None,
    epochs: int,
    folder: Folder | None,
) -> Learned:
    """Pass after pass; those that lie in the folder, from an interrupted call, are not made again."""
    trainer, rows = new_trainer(examples, training, tree, noise), examples.weighted()
    history = [] if folder is None else _restored(folder.path, trainer.weights)
    trainer.step = len(history) * len(rows)
    due = time.monotonic() + checkpointed.SECONDS
    while len(history) < epochs:
        history.append(train_pass(trainer, rows))
        if folder is not None and time.monotonic() >= due:
            folder.begin()
            _store(folder.path, trainer.weights, history)
            due = time.monotonic() + checkpointed.SECONDS
    passes = np.array(history, np.float64).reshape(-1, 2)
    return Learned(trainer.weights, float(training.learning_rate), passes, trainer.step)


def _store(folder: str, weights: ClassWeights, history: list[tuple[float, float]]) -> None:
    """Put what the passes so far have reached into the folder, whole or not at all."""
    values, squares = weights.stored
    arrays = {"weights": values, "history": np.array(history)}
    store.save(folder, store.State(_KIND, 1, arrays=arrays if squares is None else {**arrays, "squares": squares}))


def _restored(folder: str, weights: ClassWeights) -> list[tuple[float, float]]:
    """Take over what :func:`_store` stored: the history of the passes, empty where nothing whole lies there."""
    values, squares = weights.stored
    try:
        state = store.load(folder, mmap=False, verify=True)
        store.need_kind(state, _KIND)
        history = store.need_array(state, "history", np.float64, (None, 2))
        stored = store.need_array(state, "weights", np.float32, values.shape)
        sums = None if squares is None else store.need_array(state, "squares", np.float32, values.shape)
    except ModelError:
        return []
    values[...] = stored
    if squares is not None:
        squares[...] = sums
    return [(loss, coverage) for loss, coverage in history.tolist()]
