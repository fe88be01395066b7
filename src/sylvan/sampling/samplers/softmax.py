"""The softmax itself: the distribution that every other sampler approaches, at the full price."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from sylvan.params.fields import KW_ONLY, Range, attribute, parameterized
from sylvan.sampling.samplers.base import AdaptiveSampler, Draw
from sylvan.sampling.tensors import invert


@parameterized
class Softmax(AdaptiveSampler):
    """Draws a class with probability proportional to exp(query · class embedding): the oracle.

    Costs as much as the full softmax, O(n_classes · dim) a query, and keeps a copy of the class embeddings: for
    comparisons and tests. Refresh it at every step to draw from the exact softmax throughout a training.

    Parameters
    ----------
    n_classes : int
        Number of classes, in [1, inf).
    dim : int
        Number of dimensions of queries and class embeddings, in [1, inf).
    chunk_size : int
        Most scores in memory at once, in [1, inf); those of a single query always are.
    stale_after : int, optional
        Warn after that many draws without a refresh.

    Raises
    ------
    ParameterError
        When a parameter is out of its range.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import Softmax
    >>> table, query = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[1.0]])
    >>> sampler = Softmax(3, 1)
    >>> sampler.refresh(table)
    >>> [round(p, 3) for p in sampler.log_prob(query, torch.arange(3)).exp()[0].tolist()]
    [0.09, 0.245, 0.665]
    """

    _: KW_ONLY
    chunk_size: Annotated[int, Range(1)] = 1 << 22
    table: Tensor = attribute()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.register_buffer("table", torch.zeros(self.n_classes, self.dim))

    def _refresh(self, table: Tensor) -> None:
        self.table.copy_(table)

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        coins = torch.rand(len(queries), n, generator=generator, device=queries.device, dtype=torch.float64)
        ids, log_q = [], []
        step = self._rows_at_once()
        for start in range(0, len(queries), step):
            scores = self._scores(queries[start : start + step])
            top = scores.amax(dim=1, keepdim=True)
            heights = (scores - top).double().exp_().cumsum(dim=1)
            chosen, _ = invert(heights, coins[start : start + step])
            ids.append(chosen)
            log_q.append(scores.gather(1, chosen).double() - top.double() - heights[:, -1:].log())
        return Draw(torch.cat(ids), torch.cat(log_q).float())

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        parts = []
        step = self._rows_at_once()
        for start in range(0, len(queries), step):
            scores = self._scores(queries[start : start + step])
            top = scores.amax(dim=1, keepdim=True)
            total = (scores - top).double().exp_().cumsum(dim=1)[:, -1:]  # summed in the order of the draws
            parts.append(scores.gather(1, ids[start : start + step]).double() - top.double() - total.log())
        return torch.cat(parts).float()

    def _rows_at_once(self) -> int:
        return max(1, self.chunk_size // self.n_classes)

    def _scores(self, queries: Tensor) -> Tensor:
        return queries.float() @ self.table.t()
