"""Health, metrics and the OpenAPI document."""

from __future__ import annotations

import msgspec

from sylvan.serve.calls import Call, Reply
from sylvan.serve.openapi import ANYONE, Operation
from sylvan.serve.service import Service

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class ModelHealth(msgspec.Struct):
    """Whether a model can answer, by which version, and what is wrong with it or with a newer one, if so."""

    ready: bool
    version: str | None
    message: str | None


class Readiness(msgspec.Struct):
    """Whether the server can answer: it has looked at all of its models, and at least one is open."""

    ready: bool
    draining: bool
    models: dict[str, ModelHealth]


class Liveness(msgspec.Struct):
    """That the server's process answers at all."""

    live: bool


def operations(service: Service) -> list[Operation]:
    """The routes; KServe's names for health besides."""

    async def live(call: Call) -> Reply:
        return Reply.of(Liveness(True))

    async def ready(call: Call) -> Reply:
        found = service.readiness()
        reply = Reply.of(found)
        if not found["ready"]:
            reply.status = 503
            reply.headers.append((b"retry-after", b"1"))
        return reply

    async def metrics(call: Call) -> Reply:
        return Reply(service.metrics.text(), type=_PROMETHEUS)

    async def openapi(call: Call) -> Reply:
        return Reply(service.openapi)

    return [
        *(Operation("GET", path, live, "Says that the process lives.", Liveness, who=ANYONE, tag="health")
          for path in ("/health/live", "/v2/health/live")),
        *(Operation("GET", path, ready, "Says whether models answer, and what is wrong with each.", Readiness,
                    who=ANYONE, errors=(503,), tag="health") for path in ("/health/ready", "/v2/health/ready")),
        Operation("GET", "/metrics", metrics, "Counts and times, for Prometheus.", answer_type="text/plain",
                  tag="health"),
        Operation("GET", "/openapi.json", openapi, "This document.", who=ANYONE, tag="health"),
    ]  # fmt: skip
