"""Answers to texts, rows of features and vectors: ``rank``, whole or line by line, ``explain`` and ``search``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import numpy as np

from sylvan.errors import SylvanError
from sylvan.params.wording import counted
from sylvan.serve.asked import Asked, Explained, RankedRow, answers, check, explained, explanations
from sylvan.serve.bodies import id_of, ids_of, record_at_the_top, rows_of, text_of, with_fields
from sylvan.serve.calls import JSON, NDJSON, Call, Handle, Operation, Parameter, Reply, Stream, decode
from sylvan.serve.problems import Problem, problem_of_body
from sylvan.serve.service import Service
from sylvan.serve.versions import Served, Version

MODEL = Parameter("model", "The model's name.", "path")
NOT_IN_QUERIES = ("allowed", "denied", "explain")
_BLOCK, _BLOCK_BYTES = 256, 1 << 20  # lines ranked together, and their bytes
_RETRY = 0.02  # seconds until a block that found no room asks again


class Ranked(msgspec.Struct):
    """Rankings, one for each text or row, in their order."""

    results: list[RankedRow]


def operations(service: Service, streamed: Handle) -> list[Operation]:
    """The route; ``streamed`` answers NDJSON."""
    bodies = service.bodies

    async def rank(call: Call) -> Reply | Stream:
        served, version = service.asked(call)
        if call.need_type(JSON, NDJSON) == NDJSON:
            return await streamed(call)
        served.engine.check_room()
        body = decode(await call.body(), with_fields(bodies.rank, version.text_fields))
        rows = rows_of(version, service.limits, record_at_the_top(version, body), body.texts, body.features)
        call.rows, ids = len(rows), ids_of(body, len(rows))
        asked = body.asked()
        check(version, asked)
        if not rows:
            return Reply.of(Ranked([]), version.headers())
        if body.explain and len(rows) > 1:
            raise Problem(422, f"The 'explain' field goes with one text or row. Got {len(rows)} instead.")
        results = await served.engine.ask((version, asked), rows, lambda all_rows: answers(version, asked, all_rows))
        for result, id_ in zip(results, ids, strict=True):
            result.id = id_
        if body.explain:
            labels = results[0].labels[:10]
            results[0].explanations = (
                await served.engine.ask(object(), rows, lambda one: [explanations(version, asked, one[0], labels)])
            )[0]
        return Reply.of(Ranked(results), version.headers())

    return [
        Operation(
            "POST", "/v1/models/{model}/rank", rank,
            "Ranks the labels of a text, of texts or of rows of features; NDJSON is answered line by line, of any "
            "length, with the options in the query.",
            Ranked, {JSON: bodies.rank, NDJSON: bodies.line}, parameters=(MODEL, *_options(bodies.options)),
            errors=(404, 429, 503, 505), tag="ranking",
        )
    ]  # fmt: skip


def _options(kind: type[Any]) -> list[Parameter]:
    """The options of lines, which are in the query."""
    (_, schemas) = msgspec.json.schema_components([kind])
    (schema,) = schemas.values()
    return [
        Parameter(name, "For lines of NDJSON; JSON has it in its body.", schema=one)
        for name, one in schema["properties"].items()
        if name not in NOT_IN_QUERIES
    ]


class LineProblem(msgspec.Struct):
    """What stands in place of a line's answer when the line is at fault."""

    error: str
    id: Any = msgspec.UNSET


def streamed(service: Service) -> Handle:
    """What answers the lines of a body; options are in the query."""
    bodies = service.bodies

    async def rank_lines(call: Call) -> Reply | Stream:
        served, version = service.asked(call)
        given = call.query()
        for name in NOT_IN_QUERIES:
            if name in given:
                raise Problem(422, f"The query takes no {name!r}: that goes with one body of JSON.")
        try:
            options = msgspec.convert(given, bodies.options, strict=False)
        except msgspec.ValidationError as error:
            raise problem_of_body(error, msgspec.json.encode(given), bodies.options) from None
        if call.scope["http_version"] == "1.0":
            raise Problem(505, "Lines are answered as they come, which HTTP/1.0 can't: ask by HTTP/1.1.")
        asked: Asked = options.asked()
        check(version, asked)
        return Stream(_answered(call, served, version, asked, bodies.line), headers=version.headers())

    return rank_lines


async def _answered(
    call: Call, served: Served, version: Version, asked: Asked, kind: type[Any]
) -> AsyncIterator[bytes]:
    """The answers, block by block."""
    encode = msgspec.json.Encoder().encode
    async for block in _blocks(call):
        rows: list[Any] = []
        results: list[RankedRow | LineProblem] = []
        places: list[int] = []  # of the rows, among the results
        for number, line in block:
            record: Any = None
            try:
                record = _record(call, version, line, kind)
                rows.append(_row(call, version, record))
                places.append(len(results))
                results.append(RankedRow([], id=id_of(record)))
            except Problem as problem:
                results.append(_fault(number, problem, id_of(record)))
        for place, answer in zip(places, await _ranked(served, version, asked, rows), strict=True):
            id_ = results[place].id
            if isinstance(answer, Exception):
                results[place] = _fault(block[place][0], answer, id_)
            else:
                answer.id, results[place] = id_, answer
        call.rows += len(block)
        yield b"\n".join(map(encode, results)) + b"\n"


def _record(call: Call, version: Version, line: bytes | Problem | None, kind: type[Any]) -> Any:
    """What a line holds: an object of any fields where the model was trained on others than ``text``."""
    if isinstance(line, Problem):
        raise line
    if line is None:
        raise Problem(413, f"A line of the body must have at most {call.limits.body:,} bytes.")
    return decode(line, dict[str, Any] if version.text_fields not in ((), ("text",)) else kind)


def _row(call: Call, version: Version, record: Any) -> Any:
    if isinstance(record, dict):
        return text_of(version, record, call.limits)
    features = None if record.features is None else [record.features]
    return rows_of(version, call.limits, record.text, None, features)[0]


def _fault(number: int, error: Exception, id_: Any) -> LineProblem:
    return LineProblem(f"Line {number}: {error}", id_)


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
    """One result a row, or what is wrong with it; where a block fails, each row is asked by itself."""
    if not rows:
        return []
    try:
        return list(await _patiently(served, version, asked, rows))
    except (Problem, SylvanError) as error:
        if len(rows) == 1:
            return [error]
    return [(await _ranked(served, version, asked, [row]))[0] for row in rows]


async def _patiently(served: Served, version: Version, asked: Asked, rows: list[Any]) -> list[Any]:
    """As the engine answers, once it has room: lines have all the time that they need."""
    while True:
        try:
            return await served.engine.ask(
                (version, asked), rows, lambda block: answers(version, asked, block), patient=True
            )
        except Problem as problem:
            if problem.status != 429:
                raise
        await asyncio.sleep(_RETRY)


def explain_operations(service: Service) -> list[Operation]:
    """The route."""
    kind = service.bodies.explain

    async def explain(call: Call) -> Reply:
        served, version = service.asked(call)
        call.need_type(JSON)
        served.engine.check_room()
        body = decode(await call.body(), with_fields(kind, version.text_fields))
        text, features = record_at_the_top(version, body), None if body.row is None else [body.row]
        rows = rows_of(version, service.limits, text, None, features)
        call.rows = 1

        def answer(one: list[object]) -> list[Explained]:
            return [explained(version, one[0], body.label, body.features, body.examples, body.beam)]

        # A key of its own: explanations aren't computed together.
        (result,) = await served.engine.ask(object(), rows, answer)
        return Reply.of(result, version.headers())

    return [
        Operation(
            "POST", "/v1/models/{model}/explain", explain,
            "Explains why a label has its place for a text: its path in the tree, the words for and against it, the "
            "nearest training rows.",
            Explained, {JSON: kind}, parameters=(MODEL,), errors=(404, 429, 503), tag="ranking",
        )
    ]  # fmt: skip


class NearestVectors(msgspec.Struct):
    """The nearest vectors to one query, nearest first."""

    ids: list[int]
    distances: list[float]


class Found(msgspec.Struct):
    """The nearest vectors to each query, in the order of the queries."""

    results: list[NearestVectors]


def search_operations(service: Service) -> list[Operation]:
    """The route."""
    kind = service.bodies.search

    async def search(call: Call) -> Reply:
        served, version = service.asked(call)
        if version.takes != "vectors":
            raise Problem(422, f"The model {call.model!r} ranks labels; only an index of vectors is searched.")
        call.need_type(JSON)
        served.engine.check_room()
        body = decode(await call.body(), kind)
        call.rows = len(body.vectors)
        width = version.model.n_dimensions_
        for number, vector in enumerate(body.vectors):
            if len(vector) != width:
                raise Problem(
                    422,
                    f"The 'vectors' field must hold vectors of {counted(width, 'number')}. Got {len(vector)} in vector "
                    f"{number}.",
                )
        if not body.vectors:
            return Reply.of(Found([]), version.headers())
        options = (("k", body.k), ("probes", body.probes), ("candidates", body.candidates),
                   ("min_votes", body.min_votes), ("order", body.order))  # fmt: skip
        rows = await served.engine.ask((version, options), body.vectors, lambda rows: _nearest(version, options, rows))
        return Reply.of(Found(rows), version.headers())

    return [
        Operation(
            "POST", "/v1/models/{model}/search", search, "Finds the nearest vectors of an index.", Found, {JSON: kind},
            parameters=(MODEL,), errors=(404, 429, 503), tag="ranking",
        )
    ]  # fmt: skip


def _nearest(version: Version, options: tuple[tuple[str, Any], ...], rows: list[Any]) -> list[NearestVectors]:
    ids, distances = version.model.search(np.array(rows, np.float32), **dict(options))
    results = []
    for row, far in zip(ids.tolist(), distances.tolist(), strict=True):
        n = row.index(-1) if -1 in row else len(row)
        results.append(NearestVectors(row[:n], far[:n]))
    return results
