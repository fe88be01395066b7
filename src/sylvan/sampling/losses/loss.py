"""What every loss over classes has in common: shapes, ignored targets, several positives, the reduction."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from sylvan.errors import DataError
from sylvan.params.fields import KW_ONLY, Parameterized, Range, parameterized
from sylvan.sampling.losses.logits import ABSENT, class_logits
from sylvan.sampling.samplers.base import Sampler
from sylvan.sampling.tensors import eagerly, need_floats, need_integers, need_shape, need_tensor, without_gradient

Reduction = Literal["mean", "sum", "none"]
# A class that a sampler never draws has the log-probability minus infinity, which would make NaN of differences; one
# over the exponential of this one is still a float32.
LOWEST_LOG_Q = -80.0
# Noise probability outside the candidates below which there is no noise to speak of (float32 sums to about this).
_LEAST_MASS = 1e-6
_MOST_DRAWS = 4096
_MOST_ROUNDS = 12


class Positives(NamedTuple):
    """The positives of queries, each once."""

    # shape (batch, p): classes; a place that holds none repeats a positive of its row, so that it may be gathered
    # without touching anything else
    ids: Tensor
    present: Tensor  # shape (batch, p): which places hold a positive; the first of each row does

    def shares(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """One over the number of the row's positives where there is one, else zero, (batch, p)."""
        return self.present.to(dtype) / self.present.sum(dim=1, keepdim=True)


def positives(targets: Tensor, ignore_index: int) -> Positives:
    """The distinct positives of targets (batch, p), of which every row holds at least one."""
    present = targets != ignore_index
    if targets.shape[1] == 1:
        return Positives(targets, present)
    last = torch.iinfo(targets.dtype).max
    ascending = torch.where(present, targets, last).sort(dim=1).values
    present = ascending != last
    present[:, 1:] &= ascending[:, 1:] != ascending[:, :-1]
    return Positives(torch.where(present, ascending, ascending[:, :1]), present)


@parameterized
class ReducedLoss(Parameterized, nn.Module):
    """Base of losses and of layers with a loss: ignored queries, and the reduction over the others.
    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        Over the queries that aren't ignored.
    ignore_index : int
        The target of queries to ignore, and the filling of rows with fewer positives than others.
    Raises
    ------
    ParameterError
        When a parameter is out of its range.
    """

    sparse: ClassVar[bool] = False  # a parameter of the losses whose gradient of the class table is sparse
    _: KW_ONLY
    reduction: Reduction = "mean"
    ignore_index: Annotated[int, Range()] = -100

    def _reduced(
        self, queries: Tensor, targets: Tensor, table: Tensor, bias: Tensor | None, parameters: Iterable[Tensor]
    ) -> Tensor:
        """The loss of checked queries (..., dim) and targets. Where there is no query at all, every parameter, one of
        ``parameters`` too, gets its gradient all the same, of zeros."""
        rows, labels, counted = counted_rows(queries, targets, self.ignore_index)
        if not self.sparse:  # what isn't a leaf gets a dense gradient
            table, bias = table.view_as(table), None if bias is None else bias.view_as(bias)
        if len(rows):
            losses = self._each(rows, table, labels, bias)
        else:
            scores = class_logits(rows, table, torch.zeros(0, 1, dtype=torch.int64, device=table.device), bias)
            losses = sum((parameter.sum() for parameter in parameters), start=scores.sum(dim=1))
        if self.reduction == "none":
            if len(losses) < len(counted):  # zeros stand for those ignored
                losses = losses.new_zeros(len(counted)).masked_scatter(counted, losses)
            return losses.reshape(queries.shape[:-1])
        return losses.sum() if self.reduction == "sum" else losses.sum() / max(len(losses), 1)

    def _each(self, queries: Tensor, table: Tensor, targets: Tensor, bias: Tensor | None) -> Tensor:
        """Loss of each query, float32 (batch,), infinite where a target is masked; targets as ``counted_rows`` has."""
        raise NotImplementedError


@parameterized
class ClassLoss(ReducedLoss):
    """Base of every loss: checks and flattens what it is given; a loss writes ``_losses``.

    Called as ``loss(queries, class_embeddings, targets, bias=None)`` like ``cross_entropy(queries @ W.T, targets)``.
    """

    _words_for_sampler: ClassVar[str] = "{}"  # what errors call the sampler, where there is one

    def __post_init__(self) -> None:
        self.check_params()

    def forward(
        self, queries: Tensor, class_embeddings: Tensor, targets: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        queries : Tensor of float, shape (..., dim)
            A NaN makes the loss NaN, as in cross-entropy.
        class_embeddings : Tensor of float, shape (n_classes, dim)
            The table itself, as ``nn.Embedding`` and ``nn.Linear`` have it in ``weight``.
        targets : Tensor of int, shape (...), or (..., p) for up to p positives a query
            ``ignore_index`` marks a query to ignore, or a place without a positive.
        bias : Tensor of float, shape (n_classes,), optional
            Minus infinity masks a class: it has no part in any sum and its row gets the gradient 0. The loss of a query
            one of whose targets is masked is infinite, as in cross-entropy.

        Returns
        -------
        Tensor of float32 (float64 for float64 inputs), as all scores and sums are, under autocast too
            A scalar, or for ``reduction="none"`` the shape of ``queries`` without its last dimension, with zeros where
            a query is ignored. The mean is over the queries not ignored, and 0 when there is none; all gradients are
            then zero (a sparse one has no rows), as ``DistributedDataParallel`` needs them from every process.

        Raises
        ------
        DataError
            When something isn't a tensor, shapes, dtypes or devices don't fit together, or (looked at on the CPU only)
            a target is neither a class nor ``ignore_index``; on CUDA PyTorch's own device-side assertion says so.
        """
        checked = self._check(queries, class_embeddings, targets, bias)
        return self._reduced(queries, checked, class_embeddings, bias, self.parameters())

    def _each(self, queries: Tensor, table: Tensor, targets: Tensor, bias: Tensor | None) -> Tensor:
        wanted = positives(targets, self.ignore_index)
        losses = self._losses(queries, table, wanted, bias)
        return losses if bias is None else masked_to_infinity(losses, bias.detach()[wanted.ids])

    def _losses(self, queries: Tensor, table: Tensor, wanted: Positives, bias: Tensor | None) -> Tensor:
        """Loss of each query, float32 (batch,); anything finite where a positive is masked."""
        raise NotImplementedError

    @eagerly
    def _check(self, queries: Tensor, table: Tensor, targets: Tensor | None, bias: Tensor | None) -> Tensor:
        """The targets as int64, after all checks."""
        name = type(self).__name__
        if targets is None:
            raise DataError(
                f"{name} needs targets: call it as loss(queries, class_embeddings, targets). It makes the scores "
                "itself, so that CrossEntropyLoss's loss(scores, targets) becomes three arguments."
            )
        need_floats(queries, f"The queries given to {name}")
        need_floats(table, f"The class embeddings given to {name}")
        if queries.dim() < 2 or table.dim() != 2 or queries.shape[-1] != table.shape[1]:
            raise DataError(
                f"{name} needs queries of the shape (..., dim) and class embeddings of the shape (n_classes, dim) with "
                f"the same dim. Got {tuple(queries.shape)} and {tuple(table.shape)} instead."
            )
        if bias is not None:
            need_floats(bias, f"The bias of {name}, one number a class,")
            need_shape(bias.shape == table.shape[:1], bias, f"The bias of {name}", f"({len(table)},)")
        need_tensor(targets, f"The targets of {name}, class numbers,")
        devices = [str(tensor.device) for tensor in (queries, table, targets, bias) if tensor is not None]
        if len(set(devices)) > 1:
            raise DataError(
                f"All that {name} is given must be on one device. Got queries, class embeddings, targets (and bias) "
                f"on {', '.join(devices)}."
            )
        numbered, sampler = "like the rows of the class embeddings", getattr(self, "sampler", None)
        checked = checked_targets(targets, queries, len(table), self.ignore_index, owner=name, numbered=numbered)
        if sampler is not None and len(table) != sampler.n_classes:
            its = self._words_for_sampler.format(type(sampler).__name__)
            raise DataError(
                f"The class embeddings given to {name} have {len(table)} rows, but its {its} draws from "
                f"{sampler.n_classes} classes. Make the sampler for as many classes as the table has rows."
            )
        return checked


def checked_targets(
    targets: Tensor, queries: Tensor, n_classes: int, ignore_index: int, *, owner: str, numbered: str
) -> Tensor:
    """The targets of queries (..., dim) as int64, of the shape (...) or (..., p). Those on the CPU are looked at: each
    must be a class or the ignored one, and several a query neither one-hot rows nor name a class twice."""
    targets, outer = need_integers(targets, f"The targets of {owner}, class numbers,"), queries.shape[:-1]
    one_more = f"{tuple(outer)}, or one dimension more for several positives a query"
    need_shape(outer in (targets.shape, targets.shape[:-1]), targets, f"The targets of {owner}", one_more)
    if targets.device.type != "cpu":  # to look at targets on a GPU is to wait for it; there the kernels assert
        return targets
    wrong = ((targets < 0) | (targets >= n_classes)) & (targets != ignore_index)
    if bool(wrong.any()):
        raise DataError(
            f"The targets of {owner} must lie in [0, {n_classes}), {numbered}, or be the ignore_index {ignore_index}. "
            f"Got {int(targets[wrong][0])} instead."
        )
    if targets.shape == outer or targets.shape[-1] < 2 or not targets.numel():
        return targets
    if targets.shape[-1] == n_classes and bool(((targets == 0) | (targets == 1)).all()):
        raise DataError(
            f"The targets of {owner} look like one-hot rows: {n_classes} zeros and ones a query, which would be read "
            "as the positives 0 and 1. Give class numbers: targets.argmax(dim=-1) for one a query; several are padded "
            f"with the ignore_index {ignore_index}."
        )
    ascending = targets.sort(dim=-1).values
    twice = (ascending[..., 1:] == ascending[..., :-1]) & (ascending[..., 1:] != ignore_index)
    if bool(twice.any()):
        raise DataError(
            f"The targets of {owner} name class {int(ascending[..., 1:][twice][0])} twice for one query. A row holds "
            f"different class numbers, padded with the ignore_index {ignore_index}; for one-hot rows give "
            "targets.argmax(dim=-1)."
        )
    return targets


@eagerly
def counted_rows(queries: Tensor, targets: Tensor, ignore_index: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (batch, dim) and targets (batch, p), int64, that aren't ignored, and of all which aren't, bool."""
    flat = queries.reshape(queries.shape[:-1].numel(), queries.shape[-1])
    p = 1 if targets.dim() < queries.dim() else targets.shape[-1]  # -1 could be anything where there is no query
    wanted = targets.reshape(len(flat), p)
    counted = (wanted != ignore_index).any(dim=1)
    if bool(counted.all()):
        return flat, wanted, counted
    return flat[counted], wanted[counted], counted


def masked_to_infinity(losses: Tensor, biases: Tensor) -> Tensor:
    """Losses (batch,), infinite where one of the query's biases (batch, p) of targets is minus infinity."""
    return losses + torch.where((biases == -torch.inf).any(dim=1), torch.inf, 0.0).to(losses.dtype)


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
        log_q, positive_log_q = (
            (noise.log_prob(queries, few) - log_outside).clamp(min=LOWEST_LOG_Q) for few in (noises, positives)
        )
    covered = (positives.unsqueeze(2) == ids.unsqueeze(1)).any(dim=2)
    return Selection(ids, present, noises, log_q, result, covered, positive_log_q)


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
    return (losses * wanted.shares()).sum(dim=1)


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
