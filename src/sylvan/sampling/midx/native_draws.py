"""The compiled way to draw in two stages, for queries in main memory."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from sylvan.sampling.midx.cell_draws import FirstStage
from sylvan.sampling.midx.multi_index import MultiIndex
from sylvan.sampling.samplers.base import Draw

__all__ = ["kernel_is_there", "native_draw"]


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
    """What :func:`sylvan.sampling.midx.cell_draws.draw_in_stages` draws with the same coins, with its log-probability.

    Parameters
    ----------
    stage : FirstStage
    scores : list of two Tensors of float32, shape (batch, n_codewords)
        The log-scores that the stage was made of.
    index : MultiIndex
        Of two codebooks.
    coins : Tensor of float64, shape (batch, n)
    """
    ids = torch.empty(coins.shape, dtype=torch.int64)
    log_q = torch.empty(coins.shape, dtype=torch.float32)
    cells = [index.offsets, index.masses(), index.order, index.heights, index.own_scores]
    tensors = [stage.heights, stage.second, *scores, *cells, coins, ids, log_q]
    _kernels().midx_draw(*(tensor.contiguous().numpy() for tensor in tensors))
    return Draw(ids, log_q)
