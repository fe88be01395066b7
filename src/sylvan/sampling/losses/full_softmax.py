"""The full softmax's cross-entropy, a chunk of classes at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sylvan.params.fields import KW_ONLY, Range, parameterized
from sylvan.sampling.losses.logits import ABSENT, bag_sums, bags_of_equal, class_logits
from sylvan.sampling.losses.loss import ClassLoss, Positives
from sylvan.sampling.tensors import at_least_single, eagerly, slices

# Scores in memory at a time when the chunk size is left to the loss: small enough for the caches of a CPU, and large
# enough for a GPU to be busy.
_SCORES_AT_ONCE = {"cpu": 1 << 20}
_DEVICE_SCORES_AT_ONCE = 1 << 26


@parameterized
class FullSoftmaxLoss(ClassLoss):
    """Cross-entropy over all classes without ever holding the scores of all classes.

    The same value and gradients as ``torch.nn.functional.cross_entropy(queries @ table.T + bias, targets)``, whose
    (queries, classes) scores, probabilities and gradients take the memory. Here the scores of a chunk of classes are
    made, added to a running sum of exponentials, and dropped; backward makes them again. That costs one more matrix
    product than keeping them. The gradient of the class table is dense: each class gets one.

    With several positives the target mass is spread evenly over the distinct ones, as cross-entropy with probabilities
    for targets has it.

    Parameters
    ----------
    chunk_size : int, optional
        Classes a chunk. None takes as many as make about a million scores (on a GPU, 67 million).

    Notes
    -----
    ``torch.compile`` leaves the loop over chunks as it is. There is no second derivative.

    Raises
    ------
    ParameterError
        When a parameter is out of its range.

    References
    ----------
    M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import FullSoftmaxLoss
    >>> loss = FullSoftmaxLoss(chunk_size=2)
    >>> queries, table = torch.eye(2), torch.nn.Parameter(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    >>> value = loss(queries, table, torch.tensor([0, 2]))
    >>> expected = torch.nn.functional.cross_entropy(queries @ table.T, torch.tensor([0, 2]))
    >>> torch.allclose(value, expected)
    True
    """

    _: KW_ONLY
    chunk_size: Annotated[int | None, Range(1)] = None

    @eagerly
    def _losses(self, queries: Tensor, table: Tensor, wanted: Positives, bias: Tensor | None) -> Tensor:
        limit = _SCORES_AT_ONCE.get(queries.device.type, _DEVICE_SCORES_AT_ONCE)
        chunk = self.chunk_size or max(1, limit // len(queries))
        shares = wanted.mass(at_least_single(queries, table))
        apply: Any = _ChunkedCrossEntropy.apply
        return cast(Tensor, apply(queries, table, bias, wanted.ids, shares, chunk))


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Log-sum of exponentials less the positives' mean score; keeps what it was given and one number a query."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, table: Tensor, bias: Tensor | None, ids: Tensor, shares: Tensor, chunk: int
    ) -> Tensor:
        with torch.autocast(queries.device.type, enabled=False):
            wide = queries.to(shares.dtype)
            highest = wide.new_full((len(wide), 1), -torch.inf)
            total = wide.new_zeros(len(wide), 1)
            for _, scores, _ in _chunks(wide, table, bias, chunk):
                high = torch.maximum(highest, scores.amax(dim=1, keepdim=True))
                sums = scores.sub_(high).exp_().sum(dim=1, keepdim=True)
                total = total * (highest - high).exp_() + sums
                highest = high
            log_total = total.log_().add_(highest)  # (batch, 1)
            of_positives = class_logits(wide, table.detach(), ids, None if bias is None else bias.detach())
            ctx.save_for_backward(queries, table, bias, ids, shares, log_total)
            ctx.chunk = chunk
            return log_total.squeeze(1) - (shares * of_positives).sum(dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        queries, table, bias, ids, shares, log_total = ctx.saved_tensors
        of_queries = of_table = of_bias = None
        with torch.autocast(queries.device.type, enabled=False):
            wide = queries.to(log_total.dtype)
            if ctx.needs_input_grad[0]:
                of_queries = torch.zeros_like(wide)
            if ctx.needs_input_grad[1]:
                of_table = torch.empty_like(table, memory_format=torch.contiguous_format)
            if ctx.needs_input_grad[2]:
                of_bias = torch.empty_like(bias)
            for part, scores, rows in _chunks(wide, table, bias, ctx.chunk):
                graded = scores.sub_(log_total).exp_().mul_(slope.unsqueeze(1))
                if of_queries is not None:
                    of_queries.addmm_(graded, rows)
                if of_table is not None and of_table.dtype == wide.dtype:
                    torch.mm(graded.t(), wide, out=of_table[part])
                elif of_table is not None:
                    of_table[part] = graded.t() @ wide
                if of_bias is not None:
                    of_bias[part] = graded.sum(dim=0)
            pull = -slope.unsqueeze(1) * shares  # (batch, p), what the positives' scores get besides
            batch, p = ids.shape
            if of_queries is not None:
                distinct, places = torch.unique(ids, return_inverse=True)  # p rows a query are widened, not the table
                starts = torch.arange(0, batch * p, p, device=ids.device)
                rows = table.index_select(0, distinct).to(wide.dtype)
                of_queries += bag_sums(rows, places.reshape(-1), starts, pull.reshape(-1))
            bags = bags_of_equal(ids.reshape(-1))
            if of_table is not None:
                weights = pull.reshape(-1).index_select(0, bags.order)
                rows = bag_sums(wide, bags.order // p, bags.starts, weights)
                of_table.index_add_(0, bags.values, rows.to(of_table.dtype))
            if of_bias is not None:
                sums = bag_sums(pull.reshape(-1, 1), bags.order, bags.starts).squeeze(1)
                of_bias.index_add_(0, bags.values, sums.to(of_bias.dtype))
        return None if of_queries is None else of_queries.to(queries.dtype), of_table, of_bias, None, None, None


def _chunks(wide: Tensor, table: Tensor, bias: Tensor | None, chunk: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """For every chunk of classes its place, the scores (batch, chunk), to be overwritten, and its rows, widened."""
    buffer = wide.new_empty(len(wide) * min(chunk, len(table)))
    for part in slices(len(table), 1, chunk):
        rows = table[part].to(wide.dtype)
        scores = buffer[: len(wide) * len(rows)].view(len(wide), len(rows))
        torch.mm(wide, rows.t(), out=scores)
        if bias is not None:
            scores += bias[part].to(wide.dtype).clamp(min=ABSENT)  # a chunk of masked classes would make NaN
        yield part, scores, rows
