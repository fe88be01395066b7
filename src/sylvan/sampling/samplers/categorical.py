"""Draws from one fixed distribution over classes in constant time each: Walker's alias method."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["alias_table", "draw_alias"]


def alias_table(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The table of Walker's alias method (1977), built without a loop over classes: a draw picks a cell uniformly, then
    the cell's own class with probability ``threshold``, else its ``alias``. Cells of classes below the mean are topped
    up, in order, from the surplus of those above it, by running sums as in Hübschle-Schneider and Sanders (2019)."""
    # Shape: weights (n,); returns threshold (n,), alias (n,)
    n = len(weights)
    scaled = weights * (n / weights.sum())  # mean 1
    above = scaled >= 1
    above[scaled.argmax()] = True  # of equal weights, each may round to just below 1
    givers, takers = above.nonzero()[:, 0], (~above).nonzero()[:, 0]
    threshold = scaled.clamp(max=1.0)
    alias = torch.arange(n, device=weights.device)
    if len(takers) == 0:
        return torch.ones_like(scaled), alias
    given = (scaled[givers] - 1).clamp(min=0).cumsum(0)  # surplus up to and with each giver
    taken = (1 - scaled[takers]).cumsum(0)  # deficit up to and with each taker
    before = torch.cat([taken.new_zeros(1), taken[:-1]])
    alias[takers] = givers[torch.searchsorted(given, before, right=True).clamp(max=len(givers) - 1)]
    # What the last taker that began within a giver's surplus takes beyond it, the giver owes to the next giver.
    last = torch.searchsorted(before, given)  # how many takers began before each giver's surplus was spent
    reached = torch.where(last > 0, taken[(last - 1).clamp(min=0)], 0.0)
    owed = (reached - given).clamp(0, 1)
    owed[-1] = 0.0  # nobody is left to pay; what rounding leaves there is of its own order
    threshold[givers] = 1 - owed
    alias[givers[:-1]] = givers[1:]
    alias[givers[-1]] = givers[-1]
    alias = torch.where(threshold >= 1, torch.arange(n, device=alias.device), alias)
    return threshold, alias


def draw_alias(
    threshold: Tensor, alias: Tensor, shape: Sequence[int], generator: torch.Generator | None = None
) -> Tensor:
    """Independent draws by the table of :func:`alias_table`."""
    # Shape: threshold, alias (n,)
    device = threshold.device
    cells = torch.randint(len(threshold), tuple(shape), generator=generator, device=device)
    coins = torch.rand(tuple(shape), generator=generator, device=device, dtype=torch.float64)
    return torch.where(coins < threshold[cells], cells, alias[cells])
