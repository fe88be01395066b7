"""The shape of a label tree: how many nodes each layer of a balanced one has, and what offsets and leaves make one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

MAX_DEPTH = 64
MAX_NODES = 2**31 - 1
# The child offsets of each layer, and the label of each leaf.
Placement: TypeAlias = "tuple[tuple[npt.NDArray[np.int64], ...], npt.NDArray[np.int32]]"

LANES = 16  # children that the ranking kernels handle at once


def layer_plan(n_labels: int, branching: int, max_leaf: int) -> tuple[int, ...]:
    """Number of nodes of each layer of a balanced tree, the labels last. The tree is as shallow as ``branching`` and
    ``max_leaf`` allow, and its clusters are what halving down to ``max_leaf`` gives: as many as the next power of two,
    or up to an eighth more where that fills groups of 16 children better, which the ranking kernels handle at once.
    Each layer above is as small as ``branching`` allows, or a divisor of the one below that is near. Few wide splits at
    the top, most of them even, kept the most precision on the sets measured."""
    if n_labels <= max_leaf:
        return (n_labels,)
    fewest = -(-n_labels // max_leaf)
    n_inner = 1
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
    sizes = (1, *plan, n_labels)
    lanes = 0.0
    for parents, children in itertools.pairwise(sizes):
        groups = math.ceil(math.ceil(children / parents) / LANES)
        lanes += parents * groups * LANES
        if children != n_labels and children % parents:
            lanes += 0.02 * n_labels
    return lanes


def plan_offsets(plan: tuple[int, ...]) -> tuple[npt.NDArray[np.int64], ...]:
    """``child_offsets`` of the plan: siblings' numbers of children differ by at most one within a layer."""
    offsets = []
    n_parents = 1
    for n_children in plan:
        offsets.append(np.arange(n_parents + 1, dtype=np.int64) * n_children // n_parents)
        n_parents = n_children
    return tuple(offsets)


def find_fault(
    offsets: Sequence[npt.NDArray[np.int64]],
    leaf_labels: npt.NDArray[np.int32],
    n_labels: int,
    removed: npt.NDArray[np.int32] | None = None,
) -> str | None:
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
        low, high = leaf_labels.min(), leaf_labels.max()
        return f"label ids must lie in [0, {n_labels}), but range from {low} to {high}"
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


def offsets_without(
    offsets: Sequence[npt.NDArray[np.int64]], dropped: npt.NDArray[np.bool_]
) -> tuple[tuple[npt.NDArray[np.int64], ...], list[npt.NDArray[np.bool_]]]:
    """The child offsets of a tree without some of its leaves and the nodes that these leave empty."""
    # Shape: dropped (n_leaves,)
    stays = [~dropped]
    results: list[npt.NDArray[np.int64]] = []
    for layer in reversed(offsets):
        n_left = np.add.reduceat(stays[-1], layer[:-1], dtype=np.int64)  # of each parent's children
        results.append(np.concatenate(([0], np.cumsum(n_left[n_left > 0]))))
        stays.append(n_left > 0)
    return tuple(results[::-1]), stays[-2::-1]  # the last ones kept are the root
