"""Clustering: recursive balanced partitions of the labels (PECOS, Algorithm 1)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays import validate
from sylvan.arrays.canonical import real_numbers
from sylvan.arrays.types import Array, Bool, Float32, Int32, Int64
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError
from sylvan.parallel import map_parallel
from sylvan.params.fields import Choice, Number
from sylvan.runtime.jobs import Job, Runner

MAX_DEPTH = 64
MAX_NODES = 2**31 - 1
# The child offsets of each layer, and the label of each leaf.
Placement: TypeAlias = "tuple[tuple[Int64, ...], Int32]"
LANES = 16  # children that the ranking kernels handle at once
_BLOCK_VALUES = 1 << 22  # similarities in memory at once
_SPARE = 2  # candidates a free place, as the nearest clusters may be full
Embeddings: TypeAlias = "sp.spmatrix | sp.sparray | Csr | Array"
Clustering = Literal["spherical", "kmeans", "random"]
_Rows: TypeAlias = "Csr | Float32"
_Nodes: TypeAlias = "tuple[int, int, int]"  # layer, first node, one past the last
RANGES = {
    "n_labels": Number(int, 1, MAX_NODES), "branching": Number(int, 2), "max_leaf": Number(int, 1),
    "clustering": Choice(get_args(Clustering)), "overlap": Number(int, 1),
    "max_iterations": Number(int, 1), "seed": Number(int, 0, 2**63 - 1),
}  # fmt: skip
_SAMPLE = 1 << 16  # labels that a larger split iterates on before it assigns all
_TASK_LABELS = 20_000
_ALL_STEPS = 2**31 - 1


def layer_plan(n_labels: int, branching: int, max_leaf: int) -> tuple[int, ...]:
    """Number of nodes of each layer of a balanced tree, the labels last. The tree is as shallow as ``branching`` and
    ``max_leaf`` allow, and its clusters are what halving down to ``max_leaf`` gives: as many as the next power of two,
    or up to an eighth more where that fills groups of 16 children better, which the ranking kernels handle at once.
    Each layer above is as small as ``branching`` allows, or a divisor of the one below that is near. Few wide splits at
    the top, most of them even, kept the most precision on the sets measured."""
    if n_labels <= max_leaf:
        return (n_labels,)
    fewest, n_inner = -(-n_labels // max_leaf), 1
    while branching**n_inner < fewest:
        n_inner += 1
    most = min(branching**n_inner, n_labels)
    low = min(2 ** math.ceil(math.log2(fewest)), most)
    high = min(low + low // 8, most)
    if low == most:  # no room for clusters of that size at this depth: whatever fills the lanes best
        low = fewest
    plans = (_plan_for(n_clusters, branching, n_inner) for n_clusters in range(low, high + 1, 1 + (high - low) // 512))
    return (*min(plans, key=lambda plan: (_cost(plan, n_labels), plan)), n_labels)


def _plan_for(n_clusters: int, branching: int, n_inner: int) -> tuple[int, ...]:
    """Layer sizes from the clusters up, each as small as ``branching`` allows, or a divisor that is near."""
    sizes = [n_clusters]
    for above in range(n_inner - 1, 0, -1):
        fewest = -(-sizes[0] // branching)
        near = range(fewest, min(fewest + fewest // 8, branching**above) + 1)
        sizes.insert(0, next((n for n in near if sizes[0] % n == 0), fewest))
    return tuple(sizes)


def _cost(plan: tuple[int, ...], n_labels: int) -> float:
    """Lanes that the kernels spend on a plan, full or empty, and a fine for a layer of uneven fan-outs."""
    lanes = 0.0
    for parents, children in itertools.pairwise((1, *plan, n_labels)):
        lanes += parents * math.ceil(math.ceil(children / parents) / LANES) * LANES
        if children != n_labels and children % parents:
            lanes += 0.02 * n_labels
    return lanes


def plan_offsets(plan: tuple[int, ...]) -> tuple[Int64, ...]:
    """``child_offsets`` of the plan: siblings' numbers of children differ by at most one within a layer."""
    pairs = itertools.pairwise((1, *plan))
    return tuple(np.arange(parents + 1, dtype=np.int64) * children // parents for parents, children in pairs)


def find_fault(offsets: Sequence[Int64], leaf_labels: Int32, n_labels: int, removed: Int32 | None = None) -> str | None:
    """What keeps these arrays from being a label tree, as the rest of a sentence; None when nothing does. Labels that
    were ``removed`` must stand in no leaf, and all others in one."""
    removed = np.zeros(0, np.int32) if removed is None else removed
    if n_labels < 1:
        return f"it must hold at least one label, but n_labels is {n_labels}"
    if not offsets:
        return "it has no layer"
    if removed.ndim != 1 or (removed.size and not (removed[0] >= 0 and removed[-1] < n_labels)):
        return f"the removed labels must be ids in [0, {n_labels})"
    if bool((removed[1:] <= removed[:-1]).any()):
        return "the ids of the removed labels must rise"
    n_placed = n_labels - removed.size
    if leaf_labels.size < n_placed:
        return f"it has {leaf_labels.size} leaves for {n_placed} labels, too few for each to have one"
    n_parents = 1
    for t, layer in enumerate(offsets):
        if layer.ndim != 1 or layer.size != n_parents + 1:
            return f"layer {t} must have {n_parents + 1} offsets for its {n_parents} parents, not {layer.size}"
        if layer[0] != 0 or bool((layer[1:] <= layer[:-1]).any()):
            return f"the offsets of layer {t} must start at 0 and rise, so that each parent has a child"
        if layer[-1] > MAX_NODES:
            return f"layer {t} has more than {MAX_NODES} nodes"
        n_parents = int(layer[-1])
    if leaf_labels.ndim != 1 or leaf_labels.size != n_parents:
        return f"it needs a label for each of its {n_parents} leaves, but has {leaf_labels.size}"
    if int(leaf_labels.min()) < 0 or int(leaf_labels.max()) >= n_labels:
        return f"label ids must lie in [0, {n_labels}), but range from {leaf_labels.min()} to {leaf_labels.max()}"
    counts = np.bincount(leaf_labels, minlength=n_labels)
    if counts[removed].any():
        return f"label {int(removed[counts[removed].argmax()])} is removed, but stands in a leaf"
    counts[removed] = 1
    if counts.min() == 0:
        return f"label {int(counts.argmin())} stands in no leaf"
    if n_parents > n_placed:
        cluster = np.repeat(np.arange(offsets[-1].size - 1, dtype=np.int64), np.diff(offsets[-1]))
        pairs = np.sort(cluster * n_labels + leaf_labels)
        repeated = np.flatnonzero(pairs[1:] == pairs[:-1])
        if repeated.size:
            place, label = divmod(int(pairs[repeated[0]]), n_labels)
            return f"label {label} stands twice in cluster {place}"
    return None


def offsets_without(offsets: Sequence[Int64], dropped: Bool) -> tuple[tuple[Int64, ...], list[Bool]]:
    """The child offsets of a tree without some of its leaves and the nodes that these leave empty."""
    # Shape: dropped (n_leaves,)
    stays = [~dropped]
    results: list[Int64] = []
    for layer in reversed(offsets):
        n_left = np.add.reduceat(stays[-1], layer[:-1], dtype=np.int64)  # of each parent's children
        results.append(np.concatenate(([0], np.cumsum(n_left[n_left > 0]))))
        stays.append(n_left > 0)
    return tuple(results[::-1]), stays[-2::-1]  # the last ones kept are the root


def with_overlap(
    offsets: tuple[Int64, ...], leaf_labels: Int32, rows: _Rows, overlap: int, max_leaf: int
) -> Placement:
    """A tree of disjoint clusters with each label in up to ``overlap`` of them."""
    # Shape: rows (n_labels, dimensions)
    sizes, n_labels, n_clusters = np.diff(offsets[-1]), leaf_labels.size, len(offsets[-1]) - 1
    if overlap < 2 or n_clusters < 2:
        return offsets, leaf_labels
    home = np.empty(n_labels, np.int64)
    home[leaf_labels] = np.repeat(np.arange(n_clusters), sizes)
    unit = unit_length(rows)
    vectors = unit.to_scipy() if isinstance(unit, Csr) else unit
    labels, clusters = _candidates(vectors, home, n_clusters, min(_SPARE * (overlap - 1), n_clusters - 1))
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


def _candidates(rows: sp.csr_matrix | Float32, home: Int64, n_clusters: int, n_best: int) -> tuple[Int64, Int64]:
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
    results, step = [], max(1, _BLOCK_VALUES // n_clusters)
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


def checked_rows(embeddings: Embeddings, name: str) -> _Rows:
    """Embeddings as the kernels read them: canonical CSR, or a contiguous float32 array; errors call them ``name``."""
    if isinstance(embeddings, Csr) or sp.issparse(embeddings):
        rows: _Rows = validate.features(embeddings, name=name).used_columns()[0]
    else:
        array = real_numbers(embeddings, name)
        if array.ndim != 2:
            raise DataError(f"{name} must have two dimensions (labels, dimensions), not shape {array.shape}.")
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(array, dtype=np.float32)
        if not (finite := np.isfinite(rows).all(axis=1)).all():
            row = int(np.argmin(finite))
            raise DataError(
                f"{name} must be finite in float32, but row {row} holds NaN, infinity or too large a value."
            )
    if rows.shape[0] == 0:
        raise DataError(f"{name} has shape {tuple(rows.shape)}: there is no label to place.")
    return rows


def unit_length(rows: _Rows) -> _Rows:
    """The rows scaled to length one, so that products are cosines; zero rows stay."""
    if not isinstance(rows, Csr):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        return (rows / np.where(lengths > 0, lengths, 1.0)[:, None]).astype(np.float32)
    squares = rows.row_squares()
    return rows if bool((np.abs(squares[squares > 0] - 1.0) < 1e-5).all()) else rows.unit_rows()


def clustered_order(
    rows: _Rows, offsets: tuple[Int64, ...], *, seed: int, spherical: bool, max_iterations: int,
    n_jobs: int, runner: Runner | None = None,
) -> Int32:  # fmt: skip
    """Label ids in the order of the leaves of a tree of this shape, clusters of near rows below each of its nodes. A
    ``runner`` whose jobs run elsewhere is given what the first halvings leave, each part with its own rows."""
    order = np.arange(rows.shape[0], dtype=np.int32)
    options: dict[str, Any] = {
        "offsets": offsets, "seed": seed, "spherical": spherical, "max_iterations": max_iterations,
    }  # fmt: skip

    def part(nodes: _Nodes) -> Int32:
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
        if not (halves := [half for nodes in todo for half in _halves(offsets, nodes)]):
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
    rows: _Rows, order: Int32, nodes: _Nodes, steps: int, *, offsets: tuple[Int64, ...],
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


def _split_apart(rows: _Rows, labels: Int32, order: Int32, nodes: _Nodes, **arguments: Any) -> Int32:
    """The labels of some nodes in the order of their leaves, from the rows of these labels alone."""
    places = np.searchsorted(labels, order).astype(np.int32)
    _split(rows, places, nodes, _ALL_STEPS, **arguments)
    return labels[places]


def _halves(offsets: tuple[Int64, ...], nodes: _Nodes) -> list[_Nodes]:
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


def _leaf(offsets: tuple[Int64, ...], layer: int, node: int) -> int:
    """Number of leaves before a node."""
    for below in offsets[layer + 1 :]:
        node = int(below[node])
    return node
