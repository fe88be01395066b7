"""A vector for each node of a layer of the tree: the loss that it learns by, and the linear rankers it begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan.arrays.canonical import take_rows
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError
from sylvan.indexing import LabelTree
from sylvan.matching import beam as matching
from sylvan.params.fields import Constraint, Number, Parameterized
from sylvan.ranking.linear import LinearOptions
from sylvan.ranking.training import TreeTraining, train_rankers
from sylvan.runtime.jobs import current_runner
from sylvan.weights.layer import ClusterRows, ClusterWeights

Float32 = npt.NDArray[np.float32]
_COMBINE = "l3_hinge"


class LabelLayer(Parameterized, nn.Module):
    """One vector and one bias a node; a step reads and changes those of its candidates only."""

    constraints: ClassVar[dict[str, Constraint]] = {"n_nodes": Number(int, 1), "dim": Number(int, 1)}

    def __init__(self, n_nodes: int, dim: int) -> None:
        super().__init__()
        self.n_nodes, self.dim = n_nodes, dim
        self.check_params()
        # shape (n_nodes, dim): its gradient is sparse, and that of the biases
        self.table = nn.Parameter(torch.zeros(n_nodes, dim))
        self.bias = nn.Parameter(torch.full((n_nodes, 1), -1.0))  # nothing is right until something says so

    @torch.no_grad()
    def begin_with(self, table: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]) -> None:
        """Take vectors (n_nodes, dim) and biases (n_nodes,) in, those of a linear ranker for instance."""
        if table.shape != (self.n_nodes, self.dim) or bias.shape != (self.n_nodes,):
            raise DataError(
                f"This layer has {self.n_nodes} nodes and {self.dim} dimensions. Got a table of shape "
                f"{tuple(table.shape)} and biases of shape {tuple(bias.shape)} instead."
            )
        self.table.copy_(torch.from_numpy(np.ascontiguousarray(table)))
        self.bias.copy_(torch.from_numpy(np.ascontiguousarray(bias)).unsqueeze(1))

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """Scores of some nodes, for every row."""
        # Shapes: embeddings (n, dim); nodes (u,); returns (n, u)
        # In single precision whatever the encoder computes in: these are sums of margins, and cheap beside it.
        with torch.autocast(embeddings.device.type, enabled=False):
            vectors = F.embedding(nodes, self.table, sparse=True)  # (u, dim)
            biases = F.embedding(nodes, self.bias, sparse=True)  # (u, 1)
            return torch.addmm(biases.t(), embeddings.float(), vectors.t())


def squared_hinge(scores: Tensor, positive: Tensor, weights: Tensor) -> Tensor:
    """The squared hinge loss of candidates (PECOS, Eq. 15), summed over a row's and averaged over rows."""
    # Shapes: scores (n, u); positive (n, u); weights (n, u); returns ()
    margins = torch.where(positive, 1 - scores, 1 + scores).clamp(min=0)
    return (weights * margins.square()).sum() / max(len(scores), 1)


def dense_table(weights: ClusterWeights) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The weights of a linear layer as a table of shape (n_nodes, n_features), and its biases (n_nodes,)."""
    offsets = weights.child_offsets
    table = np.zeros((int(offsets[-1]), weights.n_features), np.float32)
    for c in range(len(offsets) - 1):
        cluster = weights.cluster(c)
        table[int(offsets[c]) + cluster.children, np.repeat(cluster.features, cluster.lengths)] = cluster.weights
    return table, np.array(weights.intercepts)


def table_weights(
    table: npt.NDArray[np.float32], bias: npt.NDArray[np.float32], child_offsets: npt.NDArray[np.int64], *,
    n_features: int | None = None, first: int = 0,
) -> ClusterWeights:  # fmt: skip
    """A table as the weights of a linear layer, which the beam search reads."""
    # Shapes: table (n_nodes, dim); bias (n_nodes,); child_offsets (n_parents + 1,)
    clusters = []
    for begin, end in zip(child_offsets[:-1].tolist(), child_offsets[1:].tolist(), strict=True):
        columns = np.ascontiguousarray(table[begin:end].T)  # (dim, children)
        feature, child = np.nonzero(columns)
        used, lengths = np.unique(feature, return_counts=True)
        clusters.append(
            ClusterRows(
                (used + first).astype(np.int32), lengths.astype(np.int32), child.astype(np.int32),
                columns[feature, child], np.ascontiguousarray(bias[begin:end], np.float32),
            )
        )  # fmt: skip
    width = first + table.shape[1] if n_features is None else n_features
    return ClusterWeights.from_clusters(clusters, np.ascontiguousarray(child_offsets, np.int64), width, "float32")


def upper_tree(tree: LabelTree, layer: int) -> LabelTree:
    """The tree down to ``layer``, whose nodes are now what is looked for."""
    if layer == tree.depth - 1:
        return tree
    n_nodes = tree.layer_sizes[layer]
    return LabelTree(tree.child_offsets[: layer + 1], np.arange(n_nodes, dtype=np.int32), n_nodes)


def dense_rows(embeddings: Float32) -> Csr:
    """Embeddings (n, dim) as the rows that the linear solver takes, which share their values."""
    n, dim = embeddings.shape
    columns = np.tile(np.arange(dim, dtype=np.int32), n)
    return Csr(np.arange(n + 1, dtype=np.int64) * dim, columns, np.ascontiguousarray(embeddings).reshape(-1), (n, dim))


@dataclass(frozen=True, eq=False)
class LinearStart:
    """Solves the layers of a tree on embeddings, and searches them."""

    tree: LabelTree
    relevance: list[Csr]  # of each layer, for every row: its positives, and how much lies below each
    learned: npt.NDArray[np.int64]  # the rows to learn from; the others are only searched for
    beam: int
    cost: float = 1.0
    costs: str = "none"  # of the positives; see `cost_weights`
    seed: int = 0
    n_jobs: int = 1
    row_weight: Float32 | None = None  # shape (n,): factor of each row's losses

    def solve(
        self, embeddings: Float32, layer: int, known: Mapping[int, ClusterWeights] | None = None
    ) -> list[ClusterWeights]:
        """The linear rankers of all layers down to ``layer``, on embeddings (n, dim); no weight is dropped. ``known``
        are weights of layers that are taken as they are, and searched."""
        above = upper_tree(self.tree, layer)
        options = LinearOptions(cost=self.cost, threshold=0.0, seed=self.seed)
        words = ["tfn"] * layer + ["tfn+man"]
        combines, costs = [_COMBINE] * above.depth, None if self.costs == "none" else self.costs
        training = TreeTraining(words, combines, self.beam, options, "float32", relevance=costs)
        features = take_rows(dense_rows(embeddings), self.learned)
        positives = take_rows(self._labels(layer), self.learned)
        weight = None if self.row_weight is None else self.row_weight[self.learned]
        run = current_runner(self.n_jobs)  # without the checkpoint: each time other embeddings have the same names
        return train_rankers(features, positives, above, training, weight, runner=run, known=known)[0].layers

    def _labels(self, layer: int) -> Csr:
        """Y of the tree down to ``layer``, each positive once; of the last layer by label, not by leaf."""
        labels = self.relevance[layer]
        if self.costs == "none":
            labels = labels._replace(data=np.ones_like(labels.data))
        if layer < self.tree.depth - 1:
            return labels
        ids = self.tree.leaf_labels[labels.indices].astype(np.int64)
        rows = np.repeat(np.arange(labels.shape[0], dtype=np.int64), np.diff(labels.indptr))
        keys, first = np.unique(rows * self.tree.n_labels + ids, return_index=True)
        indptr = np.searchsorted(keys, np.arange(labels.shape[0] + 1, dtype=np.int64) * self.tree.n_labels)
        columns = (keys % self.tree.n_labels).astype(np.int32)
        return Csr(indptr.astype(np.int64), columns, labels.data[first], (labels.shape[0], self.tree.n_labels))

    def search(self, embeddings: Float32, layers: list[ClusterWeights]) -> npt.NDArray[np.int32]:
        """The best nodes of the last of ``layers`` for every row, shape (n, beam or fewer), -1 for none."""
        features = dense_rows(embeddings)
        beam = matching.root_beam(len(embeddings))
        for weights in layers:
            beam = matching.next_beam(features, weights, beam, self.beam, _COMBINE, self.n_jobs)
        return beam[0]
