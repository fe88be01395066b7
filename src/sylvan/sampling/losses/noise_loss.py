"""What the losses that tell positives from noise have in common: scores, probabilities, one positive at a time."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from sylvan.params import KW_ONLY, Choice, parameterized
from sylvan.sampling.losses.logits import class_logits
from sylvan.sampling.losses.loss import LOWEST_LOG_Q, Positives, positives
from sylvan.sampling.losses.sampled_loss import SampledLoss, accidental_hits

__all__ = ["Contrast", "MaskedNoiseLoss", "NoiseLoss"]


class Contrast(NamedTuple):
    """Scores of a batch's positives and of its noise, with what the sampler says of both.

    Attributes
    ----------
    positive, noise : Tensor of float, shapes (batch, p) and (batch, n_samples)
        Scores. Places without a positive repeat another one of the row.
    positive_log_q, noise_log_q : Tensor of float32, shapes (batch, p) or (1, p), and (batch, n_samples) or (n_samples,)
        Log-probabilities of a draw, at least -80; the positives' are zeros unless they were asked for.
    hits : Tensor of bool, shape (batch, n_samples)
        Draws that are positives of their query.
    """

    positive: Tensor
    noise: Tensor
    positive_log_q: Tensor
    noise_log_q: Tensor
    hits: Tensor


class NoiseLoss(SampledLoss):
    """Base of losses that are a sum over noise for each positive; such a loss writes ``_of_each_positive``.

    The loss of a query with several positives is the mean, over its distinct ones, of what each would have alone with
    the same noise.
    """

    _needs_positive_log_q = False

    def _losses(self, queries: Tensor, table: Tensor, targets: Tensor, bias: Tensor | None) -> Tensor:
        wanted = positives(targets, self.ignore_index)
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
    accidental: Annotated[str, Choice(("remove", "keep"))] = "remove"



    def _counting(self, of_noise: Tensor, contrast: Contrast) -> Tensor:
        """Losses of noise (…, n_samples) with zeros for the draws that don't count."""
        return of_noise.masked_fill(contrast.hits, 0.0) if self.accidental == "remove" else of_noise
