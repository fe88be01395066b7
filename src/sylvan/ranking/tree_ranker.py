"""TreeRanker: one label tree with the linear rankers of its layers, searched by beam."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sylvan import kernels, store
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Int32
from sylvan.arrays.validate import Csr
from sylvan.errors import ModelError
from sylvan.indexing import LabelTree
from sylvan.matching import beam as matching
from sylvan.parallel import map_parallel, split_ranges
from sylvan.weights.layer import ClusterRows, LayerWeights, Layout, readable

KIND = "tree-ranker"


def prune_layer(weights: LayerWeights, share: float, weight_dtype: str, n_jobs: int = 1) -> LayerWeights:
    """A layer with a ``share`` in [0, 1] of each cluster's weights, the largest."""
    if share >= 1 and weight_dtype == weights.weight_dtype:
        return weights
    n_clusters = len(weights.row_offsets) - 1
    sizes, shares = np.zeros(n_clusters, ClusterRows.SIZES), split_ranges(n_clusters, -(-n_clusters // (4 * n_jobs)))

    def left(c: int) -> ClusterRows:
        with readable(c):
            return largest_weights(weights.cluster(c), share)

    def count(clusters: tuple[int, int]) -> None:
        for c in range(*clusters):
            sizes[c] = left(c).sizes(weight_dtype)

    def place(clusters: tuple[int, int]) -> None:
        for c in range(*clusters):
            layout.place(c, left(c))

    map_parallel(count, shares, n_jobs)  # a cluster is unpacked twice, so that few are in memory at once
    layout = Layout(sizes, weights.child_offsets, weights.n_features, weight_dtype)
    map_parallel(place, shares, n_jobs)
    return layout.finish()


def largest_weights(cluster: ClusterRows, share: float) -> ClusterRows:
    """The ``share`` of a cluster's weights that is largest in magnitude; among equals the first are left."""
    n_left = int(np.ceil(share * len(cluster.weights)))
    if n_left >= len(cluster.weights):
        return cluster
    magnitudes = np.abs(cluster.weights)
    cut = np.partition(magnitudes, -n_left)[-n_left] if n_left else np.inf
    stays = magnitudes > cut
    stays[np.flatnonzero(magnitudes == cut)[: n_left - int(stays.sum())]] = True
    left = np.flatnonzero(stays)
    rows = np.repeat(np.arange(len(cluster.features)), cluster.lengths)[left]
    lengths = np.bincount(rows, minlength=len(cluster.features)).astype(np.int32)
    filled = lengths > 0
    return ClusterRows(
        cluster.features[filled], lengths[filled], cluster.children[left], cluster.weights[left], cluster.intercepts
    )


@dataclass(frozen=True, eq=False)
class TreeRanker:
    """A tree and its trained layers."""

    tree: LabelTree
    layers: list[LayerWeights]  # one a layer of the tree

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_paths"}

    @cached_property
    def _paths(self) -> kernels.LabelPaths:
        """Made when labels are first filtered; a native object that stays out of pickles."""
        return matching.label_paths(self.tree)

    def rank(
        self, features: Csr, k: int, *, beam: int, combines: Sequence[str], labels: LabelFilter | None = None,
        n_jobs: int = 1, description: str | None = None,
    ) -> TopK:  # fmt: skip
        """The ``k`` best labels of each row, of those that ``labels`` leaves open, by a beam of ``beam`` nodes."""
        return matching.rank(
            features, self.layers, self.tree.leaf_labels, k=k, beam=beam, combines=combines,
            n_copies=self.tree.most_copies, labels=labels, paths=None if labels is None else self._paths,
            n_jobs=n_jobs, description=description,
        )  # fmt: skip

    def pruned(self, share: float, weight_dtype: str | None, n_jobs: int = 1) -> TreeRanker:
        """With a ``share`` of each cluster's weights, the largest; stored as they are, or in another way."""
        layers = [prune_layer(layer, share, weight_dtype or layer.weight_dtype, n_jobs) for layer in self.layers]
        return TreeRanker(self.tree, layers)

    def without(self, labels: Int32) -> TreeRanker:
        """Without some labels: their leaves, the clusters that these leave empty, and the weights of both."""
        tree, masks = self.tree.without(labels)
        clusters = [np.ones(1, bool), *masks[:-1]]
        layers = []
        for layer, stays, in_clusters, offsets in zip(self.layers, masks, clusters, tree.child_offsets, strict=True):
            parts = []  # all other nodes keep their weights, bit for bit
            for c, (first, last) in enumerate(itertools.pairwise(layer.child_offsets.tolist())):
                if in_clusters[c]:
                    with readable(c):
                        rows = layer.cluster(c)
                        parts.append(rows if stays[first:last].all() else rows.of_children(stays[first:last]))
            width, dtype, codebook = layer.n_features, layer.weight_dtype, layer.codebook
            layers.append(LayerWeights.from_clusters(parts, offsets, width, dtype, codebook=codebook))
        return TreeRanker(tree, layers)

    def to_state(self) -> store.State:
        """The tree and the arrays of all layers."""
        parts = (weights.to_arrays(f"layer{t}") for t, weights in enumerate(self.layers))
        arrays: dict[str, Any] = {name: array for part in parts for name, array in part.items()}
        meta = {"block_bits": [weights.block_bits for weights in self.layers]}
        return store.State(KIND, 1, {}, meta, arrays, {"tree": self.tree.to_state()})

    @classmethod
    def from_state(cls, state: store.State, n_features: int) -> TreeRanker:
        """What :meth:`to_state` gave, verified."""
        tree = LabelTree.from_state(store.need_part(state, "tree", "label-tree"))
        bits: Any = state.meta.get("block_bits")
        sound = isinstance(bits, list) and len(bits) == tree.depth
        if not sound or not all(type(b) is int and 0 <= b <= 16 for b in bits):
            raise ModelError(
                f"{state.where!r} is damaged: in manifest.json, 'block_bits' must be {tree.depth} ints in [0, 16]. "
                f"Got {bits!r} instead."
            )
        offsets = enumerate(tree.child_offsets)
        return cls(tree, [LayerWeights.from_arrays(state, f"layer{t}", o, n_features, bits[t]) for t, o in offsets])
