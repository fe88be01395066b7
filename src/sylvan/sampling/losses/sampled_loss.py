"""What the losses that draw negatives from a sampler have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from sylvan.errors import DataError, ParameterError
from sylvan.params import KW_ONLY, Instance, Range, parameterized
from sylvan.sampling.losses.loss import LOWEST_LOG_Q, ClassLoss, Positives
from sylvan.sampling.samplers.base import Draw, Sampler
from sylvan.sampling.tensors import without_gradient

__all__ = ["SampledLoss", "accidental_hits"]


@parameterized
class SampledLoss(ClassLoss):
    """Base of losses with a sampler: its parameters, whether it fits the class table, and the draw."""

    sampler: Annotated[Sampler, Instance(words="a sampler of sylvan.sampling")]
    n_samples: Annotated[int, Range(1)]
    _: KW_ONLY
    shared: bool = False

    def check_params(self, names: Sequence[str] | None = None) -> None:
        """Hold every declared constraint, and that there are at least as many classes as samples.

        Raises
        ------
        ParameterError
            For the first parameter out of its range, with the range and the value received.
        """
        super().check_params(names)
        if self.n_samples > self.sampler.n_classes:
            raise ParameterError(
                f"The 'n_samples' parameter of {type(self).__name__} is above the class count: it must be an int in "
                f"[1, {self.sampler.n_classes}] with this {type(self.sampler).__name__}. Got {self.n_samples} instead."
            )

    @without_gradient
    def _draw(self, queries: Tensor, positives: Positives) -> Draw:
        """Negatives for the queries, after the sampler has seen the positives."""
        self.sampler.observe(positives.ids[positives.present])
        return self.sampler.sample(queries.detach().float(), self.n_samples, shared=self.shared)

    @without_gradient
    def _positive_log_q(self, queries: Tensor, wanted: Positives) -> Tensor:
        """Log-probability (batch, p) that a draw is the positive; of the batch's mixture when draws are shared."""
        wide = queries.detach().float()
        if self.shared:
            log_q = self.sampler.shared_log_prob(wide, wanted.ids.reshape(-1)).view(wanted.ids.shape)
        else:
            log_q = self.sampler.log_prob(wide, wanted.ids)
        return log_q.clamp(min=LOWEST_LOG_Q)

    def _check(self, queries: Tensor, table: Tensor, targets: Tensor, bias: Tensor | None) -> None:
        super()._check(queries, table, targets, bias)
        if len(table) != self.sampler.n_classes:
            raise DataError(
                f"The class embeddings given to {type(self).__name__} have {len(table)} rows, but its "
                f"{type(self.sampler).__name__} draws from {self.sampler.n_classes} classes. Make the sampler for as "
                "many classes as the table has rows."
            )


def accidental_hits(drawn: Tensor, positives: Positives) -> Tensor:
    """Which drawn classes (batch, m), or (m,) for the whole batch, are positives of their query: bool (batch, m)."""
    ids = positives.ids.contiguous()
    batch, p = ids.shape
    if p == 1:
        return ids == drawn
    ascending = ids.sort(dim=1).values
    wanted = drawn.expand(batch, -1).contiguous()
    places = torch.searchsorted(ascending, wanted).clamp(max=p - 1)
    return ascending.gather(1, places) == wanted
