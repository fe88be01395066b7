"""When a sampler's index is built again: often while the embeddings move fast, seldom later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sylvan.params import Constraint, Number, Parameterized

__all__ = ["RefreshSchedule"]


@dataclass(repr=False)
class RefreshSchedule(Parameterized):
    """Every ``early_every`` steps up to step ``early_steps``, every ``every`` steps from then on; step 0 is due.

    The defaults come from language models on Penn Treebank, where refreshing more often gained nothing, and an index
    frozen after step 200 lost much.

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
