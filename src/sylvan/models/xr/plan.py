"""A plan before work: how long a training will take, how much memory, how large the model; and what would fit."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sylvan.errors import MemoryLimitError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.models.label_names import names_for
from sylvan.parallel import resolve_jobs
from sylvan.ranking.estimate import RankerEstimate, estimate_ranker
from sylvan.runtime.machine import available_bytes, resident_bytes
from sylvan.runtime.memory import shown_bytes
from sylvan.store import State
from sylvan.validate import Csr

__all__ = ["Phase", "Plan", "need_plan", "rankers_plan", "shown_seconds", "text_plan", "timed"]

TREE_BYTES = 16  # of a finished tree and the label counts, a label
AGAIN = 0.3  # of a training's time, to solve it again without the rows that calibrate it
DEEP = 100  # max_leaf of a tree that is as deep as pays


@dataclass(frozen=True)
class Phase:
    """One phase of a training: its seconds, and the bytes that it adds at its worst to what was there before."""

    name: str
    seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Plan:
    """What a training is expected to take.

    Attributes
    ----------
    seconds : float
        Until the model is trained, from features in memory (from texts in memory for a text model).
    peak_bytes : int
        Most memory that the process will hold, the data and what it holds already included.
    model_bytes : int
        Size of the saved model.
    available_bytes : int or None
        Memory that the process could hold on this machine now; None where the system doesn't tell.
    phases : tuple of Phase
    offers : tuple of str
        What would take less memory, and how much less; the most harmless first.
    """

    seconds: float
    peak_bytes: int
    model_bytes: int
    available_bytes: int | None
    phases: tuple[Phase, ...] = ()
    offers: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the machine has the memory, as far as is known."""
        return self.available_bytes is None or self.peak_bytes <= self.available_bytes

    def check(self) -> None:
        """Refuse to go on without the memory.

        Raises
        ------
        MemoryLimitError
            With the numbers and with what would fit.
        """
        if not self.fits and self.available_bytes is not None:
            raise MemoryLimitError(
                f"Training would take about {shown_bytes(self.peak_bytes)} of memory, but there are only "
                f"{shown_bytes(self.available_bytes)}. What takes less: {'; '.join(self.offers) or 'fewer rows'}. "
                "Or go on regardless with force=True (--force)."
            )

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {**asdict(self), "fits": self.fits}

    def text(self) -> str:
        """The plan as a few lines for a terminal."""
        width = max([len(phase.name) for phase in self.phases] + [12])
        lines = [
            f"{phase.name:<{width}}  {shown_seconds(phase.seconds):>9}  +{shown_bytes(phase.peak_bytes)} of memory"
            for phase in self.phases
        ]
        lines += [
            f"{'time':<{width}}  {shown_seconds(self.seconds):>9}",
            f"{'peak memory':<{width}}  {shown_bytes(self.peak_bytes):>9}",
            f"{'saved model':<{width}}  {shown_bytes(self.model_bytes):>9}",
        ]
        if self.available_bytes is not None:
            verdict = "enough" if self.fits else "too little"
            lines.append(f"{'available':<{width}}  {shown_bytes(self.available_bytes):>9}, which is {verdict}")
        if not self.fits:
            lines += ["What takes less:", *(f"  - {offer}" for offer in self.offers)]
        return "\n".join(lines)

    def after(self, phase: Phase, model_bytes: int) -> Plan:
        """The plan with a phase before it, whose part of the model takes ``model_bytes``."""
        return replace(
            self,
            seconds=self.seconds + phase.seconds,
            model_bytes=self.model_bytes + model_bytes,
            phases=(phase, *self.phases),
        )


def state_bytes(state: State) -> int:
    """What the arrays of a state and of its parts take on disk."""
    return sum(array.nbytes for array in state.arrays.values()) + sum(map(state_bytes, state.parts.values()))


def need_plan(model: Any) -> None:
    """Say that a model's training can't be foretold, if that is so.

    Raises
    ------
    ParameterError
    """
    if not hasattr(model, "plan"):
        raise ParameterError(
            f"{type(model).__name__} has no plan: only trainings of XRLinear and BeamTreeClassifier can be foretold."
        )


def text_plan(vectorizer: Any, model: Any, texts: list[str], vocabulary: Any, Y: Any, options: dict[str, Any]) -> Plan:
    """The plan of a text model: its features are made by a copy of the vectoriser, the rest is its model's plan."""
    need_plan(model)
    vectorizer, before = copy.copy(vectorizer), resident_bytes()
    with timed(resolve_jobs(vectorizer.n_jobs)) as clock:
        X = vectorizer.fit_transform(texts)
    phase = Phase("features", clock.seconds, max(0, resident_bytes() - before))
    plan: Plan = model.plan(X, Y, **options, **names_for(model, vocabulary))
    return plan.after(phase, state_bytes(vectorizer.to_state()) + state_bytes(vocabulary.to_state()))


def shown_seconds(seconds: float) -> str:
    """A time as people say it: ``"4.2 s"``, ``"12 min"``, ``"3.5 h"``."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


@dataclass
class timed:
    """A block of code and the seconds that all its threads computed, as if the machine did nothing else."""

    n_jobs: int = 1
    seconds: float = field(default=0.0, init=False)

    def __enter__(self) -> timed:
        self._start = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = (time.process_time() - self._start) / self.n_jobs


def rankers_plan(
    model: Any, features: Csr, labels: Csr, trees: Sequence[tuple[LabelTree, int]], sample_weight: Any,
    n_jobs: int, before: Sequence[Phase] = (), n_folds: int = 0,
) -> Plan:  # fmt: skip
    """The plan of an XRLinear whose trees are made: each tree is taken to be like the first.

    Parameters
    ----------
    model : XRLinear
        Not fitted; its parameters are what is planned.
    trees : sequence of (LabelTree, int)
        Each with its seed.
    before : sequence of Phase
        What was done already.
    n_folds : int
        How many more models are solved beside this one to calibrate it, and let go of when they have ranked their rows.
    """
    now, available = resident_bytes(), available_bytes()
    tree, seed = trees[0]
    estimate = estimate_ranker(features, labels, tree, model._training(tree.depth, seed, n_jobs), sample_weight)
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
