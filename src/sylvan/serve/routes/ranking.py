"""``POST /v1/models/{model}/rank``: the labels of texts or rows of features."""

from __future__ import annotations

from typing import Any

import msgspec

from sylvan.serve.asked import RankedRow, answers, check
from sylvan.serve.bodies import ids_of, record_at_the_top, rows_of, with_fields
from sylvan.serve.calls import JSON, NDJSON, Call, Handle, Reply, Stream, decode
from sylvan.serve.explained import explanations
from sylvan.serve.openapi import Operation, Parameter
from sylvan.serve.problems import Problem
from sylvan.serve.routes.bulk import NOT_IN_QUERIES
from sylvan.serve.service import Service

MODEL = Parameter("model", "The model's name.", "path")


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
