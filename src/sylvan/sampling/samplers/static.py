"""Samplers that look at neither query nor embedding: every class alike, by Zipf's law, or as often as it occurs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import torch
from torch import Tensor

from sylvan.params.fields import Range, attribute, parameterized
from sylvan.sampling.samplers.base import Draw, Sampler, class_counts


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


class Uniform(Sampler):
    """Draws every class with probability 1 / n_classes.

    Parameters
    ----------
    n_classes : int
        Number of classes, in [1, inf).

    Raises
    ------
    ParameterError
        When a parameter is out of its range.

    References
    ----------
    The static baseline of Chen et al. 2025 (arXiv 2501.08563), section 6.1.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import Uniform
    >>> draw = Uniform(1000).sample(torch.zeros(2, 8), 5)
    >>> draw.ids.shape, round(draw.log_q[0, 0].item(), 3)
    (torch.Size([2, 5]), -6.908)
    """

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        ids = torch.randint(self.n_classes, (len(queries), n), generator=generator, device=queries.device)
        return Draw(ids, self._log_prob(queries, ids))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        return torch.full(ids.shape, -math.log(self.n_classes), device=queries.device)


class LogUniform(Sampler):
    """Draws class k with probability log((k + 2) / (k + 1)) / log(n_classes + 1): about 1 / k, without any table.

    For classes whose ids are sorted by falling frequency, as vocabularies often are; counts aren't needed.

    Parameters
    ----------
    n_classes : int
        Number of classes, in [1, inf).

    Raises
    ------
    ParameterError
        When a parameter is out of its range.

    Notes
    -----
    The distribution function at k is log(k + 2) / log(n_classes + 1), so a uniform number u gives the class
    floor((n_classes + 1)^u) - 1.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import LogUniform
    >>> sampler = LogUniform(3)
    >>> [round(p, 3) for p in sampler.log_prob(torch.zeros(1, 8), torch.arange(3)).exp()[0].tolist()]
    [0.5, 0.292, 0.208]
    """

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        u = torch.rand(len(queries), n, generator=generator, device=queries.device, dtype=torch.float64)
        # Rounding may carry exp() to n_classes + 1 or just below 1: both ends are clamped.
        ids = (torch.exp(u * math.log(self.n_classes + 1)).long() - 1).clamp(0, self.n_classes - 1)
        return Draw(ids, self._log_prob(queries, ids))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        share = torch.log1p(1 / (ids.double() + 1)) / math.log(self.n_classes + 1)
        return share.log().float()


@parameterized
class Unigram(Sampler):
    """Draws a class with probability proportional to ``counts ** power``, in constant time at any number of classes.

    Parameters
    ----------
    n_classes : int
        Number of classes, in [1, inf).
    counts : sequence, array or Tensor of real numbers, shape (n_classes,)
        How often each class occurs. A class of count 0 is never drawn; its ``log_prob`` is minus infinity.
    power : float
        In [0, inf); 0.75 is word2vec's choice, 0 draws all classes that occur alike.

    Raises
    ------
    ParameterError
        When a parameter is out of its range.
    DataError
        When the counts are negative, not finite, all zero or not ``n_classes`` in number.

    References
    ----------
    The static baseline of Chen et al. 2025 (arXiv 2501.08563), section 6.1; drawn by Walker's alias method.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import Unigram
    >>> sampler = Unigram(3, [6, 0, 2])
    >>> sampler.log_prob(torch.zeros(1, 8), torch.arange(3)).exp().tolist()
    [[0.75, 0.0, 0.25]]
    """

    counts: Any
    power: Annotated[float, Range(0)] = 1.0
    threshold: Tensor = attribute()
    alias: Tensor = attribute()
    log_probabilities: Tensor = attribute()

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = class_counts(self.counts, self.n_classes, owner=type(self).__name__)
        # Relative to the largest, so that no power overflows; 0 ** 0 would be 1.
        weights = torch.where(weights > 0, (weights / weights.max()) ** self.power, 0.0)
        threshold, alias = alias_table(weights)
        self.register_buffer("threshold", threshold)
        self.register_buffer("alias", alias)
        self.register_buffer("log_probabilities", (weights / weights.sum()).log().float())

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        ids = draw_alias(self.threshold, self.alias, (len(queries), n), generator)
        return Draw(ids, self._log_prob(queries, ids))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        return self.log_probabilities[ids]
