"""What is served: the list of models, the card of each, and health."""

from __future__ import annotations

from typing import Any

import msgspec

from sylvan.serve.calls import ANYONE, Call, Operation, Reply
from sylvan.serve.routes.ranking import MODEL
from sylvan.serve.service import Service
from sylvan.serve.versions import Served, Version

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class ModelLine(msgspec.Struct):
    """A model at a glance; ``message`` says why the newest version on disk isn't the one that is served."""

    name: str
    title: str
    takes: str | None
    labels: int | None
    version: str | None
    ready: bool
    message: str | None


class ModelList(msgspec.Struct):
    """The models that are served."""

    models: list[ModelLine]


class ModelCard(msgspec.Struct):
    """What there is to know of a model: its sizes, its parameters, figures of its training, what can be asked."""

    name: str
    title: str
    takes: str
    labels: int
    version: str
    ready: bool
    message: str | None
    kind: str
    owner: str = msgspec.field(name="class")
    summary: str = ""
    facts: dict[str, int] = {}
    parameters: dict[str, dict[str, Any]] = {}
    measured: dict[str, Any] | None = None
    bytes: int = 0
    written_by: str = ""
    loaded: str = ""
    calibrated: bool = False
    n_trees: int = 0
    explains: bool = False
    examples: bool = False
    updates: bool = False
    options: list[str] = []
    language: str | None = None
    fields: list[str] = []


def operations(service: Service) -> list[Operation]:
    """The routes."""

    async def list_models(call: Call) -> Reply:
        return Reply.of(ModelList([_line(served) for served in service.served.values()]))

    async def card(call: Call) -> Reply:
        served, version = service.asked(call)
        headers = version.headers()
        if served.message is None and call.header(b"if-none-match") == f'"{version.checksum}"':
            return Reply(b"", 304, headers=headers)
        return Reply.of(_card(served, version, bool(service.keyring)), headers)

    return [
        Operation("GET", "/v1/models", list_models, "Lists the models.", ModelList, errors=(503,)),
        Operation(
            "GET", "/v1/models/{model}", card, "Describes a model and what can be asked of it.",
            ModelCard, parameters=(MODEL,), errors=(404, 503),
        ),
    ]  # fmt: skip


def _line(served: Served) -> ModelLine:
    version = served.current
    return ModelLine(
        served.name, served.folder.title, None if version is None else version.takes,
        None if version is None else version.n_labels, None if version is None else version.checksum,
        version is not None, served.message,
    )  # fmt: skip


def _card(served: Served, version: Version, keyed: bool) -> ModelCard:
    card = version.card
    plain = card.as_json()
    return ModelCard(
        served.name, served.folder.title, version.takes, version.n_labels, version.checksum, True, served.message,
        card.kind, card.owner, card.summary, card.facts, plain["parameters"], card.measured, card.n_bytes,
        card.written_by, version.loaded, version.calibrated, len(version.trees), version.takes != "vectors",
        version.examples is not None or hasattr(version.inner, "nearest_with"),
        version.takes == "texts" and keyed, version.rank_options, served.folder.language, list(version.text_fields),
    )  # fmt: skip


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


def health_operations(service: Service) -> list[Operation]:
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
