"""Draws in proportion to a quadratic kernel of query and class embedding."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from sylvan.params.fields import KW_ONLY, Range, attribute, parameterized
from sylvan.sampling.samplers.base import Draw
from sylvan.sampling.samplers.kernel_sampler import KernelSampler
from sylvan.sampling.tensors import products


@parameterized
class Sphere(KernelSampler):
    """Draws class i for query z with probability proportional to ``alpha * (z·w_i)**2 + 1``.

    A very negative score counts like a very positive one, so the kernel is close to a softmax of the scores'
    absolute values, and loose for the softmax itself. log_q is the formula's own value; the tree draws from the same
    distribution as the scan, up to float32 rounding of the nodes' masses.

    Parameters
    ----------
    n_classes : int
    dim : int
        Dimensions of queries and class embeddings.
    alpha : float in [0, inf), default 100
        How much the square of the score counts beside the constant 1; with 0 all classes are equally likely.
    structure : {"auto", "scan", "tree"}
        ``"scan"`` weighs all classes: O(n_classes * dim) a query. ``"tree"`` keeps the second moment of the embeddings
        below every node of a binary tree: a draw takes at most O(dim**2 * log(n_classes / leaf_size) + dim *
        leaf_size), the log-probability of a class O(dim) after O(dim**2) a query, and no step looks at all classes.
        ``"auto"`` is the tree from 512 * dim classes on.
    leaf_size : int, optional
        About how many classes the tree leaves to be weighed one by one (between 0.7 and 1.4 times as many). The
        moments take dim / leaf_size of the memory of the class table, of which the index holds a copy. Default
        2 * dim; with hundreds of draws a query, smaller is faster.
    stale_after : int, optional
        Warn after so many draws without a refresh.

    Raises
    ------
    ParameterError
        When a parameter is outside its range.

    References
    ----------
    Blanc & Rendle 2018, "Adaptive Sampled Softmax with Kernel Based Sampling" (arXiv 1712.00527), Sections 3 and 4;
    MIDX paper (arXiv 2501.08563), Section 6.1 ("Sphere").

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import Sphere
    >>> sampler = Sphere(3, 2, alpha=1.0)
    >>> sampler.refresh(torch.tensor([[0.0, 0.0], [1.0, 0.0], [-2.0, 5.0]]))
    >>> sampler.log_prob(torch.tensor([[1.0, 0.0]]), torch.arange(3)).exp()  # in proportion to 1, 2 and 5
    tensor([[0.1250, 0.2500, 0.6250]])
    """

    _: KW_ONLY
    alpha: Annotated[float, Range(0)] = 100.0
    upper: Tensor = attribute()
    moment: Tensor = attribute()

    def __post_init__(self) -> None:
        super().__post_init__()
        dim = self.dim
        row, column = torch.triu_indices(dim, dim)
        self.register_buffer("upper", row * dim + column, persistent=False)
        leaf = (self.leaf_size or 2 * dim) if self._uses_tree(512 * dim) else None
        self._build(dim, len(self.upper), leaf, additive=True, dense_nodes=256)
        if self.tree is not None:
            self.register_buffer("moment", torch.zeros(len(self.upper), dtype=torch.float64))

    def _rows(self, embeddings: Tensor) -> Tensor:
        return embeddings

    def _class_mass(self, dots: Tensor) -> Tensor:
        return dots.square_().mul_(self.alpha).add_(1)

    def _features(self, rows: Tensor) -> Tensor:
        """Products of two coordinates, (batch, dim * (dim + 1) / 2); those off the diagonal count twice."""
        products = (rows.unsqueeze(2) * rows.unsqueeze(1)).flatten(1).index_select(1, self.upper)
        on_diagonal = self.upper % (rows.shape[1] + 1) == 0
        return products.mul_(torch.where(on_diagonal, 1.0, 2.0))

    def _feature_sums(self, blocks: Tensor) -> Tensor:
        columns = blocks.transpose(1, 2)
        return products(columns, columns).flatten(1).index_select(1, self.upper)

    def _node_mass(self, dots: Tensor, counts: Tensor) -> Tensor:
        # A sum of squares isn't negative but for rounding.
        return dots.clamp_min_(0).mul_(self.alpha).mul_(counts > 0).add_(counts)

    def _refresh(self, table: Tensor) -> None:
        super()._refresh(table)
        if self.tree is not None:
            self.moment.copy_(self.tree.leaf_sums())

    def _draw_part(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        draw = super()._draw_part(queries, n, generator)
        return draw if self.tree is None else Draw(draw.ids, self._log_prob_part(queries, draw.ids))

    def _log_prob_part(self, queries: Tensor, ids: Tensor) -> Tensor:
        if self.tree is None:
            return super()._log_prob_part(queries, ids)
        # In float64, because the total has no lower parts that would make up for its rounding.
        squares = (self._features(queries) * self.moment).sum(dim=1).clamp_min_(0)
        log_total = (squares * self.alpha + self.n_classes).log().float()
        return self._class_mass(self.blocks.dots(queries, ids)).log() - log_total.unsqueeze(1)
