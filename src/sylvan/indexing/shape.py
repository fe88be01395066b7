"""The shape of a balanced label tree: how many nodes each layer has, before any label is placed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

__all__ = ["layer_plan", "plan_offsets"]

LANES = 16  # children that the ranking kernels handle at once


def layer_plan(n_labels: int, branching: int, max_leaf: int) -> tuple[int, ...]:
    """Number of nodes of each layer of a balanced tree, the labels last.

    The tree is as shallow as ``branching`` and ``max_leaf`` allow, and its clusters are what halving down to
    ``max_leaf`` gives: as many as the next power of two, or up to an eighth more where that fills groups of 16
    children better, which the ranking kernels handle at once. Each layer above is as small as ``branching``
    allows, or a divisor of the one below that is near. Few wide splits at the top and the most of them even kept
    the most precision on the sets measured.

    Parameters
    ----------
    n_labels : int
        Number of labels to place.
    branching : int
        Most children of an inner node.
    max_leaf : int
        Most labels of a cluster.
    """
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
