"""Where a layer of the deep matcher begins: linear rankers on the current embeddings, and where they look."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sylvan.canonical import take_rows
from sylvan.indexing import LabelTree
from sylvan.matching import beam as matching
from sylvan.ranking.linear import LinearOptions
from sylvan.ranking.training import TreeTraining, train_rankers
from sylvan.runtime import Runner
from sylvan.validate import Csr
from sylvan.weights import ClusterWeights

__all__ = ["LinearStart", "dense_rows", "upper_tree"]

Float32 = npt.NDArray[np.float32]
_COMBINE = "l3_hinge"


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
    """Solves the layers of a tree on embeddings, and searches them.

    Attributes
    ----------
    tree : LabelTree
    positives : list of Csr
        Of each layer, for every row.
    learned : ndarray of int64
        The rows to learn from; the others are only searched for.
    beam : int
    cost : float
    seed : int
    n_jobs : int
    row_weight : ndarray of float32, shape (n,), optional
        Factor of each row's losses.
    """

    tree: LabelTree
    positives: list[Csr]
    learned: npt.NDArray[np.int64]
    beam: int
    cost: float = 1.0
    seed: int = 0
    n_jobs: int = 1
    row_weight: Float32 | None = None

    def solve(self, embeddings: Float32, layer: int) -> list[ClusterWeights]:
        """The linear rankers of all layers down to ``layer``, on unit embeddings (n, dim); no weight is dropped."""
        above = upper_tree(self.tree, layer)
        options = LinearOptions(cost=self.cost, threshold=0.0, seed=self.seed)
        words = ["tfn"] * layer + ["tfn+man"]
        training = TreeTraining(words, [_COMBINE] * above.depth, self.beam, options, "float32")
        features = take_rows(dense_rows(embeddings), self.learned)
        positives = take_rows(self._labels(layer), self.learned)
        weight = None if self.row_weight is None else self.row_weight[self.learned]
        return train_rankers(features, positives, above, training, weight, runner=Runner(self.n_jobs))[0].layers

    def _labels(self, layer: int) -> Csr:
        """Y of the tree down to ``layer``, each positive once; of the last layer by label, not by leaf."""
        found = self.positives[layer]
        found = found._replace(data=np.ones_like(found.data))
        if layer < self.tree.depth - 1:
            return found
        ids = self.tree.leaf_labels[found.indices].astype(np.int64)
        rows = np.repeat(np.arange(found.shape[0], dtype=np.int64), np.diff(found.indptr))
        keys = np.unique(rows * self.tree.n_labels + ids)
        indptr = np.searchsorted(keys, np.arange(found.shape[0] + 1, dtype=np.int64) * self.tree.n_labels)
        columns = (keys % self.tree.n_labels).astype(np.int32)
        return Csr(
            indptr.astype(np.int64), columns, np.ones(len(columns), np.float32), (found.shape[0], self.tree.n_labels)
        )

    def search(self, embeddings: Float32, layers: list[ClusterWeights]) -> npt.NDArray[np.int32]:
        """The best nodes of the last of ``layers`` for every row, shape (n, beam or fewer), -1 for none."""
        features = dense_rows(embeddings)
        found = matching.root_beam(len(embeddings))
        for weights in layers:
            found = matching.next_beam(features, weights, found, self.beam, _COMBINE, self.n_jobs)
        return found[0]
