"""Scores of chosen classes: what every sampled loss computes instead of all scores."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sylvan.sampling.tensors import at_least_single, eagerly

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
    # Shapes: queries (batch, dim); table (n_classes, dim); ids (batch, m); bias (n_classes,); own (batch, p); returns
    # (batch, m)
    if ids.dim() == 1:
        own = ids.new_empty(len(queries), 0) if own is None else own
        scores = _SharedScores.apply(queries, table, own, ids, table.is_leaf)  # type: ignore[no-untyped-call]
    else:
        scores = _ChosenScores.apply(queries, table, ids, table.is_leaf)  # type: ignore[no-untyped-call]
    if bias is None:
        return cast(Tensor, scores)
    if own is None or own.numel() == 0:
        return cast(Tensor, scores + _ChosenBias.apply(bias, ids, bias.is_leaf))  # type: ignore[no-untyped-call]
    biases = _ChosenBias.apply(bias, torch.cat([own.reshape(-1), ids]), bias.is_leaf)  # type: ignore[no-untyped-call]
    theirs = biases[own.numel() :].expand(len(own), -1)
    return cast(Tensor, scores + torch.cat([biases[: own.numel()].view(own.shape), theirs], dim=1))


class _ChosenScores(torch.autograd.Function):
    """Scores of each query's own classes; backward reads the chosen rows again instead of keeping them."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, table: Tensor, ids: Tensor, sparse: bool) -> Tensor:
        ctx.save_for_backward(queries, table, ids)
        ctx.sparse = sparse
        with torch.autocast(queries.device.type, enabled=False):
            return _scores(queries.to(at_least_single(queries, table)), table, ids)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        queries, table, ids = ctx.saved_tensors
        of_queries = of_table = None
        with torch.autocast(queries.device.type, enabled=False):
            wide = queries.to(at_least_single(queries, table))
            if ctx.needs_input_grad[0]:
                of_queries = _gradient_of_queries(slope, table, ids).to(queries.dtype)
            if ctx.needs_input_grad[1]:
                bags = bags_of_equal(ids.reshape(-1))
                weights = slope.reshape(-1).index_select(0, bags.order)
                rows = bag_sums(wide, bags.order // max(1, ids.shape[1]), bags.starts, weights)
                of_table = gradient_of_whole(bags.values, rows.to(table.dtype), table, ctx.sparse)
        return of_queries, of_table, None, None


class _SharedScores(torch.autograd.Function):
    """Scores of each query's own classes (batch, p) beside those of classes that the batch shares (m,)."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, table: Tensor, own: Tensor, ids: Tensor, sparse: bool) -> Tensor:
        ctx.save_for_backward(queries, table, own, ids)
        ctx.sparse = sparse
        with torch.autocast(queries.device.type, enabled=False):
            wide = queries.to(at_least_single(queries, table))
            shared = wide @ table.index_select(0, ids).to(wide.dtype).t()
            return torch.cat([_scores(wide, table, own), shared], dim=1) if own.shape[1] else shared

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
                of_queries = of_shared @ table.index_select(0, ids).to(slope.dtype)
                of_queries += _gradient_of_queries(of_own, table, own)
                of_queries = of_queries.to(queries.dtype)
            if ctx.needs_input_grad[1]:
                # One table of terms: the queries, for the classes of their own, and the shared classes' sums.
                terms = torch.cat([wide, of_shared.t() @ wide])
                places = torch.arange(batch, device=ids.device).repeat_interleave(p)
                places = torch.cat([places, torch.arange(batch, len(terms), device=ids.device)])
                weights = torch.cat([of_own.reshape(-1), torch.ones_like(ids, dtype=slope.dtype)])
                bags = bags_of_equal(torch.cat([own.reshape(-1), ids]))
                rows = bag_sums(terms, places[bags.order], bags.starts, weights[bags.order])
                of_table = gradient_of_whole(bags.values, rows.to(table.dtype), table, ctx.sparse)
        return of_queries, of_table, None, None, None


class _ChosenBias(torch.autograd.Function):
    """Biases of chosen classes, shaped like ``ids``."""

    @staticmethod
    def forward(ctx: Any, bias: Tensor, ids: Tensor, sparse: bool) -> Tensor:
        ctx.save_for_backward(bias, ids)
        ctx.sparse = sparse
        chosen = bias.index_select(0, ids.reshape(-1))
        return chosen.to(at_least_single(bias)).clamp(min=ABSENT).view(ids.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        bias, ids = ctx.saved_tensors
        bags = bags_of_equal(ids.reshape(-1))
        sums = bag_sums(slope.reshape(-1, 1), bags.order, bags.starts).squeeze(1)
        return gradient_of_whole(bags.values, sums.to(bias.dtype), bias, ctx.sparse), None, None


def _scores(wide: Tensor, table: Tensor, ids: Tensor) -> Tensor:
    """Scores of each query's own classes (batch, m), a few queries at a time."""
    batch, m = ids.shape
    scores = wide.new_empty(batch, m)
    step = _queries_at_once(table, m)
    buffer = table.new_empty(min(step, batch) * m, table.shape[1])
    for start in range(0, batch, step):
        chosen = ids[start : start + step]
        rows = torch.index_select(table, 0, chosen.reshape(-1), out=buffer[: chosen.numel()])
        few = rows.to(wide.dtype).view(len(chosen), m, table.shape[1]).transpose(1, 2)  # (few, dim, m)
        torch.bmm(wide[start : start + step].unsqueeze(1), few, out=scores[start : start + step].unsqueeze(1))
    return scores


def _gradient_of_queries(slope: Tensor, table: Tensor, ids: Tensor) -> Tensor:
    """Each query's sum of its classes' rows, weighted by ``slope`` (batch, m): float32 (batch, dim)."""
    batch, m = ids.shape
    if table.dtype == slope.dtype and m > 0:
        starts = torch.arange(0, batch * m, m, device=ids.device)
        return bag_sums(table, ids.reshape(-1), starts, slope.reshape(-1))
    result = slope.new_empty(batch, table.shape[1])
    step = _queries_at_once(table, m)
    for start in range(0, batch, step):
        chosen = ids[start : start + step]
        rows = table.index_select(0, chosen.reshape(-1)).to(slope.dtype).view(len(chosen), m, table.shape[1])
        result[start : start + step] = torch.bmm(slope[start : start + step].unsqueeze(1), rows).squeeze(1)
    return result


def gradient_of_whole(ids: Tensor, values: Tensor, table: Tensor, sparse: bool) -> Tensor:
    """The gradient of ``table`` that is ``values`` at the distinct, ascending ``ids`` and zero elsewhere."""
    if sparse:
        return torch.sparse_coo_tensor(ids.unsqueeze(0), values, table.shape, check_invariants=False, is_coalesced=True)
    return torch.zeros_like(table).index_copy_(0, ids, values)


def _queries_at_once(table: Tensor, m: int) -> int:
    return max(1, _BUFFER.get(table.device.type, _DEVICE_BUFFER) // max(1, m * table.shape[1]))
