"""When a sampler's index is built again: often while the embeddings move fast, seldom later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sylvan.params import Constraint, Number, Parameterized

__all__ = ["RefreshSchedule"]


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

    every: int = 20
    early_every: int = 10
    early_steps: int = 200

    constraints: ClassVar[dict[str, Constraint]] = {
        "every": Number(int, 1),
        "early_every": Number(int, 1),
        "early_steps": Number(int, 0),
    }

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
