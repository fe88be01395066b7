"""Answers to texts, rows of features and vectors: ``rank``, whole or line by line, ``explain`` and ``search``; and for
people to look at, the labels, the tree over them and the nodes that a search goes through."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import numpy as np

from sylvan.errors import SylvanError
from sylvan.hub.card import frequent_children
from sylvan.indexing import LabelTree
from sylvan.indexing.tree import node_title
from sylvan.params.wording import counted
from sylvan.serve.answers import Explained, RankedRow, answers, check, explain, explained, labels_below, node_of
from sylvan.serve.bodies import Asked, id_of, ids_of, record_at_the_top, rows_of, text_of, with_fields
from sylvan.serve.calls import JSON, NDJSON, Call, Operation, Parameter, Reply, convert, decode
from sylvan.serve.names import MatchingLabel, Relations
from sylvan.serve.problems import Problem
from sylvan.serve.versions import Served, Version

_MOST, _LONGEST = 100, 1000
_MOST_NODES = 2_000  # of an answer
_MOST_SCORED = 200  # nodes of a layer that are shown
_BEST = 10  # labels whose paths are shown
NOT_IN_QUERIES = ("allowed", "denied", "explain")
_BLOCK, _BLOCK_BYTES = 256, 1 << 20  # lines ranked together, and their bytes
_RETRY = 0.02  # seconds until a block that found no room asks again


class Ranked(msgspec.Struct):
    """Rankings, one for each text or row, in their order."""

    results: list[RankedRow]


class LineProblem(msgspec.Struct):
    """What stands in place of a line's answer when the line is at fault."""

    error: str
    id: Any = msgspec.UNSET


class NearestVectors(msgspec.Struct):
    """The nearest vectors to one query, nearest first."""

    ids: list[int]
    distances: list[float]


class Found(msgspec.Struct):
    """The nearest vectors to each query, in the order of the queries."""

    results: list[NearestVectors]


async def rank(call: Call) -> Ranked | Reply:
    """Ranks the labels of a text, of texts or of rows of features; NDJSON is answered line by line, of any length, with
    the options in the query."""
    served, version = call.asked()
    if call.need_type(JSON, NDJSON) == NDJSON:
        return rank_lines(call, served, version)
    body = await call.read(with_fields(call.service.bodies["rank"], version.text_fields), served)
    fields = {"text": record_at_the_top(version, body), "texts": body.texts, "features": body.features}
    rows = rows_of(version, call.limits, fields)
    call.rows, ids = len(rows), ids_of(body, len(rows))
    request = body.asked()
    check(version, request)
    if not rows:
        return Ranked([])
    if body.explain and len(rows) > 1:
        raise Problem(422, f"The 'explain' field goes with one text or row. Got {len(rows)} instead.")
    results = await served.engine.ask((version, request), rows, partial(answers, version, request))
    for result, id_ in zip(results, ids, strict=True):
        result.id = id_
    if body.explain:
        labels = results[0].labels[:10]
        (results[0].explanations,) = await served.engine.ask(
            object(), rows, lambda row: [[explain(version, row[0], label, request.beam).to_dict() for label in labels]]
        )
    return Ranked(results)


def rank_lines(call: Call, served: Served, version: Version) -> Reply:
    """The answers to the lines of a body; options are in the query."""
    request: Asked = convert(call.query(), call.service.bodies["options"]).asked()
    if call.scope["http_version"] == "1.0":
        raise Problem(505, "Lines are answered as they come, which HTTP/1.0 can't: ask by HTTP/1.1.")
    check(version, request)
    return Reply(type=NDJSON, headers=version.headers, pieces=_answered(call, served, version, request))


async def _answered(call: Call, served: Served, version: Version, request: Asked) -> AsyncIterator[bytes]:
    """The answers, block by block."""
    encode = msgspec.json.Encoder().encode
    async for block in _blocks(call):
        rows: list[Any] = []
        results: list[RankedRow | LineProblem] = []
        places: list[int] = []  # of the rows, among the results
        for number, line in block:
            record: Any = None
            try:
                record = _record(call, version, line)
                rows.append(_row(call, version, record))
                places.append(len(results))
                results.append(RankedRow([], id=id_of(record)))
            except Problem as problem:
                if record is None and isinstance(line, bytes):  # its types are wrong, but it may have an id
                    with contextlib.suppress(Problem):
                        record = decode(line, dict[str, Any])
                results.append(LineProblem(f"Line {number}: {problem}", id_of(record)))
        for place, answer in zip(places, await _ranked(served, version, request, rows), strict=True):
            id_ = results[place].id
            if isinstance(answer, Exception):
                results[place] = LineProblem(f"Line {block[place][0]}: {answer}", id_)
            else:
                answer.id, results[place] = id_, answer
        call.rows += len(block)
        yield b"\n".join(map(encode, results)) + b"\n"


def _record(call: Call, version: Version, line: bytes | Problem | None) -> Any:
    """What a line holds: an object of any fields where the model was trained on others than ``text``."""
    if isinstance(line, Problem):
        raise line
    if line is None:
        raise Problem(413, f"A line of the body must have at most {call.limits.body:,} bytes.")
    any_fields = version.text_fields not in ((), ("text",))
    return decode(line, dict[str, Any] if any_fields else call.service.bodies["line"])


def _row(call: Call, version: Version, record: Any) -> Any:
    if isinstance(record, dict):
        return text_of(version, record, call.limits)
    features = None if record.features is None else [record.features]
    return rows_of(version, call.limits, {"text": record.text, "features": features})[0]


async def _blocks(call: Call) -> AsyncIterator[list[tuple[int, bytes | Problem | None]]]:
    """Numbered lines, some at a time; empty ones are passed over. What ends the body early stands in the last place."""
    block: list[tuple[int, bytes | Problem | None]] = []
    size = number = 0
    try:
        async for line in call.lines():
            number += 1
            if line is None or line.strip():
                block.append((number, line))
                size += len(line or b"")
            if len(block) >= _BLOCK or size >= _BLOCK_BYTES:
                yield block
                block, size = [], 0
    except Problem as problem:
        block.append((number + 1, problem))
    if block:
        yield block


async def _ranked(served: Served, version: Version, request: Asked, rows: list[Any]) -> list[RankedRow | Exception]:
    """One result a row, or what is wrong with it; where a block fails, each row is asked by itself. Lines have all the
    time that they need: where the engine has no room, they wait for it."""
    while rows:
        try:
            return await served.engine.ask((version, request), rows, partial(answers, version, request), patient=True)
        except (Problem, SylvanError) as error:
            if isinstance(error, Problem) and error.status == 429:
                await asyncio.sleep(_RETRY)
            elif len(rows) == 1:
                return [error]
            else:
                return [(await _ranked(served, version, request, [row]))[0] for row in rows]
    return []


async def explain_label(call: Call) -> Explained:
    """Explains why a label has its place for a text: its path in the tree, the words for and against it, the nearest
    training rows."""
    served, version = call.asked()
    body = await call.read(with_fields(call.service.bodies["explain"], version.text_fields), served)
    fields = {"text": record_at_the_top(version, body), "row": None if body.row is None else [body.row]}
    rows = rows_of(version, call.limits, fields)
    call.rows = 1
    # A key of its own: explanations aren't computed together.
    results: list[Explained] = await served.engine.ask(
        object(), rows, lambda row: [explained(version, row[0], body.label, body.features, body.examples, body.beam)]
    )
    return results[0]


async def search(call: Call) -> Found:
    """Finds the nearest vectors of an index."""
    served, version = call.asked()
    if version.takes != "vectors":
        raise Problem(422, f"The model {call.model!r} ranks labels; only an index of vectors is searched.")
    body = await call.read(call.service.bodies["search"], served)
    call.rows, width = len(body.vectors), version.model.n_dimensions_
    for number, vector in enumerate(body.vectors):
        if len(vector) != width:
            wanted, size = counted(width, "number"), len(vector)
            raise Problem(422, f"The 'vectors' field must hold vectors of {wanted}. Got {size} in vector {number}.")
    if not body.vectors:
        return Found([])
    options = tuple((name, getattr(body, name)) for name in ("k", "probes", "candidates", "min_votes", "order"))

    def nearest(rows: list[Any]) -> list[NearestVectors]:
        ids, distances = version.model.search(np.array(rows, np.float32), **dict(options))
        pairs = zip(ids.tolist(), distances.tolist(), strict=True)
        lengths = (ids >= 0).sum(axis=1).tolist()
        return [NearestVectors(row[:n], far[:n]) for (row, far), n in zip(pairs, lengths, strict=True)]

    return Found(await served.engine.ask((version, options), body.vectors, nearest))


class MatchingLabels(msgspec.Struct):
    """Labels in alphabetical order; those whose whole name begins with the prefix first, those found by a synonym
    last."""

    labels: list[MatchingLabel]


def number_in(query: dict[str, str], name: str, usual: int, low: int, high: int) -> int:
    """A whole number of a query."""
    word = query.get(name, str(usual))
    if not word.isascii() or not word.isdecimal() or len(word) > 9 or not low <= int(word) <= high:
        raise Problem(422, f"The {name!r} parameter must be an int in [{low}, {high}]. Got {word!r:.60} instead.")
    return int(word)


async def labels(call: Call) -> MatchingLabels:
    """Lists labels by how their names or synonyms, or words in them, begin."""
    _, version = call.asked()
    if version.takes == "vectors":
        raise Problem(422, f"The model {call.model!r} is an index of vectors: it has no labels.")
    query = call.query()
    prefix, limit = query.get("prefix", ""), number_in(query, "limit", 20, 1, _MOST)
    if len(prefix) > _LONGEST:
        raise Problem(422, f"The 'prefix' parameter must have at most {_LONGEST} characters. Got {len(prefix)}.")
    return MatchingLabels(await asyncio.to_thread(version.complete, prefix, limit))


async def relations(call: Call) -> Relations:
    """Lists what is broader and narrower than a label, as the vocabulary has it."""
    _, version = call.asked()
    label = call.query().get("label", "")
    if not 0 < len(label) <= _LONGEST:
        raise Problem(422, f"The 'label' parameter must have 1 to {_LONGEST} characters. Got {len(label)}.")
    return await asyncio.to_thread(version.relations, label)


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
    call.rows, rows = 1, rows_of(version, call.limits, {"text": record_at_the_top(version, body)})
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

    # With itself as ``again``: in a circle, it would stay in memory, and the version with it.
    def node_from(layer: int, node: int, depth: int, again: Any) -> TreeNode:
        leaf = layer == tree.depth - 1
        n_labels = tree.n_placed if layer < 0 else len(labels_below(tree, layer, node))
        title = "All labels" if layer < 0 else node_title(tree, layer, node, name, counts)
        key = f"{number}/root" if layer < 0 else f"{number}/{layer}.{node}"
        result = TreeNode(key, title, n_labels, leaf)
        if leaf:
            result.label = version.label(int(tree.leaf_labels[node]))
        if leaf or depth == 0:
            return result
        displayed, result.more = frequent_children(tree, layer + 1, node, below, max(0, left[0]))
        left[0] -= len(displayed)
        result.children = [again(layer + 1, child, depth - 1, again) for child in displayed]
        return result

    return TreePart(len(version.trees), tree.depth, node_from(layer, node, depth, node_from))


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
    Operation("POST", "/v1/models/{model}/rank", rank, Ranked, {JSON: "rank", NDJSON: "line"}, errors=(429, 505),
              tag="ranking"),
    Operation("POST", "/v1/models/{model}/search", search, Found, {JSON: "search"}, errors=(429,), tag="ranking"),
    Operation("POST", "/v1/models/{model}/explain", explain_label, Explained, {JSON: "explain"}, errors=(429,),
              tag="ranking"),
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
    Operation(
        "GET", "/v1/models/{model}/relations", relations, Relations,
        query=(Parameter("label", "The label.", {"type": "string", "maxLength": _LONGEST}),), errors=(400, 422),
    ),
)  # fmt: skip
