"""Labels and the tree over them, for people to look at: completion, nodes, and those that a search goes through."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import numpy as np

from sylvan.hub.card import frequent_children
from sylvan.indexing import LabelTree
from sylvan.indexing.tree import node_title
from sylvan.serve.answers import RankedRow, answers, labels_below, node_of
from sylvan.serve.bodies import Asked, record_at_the_top, rows_of, with_fields
from sylvan.serve.calls import JSON, Call, Operation, Parameter
from sylvan.serve.problems import Problem
from sylvan.serve.versions import MatchingLabel, Version

_MOST, _LONGEST = 100, 1000
_MOST_NODES = 2_000  # of an answer
_MOST_SCORED = 200  # nodes of a layer that are shown
_BEST = 10  # labels whose paths are shown


class MatchingLabels(msgspec.Struct):
    """Labels in alphabetical order; those whose whole name begins with the prefix first."""

    labels: list[MatchingLabel]


def number_in(query: dict[str, str], name: str, usual: int, low: int, high: int) -> int:
    """A whole number of a query."""
    word = query.get(name, str(usual))
    if not word.isascii() or not word.isdecimal() or len(word) > 9 or not low <= int(word) <= high:
        raise Problem(422, f"The {name!r} parameter must be an int in [{low}, {high}]. Got {word!r:.60} instead.")
    return int(word)


async def labels(call: Call) -> MatchingLabels:
    """Lists labels by how their names, or words in them, begin."""
    _, version = call.asked()
    if version.takes == "vectors":
        raise Problem(422, f"The model {call.model!r} is an index of vectors: it has no labels.")
    query = call.query()
    prefix, limit = query.get("prefix", ""), number_in(query, "limit", 20, 1, _MOST)
    if len(prefix) > _LONGEST:
        raise Problem(422, f"The 'prefix' parameter must have at most {_LONGEST} characters. Got {len(prefix)}.")
    return MatchingLabels(await asyncio.to_thread(version.complete, prefix, limit))


class TreeNode(msgspec.Struct, omit_defaults=True):
    """A node: its most frequent labels, how many labels are below it, and its children as far as they are shown. A leaf
    is one label, and has it."""

    id: str
    title: str
    labels: int
    leaf: bool
    children: list[TreeNode] = []
    more: int = 0
    label: str | int | None = None


class TreePart(msgspec.Struct):
    """A part of a tree of ``depth`` layers, from one node down."""

    n_trees: int
    depth: int
    node: TreeNode


class SearchedNode(msgspec.Struct):
    """A node that the search scored, as it compares paths; ``followed`` where it went on from it."""

    id: str
    score: float
    followed: bool


class Searched(msgspec.Struct):
    """The search for a text: every layer's nodes, best first, the labels found, and the paths to them."""

    layers: list[list[SearchedNode]]
    labels: RankedRow
    paths: dict[str, list[str]]


async def tree(call: Call) -> TreePart:
    """Shows a part of the tree over the labels."""
    _, version = call.asked()
    query = call.query()
    depth = number_in(query, "depth", 1, 1, 4)
    _need_tree(version)
    node = node_of(version, query.get("node", "0/root"), "node")
    return await asyncio.to_thread(_part, version, *node, depth)


async def beam(call: Call) -> Searched:
    """Shows which nodes of the tree a text's search goes through."""
    served, version = call.asked()
    body = await call.read(with_fields(call.service.bodies["beam"], version.text_fields), served)
    _need_tree(version)
    if version.takes != "texts":
        raise Problem(422, f"The model {call.model!r} takes {version.takes}, and this is for texts.")
    if body.tree >= len(version.trees):
        raise Problem(422, f"The 'tree' field must be an int in [0, {len(version.trees) - 1}]. Got {body.tree}.")
    call.rows, rows = 1, rows_of(version, call.limits, record_at_the_top(version, body), None, None)
    results: list[Searched] = await served.engine.ask(
        object(), rows, lambda texts: [_searched(version, texts[0], body.tree, body.beam)]
    )
    return results[0]


def _need_tree(version: Version) -> None:
    if not version.trees:
        raise Problem(422, f"The model {version.served.name!r}, a {type(version.inner).__name__}, has no label tree.")


def _part(version: Version, tree: LabelTree, number: int, layer: int, node: int, depth: int) -> TreePart:
    """The nodes from one down, the most frequent children first, up to as many as an answer may have."""
    counts = np.asarray(version.inner.label_counts_)
    below = np.concatenate(([0], np.cumsum(counts[tree.leaf_labels])))
    left = [_MOST_NODES]

    def name(label: int) -> str:
        return version.title(version.label(label))

    def node_from(layer: int, node: int, depth: int) -> TreeNode:
        leaf = layer == tree.depth - 1
        n_labels = tree.n_placed if layer < 0 else len(labels_below(tree, layer, node))
        title = "All labels" if layer < 0 else node_title(tree, layer, node, name, counts)
        key = f"{number}/root" if layer < 0 else f"{number}/{layer}.{node}"
        result = TreeNode(key, title, n_labels, leaf)
        if leaf:
            result.label = version.label(int(tree.leaf_labels[node]))
        if leaf or depth == 0:
            return result
        shown, result.more = frequent_children(tree, layer + 1, node, below, max(0, left[0]))
        left[0] -= len(shown)
        result.children = [node_from(layer + 1, child, depth - 1) for child in shown]
        return result

    return TreePart(len(version.trees), tree.depth, node_from(layer, node, depth))


def _searched(version: Version, text: str, number: int, beam: int | None) -> Searched:
    """What the search does, and the paths of the best labels in that tree."""
    searched = version.model.searched(text, number, beam)
    width = version.inner.beam if beam is None else beam
    layers = [
        [
            SearchedNode(f"{number}/{layer}.{node}", score, place < width)
            for place, (node, score) in enumerate(zip(nodes[:_MOST_SCORED].tolist(), scores.tolist(), strict=False))
        ]
        for layer, (nodes, scores) in enumerate(searched)
    ]
    (ranked,) = answers(version, Asked(_BEST, beam=beam, probabilities=True), [text])
    tree, reached = version.trees[number], searched[-1][0]
    paths: dict[str, list[str]] = {}
    for leaf in reached.tolist():
        label: Any = version.label(int(tree.leaf_labels[leaf]))
        if label in ranked.labels and str(label) not in paths:
            paths[str(label)] = [f"{number}/{layer}.{node}" for layer, node in enumerate(tree.path(leaf))]
    return Searched(layers, ranked, paths)


OPERATIONS = (
    Operation("POST", "/v1/models/{model}/beam", beam, Searched, {JSON: "beam"}, errors=(429,), tag="ranking"),
    Operation(
        "GET", "/v1/models/{model}/tree", tree, TreePart,
        query=(Parameter("node", "Where to begin, as 0/root or 0/1.14.", {"type": "string", "maxLength": 100}),
               Parameter("depth", "Layers below it.", {"type": "integer", "minimum": 1, "maximum": 4, "default": 1})),
        errors=(400, 422),
    ),
    Operation(
        "GET", "/v1/models/{model}/labels", labels, MatchingLabels,
        query=(Parameter("prefix", "How the name begins.", {"type": "string", "maxLength": _LONGEST}),
               Parameter("limit", "How many labels at most.",
                         {"type": "integer", "minimum": 1, "maximum": _MOST, "default": 20})),
        errors=(400, 422),
    ),
)  # fmt: skip
