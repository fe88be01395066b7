"""Scores of chosen classes: what every sampled loss computes instead of all scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sylvan.sampling.tensors import at_least_single, eagerly, slices

# A logit that takes no part, as that of a masked class; finite, so that differences of two of them aren't NaN.
ABSENT = -1e30
# Rows are gathered a few queries at a time into a buffer of this many numbers, so that what was gathered is still in
# the cache when it is multiplied, and memory doesn't grow with batch * m * dim. A GPU wants bigger portions.
_BUFFER = {"cpu": 1 << 19}
_DEVICE_BUFFER = 1 << 26


class Bags(NamedTuple):
    """Places of a one-dimensional tensor, brought together by equal value."""

    values: Tensor  # shape (u,): the distinct values, ascending
    order: Tensor  # shape (n,): the places, those of each value beside each other in their original order
    starts: Tensor  # shape (u,): where in `order` the places of each value begin


def bags_of_equal(ids: Tensor) -> Bags:
    """The places of ``ids`` (n,) by value. The sort is stable, so that sums over a bag have one order."""
    ascending, order = torch.sort(ids, stable=True)
    first = torch.ones_like(ascending, dtype=torch.bool)
    torch.ne(ascending[1:], ascending[:-1], out=first[1:])
    starts = first.nonzero().squeeze(1)
    return Bags(ascending.index_select(0, starts), order, starts)


def bag_sums(rows: Tensor, places: Tensor, starts: Tensor, weights: Tensor | None = None) -> Tensor:
    """For every bag the sum of ``rows[place]``, weighted or not, over its places. Nothing of the size of ``places``
    times ``dim`` is made, and the order of each sum doesn't depend on the number of threads."""
    # Shapes: rows (n, dim); places (k,); starts (b,); weights (k,); returns (b, dim)
    if len(starts) == 0 or len(places) == 0:
        return rows.new_zeros(len(starts), rows.shape[1])
    return torch.embedding_bag(rows.contiguous(), places, starts, False, 0, False, weights)[0]


def distinct_rows(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Row numbers (u,), distinct and ascending, and values (u, ...) of a sparse gradient with one sparse dimension.
    Autograd forgets that a gradient is coalesced when it stores it; looking whether the row numbers ascend costs next
    to nothing beside summing rows again."""
    ids, values = gradient._indices()[0], gradient._values()
    if gradient.is_coalesced() or bool((ids[1:] > ids[:-1]).all()):
        return ids, values
    bags = bags_of_equal(ids)
    flat = values.reshape(len(ids), -1)
    sums = bag_sums(flat.to(at_least_single(flat)), bags.order, bags.starts).to(values.dtype)
    return bags.values, sums.view(-1, *values.shape[1:])


@eagerly
def class_logits(
    queries: Tensor, table: Tensor, ids: Tensor, bias: Tensor | None = None, *, own: Tensor | None = None
) -> Tensor:
    """Inner products of queries with the embeddings of chosen classes, in float32. The gradient of ``table`` (and of
    ``bias``) is a sparse tensor when it is a leaf, so that neither backward nor an optimiser touches rows of classes
    that weren't chosen; each chosen class has one row, in ascending order. A table that was computed from something
    else gets a dense gradient. ``torch.compile`` leaves this function as it is, because compiled graphs don't carry
    sparse gradients; gradients of the gradient aren't available."""
    # Shapes: queries (batch, dim); table (n_classes, dim); ids (batch, m), or (m,) for the whole batch, then with own
    # (batch, p) before them; bias (n_classes,); returns (batch, m) or (batch, p + m)
    if ids.dim() == 2:
        own, ids = ids, ids.new_empty(0)
    elif own is None:
        own = ids.new_empty(len(queries), 0)
    scores = _ChosenScores.apply(queries, table, own, ids, table.is_leaf)  # type: ignore[no-untyped-call]
    if bias is None:
        return cast(Tensor, scores)
    chosen = torch.cat([own.reshape(-1), ids])
    biases = _ChosenBias.apply(bias, chosen, bias.is_leaf)  # type: ignore[no-untyped-call]
    of_own, of_shared = biases[: own.numel()].view(own.shape), biases[own.numel() :].expand(len(own), -1)
    return cast(Tensor, scores + torch.cat([of_own, of_shared], dim=1))


class _ChosenScores(torch.autograd.Function):
    """Scores of each query's own classes (batch, p) beside those of classes that the batch shares (m,); backward reads
    the chosen rows again instead of keeping them."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, table: Tensor, own: Tensor, ids: Tensor, sparse: bool) -> Tensor:
        ctx.save_for_backward(queries, table, own, ids)
        ctx.sparse = sparse
        with torch.autocast(queries.device.type, enabled=False):
            wide = queries.to(at_least_single(queries, table))
            of_own = _scores(wide, table, own)
            if not len(ids):
                return of_own
            return torch.cat([of_own, wide @ table.index_select(0, ids).to(wide.dtype).t()], dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        queries, table, own, ids = ctx.saved_tensors
        batch, p = own.shape
        of_queries = of_table = None
        with torch.autocast(queries.device.type, enabled=False):
            wide = queries.to(at_least_single(queries, table))
            of_own, of_shared = slope[:, :p], slope[:, p:]
            if ctx.needs_input_grad[0]:
                of_queries = _gradient_of_queries(of_own, table, own)
                if len(ids):
                    of_queries += of_shared @ table.index_select(0, ids).to(slope.dtype)
                of_queries = of_queries.to(queries.dtype)
            if ctx.needs_input_grad[1]:
                # One table of terms: the queries, for the classes of their own, and the shared classes' sums.
                terms = torch.cat([wide, of_shared.t() @ wide]) if len(ids) else wide
                places = torch.arange(batch, device=ids.device).repeat_interleave(p)
                places = torch.cat([places, torch.arange(batch, len(terms), device=ids.device)])
                weights = torch.cat([of_own.reshape(-1), torch.ones_like(ids, dtype=slope.dtype)])
                bags = bags_of_equal(torch.cat([own.reshape(-1), ids]))
                rows = bag_sums(terms, places[bags.order], bags.starts, weights[bags.order])
                of_table = gradient_of_whole(bags.values, rows.to(table.dtype), table, ctx.sparse)
        return of_queries, of_table, None, None, None


class _ChosenBias(torch.autograd.Function):
    """Biases of chosen classes (k,)."""

    @staticmethod
    def forward(ctx: Any, bias: Tensor, ids: Tensor, sparse: bool) -> Tensor:
        ctx.save_for_backward(bias, ids)
        ctx.sparse = sparse
        return bias.index_select(0, ids).to(at_least_single(bias)).clamp(min=ABSENT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        bias, ids = ctx.saved_tensors
        bags = bags_of_equal(ids)
        sums = bag_sums(slope.reshape(-1, 1), bags.order, bags.starts).squeeze(1)
        return gradient_of_whole(bags.values, sums.to(bias.dtype), bias, ctx.sparse), None, None


def _scores(wide: Tensor, table: Tensor, ids: Tensor) -> Tensor:
    """Scores of each query's own classes (batch, m), a few queries at a time."""
    scores = wide.new_empty(ids.shape)
    buffer: Tensor | None = None
    for part in _few_queries(table, ids):
        chosen = ids[part].reshape(-1)
        buffer = table.new_empty(len(chosen), table.shape[1]) if buffer is None else buffer[: len(chosen)]
        rows = torch.index_select(table, 0, chosen, out=buffer).to(wide.dtype)
        columns = rows.view(*ids[part].shape, table.shape[1]).transpose(1, 2)  # (few, dim, m)
        torch.bmm(wide[part].unsqueeze(1), columns, out=scores[part].unsqueeze(1))
    return scores


def _gradient_of_queries(slope: Tensor, table: Tensor, ids: Tensor) -> Tensor:
    """Each query's sum of its classes' rows, weighted by ``slope`` (batch, m): float32 (batch, dim)."""
    batch, m = ids.shape
    if table.dtype == slope.dtype and m > 0:
        starts = torch.arange(0, batch * m, m, device=ids.device)
        return bag_sums(table, ids.reshape(-1), starts, slope.reshape(-1))
    result = slope.new_empty(batch, table.shape[1])
    for part in _few_queries(table, ids):
        rows = table.index_select(0, ids[part].reshape(-1)).to(slope.dtype).view(*ids[part].shape, table.shape[1])
        result[part] = torch.bmm(slope[part].unsqueeze(1), rows).squeeze(1)
    return result


def _few_queries(table: Tensor, ids: Tensor) -> Iterator[slice]:
    return slices(len(ids), ids.shape[1] * table.shape[1], _BUFFER.get(table.device.type, _DEVICE_BUFFER))


def gradient_of_whole(ids: Tensor, values: Tensor, table: Tensor, sparse: bool) -> Tensor:
    """The gradient of ``table`` that is ``values`` at the distinct, ascending ``ids`` and zero elsewhere."""
    if sparse:
        return torch.sparse_coo_tensor(ids.unsqueeze(0), values, table.shape, check_invariants=False, is_coalesced=True)
    return torch.zeros_like(table).index_copy_(0, ids, values)
