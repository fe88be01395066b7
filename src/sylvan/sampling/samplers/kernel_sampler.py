"""What samplers by a kernel have in common: looking at all classes, or walking down a tree of feature sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from sylvan.params.fields import KW_ONLY, Range, attribute, parameterized
from sylvan.sampling.samplers.base import AdaptiveSampler, Draw
from sylvan.sampling.samplers.kernel_blocks import ClassBlocks, draw_by_mass, row_sums
from sylvan.sampling.tensors import products, slices

_NODES_AT_ONCE = 64
_NodeMass = Callable[[Tensor, Tensor], Tensor]
# Classes in a block when all are looked at: small, for a block is weighed again for each draw from it.
_SCAN_BLOCK = 64


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
        self.n_classes = n_classes
        self.depth = depth
        self.block_size = block_size
        self.additive = additive
        self.dense_nodes = dense_nodes
        self.register_buffer("sums", torch.zeros(2 << depth, n_features))

    def fill(self, blocks: Tensor, sum_of: Callable[[Tensor], Tensor]) -> None:
        """Take over blocks of class rows (n_leaves, size, row_dim): ``sum_of`` some blocks gives their sums."""
        n_leaves = 1 << self.depth
        size_of_one = blocks[0].numel() + blocks.shape[2] ** 2
        for part in slices(n_leaves, size_of_one):
            self.sums[n_leaves + part.start : n_leaves + part.stop] = sum_of(blocks[part])
        for level in range(self.depth - 1, -1, -1):
            first, after = 1 << level, 2 << level
            torch.add(
                self.sums[after : 2 * after : 2], self.sums[after + 1 : 2 * after : 2], out=self.sums[first:after]
            )

    def leaf_sums(self) -> Tensor:
        """The sum of all leaves' sums in float64, shape (n_features,)."""
        total = self.sums.new_zeros(self.sums.shape[1], dtype=torch.float64)
        for part in slices(1 << self.depth, self.sums.shape[1]):
            total += self.sums[(1 << self.depth) + part.start : (1 << self.depth) + part.stop].double().sum(dim=0)
        return total

    def draw(
        self, features: Tensor, n: int, node_mass: _NodeMass, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Leaves drawn for queries' features (batch, n_features), and their log-probabilities, both (batch, n)."""
        level = self._dense_level(n)
        log_of_level = self._log_level(features, level, node_mass)
        nodes = draw_by_mass(log_of_level.exp(), n, self._last(level), generator)
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

    def _last(self, level: int) -> int:
        return (self.n_classes - 1) // (self.block_size << (self.depth - level))

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
        raise NotImplementedError

    def _class_mass(self, dots: Tensor) -> Tensor:
        """Masses from inner products; may change ``dots``."""
        raise NotImplementedError

    def _features(self, rows: Tensor) -> Tensor:
        raise NotImplementedError

    def _feature_sums(self, blocks: Tensor) -> Tensor:
        raise NotImplementedError

    def _node_mass(self, dots: Tensor, counts: Tensor) -> Tensor:
        """Masses of nodes; 0 where ``counts`` is."""
        raise NotImplementedError

    # What it gets for that.

    def _refresh(self, table: Tensor) -> None:
        self.blocks.fill(table, self._rows)
        if self.tree is not None:
            self.tree.fill(self.blocks.rows, self._feature_sums)

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        parts = [self._draw_part(queries[part].float(), n, generator) for part in self._parts(queries)]
        return Draw(torch.cat([ids for ids, _ in parts]), torch.cat([log_q for _, log_q in parts]))

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
            blocks = draw_by_mass(totals, n, self.blocks.last, generator)
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
