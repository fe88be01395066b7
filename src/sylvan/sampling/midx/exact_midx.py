"""The softmax itself, drawn through an inverted multi-index: with the term that MIDX drops."""

from __future__ import annotations

import torch
from torch import Tensor

from sylvan.indexing.codebooks import reconstruct
from sylvan.params.fields import attribute, parameterized
from sylvan.sampling.midx.multi_index import MultiIndex, MultiIndexSampler
from sylvan.sampling.samplers.base import Draw
from sylvan.sampling.tensors import blocks, invert, product


@parameterized
class ExactMIDX(MultiIndexSampler):
    """Draws from the softmax, whatever the codebooks, as a cell and then a class of it by its residual's score.

    The classes of a cell aren't drawn alike, as :class:`MIDX` does, but by exp(query · what the codewords leave over
    of the embedding), and a cell counts the sum of these instead of the number of its classes. The product of the
    probabilities is the softmax's. It costs O(n_classes · dim) a query, as much as the softmax: a baseline and the
    theory's starting point, not a way to save time.

    Parameters
    ----------

    Raises
    ------
    ParameterError
        When a parameter is out of its range.
    DataError
        When the class weights are negative, not finite, all zero or not ``n_classes`` in number.

    References
    ----------
    Chen et al., "Adaptive sampled softmax with inverted multi-index" (arXiv 2501.08563): Theorem 1, Algorithm 1.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import ExactMIDX
    >>> _ = torch.manual_seed(0)
    >>> table, queries = torch.randn(50, 4), torch.randn(2, 4)
    >>> sampler = ExactMIDX(50, 4, n_codewords=3)
    >>> sampler.refresh(table)
    >>> softmax = torch.log_softmax(queries @ table.t(), dim=1)
    >>> torch.allclose(sampler.log_prob(queries, torch.arange(50)), softmax, atol=1e-5)
    True
    """

    residuals: Tensor = attribute()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.index = MultiIndex(self.n_classes, self.dim, self.n_codewords, self.n_codebooks, self.quantizer)
        self.register_buffer("residuals", torch.zeros(self.n_classes, self.dim))  # sorted by cell, like the index

    def _refresh(self, table: Tensor) -> None:
        books = self._fitted_codebooks(table, self.weights, self.index.codewords)
        self.index.set_codewords(books.codewords)
        self.index.rebuild(books.codes)
        for rows in blocks(self.n_classes, self.dim):
            ids = self.index.order[rows].long()
            self.residuals[rows] = table[ids].float() - reconstruct(books.codewords, books.codes[ids], self.quantizer)

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        coins = torch.rand(2, len(queries), n, generator=generator, device=queries.device, dtype=torch.float64)
        ids, log_q = [], []
        for rows in blocks(len(queries), self.n_classes):
            scores = self._sorted_scores(queries[rows])
            weights = scores.exp()
            masses = self._masses(weights)
            cells, _ = invert(masses.cumsum(dim=1), coins[0, rows])
            # Within the cell, by the running sums of its own classes.
            heights = weights.cumsum(dim=1)
            begin, end = self.index.offsets[cells], self.index.offsets[cells + 1]
            below = torch.where(begin > 0, heights.gather(1, (begin - 1).clamp_(min=0)), 0.0)
            width = heights.gather(1, (end - 1).clamp_(min=0)) - below
            places = torch.searchsorted(heights, below + coins[1, rows] * width, right=True)
            places = torch.minimum(torch.maximum(places, begin), end - 1).clamp_(min=0)
            ids.append(self.index.order[places].long())
            log_q.append((scores.gather(1, places) - masses.sum(dim=1, keepdim=True).log()).float())
        return Draw(torch.cat(ids), torch.cat(log_q))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        places = torch.empty_like(self.index.order, dtype=torch.int64)
        places[self.index.order.long()] = torch.arange(self.n_classes, device=places.device)
        log_q = []
        for rows in blocks(len(queries), self.n_classes):
            scores = self._sorted_scores(queries[rows])
            total = self._masses(scores.exp()).sum(dim=1, keepdim=True)
            log_q.append((scores.gather(1, places[ids[rows]]) - total.log()).float())
        return torch.cat(log_q)

    def _sorted_scores(self, queries: Tensor) -> Tensor:
        """Codeword scores plus residual scores of all classes sorted by cell, less the largest, float64."""
        cell_scores = self.index.cell_scores(self.index.log_scores(queries))
        scores = cell_scores.repeat_interleave(self.index.counts, dim=1, output_size=self.n_classes)
        scores += product(queries.float(), self.residuals)
        return scores - scores.amax(dim=1, keepdim=True)

    def _masses(self, weights: Tensor) -> Tensor:
        """Sum of the weights of each cell's classes: the paper's ω times its codewords' exp(score)."""
        cells = self.index.class_cells[self.index.order.long()].long()
        return weights.new_zeros(self.index.n_cells, len(weights)).index_add_(0, cells, weights.t()).t()
