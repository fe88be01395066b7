"""Schedules: learning rates that rise and fall in straight lines, and when a sampler's index is built again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch.optim.lr_scheduler import LambdaLR

from sylvan.params.fields import Parameterized, Range


@dataclass(repr=False)
class WarmupSchedule(Parameterized):
    """Up in a straight line over the first steps, then down in one to ``floor`` at the last step.

    Fine-tuning of a pretrained encoder begins with small steps, because Adam's moments are unreliable at first, and
    ends with small ones (PECOS, section 4.2, as in BERT).

    Parameters
    ----------
    steps : int, from 1
        Steps of the optimiser in all; beyond them the factor stays at ``floor``.
    warmup : float in [0, 1]
        The share of them during which the rate rises. The first step is never of rate 0.
    floor : float in [0, 1]
        The factor after the last step.

    Examples
    --------
    >>> from sylvan.neural import WarmupSchedule
    >>> schedule = WarmupSchedule(steps=10, warmup=0.2)
    >>> [round(schedule.factor(step), 3) for step in range(11)]
    [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0]
    """

    steps: Annotated[int, Range(1)]
    warmup: Annotated[float, Range(0, 1)] = 0.1
    floor: Annotated[float, Range(0, 1)] = 0.0

    def __post_init__(self) -> None:
        self.check_params()

    @property
    def rising(self) -> int:
        """How many steps the rate rises."""
        return round(self.steps * self.warmup)

    def factor(self, step: int) -> float:
        """What the learning rate is multiplied by in a step, counted from 0."""
        if step < self.rising:
            return (step + 1) / self.rising
        left = (self.steps - step) / max(self.steps - self.rising, 1)
        return self.floor + (1 - self.floor) * min(max(left, 0.0), 1.0)

    def schedulers(self, optimizers: Sequence[torch.optim.Optimizer]) -> list[LambdaLR]:
        """One scheduler an optimiser, for ``schedulers`` of a :class:`sylvan.neural.Job`.

        Examples
        --------
        >>> import torch
        >>> from sylvan.neural import WarmupSchedule
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        >>> (scheduler,) = WarmupSchedule(steps=4, warmup=0.5).schedulers([optimizer])
        >>> optimizer.param_groups[0]["lr"]
        0.05
        """
        return [LambdaLR(optimizer, self.factor) for optimizer in optimizers]


@dataclass(repr=False)
class RefreshSchedule(Parameterized):
    """Every ``early_every`` steps up to step ``early_steps``, every ``every`` steps from then on; step 0 is due.

    What a refresh costs grows with the classes, so the tasks take :meth:`for_classes` when they are given none.

    Parameters
    ----------
    every, early_every : int, from 1
    early_steps : int, from 0

    Examples
    --------
    >>> from sylvan.neural import RefreshSchedule
    >>> schedule = RefreshSchedule(every=50, early_every=10, early_steps=20)
    >>> [step for step in range(120) if schedule.due(step)]
    [0, 10, 50, 100]
    """

    every: Annotated[int, Range(1)] = 20
    early_every: Annotated[int, Range(1)] = 10
    early_steps: Annotated[int, Range(0)] = 200

    def __post_init__(self) -> None:
        self.check_params()

    def due(self, step: int) -> bool:
        """Whether the index is to be built before this step, counted from 0."""
        return step % (self.early_every if step < self.early_steps else self.every) == 0

    @classmethod
    def for_classes(cls, n_classes: int) -> RefreshSchedule:
        """Every five steps up to ten thousand classes, and in proportion to their number beyond.

        A step's share of a refresh then costs about the same however many classes there are. In trials on Penn
        Treebank (ten thousand words) every five steps came nearer to the full softmax than every ten, and every two
        hardly nearer than every five.

        Examples
        --------
        >>> RefreshSchedule.for_classes(1_000_000).every
        500
        """
        every = max(5, n_classes // 2000)
        return cls(every=every, early_every=every, early_steps=0)
