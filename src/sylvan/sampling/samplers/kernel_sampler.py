"""What samplers by a kernel have in common: looking at all classes, or walking down a tree of feature sums."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

import torch
from torch import Tensor

from sylvan.params import KW_ONLY, Range, attribute, parameterized
from sylvan.sampling.samplers.base import AdaptiveSampler, Draw
from sylvan.sampling.samplers.kernel_blocks import ClassBlocks, draw_by_mass, row_sums
from sylvan.sampling.samplers.kernel_tree import FeatureTree
from sylvan.sampling.tensors import slices

__all__ = ["KernelSampler"]

# Classes in a block when all are looked at: small, for a block is weighed again for each draw from it.
_SCAN_BLOCK = 64


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
