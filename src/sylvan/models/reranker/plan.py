"""What the training of a reranker will take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sylvan.errors import UnsupportedError
from sylvan.models.ensembles.joint import GivenTraining
from sylvan.models.reranker.learning import ordering_rows
from sylvan.ranking.candidate_columns import OF_ALL, OF_MEMBER
from sylvan.runtime.plan import Phase, Plan

__all__ = ["reranker_plan"]

# Seconds for each column of a candidate: to make it, and for each tree to learn from it. Measured on several sets with
# LightGBM on one thread (benchmarks/linear/rerankers.py); what else there is to learn an order takes longer.
_MAKING, _LEARNING = 2e-8, 1.5e-9
_TEACHING = 0.8  # of the rows
_COLUMN_BYTES = 4 * 3  # of a candidate: as made, as listed, and as bins and copies of the library's


def reranker_plan(model: Any, given: GivenTraining, options: Mapping[str, Any]) -> Plan:
    """The members' plans one after another, with the learning of the order.

    Parameters
    ----------
    model : Reranker
        Not fitted.
    given : GivenTraining
    options : mapping
        Of the members' ``fit``.

    Raises
    ------
    UnsupportedError
        When a member has no plan.
    """
    weight = {} if given.weight is None else {"sample_weight": given.weight}
    rows = ordering_rows(given.n_rows, model.held_out, given.weight)
    plans = []
    for at, member in enumerate(model.members):
        if not hasattr(member, "plan"):
            raise UnsupportedError(f"What member{at} takes can't be estimated: a {type(member).__name__} has no plan.")
        plans.append(member.plan(given.rows, given.labels, **weight, **options))
    phases = [
        replace(phase, name=f"member{at} {phase.name}") for at, plan in enumerate(plans) for phase in plan.phases
    ]
    models = sum(plan.model_bytes for plan in plans)
    seconds, peak, available = sum(plan.seconds for plan in plans), max(plan.peak_bytes for plan in plans), None
    known = [plan.available_bytes for plan in plans if plan.available_bytes is not None]
    if known:
        available = min(known)
    trees = model.n_trees * 2 ** (model.depth + 2) * 4
    if rows is not None:
        n_columns = len(OF_MEMBER) * len(plans) + len(OF_ALL)
        n = float(len(rows)) * model.candidates * n_columns
        order = Phase("order", n * (_MAKING + _TEACHING * model.n_trees * _LEARNING), int(n * _COLUMN_BYTES))
        phases, seconds = [*phases, order], seconds + order.seconds
        peak = max(peak, peak - max((phase.peak_bytes for phase in phases), default=0) + models + order.peak_bytes)
    return Plan(seconds, int(peak), int(models + trees), available, tuple(phases))
