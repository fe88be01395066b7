"""``GET /v1/models/{model}/labels``: the labels that a prefix completes to."""

from __future__ import annotations

import asyncio

import msgspec

from sylvan.serve.calls import Call, Reply
from sylvan.serve.openapi import Operation, Parameter
from sylvan.serve.problems import Problem
from sylvan.serve.routes.ranking import MODEL
from sylvan.serve.service import Service

_MOST, _LONGEST = 100, 1000


class MatchingLabel(msgspec.Struct):
    """A label, its id, what people call it, and the number of training rows that have it."""

    label: str | int
    id: int
    name: str
    rows: int | None


class MatchingLabels(msgspec.Struct):
    """Labels in alphabetical order; those whose whole name begins with the prefix first."""

    labels: list[MatchingLabel]


def number_in(query: dict[str, str], name: str, usual: int, low: int, high: int) -> int:
    """A whole number of a query."""
    word = query.get(name, str(usual))
    if not word.isascii() or not word.isdecimal() or len(word) > 9 or not low <= int(word) <= high:
        raise Problem(422, f"The {name!r} parameter must be an int in [{low}, {high}]. Got {word!r:.60} instead.")
    return int(word)


def operations(service: Service) -> list[Operation]:
    """The route."""

    async def labels(call: Call) -> Reply:
        _, version = service.asked(call)
        if version.takes == "vectors":
            raise Problem(422, f"The model {call.model!r} is an index of vectors: it has no labels.")
        query = call.query()
        prefix, limit = query.get("prefix", ""), number_in(query, "limit", 20, 1, _MOST)
        if len(prefix) > _LONGEST:
            raise Problem(422, f"The 'prefix' parameter must have at most {_LONGEST} characters. Got {len(prefix)}.")
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, version.complete, prefix, limit)
        matching = [MatchingLabel(one.label, one.id, one.name, one.rows) for one in found]
        return Reply.of(MatchingLabels(matching), version.headers())

    limit_schema = {"type": "integer", "minimum": 1, "maximum": _MOST, "default": 20}
    return [
        Operation(
            "GET", "/v1/models/{model}/labels", labels, "Lists labels by how their names, or words in them, begin.",
            MatchingLabels, parameters=(
                MODEL, Parameter("prefix", "How the name begins.", schema={"type": "string", "maxLength": _LONGEST}),
                Parameter("limit", "How many labels at most.", schema=limit_schema),
            ), errors=(400, 404, 422, 503),
        )
    ]  # fmt: skip
