"""Zipf's law in closed form, for ids sorted by falling frequency."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sylvan.sampling.samplers.base import Draw, Sampler

__all__ = ["LogUniform"]


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
