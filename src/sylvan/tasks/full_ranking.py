"""Rankings over all classes, a few queries at a time, so that queries times classes never lies in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from sylvan.arrays.topk import TopK

_SCORES = 1 << 23  # in memory at a time


def chunks(n_queries: int, n_classes: int, most: int | None = None) -> Iterator[tuple[int, int]]:
    """Ranges of queries whose scores together are at most ``most`` (8,388,608 by default), or single queries."""
    size = max(1, (most or _SCORES) // max(1, n_classes))
    for first in range(0, n_queries, size):
        yield first, min(first + size, n_queries)


@torch.no_grad()
def target_ranks(
    queries: Tensor, table: Tensor, targets: Tensor, seen: tuple[Tensor, Tensor] | None = None, most: int | None = None
) -> Tensor:
    """The place of each target among all classes by falling inner product."""
    # Shapes: queries (n, dim); table (n_classes, dim); targets (n,); seen (total,); returns (n,)
    ranks = torch.empty(len(queries), dtype=torch.int64, device=queries.device)
    ids = torch.arange(len(table), device=queries.device)
    for first, end in chunks(len(queries), len(table), most):
        scores = queries[first:end].float() @ table.float().t()  # (chunk, n_classes)
        target = targets[first:end].unsqueeze(1)
        wanted = scores.gather(1, target)
        if seen is not None:
            bounds = torch.searchsorted(seen[0], torch.tensor([first, end], device=seen[0].device))
            part = slice(int(bounds[0]), int(bounds[1]))
            scores[seen[0][part] - first, seen[1][part]] = -torch.inf
        wrong = ~torch.isfinite(wanted)
        better = (scores > wanted) | ((scores == wanted) & (ids < target))
        # The target itself never counts, even where it was among the excluded.
        better.scatter_(1, target, False)
        ranks[first:end] = torch.where(wrong.squeeze(1), len(table), 1 + better.sum(dim=1))
    return ranks


def ranking_measures(ranks: Tensor, at: Sequence[int] = (10, 20, 50)) -> dict[str, float]:
    """NDCG and recall of rankings in which one class is right: the mean of 1/log2(rank + 1), and of 1, up to k."""
    # Shape: ranks (n,)
    place = ranks.double()
    gain = 1 / torch.log2(place + 1)
    results = {f"ndcg@{k}": float((gain * (ranks <= k)).mean()) for k in at}
    return results | {f"recall@{k}": float((ranks <= k).double().mean()) for k in at}


@torch.no_grad()
def top_classes(queries: Tensor, table: Tensor, k: int, bias: Tensor | None = None, most: int | None = None) -> TopK:
    """The ``k`` classes with the highest inner products of each query, best first (fewer when there are fewer)."""
    labels = np.empty((len(queries), min(k, len(table))), np.int32)
    values = np.empty(labels.shape, np.float32)
    for first, end in chunks(len(queries), len(table), most):
        scores = queries[first:end].float() @ table.float().t()
        best = torch.topk(scores if bias is None else scores + bias.float(), labels.shape[1], dim=1)
        labels[first:end] = best.indices.cpu().numpy()
        values[first:end] = best.values.cpu().numpy()
    return TopK(labels, values)
