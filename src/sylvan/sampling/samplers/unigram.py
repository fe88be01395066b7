"""Every class as often as it occurs, or by a power of that."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from sylvan.params import Range, attribute, parameterized
from sylvan.sampling.samplers.base import Draw, Sampler
from sylvan.sampling.samplers.categorical import alias_table, draw_alias
from sylvan.sampling.samplers.counts import class_counts

__all__ = ["Unigram"]


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
