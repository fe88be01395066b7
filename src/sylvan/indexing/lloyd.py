"""Weighted k-means on PyTorch: blocked matrix products for the assignment, index-adds for the means. Not imported with
:mod:`sylvan.indexing`, because it needs PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["BLOCK_ROWS", "kmeans", "nearest_codewords"]

BLOCK_ROWS = 4096  # scores of a block against 64 codewords take 1 MiB: they stay in the cache
_START_ROWS = 16_384  # k-means++ looks at no more rows than these


def kmeans(
    rows: Tensor,
    n_codewords: int,
    *,
    weights: Tensor | None = None,
    start: Tensor | None = None,
    n_iterations: int = 10,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Codewords that make the (weighted) mean squared distance of rows to their nearest codeword small (Lloyd 1982),
    from k-means++ (Arthur and Vassilvitskii 2007) where no ``start`` is given. A codeword that stands for no row moves
    to the row that is farthest from its own."""
    # Shapes: rows (n, dim); weights (n,); start (n_codewords, dim); returns (n_codewords, dim)
    codewords = _plus_plus(rows, n_codewords, weights, generator) if start is None else start.clone()
    codes = torch.full((len(rows),), -1, dtype=torch.int64, device=rows.device)
    for _ in range(n_iterations):
        previous, codes = codes, torch.empty_like(codes)
        best = rows.new_empty(len(rows))
        sums = torch.zeros_like(codewords)
        masses = codewords.new_zeros(n_codewords)
        for begin in range(0, len(rows), BLOCK_ROWS):
            part = slice(begin, begin + BLOCK_ROWS)
            codes[part], best[part] = nearest_codewords(rows[part], codewords)
            block_sums, block_masses = _sums(
                rows[part], codes[part], None if weights is None else weights[part], n_codewords
            )
            sums += block_sums
            masses += block_masses
        if torch.equal(codes, previous):
            break
        codewords = torch.where(masses[:, None] > 0, sums / masses.clamp_min(1e-30)[:, None], codewords)
        _reseed(codewords, masses, rows, weights, best)
    return codewords


def nearest_codewords(rows: Tensor, codewords: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest codeword of each row, and x·c - |c|²/2 of it, the score that it is largest of."""
    half = codewords.square().sum(dim=1).div_(-2)
    with torch.autocast(rows.device.type, enabled=False):
        best, codes = torch.addmm(half, rows, codewords.t()).max(dim=1)
    return codes, best


def _sums(rows: Tensor, codes: Tensor, weights: Tensor | None, n_codewords: int) -> tuple[Tensor, Tensor]:
    """Weighted sum of each codeword's rows, and the sum of their weights; in the same order for any threads."""
    if weights is None:
        weights = rows.new_ones(len(rows))
    else:
        rows = rows * weights[:, None]
    if rows.is_cpu:  # measured: less than half the time of a product with one-hot codes
        sums = rows.new_zeros(n_codewords, rows.shape[1]).index_add_(0, codes, rows)
        return sums, rows.new_zeros(n_codewords).index_add_(0, codes, weights)
    # Elsewhere index_add_ is made of atomic additions, whose order changes from run to run.
    marks = rows.new_zeros(len(rows), n_codewords).scatter_(1, codes[:, None], 1.0)
    return marks.t() @ rows, marks.t() @ weights


def _reseed(codewords: Tensor, masses: Tensor, rows: Tensor, weights: Tensor | None, best: Tensor) -> None:
    """Put codewords that stand for nothing on the rows that are farthest from theirs, in place."""
    empty = torch.nonzero(masses <= 0).flatten()
    if len(empty) == 0:
        return
    distances = rows.square().sum(dim=1) - 2 * best
    floor = 1e-6 * float(rows.square().sum(dim=1).mean())  # beneath this a distance is rounding
    if weights is not None:
        distances = torch.where(weights > 0, distances, torch.zeros_like(distances))
    far, where = torch.topk(distances, min(len(empty), len(rows)))
    where = where[far > floor]
    codewords[empty[: len(where)]] = rows[where]


def _plus_plus(rows: Tensor, n_codewords: int, weights: Tensor | None, generator: torch.Generator | None) -> Tensor:
    """First codewords: rows drawn with chances like their weighted squared distances from the codewords before."""
    if len(rows) > _START_ROWS:
        chosen = torch.randperm(len(rows), generator=generator, device=rows.device)[:_START_ROWS]
        if weights is not None:  # the heavy ones are always among them
            heavy = torch.topk(weights, n_codewords if n_codewords < _START_ROWS else _START_ROWS).indices
            chosen = torch.unique(torch.cat([chosen, heavy]))
            weights = weights[chosen]
        rows = rows[chosen]
    weight = (rows.new_ones(len(rows)) if weights is None else weights).double()
    uniforms = torch.rand(n_codewords, dtype=torch.float64, generator=generator, device=rows.device)
    codewords = rows.new_empty(n_codewords, rows.shape[1])
    distances = torch.ones_like(weight)
    for word in range(n_codewords):
        chances = torch.cumsum(distances * weight, 0)
        # Where every row is a codeword already all chances are 0, and the search ends at the last row.
        at = torch.searchsorted(chances, (uniforms[word] * chances[-1])[None], right=True).clamp_max(len(rows) - 1)
        codewords[word] = rows[at[0]]
        result = (rows - codewords[word]).square().sum(dim=1).double()
        distances = result if word == 0 else torch.minimum(distances, result)
    return codewords
