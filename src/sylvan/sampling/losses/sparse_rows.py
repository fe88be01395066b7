"""Sums over equal indices, and sparse gradients that hold each row once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


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


def sparse_rows(ids: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    """A coalesced sparse tensor with ``values`` at the rows ``ids``, which are distinct and ascending."""
    return torch.sparse_coo_tensor(ids.unsqueeze(0), values, shape, check_invariants=False, is_coalesced=True)


def distinct_rows(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Row numbers (u,), distinct and ascending, and values (u, ...) of a sparse gradient with one sparse dimension.
    Autograd forgets that a gradient is coalesced when it stores it; looking whether the row numbers ascend costs next
    to nothing beside summing rows again."""
    ids, values = gradient._indices()[0], gradient._values()
    if gradient.is_coalesced() or bool((ids[1:] > ids[:-1]).all()):
        return ids, values
    bags = bags_of_equal(ids)
    flat = values.reshape(len(ids), -1)
    wide = flat if flat.dtype == torch.float64 else flat.float()
    sums = bag_sums(wide, bags.order, bags.starts).to(values.dtype)
    return bags.values, sums.view(-1, *values.shape[1:])
