"""Draws of cells and of classes within them, by PyTorch's operations or by the compiled kernel."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sylvan.sampling.midx.multi_index import MultiIndex
from sylvan.sampling.samplers.base import Draw
from sylvan.sampling.tensors import blocks, invert

THIN = 1e-200  # below this partition a product of two scores may have underflown beside ones that count


class FirstStage(NamedTuple):
    """What the first of two stages draws from."""

    heights: Tensor  # shape (batch, n_codewords): running sums of ψ exp(score) over the first codebook's codewords
    second: Tensor  # shape (batch, n_codewords): exp(score) of the second codebook's codewords
    partition: Tensor  # shape (batch,): the last of the heights: Z relative to the largest scores


def first_stage(scores: list[Tensor], counts: Tensor) -> FirstStage:
    """Weights of the first codebook's codewords, in linear space; ``counts`` is float64 (n_codewords, n_codewords)."""
    first, second = scores[0].double().exp(), scores[1].double().exp()
    heights = first.mul_(second @ counts.t()).cumsum(dim=1)
    return FirstStage(heights, second, heights[:, -1])


def within(rest: Tensor, cells: Tensor, offsets: Tensor, heights: Tensor) -> Tensor:
    """Positions in the classes sorted by cell: the one of each cell's classes that ``rest`` falls on. ``heights`` are
    running sums of the classes' parts of their cells, each of which is 1 high; empty when the classes of a cell are
    alike."""
    begin = offsets[cells]
    count = offsets[cells + 1] - begin
    rest = rest.nan_to_num(0.0)
    if len(heights):
        below = torch.where(begin > 0, heights[(begin - 1).clamp_(min=0)], 0.0)
        above = heights[(begin + count - 1).clamp_(min=0)]
        inside = torch.searchsorted(heights, below + rest * (above - below), right=True) - begin
    else:
        inside = (rest * count).long()
    return torch.minimum(begin + torch.minimum(inside.clamp_(min=0), (count - 1).clamp_(min=0)), offsets[-1] - 1)


def draw_in_stages(stage: FirstStage, counts: Tensor, coins: Tensor) -> tuple[Tensor, Tensor]:
    """Cells (first codeword times their number plus second codeword) and how far into each, both (batch, n)."""
    n_codewords = counts.shape[0]
    first, rest = invert(stage.heights, coins)
    second = torch.empty_like(first)
    for rows in blocks(len(coins), coins.shape[1] * n_codewords):
        chosen = counts.index_select(0, first[rows].flatten()).view(*first[rows].shape, n_codewords)
        heights = chosen.mul_(stage.second[rows, None]).cumsum(dim=2)
        places, left = invert(heights, rest[rows, :, None])
        second[rows], rest[rows] = places[..., 0], left[..., 0]
    return first * n_codewords + second, rest


def heights_of_cells(cell_scores: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Running sums of the cells' weights, and the log of each row's partition, from log-scores of any size."""
    # Shapes: cell_scores (batch, n_cells); counts (n_cells,); returns heights (batch, n_cells), log_partition (batch,)
    scores = cell_scores.masked_fill(counts == 0, -torch.inf)
    top = scores.amax(dim=1, keepdim=True)
    heights = (scores - top).exp_().mul_(counts).cumsum(dim=1)
    return heights, top[:, 0] + heights[:, -1].log()


def draw_cells(cell_scores: Tensor, counts: Tensor, coins: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cells and how far into each (batch, n), and log-partitions (batch,), each cell in one go."""
    heights, log_partition = heights_of_cells(cell_scores, counts)
    cells, rest = invert(heights, coins)
    return cells, rest, log_partition


@functools.cache
def _kernels() -> Any:
    try:
        from sylvan import kernels
    except ImportError:
        return None
    return kernels


def kernel_is_there() -> bool:
    """Whether the compiled code can be loaded."""
    return _kernels() is not None


def native_draw(stage: FirstStage, scores: list[Tensor], index: MultiIndex, coins: Tensor) -> Draw:
    """What :func:`draw_in_stages` draws with the same coins, and its log-probability."""
    # Shapes: scores (batch, n_codewords); coins (batch, n)
    ids = torch.empty(coins.shape, dtype=torch.int64)
    log_q = torch.empty(coins.shape, dtype=torch.float32)
    cells = [index.offsets, index.masses(), index.order, index.heights, index.own_scores]
    tensors = [stage.heights, stage.second, *scores, *cells, coins, ids, log_q]
    _kernels().midx_draw(*(tensor.contiguous().numpy() for tensor in tensors))
    return Draw(ids, log_q)
