"""What the training of a BeamTreeClassifier would take, from its tree and a few hundred rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from sylvan.models.beam_tree.training import (
    RATES_TRIED,
    Examples,
    make_tree,
    need_room,
    noise_of,
    train_epochs,
    training_of,
    zero_weights,
)
from sylvan.parallel import quiet, resolve_jobs
from sylvan.runtime.machine import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan, timed

__all__ = ["plan_training"]

_TREE_BYTES = 16  # of a finished tree and the class counts, a class

_SHOWN = 300  # rows at first; as many again and again until the time is enough to tell
_ENOUGH_SECONDS = 0.2


def plan_training(model: Any, examples: Examples) -> Plan:
    """The plan of ``model.fit`` with these examples.

    Raises
    ------
    DataError
        As ``fit``.
    MemoryLimitError
        When the weights alone need more memory than there is.
    """
    need_room(model, examples)
    now, available = resident_bytes(), available_bytes()
    with timed(jobs := resolve_jobs(model.n_jobs)) as making:
        tree = make_tree(model, examples, n_jobs=jobs)
    each = sum(tree.layer_sizes) * (examples.n_features + 1) * 4
    weight = each * (2 if model.optimizer == "adagrad" else 1)
    per_row = _seconds_a_row(model, examples, tree) if examples.n_classes > 1 else 0.0
    n_rows, auto = len(examples.taught()), isinstance(model.learning_rate, str)
    seconds = model.epochs * n_rows * per_row
    phases = [Phase("tree", making.seconds, max(0, resident_bytes() - now))]
    if auto:
        phases.append(Phase("learning rate", RATES_TRIED * 0.5 * n_rows * per_row, weight))
    phases.append(Phase("training", seconds, weight))
    return Plan(
        sum(phase.seconds for phase in phases),
        now + max(phase.peak_bytes for phase in phases),
        weight + _TREE_BYTES * examples.n_classes,
        None if available is None else now + available,
        tuple(phases),
        ("fewer features", *(("optimizer='sgd', half as much",) if weight > each else ())),
    )


def _seconds_a_row(model: Any, examples: Examples, tree: Any) -> float:
    """Seconds of a step, from some hundred of them; the first, whose weights are all 0, aren't counted."""
    weights = zero_weights(tree, examples, model.optimizer == "adagrad")
    noise = noise_of(model.noise, model.noise_power, examples.counts())
    order = examples.taught()
    rows = np.resize(order[np.random.default_rng(model.seed).permutation(len(order))], _SHOWN)
    training, shown = training_of(model, 1e-3, examples.n_classes), 0
    with quiet():
        train_epochs(weights, examples, training, rows, [1.0], noise=noise)
        start = time.process_time()
        while shown < _SHOWN or (time.process_time() - start < _ENOUGH_SECONDS and shown < len(order)):
            train_epochs(weights, examples, training, rows, [1.0], noise=noise, step=shown)
            shown += len(rows)
    return (time.process_time() - start) / shown
