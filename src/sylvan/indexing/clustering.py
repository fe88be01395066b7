"""Clustering: recursive balanced partitions of the labels (PECOS, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels, validate
from sylvan.canonical import real_numbers
from sylvan.errors import DataError
from sylvan.indexing.checks import check_number
from sylvan.indexing.overlap import with_overlap
from sylvan.indexing.rows import row_squares, scale_rows, used_columns
from sylvan.indexing.shape import LANES, layer_plan, plan_offsets
from sylvan.indexing.tree import LabelTree
from sylvan.parallel import map_parallel, resolve_jobs
from sylvan.params import Choice, Number
from sylvan.validate import Csr

__all__ = ["Embeddings", "build_tree", "checked_rows", "clustered_order", "random_tree"]

Embeddings: TypeAlias = "sp.spmatrix | sp.sparray | Csr | npt.NDArray[Any]"
_Rows: TypeAlias = "Csr | npt.NDArray[np.float32]"
_Nodes: TypeAlias = "tuple[int, int, int]"  # layer, first node, one past the last

_CLUSTERINGS = Choice(("kmeans", "spherical", "random"))
_SAMPLE = 1 << 16  # labels that a larger split iterates on before it assigns all
_TASK_LABELS = 20_000
_ALL_STEPS = 2**31 - 1


def build_tree(
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
    """Cluster the labels recursively into balanced parts.

    A node's labels are split into its children's shares by balanced two-means halvings: labels are sorted by
    how much nearer they are to one of two centres and cut where the share ends, until nothing moves. The
    shape of the tree depends on the number of labels alone; siblings differ by at most one child, clusters by
    at most one label. Within a cluster, similar labels stand side by side in groups of 16.

    Parameters
    ----------
    embeddings : sparse matrix or array of shape (L, dimensions)
        A row for each label; an empty row is placed where there is room.
    branching : int
        Most children of an inner node (the papers' B).
    max_leaf : int
        Most labels of a cluster.
    clustering : {"spherical", "kmeans", "random"}
        Angle to the centres, Euclidean distance to them, or none (the ablation). Of the first two either may be
        better by half a point: distance keeps dense groups together and puts the rest into one, which suits
        labels of which most were seen once; angle treats all groups alike and never lost much.
    overlap : int
        Most clusters of a label. Above 1, clusters are made of ``max_leaf // overlap`` labels at most, and
        filled up to ``max_leaf`` with labels of other clusters that are nearest to them.
    max_iterations : int
        Most iterations of one split.
    seed : int
        Seed of the first centres. The same seed gives the same tree, whatever ``n_jobs``.
    n_jobs : int, optional
        Number of threads; None or -1 for every core.

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
    >>> from sylvan import indexing
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.1, 0.9]])
    >>> tree = indexing.build_tree(points, branching=2, max_leaf=2)
    >>> sorted(sorted(tree.leaf_labels[i:i + 2].tolist()) for i in (0, 2))
    [[0, 2], [1, 3]]
    """
    check_number("branching", branching, Number(int, 2))
    check_number("max_leaf", max_leaf, Number(int, 1))
    check_number("clustering", clustering, _CLUSTERINGS)
    check_number("overlap", overlap, Number(int, 1))
    check_number("max_iterations", max_iterations, Number(int, 1))
    check_number("seed", seed, Number(int, 0, 2**63 - 1))
    jobs = resolve_jobs(n_jobs)
    rows = checked_rows(embeddings, "embeddings")
    n_labels = int(rows.shape[0])
    own_leaf = max(1, max_leaf // overlap)
    if clustering == "random":
        tree = random_tree(n_labels, branching, own_leaf, seed=seed)
    else:
        spherical = clustering == "spherical"
        offsets = plan_offsets(layer_plan(n_labels, branching, own_leaf))
        placed = _unit_length(rows) if spherical else rows
        order = clustered_order(
            placed, offsets, seed=seed, spherical=spherical, max_iterations=max_iterations, n_jobs=jobs
        )
        tree = LabelTree(offsets, order, n_labels)
    if overlap == 1:
        return tree
    unit = _unit_length(rows)
    return with_overlap(tree, unit.to_scipy() if isinstance(unit, Csr) else unit, overlap, max_leaf)


def random_tree(n_labels: int, branching: int = 16, max_leaf: int = 100, *, seed: int = 0) -> LabelTree:
    """A balanced tree with the labels dealt out at random.

    Parameters
    ----------
    n_labels, branching, max_leaf : int
        Number of labels, most children of an inner node, most labels of a cluster.
    seed : int
        The same seed deals the same tree.

    Raises
    ------
    ParameterError
        When a number is out of its range.

    Examples
    --------
    >>> from sylvan.indexing import random_tree
    >>> random_tree(1000, seed=1).depth
    2
    """
    check_number("n_labels", n_labels, Number(int, 1, 2**31 - 1))
    check_number("branching", branching, Number(int, 2))
    check_number("max_leaf", max_leaf, Number(int, 1))
    check_number("seed", seed, Number(int, 0, 2**63 - 1))
    order = np.random.default_rng(seed).permutation(n_labels).astype(np.int32)
    return LabelTree(plan_offsets(layer_plan(n_labels, branching, max_leaf)), order, n_labels)


def checked_rows(embeddings: Embeddings, name: str) -> _Rows:
    """Embeddings as the kernels read them: canonical CSR, or a contiguous float32 array; errors call them ``name``."""
    if isinstance(embeddings, Csr) or sp.issparse(embeddings):
        rows: _Rows = used_columns(validate.features(embeddings, name=name))[0]
    else:
        rows = _dense(embeddings, name)
    if rows.shape[0] == 0:
        raise DataError(f"{name} has shape {tuple(rows.shape)}: there is no label to place.")
    return rows


def _dense(embeddings: Any, name: str) -> npt.NDArray[np.float32]:
    array = real_numbers(embeddings, name)
    if array.ndim != 2:
        raise DataError(f"{name} must have two dimensions (labels, dimensions), not shape {array.shape}.")
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(array, dtype=np.float32)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise DataError(
            f"{name} must be finite in float32, but row {int(np.argmin(finite))} holds NaN, infinity or "
            "too large a value."
        )
    return rows


def _unit_length(rows: _Rows) -> _Rows:
    """The rows scaled to length one, so that products are cosines; zero rows stay."""
    if not isinstance(rows, Csr):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        return (rows / np.where(lengths > 0, lengths, 1.0)[:, None]).astype(np.float32)
    squares = row_squares(rows.indptr, rows.data)
    if bool((np.abs(squares[squares > 0] - 1.0) < 1e-5).all()):
        return rows
    data = rows.data.copy()
    scale_rows(rows.indptr, data, 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0)))
    return rows._replace(data=data)


def clustered_order(
    rows: _Rows,
    offsets: tuple[npt.NDArray[np.int64], ...],
    *,
    seed: int,
    spherical: bool,
    max_iterations: int,
    n_jobs: int,
) -> npt.NDArray[np.int32]:
    """Label ids in the order of the leaves of a tree of this shape, clusters of near rows below each of its nodes."""
    order = np.arange(rows.shape[0], dtype=np.int32)
    flat = np.concatenate(offsets)
    starts = np.concatenate(([0], np.cumsum([layer.size for layer in offsets]))).astype(np.int64)

    def split(steps: int) -> Callable[[_Nodes], None]:
        def work(nodes: _Nodes) -> None:
            layer, first, last = nodes
            part = order[_leaf(offsets, layer, first) : _leaf(offsets, layer, last)]
            settings = (flat, starts, layer, first, last, seed, spherical, max_iterations, _SAMPLE, steps, part)
            if isinstance(rows, Csr):
                kernels.split_sparse_rows(rows.indptr, rows.indices, rows.data, rows.shape[1], *settings)
            else:
                kernels.split_dense_rows(rows, *settings)

        return work

    todo: list[_Nodes] = [(0, 0, int(offsets[0][-1]))]
    # A split depends on its place and its labels alone, so halves of halves can be left to threads. Many labels are
    # cut up for one thread too: between two calls an interrupt is heard and progress is shown.
    n_tasks = max(4 * n_jobs if n_jobs > 1 else 1, rows.shape[0] // _TASK_LABELS)
    while len(todo) < n_tasks:
        map_parallel(split(1), todo, n_jobs)
        halves = [half for nodes in todo for half in _halves(offsets, nodes)]
        if not halves:
            return order
        todo = halves
    costs = [float(_leaf(offsets, t, last) - _leaf(offsets, t, first)) for t, first, last in todo]
    map_parallel(split(_ALL_STEPS), todo, n_jobs, costs=costs, description="Clustering labels")
    return order


def _halves(offsets: tuple[npt.NDArray[np.int64], ...], nodes: _Nodes) -> list[_Nodes]:
    """The two ranges of nodes that one halving leaves to split, as the kernel cuts them; none when it is done."""
    layer, first, last = nodes
    leaves = layer == len(offsets) - 1
    if last - first == 1 and not leaves:
        below = offsets[layer + 1]
        return _halves(offsets, (layer + 1, int(below[first]), int(below[last])))
    if last - first < 2 or (leaves and last - first <= LANES):
        return []
    groups = -(-(last - first) // LANES)
    middle = first + ((groups + 1) // 2 * LANES if leaves else (last - first) // 2)
    return [(layer, first, middle), (layer, middle, last)]


def _leaf(offsets: tuple[npt.NDArray[np.int64], ...], layer: int, node: int) -> int:
    """Number of leaves before a node."""
    for below in offsets[layer + 1 :]:
        node = int(below[node])
    return node
