"""How Beam Tree is trained: its tree, its learning rate, its passes over the rows (CANE, Algorithm 2), as jobs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sylvan import store
from sylvan.arrays.canonical import Csr
from sylvan.arrays.types import Float32, Float64, Int64
from sylvan.errors import DataError, MemoryLimitError, ModelError
from sylvan.indexing import LabelTree, balanced_tree, class_centers, class_tree
from sylvan.indexing.tree import TREE, check_class_tree
from sylvan.matching.class_beam import ClassWeights, Scores
from sylvan.models.beam_tree.examples import Examples
from sylvan.models.beam_tree.fitted import rank_by_beam, scores_of
from sylvan.models.beam_tree.solver import (
    TREE_LOSSES,
    ClassNoise,
    ClassTrainer,
    ClassTraining,
    Optimizer,
    going_on,
    ranked_by,
)
from sylvan.parallel import map_parallel
from sylvan.params.wording import counted, shown_bytes
from sylvan.runtime import ARRAY, Folder, Job, Runner, checkpointed
from sylvan.runtime.memory import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan, timed

_FEWEST_ROWS = 50  # from which on some are the holdout
_FEWEST_JUDGED, _MOST_JUDGED = 100, 5000  # by fewer no number of passes is chosen
_FEWEST_SHOWN = 1000  # examples of a first trial, unless that is more than all passes
_MOST_SHOWN = 50_000  # in a pass of a trial
_PATIENCE = 2  # passes in a row that are worse than the best before them, and end a trial
_PLACES = 10  # of a ranking, that count
# What a first step may add to a row's score, times the learning rate: of AdaGrad, whose first steps are all of the
# size of the rate, and of plain gradient descent. Averages bear larger steps.
_STEPS = {"adagrad": (1.0, 3.0, 10.0), "sgd": (0.3, 1.0, 3.0, 10.0, 30.0), "averaged_sgd": (2.0, 5.0, 15.0)}
_N_FINALS = 2  # of an optimiser's rates are tried to the end: one pass favours larger ones than are best later
Marks = Float64
Tried = tuple[ClassTraining, Marks]
AUTOMATIC: tuple[Optimizer, ...] = ("averaged_sgd", "adagrad")  # what "auto" tries; without trials it is the first
_TREE_BYTES = 16  # of a finished tree and the class counts, a class
_SHOWN = 300  # rows at first; as many again and again until the time can be measured
_ENOUGH_SECONDS = 0.2
_RATE = 1e-3  # any that stays within bounds
_KIND = "beam-tree-passes"
_N_ARRAYS = {"sgd": 1, "adagrad": 2, "averaged_sgd": 3}  # of the size of the weights, averages among them


@dataclass(frozen=True, eq=False)
class Learned:
    """What training from nothing gives."""

    weights: ClassWeights  # with what training goes on from
    training: ClassTraining  # with the optimiser and the learning rate that were chosen
    # shape (n_epochs, 2): each pass's mean loss, and the share of rows whose class was among the candidates
    history: Float64
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
    in_order: bool = False  # whether passes show rows as they are given, not in a new order

    @classmethod
    def of(
        cls, model: Any, examples: Examples, counts: Int64,
        continued: tuple[Optimizer, float] | None = None, epochs: int | None = None,
    ) -> Learning:  # fmt: skip
        """By the parameters of a BeamTreeClassifier, where so many rows have been of each class. ``continued`` are the
        optimiser and the rate of a training that goes on; ``epochs`` stands for the parameter, and rows are then shown
        in their order."""
        automatic = AUTOMATIC if model.optimizer == "auto" else (model.optimizer,)
        tried = isinstance(model.learning_rate, str) and continued is None
        optimizer, rate = continued or (automatic[0], 1.0 if tried else float(model.learning_rate))
        same = {name: getattr(model, name) for name in ("loss", "n_noises", "together", "l2", "bias", "seed")}
        # Noise-contrastive estimation takes sums of shares for as many as there are classes, as they are at first.
        log_normalizer = math.log(examples.n_classes) if model.loss == "nce" else 0.0
        selected = min(model.n_candidates, examples.n_classes)
        training = ClassTraining(
            **same, n_candidates=selected, optimizer=optimizer, learning_rate=rate, log_normalizer=log_normalizer
        )
        noise = None
        if model.noise != "uniform":  # a class without rows counts as one row
            noise = ClassNoise.of(np.maximum(counts, 1).astype(np.float64) ** model.noise_power)
        return cls(
            examples, training, automatic if tried else (), noise, scores_of(model), model.tree, model.branching,
            model.beam, model.epochs if epochs is None else epochs, type(model).__name__, in_order=epochs is not None,
        )  # fmt: skip

    def need_room(self) -> None:
        """Refuse weights that the machine has no memory for."""
        n_classes, n_features = self.examples.n_classes, self.examples.n_features
        n_edges = layer = n_classes
        while self.training.loss in TREE_LOSSES and layer > self.branching:
            layer = -(-layer // self.branching)
            n_edges += layer
        n_bytes, available = self.weight_bytes(n_edges), available_bytes()
        if available is not None and n_bytes > available:
            raise MemoryLimitError(
                f"The weights of {counted(n_classes, 'class')} over {counted(n_features, 'feature')} would take about "
                f"{shown_bytes(n_bytes)} of memory, but there are only {shown_bytes(available)}. What takes less: "
                "fewer features; optimizer='sgd', a third as much; or, where ids have gaps, classes by name "
                "(strings), of which only those count that occur. Or go on regardless with force=True (--force)."
            )

    def weight_bytes(self, n_edges: int) -> int:
        """Memory of the weights of so many edges, and of what training needs beside them."""
        n_arrays = max(_N_ARRAYS[name] for name in self.optimizers or (self.training.optimizer,))
        return n_edges * (self.examples.n_features + 1) * 4 * n_arrays

    def trainer(self, training: ClassTraining, tree: LabelTree) -> ClassTrainer:
        """Trains weights of 0, in the order that suits the rows."""
        examples, by_feature = self.examples, not isinstance(self.examples.X, np.ndarray)
        weights = ClassWeights.zeros(tree, examples.n_features, by_feature=by_feature, scores=self.scores)
        return self.trainer_of(going_on(weights, training.optimizer), training)

    def trainer_of(
        self, weights: ClassWeights, training: ClassTraining, step: int = 0, n_averaged: int = 0
    ) -> ClassTrainer:
        """Trains weights that ``step`` examples were shown to before."""
        examples = self.examples
        return ClassTrainer(
            weights, examples.X, examples.ids, training, noise=self.noise, row_weights=examples.weight, step=step,
            n_averaged=n_averaged,
        )  # fmt: skip

    def tree_job(self, n_jobs: int) -> Job[LabelTree]:
        """The tree over the classes."""
        return Job("tree", _make_tree, {"learning": self, "n_jobs": n_jobs}, packing=TREE, title="making the tree")

    def passes_job(
        self, tree: LabelTree, training: ClassTraining, epochs: int, folder: Folder | None = None
    ) -> Job[Learned]:
        """All passes over the rows; with a ``folder`` it stores what it has reached, and goes on from there."""
        epochs = epochs if self.examples.n_classes > 1 else 0
        inputs = {"learning": self, "training": training, "tree": tree, "epochs": epochs, "folder": folder}
        cost, size = epochs * len(self.examples.weighted()), self.weight_bytes(sum(tree.layer_sizes))
        return Job("passes", _train, inputs, cost, size, title="training the edges")


def learn(learning: Learning, runner: Runner, force: bool = False) -> Learned:
    """Make the tree, choose the learning rate where that is "auto", and train."""
    if not force:
        learning.need_room()
    tree = runner.one(learning.tree_job(runner.n_jobs))
    training, epochs = learning.training, learning.epochs
    if trials := Trials.of(learning, tree, runner.n_jobs):
        training, epochs = trials.best(runner)
    folder = runner.folder("passes") if learning.examples.n_classes > 1 else None
    job = learning.passes_job(tree, training, epochs, folder)
    if folder is not None and runner.elsewhere:  # the folder is this process's
        return runner.one(job)
    return runner.run([job], "Training")[0]


def _make_tree(learning: Learning, n_jobs: int) -> LabelTree:
    """The tree given, or one made of the examples; a flat one for losses without a tree."""
    examples, tree, branching = learning.examples, learning.tree, learning.branching
    n_classes, seed = examples.n_classes, learning.training.seed
    if isinstance(tree, LabelTree):
        check_class_tree(tree, n_classes, owner=learning.owner)
    if learning.training.loss not in TREE_LOSSES:
        return LabelTree.flat(n_classes)
    if isinstance(tree, LabelTree):
        return tree
    if tree == "kmeans":
        return class_tree(class_centers(examples.X, examples.ids, n_classes), branching, seed=seed, n_jobs=n_jobs)
    if tree == "frequency":
        return balanced_tree(np.argsort(-examples.counts(), kind="stable"), branching)
    return balanced_tree(np.random.default_rng([seed, 1]).permutation(n_classes), branching)


def _train(learning: Learning, training: ClassTraining, tree: LabelTree, epochs: int, folder: Folder | None) -> Learned:
    """Pass after pass; those that lie in the folder, from an interrupted call, are not made again."""
    trainer, rows = learning.trainer(training, tree), learning.examples.weighted()
    names = ("weights", "squares", "delays")
    arrays = {name: a for name, a in zip(names, trainer.weights.stored, strict=True) if a is not None}
    history = [] if folder is None else _restored(folder.path, arrays)
    trainer.step = trainer.n_averaged = len(history) * len(rows)
    due = time.monotonic() + checkpointed.SECONDS
    while len(history) < epochs:
        history.append(train_pass(trainer, rows, learning.in_order))
        if folder is not None and time.monotonic() >= due:
            folder.begin()
            store.save(folder.path, store.State(_KIND, 1, arrays={**arrays, "history": np.array(history)}))
            due = time.monotonic() + checkpointed.SECONDS
    return Learned(trainer.weights, training, np.array(history, np.float64).reshape(-1, 2), trainer.step)


def _restored(folder: str, arrays: Mapping[str, Float32]) -> list[tuple[float, float]]:
    """Fill the arrays with those of the folder; the history of the passes, empty where nothing whole lies there."""
    try:
        state = store.load(folder, mmap=False, verify=True)
        store.need_kind(state, _KIND)
        history = store.need_array(state, "history", np.float64, (None, 2))
        stored = {name: store.need_array(state, name, np.float32, array.shape) for name, array in arrays.items()}
    except ModelError:
        return []
    for name, array in arrays.items():
        array[...] = stored[name]
    return [(loss, coverage) for loss, coverage in history.tolist()]


def train_pass(trainer: ClassTrainer, rows: Int64, in_order: bool = False) -> tuple[float, float]:
    """A pass over ``rows``, in an order of its own or as they are."""
    if not in_order:
        rows = rows[np.random.default_rng([trainer.training.seed, 2, trainer.step]).permutation(len(rows))]
    mean_loss, coverage = trainer.run(rows)
    if not math.isfinite(mean_loss):
        raise DataError(
            f"Training went out of bounds: with learning_rate={trainer.training.learning_rate:g} scores left the range "
            "of numbers. Take a lower rate or 'auto', a smaller l2 or bias, or scale X down."
        )
    return mean_loss, coverage


def learn_on(learning: Learning, weights: ClassWeights, step: int, n_averaged: int) -> Float64:
    """One more pass, which changes the weights where they are. ``step`` examples were shown before, of which the last
    ``n_averaged`` are in the averages."""
    # Returns shape (1, 2)
    rows = learning.examples.weighted()
    trainer = learning.trainer_of(weights, learning.training, step, n_averaged)
    show = partial(train_pass, trainer, in_order=learning.in_order)
    return np.array(map_parallel(show, [rows], costs=[len(rows)], description="Training"))


@dataclass(frozen=True, eq=False)
class Trials:
    """Trainings of a part of the rows with several optimisers and rates, judged by the others."""

    learning: Learning
    tree: LabelTree
    holdout: Examples
    rows: Int64  # the examples of a pass
    stops_early: bool  # whether enough rows judge to tell the best number of passes
    n_jobs: int

    @classmethod
    def of(cls, learning: Learning, tree: LabelTree, n_jobs: int) -> Trials | None:
        """A tenth of the rows judge. Where there are too few for a holdout, the training rows judge. None where
        optimiser and rate are given, or there is nothing to learn."""
        if not learning.optimizers or learning.examples.n_classes == 1:
            return None
        rows = learning.examples.weighted()
        judged = learned = rows[np.random.default_rng([learning.training.seed, 3]).permutation(len(rows))]
        n_holdout = min(len(rows) // 10, _MOST_JUDGED)
        if len(rows) >= _FEWEST_ROWS:
            judged, learned = judged[:n_holdout], learned[n_holdout:]
        holdout = learning.examples.only(judged[:_MOST_JUDGED])
        return cls(learning, tree, holdout, learned[:_MOST_SHOWN], n_holdout >= _FEWEST_JUDGED, n_jobs)

    @property
    def cost(self) -> int:
        """Examples that all trials show at most."""
        optimizers, epochs = self.learning.optimizers, self.learning.epochs
        n_finals = _N_FINALS * len(optimizers) if epochs > 1 else 0
        return sum(len(_STEPS[name]) for name in optimizers) * self._n_first + n_finals * epochs * len(self.rows)

    @property
    def _n_first(self) -> int:
        """Examples that a first trial shows."""
        return max(len(self.rows), min(_FEWEST_SHOWN, self.learning.epochs * len(self.rows)))

    def best(self, runner: Runner) -> tuple[ClassTraining, int]:
        """The training that ranks held-out rows best, and after how many passes it does. All rates have one pass; of
        each optimiser the best then have up to ``epochs``, and end when they get worse."""
        optimizers, epochs = self.learning.optimizers, self.learning.epochs
        first = self._reached("first", [self._rates(name) for name in optimizers], 1, runner)
        if not first:  # rather any rate than none
            return self._rates(optimizers[0])[0], epochs
        if epochs == 1:
            return _middle(first)[0], 1
        if not (finals := self._reached("final", [_finals(first, name) for name in optimizers], epochs, runner)):
            return _middle(first)[0], epochs
        training, marks = _middle(finals)
        return training, _best_pass(marks) if self.stops_early else epochs

    def _rates(self, optimizer: Optimizer) -> list[ClassTraining]:
        """Learning rates to try, rising: steps of certain sizes, over what a row's features turn a step into."""
        examples, training = self.learning.examples.only(self.rows[:_MOST_JUDGED]), self.learning.training
        X = examples.X
        values = np.abs((X.data if isinstance(X, Csr) else X).astype(np.float64))
        power = 1 if optimizer == "adagrad" else 2
        size = float((values**power).sum()) / len(examples.ids) + abs(training.bias) ** power
        if power == 2 and examples.weight is not None:  # a step is as many times larger; rows that weigh most count
            weight = examples.weight.astype(np.float64)
            size *= float(np.square(weight).sum() / weight.sum())
        rates = [float(f"{step / max(size, 1e-30):.2g}") for step in _STEPS[optimizer]]
        return [replace(training, optimizer=optimizer, learning_rate=rate) for rate in rates]

    def _reached(self, name: str, trainings: list[list[ClassTraining]], n_passes: int, runner: Runner) -> list[Tried]:
        """Each optimiser's trainings, by rising rates, and what they reached, up to its first without numbers."""
        rows = np.resize(self.rows, self._n_first) if name == "first" else self.rows
        size = self.learning.weight_bytes(sum(self.tree.layer_sizes))
        jobs = [
            Job(
                f"{name}-{training.optimizer}{number}", _tried,
                {"trials": self, "training": training, "n_passes": n_passes, "rows": rows},
                n_passes * len(rows), size, packing=ARRAY, title="trying a learning rate",
            )
            for of_optimizer in trainings for number, training in enumerate(of_optimizer)
        ]  # fmt: skip
        results, tried = iter(runner.each(jobs)), []
        for of_optimizer in trainings:
            for training, reached in [(training, next(results)) for training in of_optimizer]:
                if not np.isfinite(marks := reached()).all():
                    break  # as with every higher one
                tried.append((training, marks))
        return tried


def _finals(first: list[Tried], optimizer: Optimizer) -> list[ClassTraining]:
    """The best rates of an optimiser, rising."""
    tried = [(training, marks) for training, marks in first if training.optimizer == optimizer]
    best = sorted(range(len(tried)), key=lambda i: tried[i][1][-1].mean(), reverse=True)[:_N_FINALS]
    return [tried[i][0] for i in sorted(best)]


def _middle(tried: list[Tried]) -> Tried:
    """The training that ranked holdout rows best at its best pass. Of several, which few or easy rows leave, the middle
    rate of the last optimiser: AdaGrad's rate depends least on the size of the features."""
    best = max(_smooth(marks).max() for _, marks in tried)
    equal = [(training, marks) for training, marks in tried if _smooth(marks).max() == best]
    equal = [(training, marks) for training, marks in equal if training.optimizer == equal[-1][0].optimizer]
    return equal[len(equal) // 2]


def _best_pass(marks: Marks) -> int:
    """The last of the passes that ranked the most rows right: where all are right, probabilities sharpen on."""
    smooth = _smooth(marks)
    return int(np.flatnonzero(smooth == smooth.max())[-1]) + 1


def _smooth(marks: Marks) -> Float64:
    """One mark a pass: the mean of both, of the pass and those beside it. What counts is the share of rows whose class
    is first, but of a few thousand rows it moves by chance, and the places of all classes and neighbouring passes move
    less together."""
    means = marks.mean(axis=1)
    return np.array([round(float(means[max(i - 1, 0) : i + 2].mean()), 9) for i in range(len(means))])


def _tried(trials: Trials, training: ClassTraining, n_passes: int, rows: Int64) -> Marks:
    """After each pass the share of holdout rows whose class is ranked first, and the mean of 1 / its place. NaN where
    scores left the range of numbers."""
    trainer, marks = trials.learning.trainer(training, trials.tree), []
    worse, most = 0, -math.inf
    for number in range(n_passes):
        order = np.random.default_rng([training.seed, 4, number]).permutation(rows) if number else rows
        if not math.isfinite(trainer.run(order)[0]):
            return np.full((1, 2), np.nan)
        marks.append(_mark(trials, trainer))
        mean = sum(marks[-1]) / 2
        worse, most = (worse + 1 if mean < most else 0), max(most, mean)
        if worse >= _PATIENCE and trials.stops_early:
            break
    return np.array(marks)


def _mark(trials: Trials, trainer: ClassTrainer) -> list[float]:
    holdout, training = trials.holdout, trainer.training
    weights = ranked_by(trainer.weights, training.optimizer, trainer.n_averaged)
    top = rank_by_beam(
        weights, holdout.X, min(_PLACES, holdout.n_classes), trials.learning.beam, loss=training.loss,
        bias=training.bias, raw=True, n_jobs=trials.n_jobs,
    )  # fmt: skip
    right: Any = top.labels == holdout.ids[:, None]
    places = (right / np.arange(1, right.shape[1] + 1)).sum(axis=1)
    return [round(float(np.average(each, weights=holdout.weight)), 9) for each in (right[:, 0], places)]


def plan_training(learning: Learning, runner: Runner) -> Plan:
    """The plan of a training: its tree is made, its other jobs are asked for their cost, which is in rows shown."""
    learning.need_room()
    resident, available = resident_bytes(), available_bytes()
    with timed(runner.n_jobs) as making:
        tree = runner.one(learning.tree_job(runner.n_jobs))
    phases = [Phase("tree", making.seconds, max(0, resident_bytes() - resident))]
    trials = Trials.of(learning, tree, runner.n_jobs)
    passes = learning.passes_job(tree, learning.training, learning.epochs)
    per_row = _seconds_a_row(learning, tree) if passes.cost else 0.0
    if learning.optimizers:
        phases.append(Phase("learning rate", (trials.cost if trials else 0) * per_row, passes.peak_bytes))
    phases.append(Phase("training", passes.cost * per_row, passes.peak_bytes))
    return Plan(
        sum(phase.seconds for phase in phases),
        resident + max(phase.peak_bytes for phase in phases),
        passes.peak_bytes + _TREE_BYTES * learning.examples.n_classes,
        None if available is None else resident + available,
        tuple(phases),
        ("fewer features", *(["optimizer='sgd', a third as much"] if learning.training.optimizer != "sgd" else [])),
    )


def _seconds_a_row(learning: Learning, tree: LabelTree) -> float:
    """Seconds of a step, from some hundred of them; the first, whose weights are all 0, aren't counted."""
    rows = learning.examples.weighted()
    some = np.resize(rows[np.random.default_rng(learning.training.seed).permutation(len(rows))], _SHOWN)
    training = replace(learning.training, learning_rate=_RATE)
    trainer = learning.trainer(training, tree)
    train_pass(trainer, some)
    start, n_seen, seconds = time.process_time(), 0, 0.0
    # Until the clock has moved: on some machines it does in steps of ten milliseconds.
    while n_seen < _SHOWN or seconds == 0 or (seconds < _ENOUGH_SECONDS and n_seen < len(rows)):
        train_pass(trainer, some)
        n_seen += len(some)
        seconds = time.process_time() - start
    return seconds / n_seen
