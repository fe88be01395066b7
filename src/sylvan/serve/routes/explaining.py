"""``POST /v1/models/{model}/explain``: why a label is, or isn't, among the answers."""

from __future__ import annotations

from sylvan.serve.bodies import record_at_the_top, rows_of, with_fields
from sylvan.serve.calls import JSON, Call, Reply, decode
from sylvan.serve.explained import Explained, explained
from sylvan.serve.openapi import Operation
from sylvan.serve.routes.ranking import MODEL
from sylvan.serve.service import Service


def operations(service: Service) -> list[Operation]:
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
