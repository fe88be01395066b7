"""Clustering: recursive balanced partitions of the labels (PECOS, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays import validate
from sylvan.arrays.canonical import real_numbers
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError
from sylvan.indexing.shape import LANES, MAX_NODES, Placement, layer_plan, plan_offsets
from sylvan.parallel import map_parallel, resolve_jobs
from sylvan.params.fields import Choice, Number, check_values
from sylvan.runtime.jobs import Job, Runner

_BLOCK_VALUES = 1 << 22  # similarities in memory at once
_SPARE = 2  # candidates a free place, as the nearest clusters may be full
Embeddings: TypeAlias = "sp.spmatrix | sp.sparray | Csr | npt.NDArray[Any]"
Clustering = Literal["spherical", "kmeans", "random"]
_Rows: TypeAlias = "Csr | npt.NDArray[np.float32]"
_Nodes: TypeAlias = "tuple[int, int, int]"  # layer, first node, one past the last
_RANGES = {
    "n_labels": Number(int, 1, MAX_NODES), "branching": Number(int, 2), "max_leaf": Number(int, 1),
    "clustering": Choice(get_args(Clustering)), "overlap": Number(int, 1),
    "max_iterations": Number(int, 1), "seed": Number(int, 0, 2**63 - 1),
}  # fmt: skip
_SAMPLE = 1 << 16  # labels that a larger split iterates on before it assigns all
_TASK_LABELS = 20_000
_ALL_STEPS = 2**31 - 1


def with_overlap(
    offsets: tuple[npt.NDArray[np.int64], ...],
    leaf_labels: npt.NDArray[np.int32],
    rows: sp.csr_matrix | npt.NDArray[np.float32],
    overlap: int,
    max_leaf: int,
) -> Placement:
    """A tree of disjoint clusters with each label in up to ``overlap`` of them."""
    # Shape: rows (n_labels, dimensions)
    sizes, n_labels = np.diff(offsets[-1]), leaf_labels.size
    n_clusters = sizes.size
    if overlap < 2 or n_clusters < 2:
        return offsets, leaf_labels
    home = np.empty(n_labels, np.int64)
    home[leaf_labels] = np.repeat(np.arange(n_clusters), sizes)
    labels, clusters = _candidates(rows, home, n_clusters, min(_SPARE * (overlap - 1), n_clusters - 1))
    free = (max_leaf - sizes).tolist()
    places = [overlap - 1] * n_labels
    extra: list[list[int]] = [[] for _ in range(n_clusters)]
    for label, cluster in zip(labels.tolist(), clusters.tolist(), strict=True):
        if places[label] and free[cluster] > 0:
            places[label] -= 1
            free[cluster] -= 1
            extra[cluster].append(label)
    leaves = np.split(leaf_labels, offsets[-1][1:-1])
    merged = [np.concatenate((leaf, np.array(added, np.int32))) for leaf, added in zip(leaves, extra, strict=True)]
    ends = np.concatenate(([0], np.cumsum([part.size for part in merged]))).astype(np.int64)
    return (*offsets[:-1], ends), np.concatenate(merged)


def _candidates(
    rows: sp.csr_matrix | npt.NDArray[np.float32], home: npt.NDArray[np.int64], n_clusters: int, n_best: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pairs of a label and one of its nearest other clusters, of highest cosine first."""
    n_labels = home.size
    indicator = sp.csr_matrix((np.ones(n_labels, np.float32), (home, np.arange(n_labels))), (n_clusters, n_labels))
    sums = indicator @ rows
    if sp.issparse(sums):
        sums = sp.csr_matrix(sums)
        row_of = np.repeat(np.arange(n_clusters), np.diff(sums.indptr))
        squares = np.bincount(row_of, weights=np.square(sums.data, dtype=np.float64), minlength=n_clusters)
    else:
        squares = np.einsum("ij,ij->i", sums, sums, dtype=np.float64)
    lengths = np.sqrt(squares)
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    centres = (sp.diags_array(scale) @ sums).T
    results = []
    step = max(1, _BLOCK_VALUES // n_clusters)
    for start in range(0, n_labels, step):
        product: Any = rows[start : start + step] @ centres
        cosine: Any = product.toarray() if hasattr(product, "toarray") else np.array(product)
        inside = np.arange(cosine.shape[0])
        cosine[inside, home[start : start + step]] = -np.inf
        best = np.argpartition(-cosine, n_best - 1, axis=1)[:, :n_best]
        value = cosine[inside[:, None], best]
        near = value > 0
        results.append((value[near], np.broadcast_to(inside[:, None] + start, best.shape)[near], best[near]))
    values, labels, clusters = (np.concatenate(parts) for parts in zip(*results, strict=True))
    order = np.lexsort((clusters, labels, -values))
    return labels[order], clusters[order]


def cluster_labels(
    embeddings: Embeddings, branching: int, max_leaf: int, *, clustering: Clustering,
    overlap: int, max_iterations: int, seed: int, n_jobs: int | None, runner: Runner | None = None,
) -> Placement:  # fmt: skip
    """Labels with near embeddings below the same nodes of a balanced tree; see :meth:`sylvan.LabelTree.build`."""
    check_values(
        _RANGES, branching=branching, max_leaf=max_leaf, clustering=clustering, overlap=overlap,
        max_iterations=max_iterations, seed=seed,
    )  # fmt: skip
    jobs = resolve_jobs(n_jobs)
    rows = checked_rows(embeddings, "embeddings")
    n_labels, own_leaf = int(rows.shape[0]), max(1, max_leaf // overlap)
    if clustering == "random":
        offsets, order = deal_labels(n_labels, branching, own_leaf, seed=seed)
    else:
        spherical = clustering == "spherical"
        offsets = plan_offsets(layer_plan(n_labels, branching, own_leaf))
        order = clustered_order(
            _unit_length(rows) if spherical else rows, offsets, seed=seed, spherical=spherical,
            max_iterations=max_iterations, n_jobs=jobs, runner=runner,
        )  # fmt: skip
    if overlap == 1:
        return offsets, order
    unit = _unit_length(rows)
    return with_overlap(offsets, order, unit.to_scipy() if isinstance(unit, Csr) else unit, overlap, max_leaf)


def deal_labels(n_labels: int, branching: int, max_leaf: int, *, seed: int) -> Placement:
    """The labels at random below the nodes of a balanced tree; see :meth:`sylvan.LabelTree.random`."""
    check_values(_RANGES, n_labels=n_labels, branching=branching, max_leaf=max_leaf, seed=seed)
    order = np.random.default_rng(seed).permutation(n_labels).astype(np.int32)
    return plan_offsets(layer_plan(n_labels, branching, max_leaf)), order


def checked_rows(embeddings: Embeddings, name: str) -> _Rows:
    """Embeddings as the kernels read them: canonical CSR, or a contiguous float32 array; errors call them ``name``."""
    if isinstance(embeddings, Csr) or sp.issparse(embeddings):
        rows: _Rows = validate.features(embeddings, name=name).used_columns()[0]
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
    squares = rows.row_squares()
    return rows if bool((np.abs(squares[squares > 0] - 1.0) < 1e-5).all()) else rows.unit_rows()


def clustered_order(
    rows: _Rows,
    offsets: tuple[npt.NDArray[np.int64], ...],
    *,
    seed: int,
    spherical: bool,
    max_iterations: int,
    n_jobs: int,
    runner: Runner | None = None,
) -> npt.NDArray[np.int32]:
    """Label ids in the order of the leaves of a tree of this shape, clusters of near rows below each of its nodes. A
    ``runner`` whose jobs run elsewhere is given what the first halvings leave, each part with its own rows."""
    order = np.arange(rows.shape[0], dtype=np.int32)
    options: dict[str, Any] = {
        "offsets": offsets,
        "seed": seed,
        "spherical": spherical,
        "max_iterations": max_iterations,
    }

    def part(nodes: _Nodes) -> npt.NDArray[np.int32]:
        return order[_leaf(offsets, nodes[0], nodes[1]) : _leaf(offsets, nodes[0], nodes[2])]

    def split(steps: int) -> Callable[[_Nodes], None]:
        return lambda nodes: _split(rows, part(nodes), nodes, steps, **options)

    todo: list[_Nodes] = [(0, 0, int(offsets[0][-1]))]
    # A split depends on its place and its labels alone, so halves of halves can be left to threads. Many labels are
    # cut up for one thread too: between two calls an interrupt is heard and progress is shown.
    elsewhere = runner is not None and runner.elsewhere
    n_tasks = max(4 * n_jobs if n_jobs > 1 or elsewhere else 1, rows.shape[0] // _TASK_LABELS)
    while len(todo) < n_tasks:
        map_parallel(split(1), todo, n_jobs)
        halves = [half for nodes in todo for half in _halves(offsets, nodes)]
        if not halves:
            return order
        todo = halves
    if runner is not None and elsewhere:
        jobs = [
            Job(
                f"split{number}", _split_apart, {**options, "rows": rows, "order": part(nodes), "nodes": nodes},
                float(len(part(nodes))), title="clustering labels", cut=_own_labels,
            )
            for number, nodes in enumerate(todo)
        ]  # fmt: skip
        runner.stream(jobs, lambda number, ordered: np.copyto(part(todo[number]), ordered), "Clustering labels")
        return order
    costs = [float(_leaf(offsets, t, last) - _leaf(offsets, t, first)) for t, first, last in todo]
    map_parallel(split(_ALL_STEPS), todo, n_jobs, costs=costs, description="Clustering labels")
    return order


def _split(
    rows: _Rows, order: npt.NDArray[np.int32], nodes: _Nodes, steps: int, *, offsets: tuple[npt.NDArray[np.int64], ...],
    seed: int, spherical: bool, max_iterations: int,
) -> None:  # fmt: skip
    """Put the labels of ``order``, those below some nodes, into the order of their leaves."""
    flat = np.concatenate(offsets)
    starts = np.concatenate(([0], np.cumsum([layer.size for layer in offsets]))).astype(np.int64)
    settings = (flat, starts, *nodes, seed, spherical, max_iterations, _SAMPLE, steps, order)
    if isinstance(rows, Csr):
        kernels.split_sparse_rows(rows.indptr, rows.indices, rows.data, rows.shape[1], *settings)
    else:
        kernels.split_dense_rows(rows, *settings)


def _own_labels(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Of the labels' rows, those of one part, in the order of their ids."""
    rows, labels = inputs["rows"], np.sort(inputs["order"])
    label_rows = rows.take(labels) if isinstance(rows, Csr) else rows[labels]
    return {**inputs, "rows": label_rows, "labels": labels}


def _split_apart(
    rows: _Rows, labels: npt.NDArray[np.int32], order: npt.NDArray[np.int32], nodes: _Nodes, **arguments: Any
) -> npt.NDArray[np.int32]:
    """The labels of some nodes in the order of their leaves, from the rows of these labels alone."""
    places = np.searchsorted(labels, order).astype(np.int32)
    _split(rows, places, nodes, _ALL_STEPS, **arguments)
    return labels[places]


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
