"""What the training of a reranker will take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sylvan.labels.targets import encode_labels
from sylvan.models.encoders.encoded_labels import first_terms
from sylvan.models.ensembles.joint import TrainingRows
from sylvan.models.ensembles.members import fresh, take
from sylvan.models.reranker.learning import ordering_rows
from sylvan.models.reranker.order import column_names
from sylvan.models.text_plan import with_encoding
from sylvan.runtime.memory import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan, state_bytes, timed

# Seconds for each column of a candidate: to make it, and for each tree to learn from it, with LightGBM on one thread,
# as benchmarks/linear/rerankers.py has them; Sylvan's own trees take longer.
_MAKING, _LEARNING = 2e-8, 2e-9
_TRIED = 2_000  # rows, of members without a plan
_TEACHING = 0.8  # of the rows
_COLUMN_BYTES = 4 * 3  # of a candidate: as made, as listed, and as bins and copies of the library's


def reranker_plan(model: Any, training: TrainingRows, options: Sequence[Mapping[str, Any]], label_texts: Any) -> Plan:
    """The members' plans one after another, with the learning of the order."""
    weight = {} if training.weight is None else {"sample_weight": training.weight}
    rows = ordering_rows(training.n_rows, model.held_out, training.weight)
    plans = []
    for member, own in zip(model.members, options, strict=True):
        if hasattr(getattr(member, "model", member), "plan"):
            plans.append(member.plan(training.rows, training.labels, **weight, **own))
        else:
            plans.append(_plan_by_some(member, training, own))
    phases = [replace(phase, name=f"member{at} {phase.name}") for at, plan in enumerate(plans) for phase in plan.phases]
    models = sum(plan.model_bytes for plan in plans)
    seconds, peak, available = sum(plan.seconds for plan in plans), max(plan.peak_bytes for plan in plans), None
    known = [plan.available_bytes for plan in plans if plan.available_bytes is not None]
    if known:
        available = min(known)
    trees = model.n_trees * 2 ** (model.depth + 2) * 4
    if rows is not None:
        n_columns = len(column_names(model.members, model.label_encoder is not None, 0, 0))
        n = float(len(rows)) * model.candidates * n_columns
        order = Phase("order", n * (_MAKING + _TEACHING * model.n_trees * _LEARNING), int(n * _COLUMN_BYTES))
        phases, seconds = [*phases, order], seconds + order.seconds
        peak = max(peak, peak - max((phase.peak_bytes for phase in phases), default=0) + models + order.peak_bytes)
    plan = Plan(seconds, int(peak), int(models + trees), available, tuple(phases))
    if model.label_encoder is None:
        return plan
    names = encode_labels(training.labels)[0]
    labels = first_terms(label_texts, names)
    texts = [] if rows is None else take(training.rows, rows)
    return with_encoding(plan, model.label_encoder, labels, texts, model.n_jobs)


def _plan_by_some(member: Any, training: TrainingRows, options: Mapping[str, Any]) -> Plan:
    """A plan by a training on some of the rows."""
    rows = np.unique(np.linspace(0, training.n_rows - 1, min(training.n_rows, _TRIED)).astype(np.int32))
    own = dict(options) if training.weight is None else {**options, "sample_weight": training.weight[rows]}
    some, labels, now = take(training.rows, rows), take(training.labels, rows), resident_bytes()
    with timed(1) as clock:
        made = fresh(member).fit(some, labels, **own)
    times = training.n_rows / len(rows)
    n_bytes = int(state_bytes(made.to_state()) * times)
    phase = Phase("training", clock.seconds * times, n_bytes)
    sampled = 0 if len(rows) == training.n_rows else len(rows)
    return Plan(phase.seconds, now + n_bytes, n_bytes, available_bytes(), (phase,), sampled_rows=sampled)
