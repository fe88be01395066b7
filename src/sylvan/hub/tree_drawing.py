"""A label tree drawn from its top, in lines for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sylvan.explain.explanation import printable
from sylvan.indexing import LabelTree
from sylvan.indexing.tree import node_title


@dataclass(frozen=True)
class Branch:
    """A node, those of its children that are shown, and how many are not. ``more`` is 0 where a node's children aren't
    drawn at all: its title says how many labels it holds."""

    title: str
    children: tuple[Branch, ...] = ()
    more: int = 0

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        results: dict[str, Any] = {"title": self.title}
        if self.children:
            results["children"] = [child.as_json() for child in self.children]
        if self.more:
            results["more"] = self.more
        return results


def outline(
    tree: LabelTree, levels: int, branches: int, name: Callable[[int], str], counts: np.ndarray | None = None
) -> Branch:
    """The top of a tree."""
    # Shape: counts (n_labels,)
    seen = np.ones(tree.n_labels, np.int64) if counts is None else np.asarray(counts, np.int64)
    before = np.concatenate(([0], np.cumsum(seen[tree.leaf_labels])))

    def below(layer: int, node: int) -> tuple[tuple[Branch, ...], int]:
        """The children, in ``layer``, of a node of the layer above."""
        if layer >= min(levels, tree.depth):
            return (), 0
        first, last = (int(end) for end in tree.child_offsets[layer][node : node + 2])
        ranges = [tree.leaves(layer, child) for child in range(first, last)]
        weight = np.array([before[leaves.stop] - before[leaves.start] for leaves in ranges])
        shown = np.argsort(-weight, kind="stable")[:branches].tolist()
        children = tuple(
            Branch(printable(node_title(tree, layer, first + i, name, counts)), *below(layer + 1, first + i))
            for i in shown
        )
        return children, last - first - len(shown)

    words = f"all labels ({tree.n_labels:,})"
    return Branch(words, *below(0, 0))


def as_lines(branch: Branch) -> Iterator[str]:
    """A line a node, with the lines of a tree before it."""
    yield branch.title
    parts: list[Branch | str] = [*branch.children]
    if branch.more:
        parts.append(f"… {branch.more:,} more")
    for part in parts:
        corner, rail = ("└─ ", "   ") if part is parts[-1] else ("├─ ", "│  ")
        if isinstance(part, str):
            yield f"{corner}{part}"
            continue
        lines = as_lines(part)
        yield f"{corner}{next(lines)}"
        yield from (f"{rail}{line}" for line in lines)
