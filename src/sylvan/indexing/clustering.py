"""Clustering: recursive balanced partitions of the labels (PECOS, Algorithm 1)."""

from __future__ import annotations

import numpy as np

from sylvan.errors import ParameterError
from sylvan.indexing.shape import layer_plan, plan_offsets
from sylvan.indexing.tree import LabelTree
from sylvan.params import Number

__all__ = ["random_tree"]


def check_number(name: str, value: object, constraint: Number) -> None:
    """Hold a function's parameter to its range, in the sentence that every parameter has."""
    if not constraint.accepts(value):
        raise ParameterError(
            f"The {name!r} parameter must be {constraint.describe()}. Got {value!r} instead."
        )


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
