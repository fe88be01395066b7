"""Answers to texts, rows of features and vectors: ``rank``, whole or line by line, ``explain`` and ``search``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import numpy as np

from sylvan.errors import SylvanError
from sylvan.params.wording import counted
from sylvan.serve.answers import Explained, RankedRow, answers, check, explain, explained
from sylvan.serve.bodies import Asked, id_of, ids_of, record_at_the_top, rows_of, text_of, with_fields
from sylvan.serve.calls import JSON, NDJSON, Call, Operation, Reply, convert, decode
from sylvan.serve.problems import Problem
from sylvan.serve.versions import Served, Version

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
    rows = rows_of(version, call.limits, record_at_the_top(version, body), body.texts, body.features)
    call.rows, ids = len(rows), ids_of(body, len(rows))
    asked = body.asked()
    check(version, asked)
    if not rows:
        return Ranked([])
    if body.explain and len(rows) > 1:
        raise Problem(422, f"The 'explain' field goes with one text or row. Got {len(rows)} instead.")
    results = await served.engine.ask((version, asked), rows, partial(answers, version, asked))
    for result, id_ in zip(results, ids, strict=True):
        result.id = id_
    if body.explain:
        labels = results[0].labels[:10]
        (results[0].explanations,) = await served.engine.ask(
            object(), rows, lambda row: [[explain(version, row[0], label, asked.beam).to_dict() for label in labels]]
        )
    return Ranked(results)


def rank_lines(call: Call, served: Served, version: Version) -> Reply:
    """The answers to the lines of a body; options are in the query."""
    query = call.query()
    for name in NOT_IN_QUERIES:
        if name in query:
            raise Problem(422, f"The query takes no {name!r}: that goes with one body of JSON.")
    asked: Asked = convert(query, call.service.bodies["options"]).asked()
    if call.scope["http_version"] == "1.0":
        raise Problem(505, "Lines are answered as they come, which HTTP/1.0 can't: ask by HTTP/1.1.")
    check(version, asked)
    return Reply(type=NDJSON, headers=version.headers, pieces=_answered(call, served, version, asked))


async def _answered(call: Call, served: Served, version: Version, asked: Asked) -> AsyncIterator[bytes]:
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
                results.append(LineProblem(f"Line {number}: {problem}", id_of(record)))
        for place, answer in zip(places, await _ranked(served, version, asked, rows), strict=True):
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
    return rows_of(version, call.limits, record.text, None, features)[0]


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


async def _ranked(served: Served, version: Version, asked: Asked, rows: list[Any]) -> list[RankedRow | Exception]:
    """One result a row, or what is wrong with it; where a block fails, each row is asked by itself. Lines have all the
    time that they need: where the engine has no room, they wait for it."""
    while rows:
        try:
            return await served.engine.ask((version, asked), rows, partial(answers, version, asked), patient=True)
        except (Problem, SylvanError) as error:
            if isinstance(error, Problem) and error.status == 429:
                await asyncio.sleep(_RETRY)
            elif len(rows) == 1:
                return [error]
            else:
                return [(await _ranked(served, version, asked, [row]))[0] for row in rows]
    return []


async def explain_label(call: Call) -> Explained:
    """Explains why a label has its place for a text: its path in the tree, the words for and against it, the nearest
    training rows."""
    served, version = call.asked()
    body = await call.read(with_fields(call.service.bodies["explain"], version.text_fields), served)
    features = None if body.row is None else [body.row]
    rows = rows_of(version, call.limits, record_at_the_top(version, body), None, features)
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


OPERATIONS = (
    Operation("POST", "/v1/models/{model}/rank", rank, Ranked, {JSON: "rank", NDJSON: "line"}, errors=(429, 505),
              tag="ranking"),
    Operation("POST", "/v1/models/{model}/search", search, Found, {JSON: "search"}, errors=(429,), tag="ranking"),
    Operation("POST", "/v1/models/{model}/explain", explain_label, Explained, {JSON: "explain"}, errors=(429,),
              tag="ranking"),
)  # fmt: skip
