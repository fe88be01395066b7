"""The optimiser, its learning rate and the number of passes, by trials on held-out rows (CANE, appendix D)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.canonical import Csr
from sylvan.indexing import LabelTree
from sylvan.matching.class_beam import Scores
from sylvan.models.beam_tree.examples import Examples
from sylvan.models.beam_tree.search import rank_by_beam
from sylvan.models.beam_tree.trainers import new_trainer, ranked_by
from sylvan.ranking.class_training import ClassNoise, ClassTrainer, ClassTraining, Optimizer
from sylvan.runtime import ARRAY, Job, Runner

__all__ = ["Trials"]

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

Marks = npt.NDArray[np.float64]
Tried = tuple[ClassTraining, Marks]


@dataclass(frozen=True, eq=False)
class Trials:
    """Trainings of a part of the rows with several optimisers and rates, judged by the others."""

    examples: Examples
    holdout: Examples
    shown: npt.NDArray[np.int64]  # the examples of a pass
    stops_early: bool  # whether enough rows judge to tell the best number of passes
    training: ClassTraining
    optimizers: tuple[Optimizer, ...]
    epochs: int  # passes at most
    tree: LabelTree  # tree, noise, scores, beam, n_jobs: as in training
    noise: ClassNoise | None
    scores: Scores
    beam: int
    n_jobs: int
    size: int  # bytes of a trial's weights

    @classmethod
    def of(
        cls, examples: Examples, training: ClassTraining, optimizers: tuple[Optimizer, ...], epochs: int,
        tree: LabelTree, noise: ClassNoise | None, scores: Scores, beam: int, n_jobs: int, size: int,
    ) -> Trials:  # fmt: skip
        """A tenth of the rows judge. Where there are too few for a holdout, the rows that are shown do."""
        rows = examples.weighted()
        order = rows[np.random.default_rng([training.seed, 3]).permutation(len(rows))]
        judged = shown = order
        n_holdout = min(len(order) // 10, _MOST_JUDGED)
        if len(order) >= _FEWEST_ROWS:
            judged, shown = order[:n_holdout], order[n_holdout:]
        return cls(
            examples, examples.only(judged[:_MOST_JUDGED]), shown[:_MOST_SHOWN], n_holdout >= _FEWEST_JUDGED, training,
            optimizers, epochs, tree, noise, scores, beam, n_jobs, size,
        )  # fmt: skip

    @property
    def cost(self) -> int:
        """Examples that all trials show at most."""
        n_finals = _N_FINALS * len(self.optimizers) if self.epochs > 1 else 0
        n_first = sum(len(_STEPS[name]) for name in self.optimizers)
        return n_first * self._n_first_shown + n_finals * self.epochs * len(self.shown)

    @property
    def _n_first_shown(self) -> int:
        return max(len(self.shown), min(_FEWEST_SHOWN, self.epochs * len(self.shown)))

    def best(self, runner: Runner) -> tuple[ClassTraining, int]:
        """The training that ranks held-out rows best, and after how many passes it does. All rates have one pass; of
        each optimiser the best then have up to ``epochs``, and end when they get worse."""
        first = self._reached("first", [self._rates(name) for name in self.optimizers], 1, runner)
        if not first:  # rather any rate than none
            return self._rates(self.optimizers[0])[0], self.epochs
        if self.epochs == 1:
            return _middle(first)[0], 1
        finals = self._reached("final", [_finals(first, name) for name in self.optimizers], self.epochs, runner)
        if not finals:
            return _middle(first)[0], self.epochs
        training, marks = _middle(finals)
        return training, _best_pass(marks) if self.stops_early else self.epochs

    def _rates(self, optimizer: Optimizer) -> list[ClassTraining]:
        """Learning rates to try, rising: steps of certain sizes, over what a row's features turn a step into."""
        examples = self.examples.only(self.shown[:_MOST_JUDGED])
        X = examples.X
        values = np.abs((X.data if isinstance(X, Csr) else X).astype(np.float64))
        power = 1 if optimizer == "adagrad" else 2
        size = float((values**power).sum()) / len(examples.ids) + abs(self.training.bias) ** power
        if power == 2 and examples.weight is not None:  # a step is as many times larger; rows that weigh most count
            weight = examples.weight.astype(np.float64)
            size *= float(np.square(weight).sum() / weight.sum())
        rates = [float(f"{step / max(size, 1e-30):.2g}") for step in _STEPS[optimizer]]
        return [replace(self.training, optimizer=optimizer, learning_rate=rate) for rate in rates]

    def _reached(
        self, name: str, trainings: list[list[ClassTraining]], n_passes: int, runner: Runner
    ) -> list[Tried]:  # fmt: skip
        """Each optimiser's trainings, by rising rates, and what they reached, up to its first without numbers."""
        shown = np.resize(self.shown, self._n_first_shown) if name == "first" else self.shown
        jobs = [
            Job(
                f"{name}-{training.optimizer}{number}", _tried,
                {"trials": self, "training": training, "n_passes": n_passes, "shown": shown},
                n_passes * len(shown), self.size, packing=ARRAY, title="trying a learning rate",
            )
            for own in trainings for number, training in enumerate(own)
        ]  # fmt: skip
        results = iter(runner.each(jobs))
        found: list[Tried] = []
        for own in trainings:
            for training, reached in [(training, next(results)) for training in own]:
                marks = reached()
                if not np.isfinite(marks).all():
                    break  # as with every higher one
                found.append((training, marks))
        return found


def _finals(first: list[Tried], optimizer: Optimizer) -> list[ClassTraining]:
    """The best rates of an optimiser, rising."""
    own = [tried for tried in first if tried[0].optimizer == optimizer]
    best = sorted(range(len(own)), key=lambda at: own[at][1][-1].mean(), reverse=True)[:_N_FINALS]
    return [own[at][0] for at in sorted(best)]


def _middle(tried: list[Tried]) -> Tried:
    """The training that ranked holdout rows best at its best pass. Of several, which few or easy rows leave, the middle
    rate of the last optimiser: AdaGrad's rate depends least on the size of the features."""
    best = max(_smooth(marks).max() for _, marks in tried)
    equal = [one for one in tried if _smooth(one[1]).max() == best]
    equal = [one for one in equal if one[0].optimizer == equal[-1][0].optimizer]
    return equal[len(equal) // 2]


def _best_pass(marks: Marks) -> int:
    """The last of the passes that ranked the most rows right: where all are right, probabilities sharpen on."""
    smooth = _smooth(marks)
    return int(np.flatnonzero(smooth == smooth.max())[-1]) + 1


def _smooth(marks: Marks) -> npt.NDArray[np.float64]:
    """One mark a pass: the mean of both, of the pass and those beside it. What counts is the share of rows whose class
    is first, but of a few thousand rows it moves by chance, and the places of all classes and neighbouring passes move
    less together."""
    means = marks.mean(axis=1)
    return np.array([round(float(means[max(at - 1, 0) : at + 2].mean()), 9) for at in range(len(means))])


def _tried(trials: Trials, training: ClassTraining, n_passes: int, shown: npt.NDArray[np.int64]) -> Marks:
    """After each pass the share of holdout rows whose class is ranked first, and the mean of 1 / its place. NaN where
    scores left the range of numbers."""
    trainer, marks = new_trainer(trials.examples, training, trials.tree, trials.noise, trials.scores), []
    worse, most = 0, -math.inf
    for number in range(n_passes):
        order = np.random.default_rng([training.seed, 4, number]).permutation(shown) if number else shown
        if not math.isfinite(trainer.run(order).mean_loss):
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
        weights, holdout.X, min(_PLACES, holdout.n_classes), trials.beam, loss=training.loss, bias=training.bias,
        raw=True, n_jobs=trials.n_jobs,
    )  # fmt: skip
    right: Any = top.labels == holdout.ids[:, None]
    places = (right / np.arange(1, right.shape[1] + 1)).sum(axis=1)
    return [round(float(np.average(each, weights=holdout.weight)), 9) for each in (right[:, 0], places)]
