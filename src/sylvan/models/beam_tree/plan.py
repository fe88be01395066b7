"""What the training of a BeamTreeClassifier would take, from its tree and a few hundred rows."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from sylvan.indexing import LabelTree
from sylvan.models.beam_tree.trainers import new_trainer
from sylvan.models.beam_tree.training import Learning, train_pass
from sylvan.runtime import Runner
from sylvan.runtime.machine import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan, timed

__all__ = ["plan_training"]

_TREE_BYTES = 16  # of a finished tree and the class counts, a class

_SHOWN = 300  # rows at first; as many again and again until the time can be measured
_ENOUGH_SECONDS = 0.2
_RATE = 1e-3  # any that stays within bounds


def plan_training(learning: Learning, runner: Runner) -> Plan:
    """The plan of a training: its tree is made, its other jobs are asked for their cost, which is in rows shown."""
    learning.need_room()
    now, available = resident_bytes(), available_bytes()
    with timed(runner.n_jobs) as making:
        tree = runner.one(learning.tree_job(runner.n_jobs))
    phases = [Phase("tree", making.seconds, max(0, resident_bytes() - now))]
    trials = learning.trials(tree, runner.n_jobs)
    passes = learning.passes_job(tree, learning.training, learning.epochs)
    per_row = _seconds_a_row(learning, tree) if passes.cost else 0.0
    if learning.optimizers:
        phases.append(Phase("learning rate", (trials.cost if trials else 0) * per_row, passes.peak_bytes))
    phases.append(Phase("training", passes.cost * per_row, passes.peak_bytes))
    return Plan(
        sum(phase.seconds for phase in phases),
        now + max(phase.peak_bytes for phase in phases),
        passes.peak_bytes + _TREE_BYTES * learning.examples.n_classes,
        None if available is None else now + available,
        tuple(phases),
        ("fewer features", *(["optimizer='sgd', a third as much"] if learning.training.optimizer != "sgd" else [])),
    )


def _seconds_a_row(learning: Learning, tree: LabelTree) -> float:
    """Seconds of a step, from some hundred of them; the first, whose weights are all 0, aren't counted."""
    rows = learning.examples.weighted()
    some = np.resize(rows[np.random.default_rng(learning.training.seed).permutation(len(rows))], _SHOWN)
    training = replace(learning.training, learning_rate=_RATE)
    trainer = new_trainer(learning.examples, training, tree, learning.noise, learning.scores)
    train_pass(trainer, some)
    start, shown, seconds = time.process_time(), 0, 0.0
    # Until the clock has moved: on some machines it does in steps of ten milliseconds.
    while shown < _SHOWN or seconds == 0 or (seconds < _ENOUGH_SECONDS and shown < len(rows)):
        train_pass(trainer, some)
        shown += len(some)
        seconds = time.process_time() - start
    return seconds / shown
