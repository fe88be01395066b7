"""LabelTree: how the labels are organised, the index that matching descends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.errors import DataError, ModelError
from sylvan.runtime.job import Arrays, Packing

if TYPE_CHECKING:
    from sylvan.indexing.clustering import Embeddings
    from sylvan.indexing.taxonomy import Parents

__all__ = ["LabelTree"]

_KIND = "label-tree"
MAX_DEPTH = 64
_MAX_NODES = 2**31 - 1


@dataclass(frozen=True, eq=False, repr=False)
class LabelTree:
    """A tree over the labels; every leaf holds one label, a leaf's parent is a cluster of labels.

    Layer 0 splits the root, the last layer splits the clusters into labels. The nodes of a layer are numbered
    so that siblings are contiguous, hence one array of offsets describes a layer whole. A label may stand in
    several leaves (overlapping clusters), never twice in one cluster, and no label is missing.

    Attributes
    ----------
    child_offsets : tuple of ndarray of int64
        ``child_offsets[t]`` has one entry more than layer t has parents (layer 0: one parent, the root);
        parent p's children are nodes ``child_offsets[t][p]`` to ``child_offsets[t][p + 1] - 1`` of layer t.
    leaf_labels : ndarray of int32, shape (n_leaves,)
        The label id of each node of the last layer.
    n_labels : int
        Number of labels L; ids are 0 to L - 1.

    Raises
    ------
    DataError
        When the offsets or the labels do not make such a tree.

    Notes
    -----
    Yu et al. (2022), "PECOS", section 2.1: the offsets stand for the indexing matrices C of the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import LabelTree
    >>> LabelTree((np.array([0, 2]), np.array([0, 2, 3])), np.array([2, 0, 1]), 3)
    LabelTree(3 labels, depth 2: 2 > 3, clusters of 1 to 2 labels)
    """

    child_offsets: tuple[npt.NDArray[np.int64], ...]
    leaf_labels: npt.NDArray[np.int32]
    n_labels: int

    def __post_init__(self) -> None:
        offsets = tuple(_frozen(layer, np.int64) for layer in self.child_offsets)
        leaf_labels = _frozen(self.leaf_labels, np.int32)
        object.__setattr__(self, "child_offsets", offsets)
        object.__setattr__(self, "leaf_labels", leaf_labels)
        object.__setattr__(self, "n_labels", int(self.n_labels))
        fault = find_fault(offsets, leaf_labels, self.n_labels)
        if fault:
            raise DataError(f"This is not a label tree: {fault}.")

    @property
    def depth(self) -> int:
        """Number of layers; 1 is plain one-versus-rest."""
        return len(self.child_offsets)

    @property
    def n_leaves(self) -> int:
        """Number of leaves: ``n_labels`` unless clusters overlap."""
        return int(self.leaf_labels.size)

    @cached_property
    def most_copies(self) -> int:
        """The most leaves that one label stands in: 1 unless clusters overlap."""
        if self.n_leaves == self.n_labels:
            return 1
        return int(np.bincount(self.leaf_labels).max())

    def leaves_of_labels(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Each label's leaves: offsets of shape (n_labels + 1,) into leaf positions, rising for each label."""
        copies = np.bincount(self.leaf_labels, minlength=self.n_labels)
        return np.concatenate(([0], np.cumsum(copies))), np.argsort(self.leaf_labels, kind="stable").astype(np.int32)

    def parents(self, layer: int) -> npt.NDArray[np.int32]:
        """The parent of each node of a layer, in the layer above."""
        offsets = self.child_offsets[layer]
        return np.repeat(np.arange(offsets.size - 1, dtype=np.int32), np.diff(offsets))

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Number of nodes of each layer, from the root's children to the leaves."""
        return tuple(int(layer[-1]) for layer in self.child_offsets)

    @property
    def cluster_sizes(self) -> npt.NDArray[np.int64]:
        """Number of labels of each cluster (the parents of the last layer)."""
        return np.diff(self.child_offsets[-1])

    def path(self, leaf: int) -> list[int]:
        """The nodes from the root's child down to a leaf, one a layer.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import LabelTree
        >>> LabelTree((np.array([0, 2]), np.array([0, 2, 3])), np.array([2, 0, 1]), 3).path(2)
        [1, 2]
        """
        nodes = [int(leaf)]
        for offsets in self.child_offsets[:0:-1]:
            nodes.append(int(np.searchsorted(offsets, nodes[-1], side="right")) - 1)
        return nodes[::-1]

    def leaves(self, layer: int, node: int) -> range:
        """The leaves below a node of a layer; of the last layer, the node itself.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import LabelTree
        >>> LabelTree((np.array([0, 2]), np.array([0, 2, 3])), np.array([2, 0, 1]), 3).leaves(0, 0)
        range(0, 2)
        """
        first, last = int(node), int(node) + 1
        for offsets in self.child_offsets[layer + 1 :]:
            first, last = int(offsets[first]), int(offsets[last])
        return range(first, last)

    def __repr__(self) -> str:
        layers = " > ".join(f"{size:,}" for size in self.layer_sizes)
        sizes = self.cluster_sizes
        low, high = int(sizes.min()), int(sizes.max())
        words = [f"{self.n_labels:,} labels", f"depth {self.depth}: {layers}"]
        if self.depth > 1:
            words.append(f"clusters of {low:,}{'' if low == high else f' to {high:,}'} labels")
        if self.n_leaves > self.n_labels:
            words.append(f"a label in {self.n_leaves / self.n_labels:.2f} clusters on average")
        return f"LabelTree({', '.join(words)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelTree):
            return NotImplemented
        return (
            self.n_labels == other.n_labels
            and self.depth == other.depth
            and all(np.array_equal(a, b) for a, b in zip(self.child_offsets, other.child_offsets, strict=True))
            and np.array_equal(self.leaf_labels, other.leaf_labels)
        )

    def __hash__(self) -> int:
        return hash((self.n_labels, self.layer_sizes, self.leaf_labels[:16].tobytes()))

    @classmethod
    def flat(cls, n_labels: int) -> LabelTree:
        """The tree of depth 1: every label a child of the root (one-versus-rest).

        Examples
        --------
        >>> from sylvan import LabelTree
        >>> LabelTree.flat(3).layer_sizes
        (3,)
        """
        return cls((np.array([0, n_labels]),), np.arange(max(n_labels, 0), dtype=np.int32), n_labels)

    @classmethod
    def build(
        cls,
        embeddings: Embeddings,
        branching: int = 16,
        max_leaf: int = 100,
        *,
        clustering: str = "spherical",
        overlap: int = 1,
        max_iterations: int = 10,
        seed: int = 0,
        n_jobs: int | None = 1,
    ) -> LabelTree:
        """Cluster the labels by their embeddings, recursively; see :func:`sylvan.indexing.build_tree`."""
        from sylvan.indexing.clustering import build_tree

        return build_tree(
            embeddings,
            branching,
            max_leaf,
            clustering=clustering,
            overlap=overlap,
            max_iterations=max_iterations,
            seed=seed,
            n_jobs=n_jobs,
        )

    @classmethod
    def random(cls, n_labels: int, branching: int = 16, max_leaf: int = 100, *, seed: int = 0) -> LabelTree:
        """A balanced tree with the labels dealt out at random (for ablations)."""
        from sylvan.indexing.clustering import random_tree

        return random_tree(n_labels, branching, max_leaf, seed=seed)

    @classmethod
    def from_matrices(cls, matrices: Sequence[sp.spmatrix | sp.sparray]) -> LabelTree:
        """The tree of the papers' indexing matrices C.

        Parameters
        ----------
        matrices : sequence of sparse or dense matrix
            From the root down; ``matrices[t]`` has a row for each node of layer t and a column for each
            possible parent, non-zero where the one is a child of the other. The last one has a row for each
            label. A first matrix of more than one column gets a root above it. A node with several parents
            is repeated under each; a node without labels below it is left out.

        Raises
        ------
        DataError
            When shapes do not chain or a label stands in no cluster.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import LabelTree
        >>> LabelTree.from_matrices([np.array([[1, 0], [0, 1], [1, 0]])]).leaf_labels.tolist()
        [0, 2, 1]
        """
        chain = [_columns(matrix, t) for t, matrix in enumerate(matrices)]
        if not chain:
            raise DataError("A label tree needs at least one indexing matrix. Got none.")
        if chain[0].shape[1] != 1:
            chain.insert(0, sp.csc_matrix(np.ones((chain[0].shape[1], 1), np.float32)))
        for t in range(1, len(chain)):
            if chain[t].shape[1] != chain[t - 1].shape[0]:
                raise DataError(
                    f"Indexing matrices must chain: matrix {t} has shape {chain[t].shape}, so the one above "
                    f"it must have {chain[t].shape[1]} rows. Got shape {chain[t - 1].shape} instead."
                )
        return _expand(_without_empty_nodes(chain))

    def to_matrices(self) -> list[sp.csc_matrix]:
        """The indexing matrices C from the root down, float32; the last has shape (n_labels, n_clusters)."""
        chain = []
        for t, offsets in enumerate(self.child_offsets):
            last = t == self.depth - 1
            rows = self.leaf_labels if last else np.arange(offsets[-1], dtype=np.int32)
            shape = (self.n_labels if last else int(offsets[-1]), offsets.size - 1)
            rows = np.concatenate([np.sort(part) for part in np.split(rows, offsets[1:-1])]) if last else rows
            matrix = sp.csc_matrix((np.ones(rows.size, np.float32), rows, offsets.copy()), shape=shape)
            chain.append(matrix)
        return chain

    @classmethod
    def from_taxonomy(
        cls,
        names: Sequence[str],
        parents: Parents,
        *,
        max_depth: int | None = None,
    ) -> LabelTree:
        """The tree of a given hierarchy of names; see :func:`sylvan.indexing.taxonomy_tree`."""
        from sylvan.indexing.taxonomy import taxonomy_tree

        return taxonomy_tree(names, parents, max_depth=max_depth)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the tree to a folder that :func:`sylvan.load` reads."""
        store.save(folder, self.to_state())

    def to_state(self) -> store.State:
        """What the tree consists of, for :mod:`sylvan.store`."""
        arrays: dict[str, npt.NDArray[Any]] = {f"layer{t}.offsets": layer for t, layer in enumerate(self.child_offsets)}
        arrays["leaf_labels"] = self.leaf_labels
        meta: dict[str, store.JSON] = {"depth": self.depth, "n_labels": self.n_labels}
        return store.State(kind=_KIND, version=1, meta=meta, arrays=arrays)

    @classmethod
    def from_state(cls, state: store.State) -> LabelTree:
        """The tree that a State describes.

        Raises
        ------
        ModelError
            When an array or value is missing, or they do not make a label tree.
        """
        store.need_kind(state, _KIND)
        depth = store.need_int(state, "depth", 1, MAX_DEPTH)
        n_labels = store.need_int(state, "n_labels", 1, _MAX_NODES)
        offsets = [store.need_array(state, f"layer{t}.offsets", np.int64, (None,)) for t in range(depth)]
        leaf_labels = store.need_array(state, "leaf_labels", np.int32, (None,))
        fault = find_fault(offsets, leaf_labels, n_labels)
        if fault:
            raise ModelError(f"{state.where or 'The model'!r} does not hold a label tree: {fault}.")
        return cls(tuple(offsets), leaf_labels, n_labels)


def _pack(tree: LabelTree) -> dict[str, npt.NDArray[Any]]:
    return {**tree.to_state().arrays, "n_labels": np.array([tree.n_labels])}


def _unpack(arrays: Arrays) -> LabelTree:
    sizes, others = arrays.get("n_labels", np.zeros(0)), {n: a for n, a in arrays.items() if n != "n_labels"}
    meta: dict[str, store.JSON] = {"depth": len(arrays) - 2, "n_labels": int(sizes[0]) if sizes.size else 0}
    return LabelTree.from_state(store.State(_KIND, 1, meta=meta, arrays=others))


TREE: Packing[LabelTree] = Packing(_pack, _unpack)


def find_fault(
    offsets: Sequence[npt.NDArray[np.int64]], leaf_labels: npt.NDArray[np.int32], n_labels: int
) -> str | None:
    """What keeps these arrays from being a label tree, as the rest of a sentence; None when nothing does."""
    if n_labels < 1:
        return f"it must hold at least one label, but n_labels is {n_labels}"
    if not offsets:
        return "it has no layer"
    if leaf_labels.size < n_labels:
        return f"it has {leaf_labels.size} leaves for {n_labels} labels, too few for each to have one"
    n_parents = 1
    for t, layer in enumerate(offsets):
        if layer.ndim != 1 or layer.size != n_parents + 1:
            return f"layer {t} must have {n_parents + 1} offsets for its {n_parents} parents, not {layer.size}"
        if layer[0] != 0 or bool((layer[1:] <= layer[:-1]).any()):
            return f"the offsets of layer {t} must start at 0 and rise, so that each parent has a child"
        if layer[-1] > _MAX_NODES:
            return f"layer {t} has more than {_MAX_NODES} nodes"
        n_parents = int(layer[-1])
    if leaf_labels.ndim != 1 or leaf_labels.size != n_parents:
        return f"it needs a label for each of its {n_parents} leaves, but has {leaf_labels.size}"
    if int(leaf_labels.min()) < 0 or int(leaf_labels.max()) >= n_labels:
        low, high = leaf_labels.min(), leaf_labels.max()
        return f"label ids must lie in [0, {n_labels}), but range from {low} to {high}"
    counts = np.bincount(leaf_labels, minlength=n_labels)
    if counts.min() == 0:
        return f"label {int(counts.argmin())} stands in no leaf"
    if n_parents > n_labels:
        cluster = np.repeat(np.arange(offsets[-1].size - 1, dtype=np.int64), np.diff(offsets[-1]))
        pairs = np.sort(cluster * n_labels + leaf_labels)
        repeated = np.flatnonzero(pairs[1:] == pairs[:-1])
        if repeated.size:
            place, label = divmod(int(pairs[repeated[0]]), n_labels)
            return f"label {label} stands twice in cluster {place}"
    return None


def _frozen(values: Any, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """``values`` as a read-only array of ``dtype``: a view where possible, the original left as it is."""
    array = np.asarray(values)
    if array.dtype != dtype:
        if array.dtype.kind not in "iu" and array.size:
            raise DataError(f"A label tree is made of integers. Got an array of {array.dtype} instead.")
        converted = array.astype(dtype)
        if not np.array_equal(converted, array):
            raise DataError(f"A label tree's {np.dtype(dtype)} arrays hold a value that does not fit.")
        array = converted
    view: npt.NDArray[Any] = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _columns(matrix: Any, t: int) -> sp.csc_matrix:
    """``matrix`` as CSC without explicit zeros and repeated entries, the caller's own left as it is."""
    if not sp.issparse(matrix):
        matrix = np.atleast_2d(np.asarray(matrix))
        if matrix.dtype.kind not in "biuf" or matrix.ndim != 2:
            raise DataError(f"Indexing matrix {t} must be a two-dimensional matrix of numbers.")
    columns = sp.csc_matrix(matrix, copy=True)
    columns.sum_duplicates()
    columns.eliminate_zeros()
    return columns


def _without_empty_nodes(chain: list[sp.csc_matrix]) -> list[sp.csc_matrix]:
    """The chain without the links to nodes that have no label below them."""
    kept = [chain[-1]]
    for above in reversed(chain[:-1]):
        alive = np.diff(kept[0].indptr) > 0
        keep = alive[above.indices]
        counts = np.concatenate(([0], np.cumsum(keep)))
        kept.insert(0, sp.csc_matrix((above.data[keep], above.indices[keep], counts[above.indptr]), shape=above.shape))
    return kept


def _expand(chain: list[sp.csc_matrix]) -> LabelTree:
    """Number the nodes from the root down so that siblings are contiguous."""
    ids = np.zeros(1, np.int64)
    offsets = []
    for matrix in chain:
        starts, ends = matrix.indptr[ids].astype(np.int64), matrix.indptr[ids + 1].astype(np.int64)
        layer = np.concatenate(([0], np.cumsum(ends - starts)))
        if layer[-1] > _MAX_NODES:
            raise DataError(f"The indexing matrices make a layer of more than {_MAX_NODES} nodes.")
        ids = matrix.indices[np.arange(layer[-1]) + np.repeat(starts - layer[:-1], ends - starts)]
        offsets.append(layer)
    n_labels = int(chain[-1].shape[0])
    missing = np.flatnonzero(np.bincount(ids, minlength=n_labels) == 0)
    if missing.size:
        raise DataError(
            f"The indexing matrices leave {missing.size} of {n_labels} labels in no cluster; "
            f"the first is label {missing[0]}."
        )
    return LabelTree(tuple(offsets), ids.astype(np.int32), n_labels)


store.register(_KIND, LabelTree.from_state)
