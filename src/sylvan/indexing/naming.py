"""Names for the nodes of a label tree: the most frequent labels below a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.indexing.tree import LabelTree

SHOWN = 3  # labels that a title names


def frequent_labels(
    tree: LabelTree, layer: int, node: int, counts: npt.NDArray[Any] | None = None, n: int = SHOWN
) -> tuple[list[int], int]:
    """The ``n`` labels of highest count below a node, lower label first among equals, and how many there are. Without
    ``counts``, the labels with the lowest ids are used."""
    below = tree.leaves(layer, node)
    labels = np.unique(tree.leaf_labels[below.start : below.stop])
    if counts is not None:
        order = np.argsort(-np.asarray(counts)[labels], kind="stable")
        return labels[order[:n]].tolist(), len(labels)
    return labels[:n].tolist(), len(labels)


def node_title(
    tree: LabelTree,
    layer: int,
    node: int,
    name: Callable[[int], str] = str,
    counts: npt.NDArray[Any] | None = None,
) -> str:
    """A node's name, such as "Whaling, Sea stories, Voyages, … (87 labels)"; a leaf is its label."""
    labels, n_labels = frequent_labels(tree, layer, node, counts)
    words = ", ".join(name(label) for label in labels)
    if layer == tree.depth - 1:
        return words
    ellipsis = ", …" if n_labels > len(labels) else ""
    return f"{words}{ellipsis} ({n_labels:,} label{'' if n_labels == 1 else 's'})"
