"""LabelTree: the index of the labels that matching searches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.types import Array, Bool, Float32, Int32, Int64
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError, ModelError
from sylvan.indexing.clustering import (
    MAX_DEPTH,
    MAX_NODES,
    RANGES,
    Clustering,
    Embeddings,
    Placement,
    checked_rows,
    clustered_order,
    find_fault,
    layer_plan,
    offsets_without,
    plan_offsets,
    unit_length,
    with_overlap,
)
from sylvan.parallel import resolve_jobs
from sylvan.params.fields import Number, check_value, check_values
from sylvan.params.wording import counted, noun
from sylvan.runtime.jobs import Arrays, Packing, Runner

Parents: TypeAlias = "Mapping[str, str | Sequence[str] | None]"
_KIND = "label-tree"
SHOWN = 3  # labels that a title names


def _terms(name: str, above: str | Sequence[str] | None) -> tuple[str, ...]:
    """The broader terms of a name, checked."""
    terms = () if above is None else (above,) if isinstance(above, str) else tuple(above)
    for term in (name, *terms):
        if not isinstance(term, str):
            raise DataError(f"A taxonomy is made of names, but {term!r} is a {type(term).__name__}.")
    return terms


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
    links = [chain[-1]]
    for above in reversed(chain[:-1]):
        alive = np.diff(links[0].indptr) > 0
        keep = alive[above.indices]
        counts = np.concatenate(([0], np.cumsum(keep)))
        links.insert(0, sp.csc_matrix((above.data[keep], above.indices[keep], counts[above.indptr]), shape=above.shape))
    return links


def _numbered(chain: list[sp.csc_matrix]) -> Placement:
    """Number the nodes from the root down so that siblings are contiguous."""
    ids = np.zeros(1, np.int64)
    offsets = []
    for matrix in chain:
        starts, ends = matrix.indptr[ids].astype(np.int64), matrix.indptr[ids + 1].astype(np.int64)
        layer = np.concatenate(([0], np.cumsum(ends - starts)))
        if layer[-1] > MAX_NODES:
            raise DataError(f"The indexing matrices make a layer of more than {MAX_NODES} nodes.")
        ids = matrix.indices[np.arange(layer[-1]) + np.repeat(starts - layer[:-1], ends - starts)]
        offsets.append(layer)
    n_labels = int(chain[-1].shape[0])
    missing = np.flatnonzero(np.bincount(ids, minlength=n_labels) == 0)
    if missing.size:
        raise DataError(
            f"The indexing matrices leave {missing.size} of {n_labels} labels in no cluster; "
            f"the first is label {missing[0]}."
        )
    return tuple(offsets), ids.astype(np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class LabelTree:
    """A tree over the labels: every leaf is one label, and the parent of leaves is a cluster of labels.

    Layer 0 splits the root, the last layer splits the clusters into labels. The nodes of a layer are numbered so that
    siblings are contiguous, so one array of offsets describes a whole layer. A label may be in several leaves
    (overlapping clusters), but not twice in one cluster, and no label is missing but those that were removed.

    Attributes
    ----------
    child_offsets : tuple of ndarray of int64
        ``child_offsets[t]`` has one entry more than layer t has parents (layer 0: one parent, the root);
        parent p's children are nodes ``child_offsets[t][p]`` to ``child_offsets[t][p + 1] - 1`` of layer t.
    leaf_labels : ndarray of int32, shape (n_leaves,)
        The label id of each node of the last layer.
    n_labels : int
        Number of labels L; ids are 0 to L - 1.
    removed : ndarray of int32
        Ids of the labels that stand in no leaf, rising; see :meth:`without`.

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

    child_offsets: tuple[Int64, ...]
    leaf_labels: Int32
    n_labels: int
    removed: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))

    def __post_init__(self) -> None:
        offsets = tuple(_frozen(layer, np.int64) for layer in self.child_offsets)
        leaf_labels, removed = _frozen(self.leaf_labels, np.int32), _frozen(self.removed, np.int32)
        n_labels = int(self.n_labels)
        self.__dict__.update(child_offsets=offsets, leaf_labels=leaf_labels, n_labels=n_labels, removed=removed)
        if fault := find_fault(offsets, leaf_labels, self.n_labels, removed):
            raise DataError(f"This is not a label tree: {fault}.")

    @property
    def depth(self) -> int:
        """Number of layers; 1 is plain one-versus-rest."""
        return len(self.child_offsets)

    @property
    def n_leaves(self) -> int:
        """Number of leaves: ``n_placed`` unless clusters overlap."""
        return int(self.leaf_labels.size)

    @property
    def n_placed(self) -> int:
        """Number of labels that stand in a leaf: all that weren't removed."""
        return self.n_labels - int(self.removed.size)

    @cached_property
    def most_copies(self) -> int:
        """The largest number of leaves of one label: 1 unless clusters overlap."""
        return 1 if self.n_leaves == self.n_placed else int(np.bincount(self.leaf_labels).max())

    def leaves_of_labels(self) -> tuple[Int64, Int32]:
        """Each label's leaves: offsets of shape (n_labels + 1,) into leaf positions, rising for each label."""
        copies = np.bincount(self.leaf_labels, minlength=self.n_labels)
        return np.concatenate(([0], np.cumsum(copies))), np.argsort(self.leaf_labels, kind="stable").astype(np.int32)

    def parents(self, layer: int) -> Int32:
        """The parent of each node of a layer, in the layer above."""
        offsets = self.child_offsets[layer]
        return np.repeat(np.arange(offsets.size - 1, dtype=np.int32), np.diff(offsets))

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Number of nodes of each layer, from the root's children to the leaves."""
        return tuple(int(layer[-1]) for layer in self.child_offsets)

    @property
    def cluster_sizes(self) -> Int64:
        """Number of labels of each cluster (the parents of the last layer)."""
        return np.diff(self.child_offsets[-1])

    def path(self, leaf: int) -> list[int]:
        """The nodes from the root's child down to a leaf, one per layer.

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
        words = [counted(self.n_labels, "label"), f"depth {self.depth}: {layers}"]
        if self.depth > 1:
            words.append(f"clusters of {low:,}{'' if low == high else f' to {high:,}'} {noun(high, 'label')}")
        if self.n_leaves > self.n_placed:
            words.append(f"a label in {self.n_leaves / self.n_placed:.2f} clusters on average")
        if self.removed.size:
            words.append(f"{self.removed.size:,} removed")
        return f"LabelTree({', '.join(words)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelTree):
            return NotImplemented
        if (self.n_labels, self.depth) != (other.n_labels, other.depth):
            return False
        arrays: list[Array] = [*self.child_offsets, self.leaf_labels, self.removed]
        theirs: list[Array] = [*other.child_offsets, other.leaf_labels, other.removed]
        return all(np.array_equal(a, b) for a, b in zip(arrays, theirs, strict=True))

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
        cls, embeddings: Embeddings, branching: int = 16, max_leaf: int = 100, *, clustering: Clustering = "spherical",
        overlap: int = 1, max_iterations: int = 10, seed: int = 0, n_jobs: int | None = 1, runner: Runner | None = None,
    ) -> LabelTree:  # fmt: skip
        """Cluster the labels recursively into balanced parts.

        A node's labels are divided among its children by balanced 2-means: labels are sorted by how much nearer they
        are to one of two centres and divided at the required size, until nothing changes. The shape of the tree depends
        only on the number of labels; siblings differ by at most one child, clusters by at most one label. Within a
        cluster, similar labels are next to each other, in groups of 16.

        Parameters
        ----------
        embeddings : sparse matrix or array of shape (L, dimensions)
            A row for each label; labels with empty rows are put where there is room.
        branching : int
            Maximum number of children of an inner node (the papers' B).
        max_leaf : int
            Maximum number of labels in a cluster.
        clustering : {"spherical", "kmeans", "random"}
            By angle to the centres, by Euclidean distance to them, or at random (for ablations). Distance keeps dense
            groups together and puts the rest into one, which suits data with mostly rare labels; angle treats all
            groups alike.
        overlap : int
            Maximum number of clusters of a label. Above 1, clusters are built with at most ``max_leaf // overlap``
            labels, and filled up to ``max_leaf`` with the nearest labels of other clusters.
        max_iterations : int
            Maximum number of iterations of one split.
        seed : int
            Seed of the first centres. The same seed gives the same tree, whatever ``n_jobs``.
        n_jobs : int, optional
            Number of threads; None or -1 for every core.
        runner : Runner, optional
            One whose jobs run on a cluster is given the subtrees.

        Raises
        ------
        DataError
            When the embeddings are not finite numbers in two dimensions, or no label has one.
        ParameterError
            When a parameter is out of its range.

        Notes
        -----
        Yu et al. (2022), "PECOS", section 2.1.2, Algorithm 1, equations 4 and 5. The cost is
        O(nnz(embeddings) x log2(L / 16) x iterations); splits of more than 131,072 labels iterate on 65,536 of them.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import LabelTree
        >>> points = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.1, 0.9]])
        >>> tree = LabelTree.build(points, branching=2, max_leaf=2)
        >>> sorted(sorted(tree.leaf_labels[i:i + 2].tolist()) for i in (0, 2))
        [[0, 2], [1, 3]]
        """
        check_values(
            RANGES, branching=branching, max_leaf=max_leaf, clustering=clustering, overlap=overlap,
            max_iterations=max_iterations, seed=seed,
        )  # fmt: skip
        jobs, rows = resolve_jobs(n_jobs), checked_rows(embeddings, "embeddings")
        if clustering == "random":
            tree = cls.random(rows.shape[0], branching, max(1, max_leaf // overlap), seed=seed)
            offsets, leaf_labels = tree.child_offsets, tree.leaf_labels
        else:
            offsets = plan_offsets(layer_plan(rows.shape[0], branching, max(1, max_leaf // overlap)))
            spherical = clustering == "spherical"
            leaf_labels = clustered_order(
                unit_length(rows) if spherical else rows, offsets, seed=seed, spherical=spherical,
                max_iterations=max_iterations, n_jobs=jobs, runner=runner,
            )  # fmt: skip
        offsets, leaf_labels = with_overlap(offsets, leaf_labels, rows, overlap, max_leaf)
        return cls(offsets, leaf_labels, rows.shape[0])

    @classmethod
    def random(cls, n_labels: int, branching: int = 16, max_leaf: int = 100, *, seed: int = 0) -> LabelTree:
        """A balanced tree with randomly placed labels (for ablations).

        Parameters
        ----------
        n_labels, branching, max_leaf : int
            Number of labels, most children of an inner node, most labels of a cluster.
        seed : int
            The same seed gives the same tree.

        Raises
        ------
        ParameterError
            When a number is out of its range.

        Examples
        --------
        >>> from sylvan import LabelTree
        >>> LabelTree.random(1000, seed=1).depth
        2
        """
        check_values(RANGES, n_labels=n_labels, branching=branching, max_leaf=max_leaf, seed=seed)
        order = np.random.default_rng(seed).permutation(n_labels).astype(np.int32)
        return cls(plan_offsets(layer_plan(n_labels, branching, max_leaf)), order, n_labels)

    @classmethod
    def from_matrices(cls, matrices: Sequence[sp.spmatrix | sp.sparray]) -> LabelTree:
        """The tree of the papers' indexing matrices C.

        Parameters
        ----------
        matrices : sequence of sparse or dense matrix
            From the root down; ``matrices[t]`` has a row for each node of layer t and a column for each
            possible parent, non-zero where the one is a child of the other. The last one has a row for each
            label. A first matrix of more than one column gets a root above it. A node with several parents
            is repeated under each; a node without labels below it is skipped.

        Raises
        ------
        DataError
            When shapes don't match or a label is in no cluster.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import LabelTree
        >>> LabelTree.from_matrices([np.array([[1, 0], [0, 1], [1, 0]])]).leaf_labels.tolist()
        [0, 2, 1]
        """
        if not (chain := [_columns(matrix, t) for t, matrix in enumerate(matrices)]):
            raise DataError("A label tree needs at least one indexing matrix. Got none.")
        if chain[0].shape[1] != 1:
            chain.insert(0, sp.csc_matrix(np.ones((chain[0].shape[1], 1), np.float32)))
        for t in range(1, len(chain)):
            if chain[t].shape[1] != chain[t - 1].shape[0]:
                raise DataError(
                    f"Indexing matrices must chain: matrix {t} has shape {chain[t].shape}, so the one above "
                    f"it must have {chain[t].shape[1]} rows. Got shape {chain[t - 1].shape} instead."
                )
        return cls(*_numbered(_without_empty_nodes(chain)), int(chain[-1].shape[0]))

    def to_matrices(self) -> list[sp.csc_matrix]:
        """The indexing matrices C from the root down, float32; the last has shape (n_labels, n_clusters)."""
        chain = []
        for t, offsets in enumerate(self.child_offsets):
            shape, rows = (int(offsets[-1]), offsets.size - 1), np.arange(offsets[-1], dtype=np.int32)
            if t == self.depth - 1:
                shape = self.n_labels, offsets.size - 1
                rows = np.concatenate([np.sort(part) for part in np.split(self.leaf_labels, offsets[1:-1])])
            chain.append(sp.csc_matrix((np.ones(rows.size, np.float32), rows, offsets.copy()), shape=shape))
        return chain

    @classmethod
    def from_taxonomy(cls, names: Sequence[str], parents: Parents, *, max_depth: int | None = None) -> LabelTree:
        """The tree of a given hierarchy, such as a thesaurus or a classification.

        Parameters
        ----------
        names : sequence of str
            Name of each label, in the order of the label ids.
        parents : mapping of str to str, sequence of str or None
            The broader term of each name; broader terms need not be labels. A label with several broader terms is
            placed below each (overlapping clusters); a term that isn't a label is placed below its first broader term
            only. A name that isn't in the mapping, or whose entry is None or empty, is at the top.
        max_depth : int, optional
            Maximum number of layers; deeper labels are put into the deepest cluster above them.

        Returns
        -------
        LabelTree
            A label that has narrower terms is in one cluster with those of them that are labels. Short branches are
            extended by nodes with one child, so that all leaves are in the last layer.

        Raises
        ------
        DataError
            When a name occurs twice, is no string, or is broader than itself.
        ParameterError
            When ``max_depth`` is out of its range.

        Examples
        --------
        >>> from sylvan import LabelTree
        >>> parents = {"cat": "animal", "dog": "animal", "oak": "plant", "animal": "being", "plant": "being"}
        >>> LabelTree.from_taxonomy(["oak", "cat", "dog"], parents)
        LabelTree(3 labels, depth 3: 1 > 2 > 3, clusters of 1 to 2 labels)
        """
        check_value("max_depth", max_depth, Number(int, 1, MAX_DEPTH, optional=True))
        broader = {name: _terms(name, above) for name, above in parents.items()}
        ids = {name: label for label, name in enumerate(names)}
        if len(ids) != len(names):
            twice = next(name for label, name in enumerate(names) if ids[name] != label)
            raise DataError(f"Label names must differ, but {twice!r} occurs twice.")
        inner = {term for terms in broader.values() for term in terms}
        paths: dict[str | None, tuple[int, ...]] = {None: ()}  # from the top, through first parents, by their numbers
        numbers: dict[str, int] = {}

        def path_to(term: str | None) -> tuple[int, ...]:
            chain: list[str] = []
            while term is not None and term not in paths:
                if term in chain:
                    raise DataError(f"The taxonomy has a circle: {' > '.join([*chain[chain.index(term) :], term])}.")
                chain.append(term)
                above = broader.get(term)
                term = above[0] if above else None
            for name in reversed(chain):
                paths[name] = (*paths[term], numbers.setdefault(name, len(numbers)))
                term = name
            return paths[term]

        limit = (max_depth or MAX_DEPTH) - 1
        placed: set[tuple[tuple[int, ...], int]] = set()
        for name, label in ids.items():
            terms = (name,) if name in inner else broader.get(name) or (None,)
            placed.update((path_to(term)[:limit], label) for term in terms)
        depth = max((len(path) for path, _ in placed), default=0)
        # A branch that ends early repeats its last term; one without any term gets a node of its own.
        full = sorted({((*path, *[path[-1] if path else -1] * (depth - len(path))), label) for path, label in placed})
        table = np.array([path for path, _ in full], np.int64).reshape(len(full), depth)
        offsets, starts_above = [], np.array([0], np.int64)
        for t in range(depth + 1):
            changed = np.ones(len(full), bool)  # the rows that differ from the row before them
            if t < depth:
                changed[1:] = (table[1:, : t + 1] != table[:-1, : t + 1]).any(axis=1)
            starts = np.flatnonzero(changed)
            offsets.append(np.concatenate((np.searchsorted(starts, starts_above), [starts.size])))
            starts_above = starts
        return cls(tuple(offsets), np.array([label for _, label in full], np.int32), len(names))

    def without(self, labels: npt.ArrayLike) -> tuple[LabelTree, list[Bool]]:
        """The tree without the leaves of some labels, and without the clusters that they leave empty.

        The ids of the other labels stay, and so does the order of the nodes.

        Parameters
        ----------
        labels : array-like of int
            Ids of labels.

        Returns
        -------
        tree : LabelTree
        kept : list of ndarray of bool
            Which nodes of each layer of this tree stay.

        Raises
        ------
        DataError
            When an id is out of range, or no label would be left.

        Examples
        --------
        >>> from sylvan import LabelTree
        >>> tree, kept = LabelTree.flat(3).without([1])
        >>> tree.leaf_labels.tolist(), tree.removed.tolist(), kept[0].tolist()
        ([0, 2], [1], [True, False, True])
        """
        ids = np.unique(np.asarray(labels, np.int64))
        if ids.size and not (ids[0] >= 0 and ids[-1] < self.n_labels):
            wrong = ids[0] if ids[0] < 0 else ids[-1]
            raise DataError(f"Labels to remove must be ids in [0, {self.n_labels - 1}]. Got {wrong} instead.")
        removed = np.union1d(self.removed, ids).astype(np.int32)
        if removed.size == self.n_labels:
            raise DataError(f"Of {counted(self.n_labels, 'label')} not all can be removed: a tree needs at least one.")
        offsets, stays = offsets_without(self.child_offsets, np.isin(self.leaf_labels, removed))
        return LabelTree(offsets, self.leaf_labels[stays[-1]], self.n_labels, removed), stays

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the tree to a folder that :func:`sylvan.load` reads."""
        store.save(folder, self.to_state())

    def to_state(self) -> store.State:
        """What the tree consists of, for :mod:`sylvan.store`."""
        arrays: dict[str, Array] = {f"layer{t}.offsets": layer for t, layer in enumerate(self.child_offsets)}
        arrays["leaf_labels"] = self.leaf_labels
        if self.removed.size:
            arrays["removed"] = self.removed
        meta: dict[str, store.JSON] = {"depth": self.depth, "n_labels": self.n_labels}
        return store.State(kind=_KIND, version=1, meta=meta, arrays=arrays)

    @classmethod
    def from_state(cls, state: store.State) -> LabelTree:
        """The tree that a State describes."""
        store.need_kind(state, _KIND)
        depth = store.need_int(state, "depth", 1, MAX_DEPTH)
        n_labels = store.need_int(state, "n_labels", 1, MAX_NODES)
        offsets = [store.need_array(state, f"layer{t}.offsets", np.int64, (None,)) for t in range(depth)]
        names = [name for name in ("leaf_labels", "removed") if name == "leaf_labels" or name in state.arrays]
        leaf_labels, *removed = (store.need_array(state, name, np.int32, (None,)) for name in names)
        if fault := find_fault(offsets, leaf_labels, n_labels, *removed):
            raise ModelError(f"{state.where or 'The model'!r} does not hold a label tree: {fault}.")
        return cls(tuple(offsets), leaf_labels, n_labels, *removed)


def _pack(tree: LabelTree) -> dict[str, Array]:
    return {**tree.to_state().arrays, "n_labels": np.array([tree.n_labels])}


def _unpack(arrays: Arrays) -> LabelTree:
    layers = dict(arrays)
    sizes = layers.pop("n_labels", np.zeros(0))
    meta = {"depth": sum(n.endswith(".offsets") for n in layers), "n_labels": int(sizes[0]) if sizes.size else 0}
    return LabelTree.from_state(store.State(_KIND, 1, meta=dict(meta), arrays=layers))


TREE: Packing[LabelTree] = Packing(_pack, _unpack)


def _frozen(values: Any, dtype: type[np.generic]) -> Array:
    """``values`` as a read-only array of ``dtype``: a view where possible, the original left as it is."""
    array = np.asarray(values)
    if array.dtype != dtype:
        if array.dtype.kind not in "iu" and array.size:
            raise DataError(f"A label tree is made of integers. Got an array of {array.dtype} instead.")
        converted = array.astype(dtype)
        if not np.array_equal(converted, array):
            raise DataError(f"A label tree's {np.dtype(dtype)} arrays hold a value that does not fit.")
        array = converted
    view: Array = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


store.register(_KIND, LabelTree.from_state)


def node_title(
    tree: LabelTree, layer: int, node: int, name: Callable[[int], str] = str, counts: Array | None = None
) -> str:
    """A node's name, such as "Whaling, Sea stories, Voyages, … (87 labels)", of the labels below it that have the
    highest of some ``counts``, or else the lowest ids; a leaf is its label."""
    below = tree.leaves(layer, node)
    labels = np.unique(tree.leaf_labels[below.start : below.stop])
    if counts is not None:
        labels = labels[np.argsort(-np.asarray(counts)[labels], kind="stable")]
    words = ", ".join(name(label) for label in labels[:SHOWN].tolist())
    ellipsis = ", …" if len(labels) > SHOWN else ""
    return words if layer == tree.depth - 1 else f"{words}{ellipsis} ({counted(len(labels), 'label')})"


_BRANCHING = Number(int, 2)
_MAX_CLASSES = 2**31 - 1
_ITERATIONS = 20  # of a split at most; more moved next to nothing


def balanced_tree(order: npt.ArrayLike, branching: int = 10) -> LabelTree:
    """Classes assigned from left to right to the leaves of a balanced tree.

    All leaves are in the last layer. The tree is as shallow as ``branching`` allows and has as few nodes as possible;
    siblings differ by at most one child. Neighbouring classes in ``order`` share most of their path.

    Parameters
    ----------
    order : array-like of int, shape (n_classes,)
        Every class, 0 to n_classes - 1, once: by similarity (:func:`class_tree` finds such an order), by falling
        frequency, or at random.
    branching : int
        Most children of a node (the papers' b).

    Raises
    ------
    DataError
        When ``order`` isn't a permutation of the classes, or is empty.
    ParameterError
        When ``branching`` is below 2.

    Notes
    -----
    Han, Huang and Zhang (2018), "Candidates vs. Noises Estimation", appendix C.

    Examples
    --------
    >>> from sylvan.indexing import balanced_tree
    >>> tree = balanced_tree([4, 2, 0, 1, 3], branching=2)
    >>> tree.layer_sizes, tree.leaf_labels.tolist()
    ((2, 3, 5), [4, 2, 0, 1, 3])
    """
    check_value("branching", branching, _BRANCHING)
    array = np.asarray(order)
    if array.ndim != 1 or array.size == 0:
        raise DataError(f"order must list each class once, in one dimension. Got shape {array.shape} instead.")
    labels = validate.row_numbers(array, array.size, name="order", noun="classes").astype(np.int32)
    counts = np.bincount(labels, minlength=labels.size)
    if int(counts.max()) > 1:
        raise DataError(
            f"order must list each class once, but class {int(np.argmax(counts))} stands in it {int(counts.max())} "
            f"times and class {int(np.argmin(counts))} not at all."
        )
    return LabelTree(plan_offsets(_layer_sizes(labels.size, branching)), labels, labels.size)


def class_tree(centers: Embeddings, branching: int = 10, *, seed: int = 0, n_jobs: int | None = 1) -> LabelTree:
    """A balanced tree over classes in which those with near centres share most of their path.

    The classes are split by k-means again and again; from left to right they are then dealt to a balanced tree, as
    :func:`balanced_tree` does. Every split is a two-means whose shares are those that the balanced tree needs there,
    so that dealing cuts no cluster in two.

    Parameters
    ----------
    centers : sparse matrix or array of shape (n_classes, dimensions)
        A row for each class, such as :func:`class_centers` gives.
    branching : int
        Maximum number of children of a node (the paper's b).
    seed : int
        Seed of the first centres. The same seed gives the same tree, whatever ``n_jobs``.
    n_jobs : int, optional
        Number of threads; None or -1 for every core.

    Raises
    ------
    DataError
        When the centres are not finite numbers in two dimensions, or there is none.
    ParameterError
        When a parameter is out of its range.

    Notes
    -----
    Han, Huang and Zhang (2018), "Candidates vs. Noises Estimation", appendix C, Algorithm 4 and the fix below it.

    Examples
    --------
    >>> from sylvan.indexing import class_tree
    >>> tree = class_tree([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.1, 0.9]], branching=2)
    >>> sorted(sorted(tree.leaf_labels[i:i + 2].tolist()) for i in (0, 2))
    [[0, 2], [1, 3]]
    """
    check_value("branching", branching, _BRANCHING)
    check_value("seed", seed, Number(int, 0, 2**63 - 1))
    jobs = resolve_jobs(n_jobs)
    rows = checked_rows(centers, "centers")
    offsets = plan_offsets(_layer_sizes(int(rows.shape[0]), branching))
    order = clustered_order(rows, offsets, seed=seed, spherical=False, max_iterations=_ITERATIONS, n_jobs=jobs)
    return LabelTree(offsets, order, int(rows.shape[0]))


def class_centers(X: Any, y: npt.ArrayLike, n_classes: int) -> Float32 | sp.csr_matrix:
    """The mean of each class's rows.

    Parameters
    ----------
    X : sparse matrix or array of shape (n, dimensions)
    y : array-like of int, shape (n,)
        The class of each row.
    n_classes : int

    Returns
    -------
    ndarray of float32 or csr_matrix of float32, shape (n_classes, dimensions)
        Sparse when ``X`` is. A class without rows has a row of zeros.

    Raises
    ------
    DataError
        When ``X`` isn't a matrix of finite numbers, or ``y`` isn't a class for each of its rows.
    ParameterError
        When ``n_classes`` isn't in [1, 2147483647].

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan.indexing import class_centers
    >>> class_centers(np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 5.0]]), [0, 0, 2], n_classes=3).tolist()
    [[2.0, 0.0], [0.0, 0.0], [0.0, 5.0]]
    """
    check_value("n_classes", n_classes, Number(int, 1, _MAX_CLASSES))
    sparse = isinstance(X, Csr) or sp.issparse(X)
    rows: Any = validate.features(X).to_scipy() if sparse else validate.vectors(X, name="X")
    classes = validate.row_numbers(y, n_classes, name="y", noun="classes")
    if classes.shape != (rows.shape[0],):
        raise DataError(f"y must have one class for each of the {rows.shape[0]} rows of X. Got shape {classes.shape}.")
    counts = np.bincount(classes, minlength=n_classes)
    order = np.argsort(classes, kind="stable")
    starts = np.concatenate(([0], np.cumsum(counts)))
    shares = (1.0 / counts[classes[order]]).astype(np.float32)
    means = sp.csr_matrix((shares, order, starts), shape=(n_classes, rows.shape[0])) @ rows
    if sparse:
        means.sort_indices()
    return means  # type: ignore[no-any-return]


def check_class_tree(tree: LabelTree, n_classes: int, *, owner: str) -> None:
    """Raise ``DataError`` unless each of ``n_classes`` classes stands in exactly one leaf of ``owner``'s tree."""
    if tree.n_labels != n_classes:
        raise DataError(
            f"The 'tree' of {owner} must hold a leaf for each of the {n_classes} classes. Got a tree of "
            f"{tree.n_labels} labels instead."
        )
    depth = len(tree.child_offsets)
    if depth > MAX_DEPTH:
        raise DataError(f"The 'tree' of {owner} must have {MAX_DEPTH} layers at most. Got {depth} instead.")
    if len(tree.leaf_labels) != n_classes:
        label = int(np.argmax(np.bincount(tree.leaf_labels)))
        raise DataError(
            f"The 'tree' of {owner} must hold each class in exactly one leaf. Got {tree.n_leaves} leaves for "
            f"{n_classes} classes instead: class {label} stands in {tree.most_copies}."
        )


def first_edges(tree: LabelTree) -> Int64:
    """The number of each layer's first edge, shape (depth + 1,); the last entry is the number of edges. An edge leads
    to a node from its parent, so that edges are numbered as nodes are, layer after layer."""
    return np.cumsum([0, *(offsets[-1] for offsets in tree.child_offsets)], dtype=np.int64)


def class_edges(tree: LabelTree) -> Int64:
    """The edges from the root to each class, shape (n_classes, depth), of a tree that holds each class once."""
    first = first_edges(tree)
    nodes = np.empty(tree.n_labels, np.int64)
    nodes[tree.leaf_labels] = np.arange(tree.n_leaves)
    edges = np.empty((tree.n_labels, tree.depth), np.int64)
    for layer in range(tree.depth - 1, -1, -1):
        edges[:, layer] = nodes + first[layer]
        nodes = tree.parents(layer)[nodes].astype(np.int64)
    return edges


def _layer_sizes(n_classes: int, branching: int) -> tuple[int, ...]:
    """Nodes of each layer, the classes last: each layer is as small as the one below allows."""
    sizes = [n_classes]
    while sizes[0] > branching:
        sizes.insert(0, -(-sizes[0] // branching))
    return tuple(sizes)
