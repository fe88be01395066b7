"""Every class with the same probability."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sylvan.sampling.samplers.base import Draw, Sampler

__all__ = ["Uniform"]


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
