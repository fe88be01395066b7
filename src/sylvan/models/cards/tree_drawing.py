"""A label tree drawn from its top: lines for a terminal, Graphviz's language, or an SVG picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from sylvan.explain.text import printable
from sylvan.indexing import LabelTree
from sylvan.indexing.naming import node_title

__all__ = ["Branch", "as_dot", "as_lines", "as_svg", "outline"]

_ROW, _COLUMN, _LONGEST = 24, 370, 44  # pixels a line and a level of the picture, and characters of a title there


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


def as_dot(branches: list[Branch]) -> str:
    """All trees as one graph in Graphviz's language, left to right."""
    lines = ["digraph tree {", "  rankdir=LR;", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    n_nodes = 0

    def add(branch: Branch) -> int:
        nonlocal n_nodes
        number = n_nodes
        n_nodes += 1
        words = branch.title + (f"\n… {branch.more:,} more below" if branch.more else "")
        lines.append(f"  n{number} [label={_quoted(words)}];")
        for child in branch.children:
            lines.append(f"  n{number} -> n{add(child)};")
        return number

    for branch in branches:
        add(branch)
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    """A string of the DOT language, where only quotes, backslashes and line ends mean anything."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{inner}"'


def as_svg(branches: list[Branch]) -> str:
    """All trees as one picture, left to right, in the colours of whatever shows it."""
    parts: list[str] = []
    row, deepest = 0, 0

    def place(branch: Branch, level: int) -> float:
        """Draw a node and what is below it; the node's height in the picture."""
        nonlocal row, deepest
        deepest = max(deepest, level)
        heights = [place(child, level + 1) for child in branch.children]
        if branch.more:
            parts.append(_text(level + 1, row, f"… {branch.more:,} more", soft=True))
            heights.append(float(row))
            row, deepest = row + 1, max(deepest, level + 1)
        at = sum(heights) / len(heights) if heights else float(row)
        row += not heights
        parts.append(_text(level, at, branch.title))
        parts.extend(_line(level, at, height) for height in heights)
        return at

    for branch in branches:
        place(branch, 0)
    width, height = (deepest + 1) * _COLUMN + 20, row * _ROW + 20
    style = (
        "text{font:13px sans-serif;fill:#1d2327}.soft{fill:#5b656d}path{fill:none;stroke:#9aa5ae}"
        "@media (prefers-color-scheme:dark){text{fill:#e4e7ea}.soft{fill:#9aa5ae}path{stroke:#5b656d}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f"<style>{style}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _text(level: int, row: float, words: str, soft: bool = False) -> str:
    cut = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
    whole = f"<title>{escape(words)}</title>" if cut != words else ""
    kind = ' class="soft"' if soft else ""
    return f'<text x="{10 + level * _COLUMN}" y="{24 + row * _ROW:.0f}"{kind}>{whole}{escape(cut)}</text>'


def _line(level: int, row: float, to: float) -> str:
    right, y, end = 2 + (level + 1) * _COLUMN, 20 + row * _ROW, 20 + to * _ROW
    left = right - 34
    middle = (left + right) / 2
    return f'<path d="M{left} {y:.0f}C{middle:.0f} {y:.0f} {middle:.0f} {end:.0f} {right} {end:.0f}"/>'
