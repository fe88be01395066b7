"""Rankings of any number of rows: NDJSON in, NDJSON out, in blocks, so that memory stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from sylvan.errors import SylvanError
from sylvan.serve.asked import Asked, RankedRow, answers, check
from sylvan.serve.bodies import id_of, rows_of, text_of
from sylvan.serve.calls import Call, Handle, Reply, Stream, decode
from sylvan.serve.problems import Problem, problem_of_body
from sylvan.serve.service import Service
from sylvan.serve.versions import Served, Version

NOT_IN_QUERIES = ("allowed", "denied", "explain")

_BLOCK, _BLOCK_BYTES = 256, 1 << 20  # lines ranked together, and their bytes
_RETRY = 0.02  # seconds until a block that found no room asks again


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
