"""What losses with candidates have in common: noises drawn outside the candidates, and the sums over both."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from sylvan.sampling.losses.logits import ABSENT
from sylvan.sampling.losses.loss import LOWEST_LOG_Q, Positives
from sylvan.sampling.samplers.base import Sampler
from sylvan.sampling.tensors import without_gradient

# Noise probability outside the candidates below which there is no noise to speak of (float32 sums to about this).
_LEAST_MASS = 1e-6
_MOST_DRAWS = 4096
_MOST_ROUNDS = 12


class Selection(NamedTuple):
    """Candidates, noises and positives of a batch, and what CANE needs to know of them."""

    candidates: Tensor  # shape (batch, c)
    is_candidate: Tensor  # shape (batch, c): False for padding and repetitions
    noises: Tensor  # shape (batch, n_noises)
    # shape (batch, n_noises): log of q_x, the noise's probability among the classes that aren't candidates
    noise_log_q: Tensor
    is_noise: Tensor  # shape (batch, n_noises): False where nothing could be drawn outside the candidates
    covered: Tensor  # shape (batch, p): which positives are candidates
    positive_log_q: Tensor  # shape (batch, p): log of q_x of the positives, as if they weren't candidates


@without_gradient
def select(noise: Sampler, n_noises: int, queries: Tensor, candidates: Tensor, positives: Tensor) -> Selection:
    """Draw noises outside the candidates."""
    # Shapes: queries (batch, dim); candidates (batch, c); positives (batch, p)
    with torch.autocast(queries.device.type, enabled=False):
        ids = candidates.sort(dim=1).values  # a class is seen twice when its left neighbour is the same
        present = ids >= 0
        present[:, 1:] &= ids[:, 1:] != ids[:, :-1]
        of_candidates = noise.log_prob(queries, ids.clamp(min=0)).double().exp()
        outside = 1.0 - of_candidates.masked_fill(~present, 0.0).sum(dim=1, keepdim=True)
        log_outside = outside.clamp(min=_LEAST_MASS).log().float()
        noises, result = _draw_outside(noise, n_noises, queries, ids, outside.squeeze(1) > _LEAST_MASS)
        log_q, own = (
            (noise.log_prob(queries, few) - log_outside).clamp(min=LOWEST_LOG_Q) for few in (noises, positives)
        )
    covered = (positives.unsqueeze(2) == ids.unsqueeze(1)).any(dim=2)
    return Selection(ids, present, noises, log_q, result, covered, own)


def cane_losses(chosen: Selection, scores: Tensor, wanted: Positives, *, together: bool) -> Tensor:
    """The losses (batch,) of Eqs. (2) and (3), the mean over noises, and over each query's positives."""
    # Shape: scores (batch, c + n_noises + p)
    c, n = chosen.candidates.shape[1], chosen.noises.shape[1]
    of_candidates = scores[:, :c].masked_fill(~chosen.is_candidate, ABSENT)
    total = torch.logsumexp(of_candidates, dim=1, keepdim=True)  # (batch, 1)
    of_noises = (scores[:, c : c + n] - chosen.noise_log_q).masked_fill(~chosen.is_noise, ABSENT)
    ours = scores[:, c + n :]  # (batch, p)
    sums = log_sums(total, of_noises, ours - chosen.positive_log_q, together=together)
    losses = torch.where(chosen.covered, *sums) - ours
    return (losses * wanted.shares).sum(dim=1)


def log_sums(total: Tensor, of_noises: Tensor, as_noise: Tensor, *, together: bool) -> tuple[Tensor, Tensor]:
    """Logarithms of the denominators for positives that are candidates, (batch, 1), and others, (batch, p)."""
    n_noises = of_noises.shape[1]
    if not together or n_noises == 1:
        return torch.logaddexp(total, of_noises).mean(dim=1, keepdim=True), torch.logaddexp(total, as_noise)
    share = math.log(n_noises)
    but_last = torch.logaddexp(total, torch.logsumexp(of_noises[:, :-1], dim=1, keepdim=True) - share)
    return torch.logaddexp(but_last, of_noises[:, -1:] - share), torch.logaddexp(but_last, as_noise - share)


def _draw_outside(
    noise: Sampler, n: int, queries: Tensor, candidates: Tensor, possible: Tensor
) -> tuple[Tensor, Tensor]:
    """For each query ``n`` draws that aren't candidates, (batch, n), and which were found."""
    ids = candidates.new_zeros(len(queries), n)
    result = torch.zeros_like(ids, dtype=torch.bool)
    draws = 2 * n + 2
    for _ in range(_MOST_ROUNDS):
        rows = (possible & ~result.all(dim=1)).nonzero().squeeze(1)
        if len(rows) == 0:
            break
        drawn = noise.sample(queries[rows], draws).ids
        outside = (drawn.unsqueeze(2) != candidates[rows].unsqueeze(1)).all(dim=2)
        # What was found before stays first: these are then the first n outside of one sequence of draws.
        pool, good = torch.cat([ids[rows], drawn], dim=1), torch.cat([result[rows], outside], dim=1)
        first = (~good).byte().argsort(dim=1, stable=True)[:, :n]
        ids[rows], result[rows] = pool.gather(1, first), good.gather(1, first)
        draws = min(2 * draws, _MOST_DRAWS)
    return ids, result
