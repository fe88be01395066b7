"""What training an XRLinear will take: time, memory, the size of the model; and what would take less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sylvan.indexing import LabelTree
from sylvan.ranking.estimate import RankerEstimate, estimate_ranker
from sylvan.ranking.training import TreeTraining
from sylvan.runtime.machine import available_bytes, resident_bytes
from sylvan.runtime.memory import shown_bytes
from sylvan.runtime.plan import Phase, Plan
from sylvan.validate import Csr

__all__ = ["rankers_plan"]

TREE_BYTES = 16  # of a finished tree and the label counts, a label
AGAIN = 0.3  # of a training's time, to solve it again without the rows that calibrate it
DEEP = 100  # max_leaf of a tree that is as deep as pays


def rankers_plan(
    model: Any, features: Csr, labels: Csr, trees: Sequence[LabelTree], training: TreeTraining, sample_weight: Any,
    n_jobs: int, before: Sequence[Phase] = (), n_folds: int = 0,
) -> Plan:  # fmt: skip
    """The plan of an XRLinear whose trees are made: each tree is taken to be like the first.

    Parameters
    ----------
    model : XRLinear
        Not fitted; its parameters are what is planned.
    trees : sequence of LabelTree
    training : TreeTraining
        How the rankers of the first are trained.
    before : sequence of Phase
        What was done already.
    n_folds : int
        How many more models are solved beside this one to calibrate it, and let go of when they have ranked their rows.
    """
    now, available = resident_bytes(), available_bytes()
    estimate = estimate_ranker(features, labels, trees[0], training, sample_weight, n_jobs)
    n_trees, own = len(trees), TREE_BYTES * labels.shape[1]
    each = estimate.model_bytes + own
    peak = (n_trees - 1) * each + estimate.peak_bytes() + own  # when the last tree is trained
    solved = sum(layer.solved for layer in estimate.layers)
    phases = [*before, Phase("rankers", n_trees * estimate.seconds, peak)]
    if n_folds:
        seconds = n_folds * n_trees * estimate.seconds * AGAIN
        phases.append(Phase("calibration", seconds, peak + n_folds * (n_trees * each + solved)))
    plan = Plan(
        sum(phase.seconds for phase in phases), now + max(phase.peak_bytes for phase in phases), n_trees * each,
        None if available is None else now + available, tuple(phases),
    )  # fmt: skip
    if plan.fits:
        return plan
    beside = now + phases[-1].peak_bytes - estimate.peak_bytes()
    return replace(plan, offers=tuple(_offers(model, estimate, n_trees, beside, plan, now)))


def _offers(model: Any, estimate: RankerEstimate, n_trees: int, beside: int, plan: Plan, now: int) -> Iterator[str]:
    """What takes less memory, with how much it would be; the most harmless first."""

    def offer(words: str, n_bytes: int) -> Iterator[str]:
        if n_bytes - now < 0.98 * (plan.peak_bytes - now):  # of what the training adds
            yield f"{words} (about {shown_bytes(n_bytes)})"

    available = plan.available_bytes or 0
    yield f"memory_limit={shown_bytes(available).replace(' ', '')!r}, which works in parts and on disk"
    if estimate.n_jobs > 1:
        yield from offer("n_jobs=1", beside + estimate.peak_bytes(n_jobs=1))
    for threshold in (2 * model.threshold or 0.1, 3 * model.threshold or 0.2):
        share = estimate.left(threshold)
        yield from offer(f"threshold={threshold:.3g}", beside + estimate.peak_bytes(share=share))
    if n_trees > 1:
        yield from offer("n_trees=1", beside + estimate.peak_bytes() - (n_trees - 1) * estimate.model_bytes)
    if model.max_leaf > DEEP:
        yield f"max_leaf={DEEP}, a deeper tree, whose clusters see fewer rows"
