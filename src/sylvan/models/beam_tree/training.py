"""How Beam Tree is trained: its tree, its learning rate, its passes over the rows (CANE, Algorithm 2), as jobs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.errors import DataError, MemoryLimitError, ModelError
from sylvan.indexing import LabelTree, balanced_tree, class_centers, class_tree
from sylvan.indexing.class_tree import check_class_tree
from sylvan.indexing.tree import TREE
from sylvan.matching.class_beam import ClassWeights, Scores
from sylvan.models.beam_tree.examples import Examples
from sylvan.models.beam_tree.rates import Trials
from sylvan.models.beam_tree.trainers import new_trainer, trainer_of
from sylvan.parallel import map_parallel
from sylvan.ranking.class_training import TREE_LOSSES, ClassNoise, ClassTrainer, ClassTraining, Optimizer
from sylvan.runtime import Folder, Job, Runner, checkpointed
from sylvan.runtime.machine import available_bytes
from sylvan.runtime.memory import shown_bytes
from sylvan.wording import counted

__all__ = ["Learned", "Learning", "learn", "learn_on", "train_pass"]

_KIND = "beam-tree-passes"
_N_ARRAYS = {"sgd": 1, "adagrad": 2, "averaged_sgd": 3}  # of the size of the weights, averages among them


@dataclass(frozen=True, eq=False)
class Learned:
    """What training from nothing gives."""

    weights: ClassWeights  # with what training goes on from
    training: ClassTraining  # with the optimiser and the learning rate that were chosen
    # shape (n_epochs, 2): each pass's mean loss, and the share of rows whose class was among the candidates
    history: npt.NDArray[np.float64]
    n_shown: int  # examples shown


@dataclass(frozen=True, eq=False)
class Learning:
    """What is learned from, and how; every piece of the work is a job."""

    examples: Examples
    training: ClassTraining
    # those that are tried, each with learning rates of its own, of which the best takes the place of the training's;
    # empty for the training as it is
    optimizers: tuple[Optimizer, ...]
    noise: ClassNoise | None
    scores: Scores  # as of `ClassWeights`
    tree: LabelTree | str
    branching: int
    beam: int
    epochs: int
    owner: str  # who learns, for errors
    in_order: bool = False  # whether passes show rows as they are given, not in an order drawn anew

    def need_room(self) -> None:
        """Refuse weights that the machine has no memory for."""
        n_classes, n_features = self.examples.n_classes, self.examples.X.shape[1]
        n_edges = layer = n_classes
        while self.training.loss in TREE_LOSSES and layer > self.branching:
            layer = -(-layer // self.branching)
            n_edges += layer
        n_bytes, available = self._weight_bytes(n_edges), available_bytes()
        if available is not None and n_bytes > available:
            raise MemoryLimitError(
                f"The weights of {counted(n_classes, 'class')} over {counted(n_features, 'feature')} would take about "
                f"{shown_bytes(n_bytes)} of memory, but there are only {shown_bytes(available)}. What takes less: "
                "fewer features; optimizer='sgd', a third as much; or, where ids have gaps, classes by name "
                "(strings), of which only those count that occur. Or go on regardless with force=True (--force)."
            )

    def _weight_bytes(self, n_edges: int) -> int:
        optimizers = self.optimizers or (self.training.optimizer,)
        n_arrays = max(_N_ARRAYS[name] for name in optimizers)
        return int(n_edges * (self.examples.X.shape[1] + 1) * 4 * n_arrays)

    # ---------------------------------------- the jobs

    def tree_job(self, n_jobs: int) -> Job[LabelTree]:
        """The tree over the classes."""
        inputs = {
            "examples": self.examples, "tree": self.tree, "branching": self.branching, "loss": self.training.loss,
            "seed": self.training.seed, "owner": self.owner, "n_jobs": n_jobs,
        }  # fmt: skip
        return Job("tree", _make_tree, inputs, packing=TREE, title="making the tree")

    def trials(self, tree: LabelTree, n_jobs: int) -> Trials | None:
        """The trials of optimisers and learning rates; None where they are given, or there is nothing to learn."""
        if not self.optimizers or self.examples.n_classes == 1:
            return None
        size = self._weight_bytes(sum(tree.layer_sizes))
        return Trials.of(
            self.examples, self.training, self.optimizers, self.epochs, tree, self.noise, self.scores, self.beam,
            n_jobs, size,
        )  # fmt: skip

    def passes_job(
        self, tree: LabelTree, training: ClassTraining, epochs: int, folder: Folder | None = None
    ) -> Job[Learned]:
        """All passes over the rows; with a ``folder`` it stores what it has reached, and goes on from there."""
        epochs = epochs if self.examples.n_classes > 1 else 0
        inputs = {
            "examples": self.examples, "training": training, "tree": tree, "noise": self.noise, "scores": self.scores,
            "epochs": epochs, "in_order": self.in_order, "folder": folder,
        }  # fmt: skip
        cost, size = epochs * len(self.examples.weighted()), self._weight_bytes(sum(tree.layer_sizes))
        return Job("passes", _train, inputs, cost, size, title="training the edges")


def learn(learning: Learning, runner: Runner, force: bool = False) -> Learned:
    """Make the tree, choose the learning rate where that is "auto", and train."""
    if not force:
        learning.need_room()
    tree = runner.one(learning.tree_job(runner.n_jobs))
    training, epochs = learning.training, learning.epochs
    if trials := learning.trials(tree, runner.n_jobs):
        training, epochs = trials.best(runner)
    folder = runner.folder("passes") if learning.examples.n_classes > 1 else None
    job = learning.passes_job(tree, training, epochs, folder)
    if folder is not None and runner.elsewhere:  # the folder is this process's
        return runner.one(job)
    return runner.run([job], "Training")[0]


def learn_on(learning: Learning, weights: ClassWeights, step: int, n_averaged: int) -> npt.NDArray[np.float64]:
    """One more pass, which changes the weights where they are. ``step`` examples were shown before, of which the last
    ``n_averaged`` are in the averages."""
    # Returns shape (1, 2)
    rows = learning.examples.weighted()
    trainer = trainer_of(learning.examples, learning.training, weights, learning.noise, step, n_averaged)
    show = partial(train_pass, trainer, in_order=learning.in_order)
    passes = map_parallel(show, [rows], costs=[len(rows)], description="Training")
    return np.array(passes)


def train_pass(trainer: ClassTrainer, rows: npt.NDArray[np.int64], in_order: bool = False) -> tuple[float, float]:
    """A pass over ``rows``, in an order of its own or as they are."""
    if not in_order:
        rows = rows[np.random.default_rng([trainer.training.seed, 2, trainer.step]).permutation(len(rows))]
    done = trainer.run(rows)
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


# ---------------------------------------- the passes


def _train(
    examples: Examples,
    training: ClassTraining,
    tree: LabelTree,
    noise: ClassNoise | None,
    scores: Scores,
    epochs: int,
    in_order: bool,
    folder: Folder | None,
) -> Learned:
    """Pass after pass; those that lie in the folder, from an interrupted call, are not made again."""
    trainer, rows = new_trainer(examples, training, tree, noise, scores), examples.weighted()
    history = [] if folder is None else _restored(folder.path, trainer.weights)
    trainer.step = trainer.n_averaged = len(history) * len(rows)
    due = time.monotonic() + checkpointed.SECONDS
    while len(history) < epochs:
        history.append(train_pass(trainer, rows, in_order))
        if folder is not None and time.monotonic() >= due:
            folder.begin()
            _store(folder.path, trainer.weights, history)
            due = time.monotonic() + checkpointed.SECONDS
    return Learned(trainer.weights, training, np.array(history, np.float64).reshape(-1, 2), trainer.step)


def _store(folder: str, weights: ClassWeights, history: list[tuple[float, float]]) -> None:
    """Put what the passes so far have reached into the folder, whole or not at all."""
    arrays = {name: array for name, array in _arrays(weights).items() if array is not None}
    store.save(folder, store.State(_KIND, 1, arrays={**arrays, "history": np.array(history)}))


def _restored(folder: str, weights: ClassWeights) -> list[tuple[float, float]]:
    """Take over what :func:`_store` stored: the history of the passes, empty where nothing whole lies there."""
    own = {name: array for name, array in _arrays(weights).items() if array is not None}
    try:
        state = store.load(folder, mmap=False, verify=True)
        store.need_kind(state, _KIND)
        history = store.need_array(state, "history", np.float64, (None, 2))
        stored = {name: store.need_array(state, name, np.float32, array.shape) for name, array in own.items()}
    except ModelError:
        return []
    for name, array in own.items():
        array[...] = stored[name]
    return [(loss, coverage) for loss, coverage in history.tolist()]


def _arrays(weights: ClassWeights) -> dict[str, npt.NDArray[np.float32] | None]:
    return dict(zip(("weights", "squares", "delays"), weights.stored, strict=True))
