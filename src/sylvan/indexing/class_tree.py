"""Trees over classes, each in one leaf: hierarchical k-means over class centres, assigned to a balanced tree (CANE)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError
from sylvan.indexing.clustering import MAX_DEPTH, Embeddings, checked_rows, clustered_order, plan_offsets
from sylvan.indexing.tree import LabelTree
from sylvan.parallel import resolve_jobs
from sylvan.params.fields import Number, check_value

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
    labels = validate.row_numbers(array, array.size, name="order", what="classes").astype(np.int32)
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


def class_centers(X: Any, y: npt.ArrayLike, n_classes: int) -> npt.NDArray[np.float32] | sp.csr_matrix:
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
    classes = validate.row_numbers(y, n_classes, name="y", what="classes")
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


def first_edges(tree: LabelTree) -> npt.NDArray[np.int64]:
    """The number of each layer's first edge, shape (depth + 1,); the last entry is the number of edges. An edge leads
    to a node from its parent, so that edges are numbered as nodes are, layer after layer."""
    return np.cumsum([0, *(offsets[-1] for offsets in tree.child_offsets)], dtype=np.int64)


def class_edges(tree: LabelTree) -> npt.NDArray[np.int64]:
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
