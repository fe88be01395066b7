"""Losses with classes drawn by a sampler: the draw, and the contrast of scores with noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from sylvan.errors import DataError, ParameterError
from sylvan.params.fields import KW_ONLY, Instance, Range, parameterized
from sylvan.sampling.losses.logits import class_logits
from sylvan.sampling.losses.loss import LOWEST_LOG_Q, ClassLoss, Positives
from sylvan.sampling.samplers.base import Draw, Sampler
from sylvan.sampling.tensors import without_gradient


@parameterized
class SampledLoss(ClassLoss):
    """Base of losses with a sampler: its parameters, whether it fits the class table, and the draw."""

    sampler: Annotated[Sampler, Instance(words="a sampler of sylvan.sampling")]
    n_samples: Annotated[int, Range(1)]
    _: KW_ONLY
    shared: bool = False
    sparse: bool = True  # type: ignore[misc]

    def check_params(self, names: Sequence[str] | None = None) -> None:
        """Check every declared constraint, and that there are at least as many classes as samples."""
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

    def _check(self, queries: Tensor, table: Tensor, targets: Tensor, bias: Tensor | None) -> Tensor:
        targets = super()._check(queries, table, targets, bias)
        if len(table) != self.sampler.n_classes:
            raise DataError(
                f"The class embeddings given to {type(self).__name__} have {len(table)} rows, but its "
                f"{type(self.sampler).__name__} draws from {self.sampler.n_classes} classes. Make the sampler for as "
                "many classes as the table has rows."
            )
        return targets


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


class Contrast(NamedTuple):
    """Scores of a batch's positives and of its noise, with what the sampler says of both."""

    positive: Tensor  # positive, noise: scores. Places without a positive repeat another one of the row
    noise: Tensor
    # positive_log_q, noise_log_q: log-probabilities of a draw, at least -80; the positives' are zeros unless they were
    # asked for
    positive_log_q: Tensor
    noise_log_q: Tensor
    hits: Tensor  # shape (batch, n_samples): draws that are positives of their query


class NoiseLoss(SampledLoss):
    """Base of losses that are a sum over noise for each positive; such a loss writes ``_of_each_positive``. The loss of
    a query with several positives is the mean, over its distinct ones, of what each would have alone with the same
    noise."""

    _needs_positive_log_q = False

    def _losses(self, queries: Tensor, table: Tensor, wanted: Positives, bias: Tensor | None) -> Tensor:
        losses = self._of_each_positive(self._contrast(queries, table, wanted, bias))  # (batch, p)
        return (losses * wanted.shares).sum(dim=1)

    def _of_each_positive(self, contrast: Contrast) -> Tensor:
        """The loss (batch, p) of every positive with the noise of its query."""
        raise NotImplementedError

    def _contrast(self, queries: Tensor, table: Tensor, wanted: Positives, bias: Tensor | None) -> Contrast:
        draw = self._draw(queries, wanted)
        p = wanted.ids.shape[1]
        if self.shared:
            scores = class_logits(queries, table, draw.ids, bias, own=wanted.ids)
        else:
            scores = class_logits(queries, table, torch.cat([wanted.ids, draw.ids], dim=1), bias)
        ours, noise = scores[:, :p], scores[:, p:]
        of_positives = self._positive_log_q(queries, wanted) if self._needs_positive_log_q else ours.new_zeros(1, p)
        hits = accidental_hits(draw.ids, wanted)
        return Contrast(ours, noise, of_positives, draw.log_q.clamp(min=LOWEST_LOG_Q), hits)


@parameterized
class MaskedNoiseLoss(NoiseLoss):
    """Base of those that let the user choose whether draws that hit a positive count."""

    _: KW_ONLY
    accidental: Literal["remove", "keep"] = "remove"

    def _counting(self, of_noise: Tensor, contrast: Contrast) -> Tensor:
        """Losses of noise (…, n_samples) with zeros for the draws that don't count."""
        return of_noise.masked_fill(contrast.hits, 0.0) if self.accidental == "remove" else of_noise
