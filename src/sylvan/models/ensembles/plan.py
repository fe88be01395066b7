"""What the training of several models would need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sylvan.models.ensembles import members as joining
from sylvan.models.ensembles.members import TrainingRows
from sylvan.runtime.memory import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan, state_bytes, timed

_TRIED = 2_000  # rows, of members without a plan


def members_plan(members: Sequence[Any], training: TrainingRows, options: Sequence[Mapping[str, Any]]) -> Plan:
    """The members' plans one after another; a member without a plan is trained on some of the rows."""
    weight = {} if training.weight is None else {"sample_weight": training.weight}
    plans: list[Plan] = []
    for member, extra in zip(members, options, strict=True):
        if hasattr(getattr(member, "model", member), "plan"):
            plans.append(member.plan(training.rows, training.labels, **weight, **extra))
        else:
            plans.append(_plan_by_some(member, training, extra))
    phases = [replace(phase, name=f"member{i} {phase.name}") for i, plan in enumerate(plans) for phase in plan.phases]
    seconds, peak = sum(plan.seconds for plan in plans), max(plan.peak_bytes for plan in plans)
    models = sum(plan.model_bytes for plan in plans)
    available = min((plan.available_bytes for plan in plans if plan.available_bytes is not None), default=None)
    return Plan(seconds, peak, models, available, tuple(phases))


def _plan_by_some(member: Any, training: TrainingRows, options: Mapping[str, Any]) -> Plan:
    """A plan by a training on some of the rows."""
    rows = np.unique(np.linspace(0, training.n_rows - 1, min(training.n_rows, _TRIED)).astype(np.int32))
    fit_options = dict(options) if training.weight is None else {**options, "sample_weight": training.weight[rows]}
    some, labels, resident = joining.take(training.rows, rows), joining.take(training.labels, rows), resident_bytes()
    with timed(1) as clock:
        trained = joining.fresh(member).fit(some, labels, **fit_options)
    times = training.n_rows / len(rows)
    n_bytes = int(state_bytes(trained.to_state()) * times)
    phase = Phase("training", clock.seconds * times, n_bytes)
    sampled = 0 if len(rows) == training.n_rows else len(rows)
    return Plan(phase.seconds, resident + n_bytes, n_bytes, available_bytes(), (phase,), sampled_rows=sampled)
