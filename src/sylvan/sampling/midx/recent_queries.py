"""Recent queries, stored so that an index can be fitted to what it is asked for."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sylvan.sampling.tensors import blocks, product

__all__ = ["RecentQueries", "mean_softmax"]

_FROM_A_BATCH = 32  # rows of a batch that are stored, so that several batches stand behind a refresh
_BOUND = 1e8


class RecentQueries(nn.Module):
    """A ring of queries; of each batch a few rows, evenly spread over it, take the place of the oldest.

    Attributes
    ----------
    queries : Tensor of float32, shape (n_queries, dim)
        Those stored; the first ``n_stored`` of them are real.
    n_seen : int
        How many rows were ever stored; the oldest are overwritten.
    """

    queries: Tensor

    def __init__(self, n_queries: int, dim: int) -> None:
        super().__init__()
        self.n_seen = 0
        self.register_buffer("queries", torch.zeros(n_queries, dim))

    @property
    def n_stored(self) -> int:
        """How many queries there are to learn from."""
        return min(self.n_seen, len(self.queries))

    def keep(self, queries: Tensor) -> None:
        """Put some of a batch's rows in the place of the oldest."""
        n = min(len(queries), _FROM_A_BATCH, len(self.queries))
        chosen = torch.arange(n, device=queries.device) * len(queries) // n
        places = (torch.arange(n, device=queries.device) + self.n_seen) % len(self.queries)
        self.queries[places] = queries[chosen].float()
        self.n_seen += n

    def sound(self) -> Tensor:
        """The stored queries without a NaN or a number beyond all bounds, whose square would be none, (n, dim)."""
        stored = self.queries[: self.n_stored]
        return stored[(stored.abs() < _BOUND).all(dim=1)]


def mean_softmax(queries: Tensor, table: Tensor) -> Tensor:
    """Mean over queries (b, dim) of the softmax over all classes (n, dim), float32 (n,), in blocks of classes."""
    top = queries.new_full((len(queries),), -torch.inf)
    total = queries.new_zeros(len(queries), dtype=torch.float64)
    for rows in blocks(len(table), len(queries)):
        scores = product(queries, table[rows].float())  # (b, classes)
        higher = torch.maximum(top, scores.amax(dim=1))
        total = total * (top - higher).exp().double() + (scores - higher[:, None]).exp().sum(dim=1, dtype=torch.float64)
        top = higher
    log_partition = (top.double() + total.log()).float()
    means = queries.new_empty(len(table))
    for rows in blocks(len(table), len(queries)):
        means[rows] = (product(queries, table[rows].float()) - log_partition[:, None]).exp_().mean(dim=0)
    return means
