"""The queries that an index is made for: recent ones, and the coordinates in which they vary alike."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sylvan.indexing.codebooks import Quantizer, reconstruct
from sylvan.sampling.tensors import blocks, product

_FROM_A_BATCH = 32  # rows of a batch that are stored, so that several batches stand behind a refresh
_BOUND = 1e8


class RecentQueries(nn.Module):
    """A ring of queries; of each batch a few rows, evenly spread over it, take the place of the oldest."""

    queries: Tensor  # shape (n_queries, dim): those stored; the first `n_stored` of them are real

    def __init__(self, n_queries: int, dim: int) -> None:
        super().__init__()
        self.n_seen = 0  # how many rows were ever stored; the oldest are overwritten
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


_SHRINKAGE = 0.02  # of the covariance towards a multiple of the identity: there are few queries beside dimensions


class QuerySpace(nn.Module):
    r"""A change of coordinates in which queries have mean zero and, as nearly as their number allows, unit covariance.
    With :math:`\mu` and :math:`\Sigma` the mean and covariance of recent queries, a score is
    :math:`z \cdot q = \mu \cdot q + y \cdot u` with :math:`y = \Sigma^{-1/2} (z - \mu)` and :math:`u = \Sigma^{1/2} q`.
    The first term is the class's own, whatever the query; in the second a distance of :math:`u` is how much scores
    differ from query to query. The symmetric root keeps the coordinates nearly the same from one fit to the next, so
    that codewords remain good ones to start from."""

    center: Tensor  # shape (dim,)
    root: Tensor  # shape (dim, dim)
    inverse_root: Tensor  # shape (dim, dim)

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(dim))
        self.register_buffer("root", torch.eye(dim))
        self.register_buffer("inverse_root", torch.eye(dim))

    def fit(self, queries: Tensor) -> None:
        """Take mean and covariance from queries (n, dim), at least one and all finite."""
        rows = queries.double()
        center = rows.mean(dim=0)
        rows = rows - center
        covariance = rows.t() @ rows / len(rows)
        spread = covariance.diagonal().mean()
        if not bool(spread > 0):
            return  # all queries alike tell nothing of directions
        identity = torch.eye(len(center), dtype=rows.dtype, device=rows.device)
        covariance = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * spread * identity
        values, vectors = torch.linalg.eigh(covariance)
        roots = values.clamp_min(1e-6 * spread).sqrt()
        self.center.copy_(center)
        self.root.copy_((vectors * roots) @ vectors.t())
        self.inverse_root.copy_((vectors / roots) @ vectors.t())

    def queries(self, queries: Tensor) -> Tensor:
        """Queries (batch, dim) in the new coordinates."""
        return product(queries.float() - self.center, self.inverse_root)  # symmetric: its own transpose

    def classes(self, table: Tensor) -> Tensor:
        """Class embeddings (n, dim) in the new coordinates, float32."""
        return product(table.float(), self.root)

    def own_scores(
        self, table: Tensor, moved: Tensor, codewords: Sequence[Tensor], codes: Tensor, quantizer: Quantizer
    ) -> Tensor:
        r"""What each class scores beyond the codewords, (n,): at the mean query, and for what quantisation left over.
        The second is :math:`\tfrac12 |u - \hat u|^2`, the logarithm of the mean of :math:`e^{y \cdot (u - \hat u)}`
        over normally distributed :math:`y`."""
        scores = torch.empty(len(table), device=table.device)
        for rows in blocks(len(table), table.shape[1]):
            left = moved[rows] - reconstruct(codewords, codes[rows], quantizer)
            scores[rows] = product(table[rows].float(), self.center[None])[:, 0] + 0.5 * left.square().sum(dim=1)
        return scores
