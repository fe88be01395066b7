"""Scores of classes as sums over their paths in a tree: beam search, chosen classes, all classes; batches at a time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sylvan.indexing.class_tree import class_edges, first_edges
from sylvan.indexing.tree import LabelTree
from sylvan.sampling.losses.logits import class_logits
from sylvan.sampling.tensors import product, without_gradient

__all__ = ["TreePaths"]

# So many edges in one matrix product take the time of one edge that is gathered for a query of its own.
_PER_GATHERED = 8


class TreePaths(nn.Module):
    """A tree's shape as buffers, and the sums over its edges: a class's score is the sum along its path (Eq. 9). Edges
    are numbered layer after layer, as :func:`sylvan.indexing.class_tree.first_edges` says; the edge weights ``table``
    (n_edges, dim) and biases (n_edges,) are handed to every method."""

    edges: Tensor  # (n_classes, depth), the edges of each class's path
    labels: Tensor  # (n_classes,), the class of each leaf

    def __init__(self, tree: LabelTree) -> None:
        super().__init__()
        self.n_classes = tree.n_labels
        self.depth = tree.depth
        self.first = first_edges(tree).tolist()
        self.fan_outs = [int((offsets[1:] - offsets[:-1]).max()) for offsets in tree.child_offsets]
        self.register_buffer("edges", torch.from_numpy(class_edges(tree)), persistent=False)
        self.register_buffer("labels", torch.tensor(tree.leaf_labels, dtype=torch.int64), persistent=False)
        for layer in range(1, tree.depth):
            offsets = torch.tensor(tree.child_offsets[layer], dtype=torch.int64)
            parents = torch.tensor(tree.parents(layer), dtype=torch.int64)
            self.register_buffer(f"offsets{layer}", offsets, persistent=False)
            self.register_buffer(f"parents{layer}", parents, persistent=False)

    @without_gradient
    def best(self, queries: Tensor, table: Tensor, bias: Tensor | None, beam: int, k: int) -> tuple[Tensor, Tensor]:
        """Algorithm 3: the best nodes of each layer, then of the classes below them; no loop over queries."""
        # Shapes: queries (batch, dim); table (n_edges, dim); bias (n_edges,); returns classes (batch, m), scores
        # (batch, m)
        with torch.autocast(queries.device.type, enabled=False):
            nodes: Tensor | None = None  # (batch, w); None for all of the layer
            scores = self._of_layer(queries, table, bias, 0)
            for layer in range(self.depth):
                if layer > 0:
                    nodes, scores = self._below(layer, nodes, scores, queries, table, bias)
                last = layer == self.depth - 1
                most = k if last else beam
                if scores.shape[1] > most or last:
                    scores, places = scores.topk(min(most, scores.shape[1]), dim=1)
                    nodes = places if nodes is None else nodes.gather(1, places)
            assert nodes is not None
            return self.labels[nodes].where(scores != -torch.inf, -1), scores  # NaN has its class, and is seen

    def chosen(self, queries: Tensor, table: Tensor, bias: Tensor | None, classes: Tensor) -> Tensor:
        """Scores of each query's own classes (batch, m), up to a number for each query, with gradients. What lies on
        the path of all of a query's classes is skipped: in a difference of two scores it isn't seen, so that its
        gradient is zero (Proposition 1), here to the last bit, and its rows of the table aren't read."""
        paths = self.edges[classes]  # (batch, m, depth)
        everywhere = (paths == paths[:, -1:]).all(dim=1, keepdim=True)  # (batch, 1, depth)
        edges = paths.where(~everywhere, paths[:, -1:, -1:])  # a skipped place reads a row that is read anyway
        scores = class_logits(queries, table, edges.flatten(1), bias)
        return scores.view(paths.shape).masked_fill(everywhere, 0.0).sum(dim=2)

    def all_classes(self, queries: Tensor, table: Tensor, bias: Tensor | None) -> Tensor:
        """Scores of all classes (batch, n_classes), with gradients."""
        with torch.autocast(queries.device.type, enabled=False):
            scores = self._of_layer(queries, table, bias, 0)
            for layer in range(1, self.depth):
                scores = self._of_layer(queries, table, bias, layer) + scores.index_select(1, self._parents(layer))
            return scores.index_select(1, self.edges[:, -1] - self.first[-2])

    def class_rows(self, rows: Tensor) -> Tensor:
        """For each class the sum of its edges' ``rows`` (n_edges, ...): (n_classes, ...), with gradients."""
        sums = rows[: self.first[1]]
        for layer in range(1, self.depth):
            sums = rows[self.first[layer] : self.first[layer + 1]] + sums.index_select(0, self._parents(layer))
        return sums.index_select(0, self.edges[:, -1] - self.first[-2])

    def _below(
        self, layer: int, parents: Tensor | None, above: Tensor, queries: Tensor, table: Tensor, bias: Tensor | None
    ) -> tuple[Tensor | None, Tensor]:
        """The children in ``layer`` of the nodes in the one above, and their scores; see :meth:`best`."""
        if parents is None:
            own = self._of_layer(queries, table, bias, layer)
            return None, own + above.index_select(1, self._parents(layer))
        offsets: Tensor = getattr(self, f"offsets{layer}")
        fan_out, first = self.fan_outs[layer], self.first[layer]
        begin = offsets[parents].unsqueeze(2)  # (batch, w, 1)
        children = begin + torch.arange(fan_out, device=begin.device)  # (batch, w, fan_out)
        there = children < offsets[parents + 1].unsqueeze(2)
        children = children.where(there, begin)
        flat = children.flatten(1)
        n_nodes = self.first[layer + 1] - first
        if n_nodes <= _PER_GATHERED * flat.shape[1]:
            scores = self._of_layer(queries, table, bias, layer).gather(1, flat)
        else:
            scores = class_logits(queries, table, flat + first, bias)
        scores = scores.view(children.shape) + above.unsqueeze(2)
        return flat, scores.masked_fill(~there, -torch.inf).flatten(1)

    def _of_layer(self, queries: Tensor, table: Tensor, bias: Tensor | None, layer: int) -> Tensor:
        """Scores of all edges of a layer (batch, n_nodes), those above not added."""
        part = slice(self.first[layer], self.first[layer + 1])
        wide = torch.promote_types(torch.promote_types(queries.dtype, table.dtype), torch.float32)
        scores = product(queries.to(wide), table[part].to(wide))
        return scores if bias is None else scores + bias[part]

    def _parents(self, layer: int) -> Tensor:
        parents: Tensor = getattr(self, f"parents{layer}")
        return parents
