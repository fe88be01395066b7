"""Samplers by a kernel, RFF and Sphere: looking at all classes, or walking down a tree of feature sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan.params.fields import KW_ONLY, Range, attribute, parameterized
from sylvan.sampling.samplers.base import AdaptiveSampler, Draw
from sylvan.sampling.tensors import product, products, slices

# Draws of the same block that share one copy of its rows.
_SHARING = 8
_Mass = Callable[[Tensor], Tensor]
_NODES_AT_ONCE = 64
_NodeMass = Callable[[Tensor, Tensor], Tensor]
# Classes in a block when all are looked at: small, for a block is weighed again for each draw from it.
_SCAN_BLOCK = 64
# The default floor as a part of the estimate's standard deviation: a class is distinguished from noise no better. Found
# best for 32 features on a model of Penn Treebank; with exp(-2 * temperature) alone draws were worse than uniform ones.
_FLOOR_IN_NOISE = 0.25
_LEAF_SIZE = 32


def draw_by_mass(masses: Tensor, n: int, last: int, generator: torch.Generator | None) -> Tensor:
    """Columns drawn ``n`` times a row in proportion to ``masses``, shape (batch, n); none lies beyond ``last``. Sums
    and random numbers are float64: float32 would never draw columns with less than 2**-24 of a row's mass."""
    ends = masses.double().cumsum(dim=1)  # (batch, columns)
    uniform = torch.rand((len(masses), n), generator=generator, device=masses.device, dtype=torch.float64)
    return torch.searchsorted(ends, uniform * ends[:, -1:], right=True).clamp_(max=last)


def row_sums(masses: Tensor) -> Tensor:
    """Sums of rows (n, m), (n, 1), with the same bits for any number of threads: ``sum`` of one long row is not."""
    return masses.double().cumsum(dim=1)[:, -1:].float()


class ClassBlocks(nn.Module):
    """One row a class, in ``n_blocks`` blocks of ``size`` rows; the places after the last class are zeros. The mass of
    a class is a function of the inner product of its row with the query's (``mass`` below)."""

    rows: Tensor

    def __init__(self, n_classes: int, n_blocks: int, row_dim: int) -> None:
        super().__init__()
        self.n_classes, self.n_blocks, self.size = n_classes, n_blocks, -(-n_classes // n_blocks)
        self.register_buffer("rows", torch.zeros(n_blocks, self.size, row_dim))

    def fill(self, table: Tensor, rows_of: _Mass) -> None:
        """Take over the classes' rows: ``rows_of`` a part of the class table, part after part."""
        flat = self.rows.flatten(0, 1)
        for part in slices(self.n_classes, table.shape[1] + flat.shape[1]):
            flat[part] = rows_of(table[part].float())

    def totals(self, queries: Tensor, mass: _Mass) -> Tensor:
        """Mass of every block for every query, float32 (batch, n_blocks): looks at every class."""
        totals = queries.new_empty(self.n_blocks, len(queries))
        for part in slices(self.n_blocks, len(queries) * self.size):
            masses = mass(products(self.rows[part], queries))  # (blocks, size, batch)
            if part.stop * self.size > self.n_classes:
                places = torch.arange(part.start * self.size, part.stop * self.size, device=masses.device)
                masses = masses.masked_fill((places >= self.n_classes).view(-1, self.size, 1), 0)
            totals[part] = masses.sum(dim=1)
        return totals.t().contiguous()

    def dots(self, queries: Tensor, ids: Tensor) -> Tensor:
        """Inner products of queries (batch, row_dim) with the rows of classes (batch, m), shape (batch, m)."""
        flat = self.rows.flatten(0, 1)
        if ids.stride(0) == 0 and len(ids) > 1:  # the batch shares the classes
            return product(queries, flat.index_select(0, ids[0]))
        out = queries.new_empty(ids.shape)
        for part in slices(len(ids), ids.shape[1] * flat.shape[1]):
            chosen = flat.index_select(0, ids[part].flatten()).view(*ids[part].shape, -1)
            out[part] = chosen.mul_(queries[part].unsqueeze(1)).sum(dim=2)
        return out

    def draw(
        self, queries: Tensor, blocks: Tensor, mass: _Mass, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """One class within each of ``blocks`` (batch, n), and the log-probability of it within the block."""
        uniform = torch.rand(blocks.shape, generator=generator, device=blocks.device)
        ids, log_within = torch.empty_like(blocks), torch.empty_like(uniform)
        for part in slices(len(blocks), blocks.shape[1] * self.size):
            masses = self._masses(queries[part], blocks[part], mass)  # (draws, size)
            ends = masses.cumsum(dim=1)
            place = torch.searchsorted(ends, uniform[part].reshape(-1, 1) * ends[:, -1:], right=True)
            # Rounding may leave a draw at the very end: it goes to the last class there is.
            flat = blocks[part].flatten()
            last = (self.n_classes - 1 - flat * self.size).clamp(max=self.size - 1)
            place = torch.minimum(place, last.unsqueeze(1))
            ids[part] = (flat * self.size + place.squeeze(1)).view_as(ids[part])
            within = masses.gather(1, place).log() - row_sums(masses).log()
            log_within[part] = within.view_as(log_within[part])
        return ids, log_within

    def block_totals(self, queries: Tensor, blocks: Tensor, mass: _Mass) -> Tensor:
        """Mass of chosen blocks (batch, m), as :meth:`draw` sees it, float32 (batch, m)."""
        if blocks.shape[1] * _SHARING >= self.n_blocks:
            return self.totals(queries, mass).gather(1, blocks)
        out = queries.new_empty(blocks.shape)
        for part in slices(len(blocks), blocks.shape[1] * self.size):
            out[part] = row_sums(self._masses(queries[part], blocks[part], mass)).view_as(out[part])
        return out

    def _masses(self, queries: Tensor, blocks: Tensor, mass: _Mass) -> Tensor:
        """Masses of the classes of each (query, block) pair of ``blocks`` (batch, n), shape (batch * n, size). A
        block's rows are far more than the query's, so pairs are sorted by block and up to ``_SHARING`` of them share
        one copy of the rows."""
        n_pairs = blocks.numel()
        sorted_blocks, order = blocks.flatten().sort(stable=True)
        places = torch.arange(n_pairs, device=blocks.device)
        new = torch.ones_like(places, dtype=torch.bool)
        new[1:] = sorted_blocks[1:] != sorted_blocks[:-1]
        rank = places - torch.where(new, places, 0).cummax(dim=0).values
        slot = rank % _SHARING
        group = (slot == 0).cumsum(dim=0) - 1
        block_of_group = sorted_blocks[slot == 0]
        shared = queries.new_zeros(len(block_of_group), _SHARING, queries.shape[1])
        shared[group, slot] = queries[order // blocks.shape[1]]
        dots = queries.new_empty(len(block_of_group), _SHARING, self.size)
        for part in slices(len(block_of_group), self.size * queries.shape[1]):
            rows = self.rows.index_select(0, block_of_group[part])
            dots[part] = products(shared[part], rows)
        masses = queries.new_empty(n_pairs, self.size)
        masses[order] = mass(dots[group, slot])
        left = self.n_classes - blocks.flatten() * self.size  # classes from the block's first on
        if self.n_classes < self.n_blocks * self.size:
            masses.masked_fill_(torch.arange(self.size, device=blocks.device) >= left.unsqueeze(1), 0)
        return masses


class FeatureTree(nn.Module):
    """Sums of the features of the classes below each node of a complete binary tree (Blanc & Rendle 2018, Section 4).
    Node 1 is the root, the children of node v are 2v and 2v + 1, and the leaves, from ``n_leaves`` on, are the blocks.
    The mass of a node is ``node_mass(dots, counts)`` of the query's inner product with the sum, and of the number of
    classes below it."""

    sums: Tensor

    def __init__(
        self, n_classes: int, depth: int, block_size: int, n_features: int, *, additive: bool, dense_nodes: int
    ) -> None:
        super().__init__()
        self.n_classes, self.depth, self.block_size = n_classes, depth, block_size
        self.additive, self.dense_nodes = additive, dense_nodes
        self.register_buffer("sums", torch.zeros(2 << depth, n_features))

    def fill(self, blocks: Tensor, sum_of: Callable[[Tensor], Tensor]) -> None:
        """Take over blocks of class rows (n_leaves, size, row_dim): ``sum_of`` some blocks gives their sums."""
        leaves = self.sums[1 << self.depth :]
        for part in slices(len(leaves), blocks[0].numel() + blocks.shape[2] ** 2):
            leaves[part] = sum_of(blocks[part])
        for level in range(self.depth - 1, -1, -1):
            first, after = 1 << level, 2 << level
            pairs = self.sums[after : 2 * after]
            torch.add(pairs[::2], pairs[1::2], out=self.sums[first:after])

    def draw(
        self, features: Tensor, n: int, node_mass: _NodeMass, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Leaves drawn for queries' features (batch, n_features), and their log-probabilities, both (batch, n)."""
        level = self._dense_level(n)
        log_of_level = self._log_level(features, level, node_mass)
        last = (self.n_classes - 1) // (self.block_size << (self.depth - level))
        nodes = draw_by_mass(log_of_level.exp(), n, last, generator)
        log_q = log_of_level.gather(1, nodes)
        nodes = nodes + (1 << level)
        for deeper in range(level + 1, self.depth + 1):
            left, right = self._children(features, nodes, deeper, node_mass)
            uniform = torch.rand(nodes.shape, generator=generator, device=nodes.device, dtype=torch.float64)
            goes_right = (uniform * (left.double() + right) >= left) & (right > 0)
            log_q += torch.where(goes_right, right, left).log() - (left + right).log()
            nodes = 2 * nodes + goes_right
        return nodes - (1 << self.depth), log_q

    def log_prob(self, features: Tensor, leaves: Tensor, node_mass: _NodeMass) -> Tensor:
        """Log-probability that a draw ends in each of ``leaves`` (batch, m)."""
        level = self._dense_level(leaves.shape[1])
        log_q = self._log_level(features, level, node_mass).gather(1, leaves >> (self.depth - level))
        nodes = leaves + (1 << self.depth)
        for deeper in range(level + 1, self.depth + 1):
            chosen = nodes >> (self.depth - deeper)
            left, right = self._children(features, chosen >> 1, deeper, node_mass)
            log_q += torch.where(chosen % 2 == 1, right, left).log() - (left + right).log()
        return log_q

    def _dense_level(self, n: int) -> int:
        return min(self.depth, (self.dense_nodes * n).bit_length() - 1)

    def _counts(self, places: Tensor, level: int) -> Tensor:
        """How many classes lie below each place (0 for the leftmost) of a level, float32."""
        span = self.block_size << (self.depth - level)
        return (self.n_classes - places * span).clamp(0, span).float()

    def _level_masses(self, features: Tensor, level: int, node_mass: _NodeMass) -> Tensor:
        """Mass of every node of a level, float32 (batch, 2**level); 0 where there is no class."""
        first, after = 1 << level, 2 << level
        counts = self._counts(torch.arange(first, device=features.device), level)
        nodes = self.sums[first:after].view(-1, min(first, _NODES_AT_ONCE), self.sums.shape[1])
        dots = products(nodes, features)  # (parts of the level, nodes, batch)
        return node_mass(dots.flatten(0, 1).t(), counts)

    def _log_level(self, features: Tensor, level: int, node_mass: _NodeMass) -> Tensor:
        """Log-probability of every node of a level, float32 (batch, 2**level)."""
        if self.additive:
            masses = self._level_masses(features, level, node_mass)
            return masses.log() - row_sums(masses).log()
        log_q = features.new_zeros(len(features), 1)
        for upper in range(1, level + 1):
            pairs = self._level_masses(features, upper, node_mass).reshape(len(features), -1, 2)
            # A pair without any class has no parent that is ever reached.
            branch = pairs.log() - pairs.sum(dim=2, keepdim=True).clamp_min(torch.finfo(pairs.dtype).tiny).log()
            log_q = (log_q.unsqueeze(2) + branch).flatten(1)
        return log_q

    def _children(self, features: Tensor, nodes: Tensor, level: int, node_mass: _NodeMass) -> tuple[Tensor, Tensor]:
        """Masses of the left and right children, at ``level``, of the nodes on the queries' ways (batch, n)."""
        pairs = self.sums.view(-1, 2 * self.sums.shape[1])  # row v: the sums of both children of node v
        dots = features.new_empty(*nodes.shape, 2)
        for part in slices(len(nodes), nodes.shape[1] * pairs.shape[1]):
            some = nodes[part]
            sums = pairs.index_select(0, some.flatten()).view(len(some), -1, self.sums.shape[1])
            dots[part] = sums.mul_(features[part].unsqueeze(1)).sum(dim=2).view(*some.shape, 2)
        left = 2 * nodes - (1 << level)
        masses = node_mass(dots, self._counts(torch.stack([left, left + 1], dim=2), level))
        return masses[..., 0], masses[..., 1]


@parameterized
class KernelSampler(AdaptiveSampler):
    """Base of samplers that draw a class in proportion to a kernel of query and class embedding. A subclass turns
    queries and class embeddings into rows (``_rows``) whose inner product decides a class's mass (``_class_mass``); for
    the tree, rows into features (``_features``), blocks of rows into sums of features (``_feature_sums``), and the
    inner product with a sum into a node's mass (``_node_mass``)."""

    _: KW_ONLY
    # `"scan"` weighs every class for every query, in parts, so that memory stays bounded; `"tree"` weighs sums over
    # many classes and comes down to a block of classes by its own steps; `"auto"` is the one expected to be the faster
    # of them for so many classes
    structure: Literal["auto", "scan", "tree"] = "auto"
    leaf_size: Annotated[int | None, Range(1)] = None  # about how many classes make a block of the tree

    tree: FeatureTree | None = attribute()

    def _uses_tree(self, tree_from: int) -> bool:
        return self.structure == "tree" or (self.structure == "auto" and self.n_classes >= tree_from)

    def _build(
        self, row_dim: int, n_features: int, leaf_size: int | None, *, additive: bool = False, dense_nodes: int = 1
    ) -> None:
        """Make the index's buffers: a tree with leaves of about ``leaf_size`` classes; without one, blocks alone."""
        if leaf_size is None:
            self.blocks = ClassBlocks(self.n_classes, -(-self.n_classes // _SCAN_BLOCK), row_dim)
            self.tree = None
            return
        # The power of two that comes nearest: 2**depth leaves of between 0.7 and 1.4 times leaf_size.
        depth = max(0, round(math.log2(self.n_classes / leaf_size)))
        self.blocks = ClassBlocks(self.n_classes, 1 << depth, row_dim)
        self.tree = FeatureTree(
            self.n_classes, depth, self.blocks.size, n_features, additive=additive, dense_nodes=dense_nodes
        )

    # What a subclass writes.

    def _rows(self, embeddings: Tensor) -> Tensor:
        return embeddings

    def _class_mass(self, dots: Tensor) -> Tensor:
        """Masses from inner products; may change ``dots``."""
        raise NotImplementedError

    def _features(self, rows: Tensor) -> Tensor:
        return rows

    def _feature_sums(self, blocks: Tensor) -> Tensor:
        raise NotImplementedError

    def _node_mass(self, dots: Tensor, counts: Tensor) -> Tensor:
        """Masses of nodes; 0 where ``counts`` is, and with it ``dots``."""
        raise NotImplementedError

    # What it gets for that.

    def _refresh(self, table: Tensor) -> None:
        self.blocks.fill(table, self._rows)
        if self.tree is not None:
            self.tree.fill(self.blocks.rows, self._feature_sums)

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        parts = [self._draw_part(queries[part].float(), n, generator) for part in self._parts(queries)]
        return Draw(*map(torch.cat, zip(*parts, strict=True)))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        return torch.cat([self._log_prob_part(queries[part].float(), ids[part]) for part in self._parts(queries)])

    def _parts(self, queries: Tensor) -> Iterator[slice]:
        """Slices of the batch whose features and masses of blocks fit into the memory meant for them."""
        n_features = self.tree.sums.shape[1] if self.tree is not None else 0
        return slices(len(queries), max(n_features, self.blocks.n_blocks))

    def _draw_part(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        rows = self._rows(queries)
        if self.tree is None:
            totals = self.blocks.totals(rows, self._class_mass)
            last = (self.n_classes - 1) // self.blocks.size  # that has a class
            blocks = draw_by_mass(totals, n, last, generator)
            log_q = totals.gather(1, blocks).log() - row_sums(totals).log()
        else:
            blocks, log_q = self.tree.draw(self._features(rows), n, self._node_mass, generator)
        ids, log_within = self.blocks.draw(rows, blocks, self._class_mass, generator)
        return Draw(ids, log_q + log_within)

    def _log_prob_part(self, queries: Tensor, ids: Tensor) -> Tensor:
        rows = self._rows(queries)
        log_mass = self._class_mass(self.blocks.dots(rows, ids)).log()
        if self.tree is None:
            return log_mass - row_sums(self.blocks.totals(rows, self._class_mass)).log()
        leaves = ids // self.blocks.size
        log_leaf = self.tree.log_prob(self._features(rows), leaves, self._node_mass)
        return log_leaf + log_mass - self.blocks.block_totals(rows, leaves, self._class_mass).log()


@parameterized
class RFF(KernelSampler):
    """Draws class i for query z in proportion to an estimate of ``exp(temperature * z·w_i)``, z and w_i normalised.

    On the unit sphere ``exp(t * z . w) = exp(t) * exp(-t * |z - w|**2 / 2)``, and that Gaussian kernel is estimated by
    the inner product of features ``[cos(v_j . x), sin(v_j . x)] / sqrt(n_features)`` with v_j drawn once from
    N(0, temperature * I). The estimate has a standard deviation of up to ``1 / sqrt(2 * n_features)`` and may be
    negative; a mass smaller than ``floor`` counts as ``floor``.

    The scan applies the floor to each class; the tree to the sums below each node on the way down (``floor`` times
    their number of classes), and to each class of the leaf. log_q and ``log_prob`` are exact for the structure in use.

    Parameters
    ----------
    n_features : int, default 32
        Frequencies v_j, each with a cosine and a sine.
    temperature : float in (0, inf), default 4
        The factor t of the normalised embeddings' inner product.
    floor : float in (0, 1], optional
        Least mass of a class, where 1 is that of a class that points where the query does. Default
        exp(-2 * temperature), the least that the kernel itself can be, or a quarter of the estimate's standard
        deviation if that is larger (0.031 with 32 features).
    structure : {"auto", "scan", "tree"}
        ``"scan"`` weighs all classes: O(n_classes * n_features) a query. ``"tree"`` keeps the sum of features below
        every node of a binary tree: a draw takes at most O(n_features * (log(n_classes / leaf_size) + leaf_size)).
        ``"auto"`` is the tree from 20,000 classes on.
    leaf_size : int, optional
        About how many classes the tree leaves to be weighed one by one (between 0.7 and 1.4 times as many);
        default 32.
    seed : int, optional
        Decides the frequencies; PyTorch's default generator does when None. They are part of ``state_dict``.

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

    def _feature_sums(self, blocks: Tensor) -> Tensor:
        return blocks.sum(dim=1)

    def _node_mass(self, dots: Tensor, counts: Tensor) -> Tensor:
        return torch.maximum(dots, counts * self._floor)


@parameterized
class Sphere(KernelSampler):
    """Draws class i for query z with probability proportional to ``alpha * (z·w_i)**2 + 1``.

    A very negative score counts like a very positive one, so the kernel is close to a softmax of the scores'
    absolute values, and loose for the softmax itself. log_q is the formula's own value; the tree draws from the same
    distribution as the scan, up to float32 rounding of the nodes' masses.

    Parameters
    ----------
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

    def __post_init__(self) -> None:
        super().__post_init__()
        dim = self.dim
        row, column = torch.triu_indices(dim, dim)
        self.register_buffer("upper", row * dim + column, persistent=False)
        leaf = (self.leaf_size or 2 * dim) if self._uses_tree(512 * dim) else None
        self._build(dim, len(self.upper), leaf, additive=True, dense_nodes=256)
        if self.tree is not None:
            self.register_buffer("moment", torch.zeros(len(self.upper), dtype=torch.float64))

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
        return dots.clamp_min_(0).mul_(self.alpha).add_(counts)

    def _refresh(self, table: Tensor) -> None:
        super()._refresh(table)
        if self.tree is not None:
            leaves = self.tree.sums[1 << self.tree.depth :]
            self.moment.zero_()
            for part in slices(len(leaves), leaves.shape[1]):
                self.moment += leaves[part].double().sum(dim=0)

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
