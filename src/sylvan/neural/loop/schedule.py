"""Learning rates that rise to their full height and then fall in a straight line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.optim.lr_scheduler import LambdaLR

from sylvan.params import Constraint, Number, Parameterized

__all__ = ["WarmupSchedule"]


@dataclass(repr=False)
class WarmupSchedule(Parameterized):
    """Up in a straight line over the first steps, then down in one to ``floor`` at the last step.

    Fine-tuning of a pretrained encoder begins with small steps, because Adam's moments are not worth much yet, and ends
    with small ones (PECOS, section 4.2, as in BERT).

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

    steps: int
    warmup: float = 0.1
    floor: float = 0.0

    constraints: ClassVar[dict[str, Constraint]] = {
        "steps": Number(int, 1),
        "warmup": Number(float, 0, 1),
        "floor": Number(float, 0, 1),
    }

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
        """One scheduler an optimiser, for :attr:`sylvan.neural.Job.schedulers`.

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
