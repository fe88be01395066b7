"""Draws in proportion to random Fourier features' estimate of the softmax of normalised embeddings."""

from __future__ import annotations

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from sylvan.params.fields import KW_ONLY, Range, attribute, parameterized
from sylvan.sampling.samplers.kernel_sampler import KernelSampler
from sylvan.sampling.tensors import product

# The default floor as a part of the estimate's standard deviation: a class is distinguished from noise no better. Found
# best for 32 features on a model of Penn Treebank; with exp(-2 * temperature) alone draws were worse than uniform ones.
_FLOOR_IN_NOISE = 0.25
_LEAF_SIZE = 32


@parameterized
class RFF(KernelSampler):
    """Draws class i for query z in proportion to an estimate of ``exp(temperature * z·w_i)``, z and w_i normalised.

    On the unit sphere ``exp(t * z . w) = exp(t) * exp(-t * |z - w|**2 / 2)``, and that Gaussian kernel is estimated by
    the inner product of features ``[cos(v_j . x), sin(v_j . x)] / sqrt(n_features)`` with v_j drawn once from
    N(0, temperature * I). The estimate has a standard deviation of up to ``1 / sqrt(2 * n_features)`` and may be
    negative; a mass smaller than ``floor`` counts as ``floor``.

    The tree and the scan are therefore not quite the same distribution: the scan applies the floor to each class; the
    tree to the sums below each node on the way down (``floor`` times their number of classes), and to each class of
    the leaf. log_q and ``log_prob`` are exact for the structure in use: for the tree, the product of its branching
    probabilities and of the class's share of its leaf.

    Parameters
    ----------
    n_classes : int
    dim : int
        Dimensions of queries and class embeddings.
    n_features : int, default 32
        Frequencies v_j, each with a cosine and a sine.
    temperature : float in (0, inf), default 4
        The factor t of the normalised embeddings' inner product.
    floor : float in (0, 1], optional
        Least mass of a class, where 1 is that of a class that points where the query does. Default
        exp(-2 * temperature), the least that the kernel itself can be, or a quarter of the estimate's standard
        deviation if that is larger (0.031 with 32 features): what noise takes for smaller would be drawn too seldom,
        and then weigh too much in the loss.
    structure : {"auto", "scan", "tree"}
        ``"scan"`` weighs all classes: O(n_classes * n_features) a query. ``"tree"`` keeps the sum of features below
        every node of a binary tree: a draw takes at most O(n_features * (log(n_classes / leaf_size) + leaf_size)).
        ``"auto"`` is the tree from 20,000 classes on.
    leaf_size : int, optional
        About how many classes the tree leaves to be weighed one by one (between 0.7 and 1.4 times as many);
        default 32.
    seed : int, optional
        Decides the frequencies; PyTorch's default generator does when None. They are part of ``state_dict``.
    stale_after : int, optional
        Warn after so many draws without a refresh.

    Raises
    ------
    ParameterError
        When a parameter is outside its range.

    References
    ----------
    Rawat et al. 2019, "Sampled Softmax with Random Fourier Features" (arXiv 1907.10747), Section 3; MIDX paper
    (arXiv 2501.08563), Section 6.1 ("Rff"). The floor is Sylvan's.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import RFF
    >>> sampler = RFF(3, 2, n_features=4096, temperature=1.0, seed=0)
    >>> sampler.refresh(torch.tensor([[2.0, 0.0], [0.0, 5.0], [-1.0, 0.0]]))
    >>> q = sampler.log_prob(torch.tensor([[7.0, 0.0]]), torch.arange(3)).exp()
    >>> bool(torch.allclose(q, torch.tensor([1.0, 0.0, -1.0]).softmax(0), atol=0.02))
    True
    """

    _: KW_ONLY
    n_features: Annotated[int, Range(1)] = 32
    temperature: Annotated[float, Range(0, open_low=True)] = 4.0
    floor: Annotated[float | None, Range(0, 1, open_low=True)] = None
    seed: Annotated[int | None, Range(0)] = None
    frequencies: Tensor = attribute()

    def __post_init__(self) -> None:
        super().__post_init__()
        n_features, temperature = self.n_features, self.temperature
        generator = None if self.seed is None else torch.Generator().manual_seed(self.seed)
        normal = torch.randn(self.dim, n_features, generator=generator)
        self.register_buffer("frequencies", normal * math.sqrt(temperature))
        floor = self.floor
        if floor is None:
            floor = max(math.exp(-2 * temperature), _FLOOR_IN_NOISE / math.sqrt(2 * n_features))
        self._floor = floor
        leaf = (self.leaf_size or _LEAF_SIZE) if self._uses_tree(20_000) else None
        self._build(2 * n_features, 2 * n_features, leaf, dense_nodes=16)

    def _rows(self, embeddings: Tensor) -> Tensor:
        angles = product(F.normalize(embeddings, dim=1), self.frequencies.t())
        return torch.cat([angles.cos(), angles.sin()], dim=1) / math.sqrt(self.n_features)

    def _class_mass(self, dots: Tensor) -> Tensor:
        return dots.clamp_min_(self._floor)

    def _features(self, rows: Tensor) -> Tensor:
        return rows

    def _feature_sums(self, blocks: Tensor) -> Tensor:
        return blocks.sum(dim=1)

    def _node_mass(self, dots: Tensor, counts: Tensor) -> Tensor:
        return torch.maximum(dots, counts * self._floor).mul_(counts > 0)
