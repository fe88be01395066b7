"""Samplers of a given distribution, and of given draws, which the tests of losses know everything about."""

from __future__ import annotations

import torch
from torch import Tensor

from sylvan.sampling import Draw, Sampler

__all__ = ["Given", "Scripted"]


class Given(Sampler):
    """Draws from one distribution for every query, or from one tilted by the query's first number."""

    def __init__(self, probabilities: Tensor, tilted: bool = False) -> None:
        super().__init__(len(probabilities))
        self.probabilities = probabilities
        self.tilted = tilted
        self.adaptive = tilted  # type: ignore[misc]
        self._refreshed = True
        self.observed: Tensor | None = None

    def observe(self, targets: Tensor) -> None:
        self.observed = targets

    def shares(self, queries: Tensor) -> Tensor:
        """Every class's probability for every query."""
        logs = self.probabilities.log().expand(len(queries), -1)
        if self.tilted:
            logs = logs + queries[:, :1] * torch.linspace(-1, 1, self.n_classes)
        return logs.softmax(dim=1)

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        shares = self.shares(queries)
        ids = torch.multinomial(shares, n, replacement=True, generator=generator)
        return Draw(ids, shares.gather(1, ids).log())

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        return self.shares(queries).gather(1, ids).log()


class Scripted(Given):
    """Returns the same draws every time."""

    def __init__(self, probabilities: Tensor, ids: Tensor) -> None:
        super().__init__(probabilities)
        self.ids = ids

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        ids = self.ids if self.ids.dim() == 2 else self.ids.expand(len(queries), -1)
        return Draw(ids, self.probabilities.log()[ids])
