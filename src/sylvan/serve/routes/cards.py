"""``GET /v1/models`` and ``GET /v1/models/{model}``: what is served, and what there is to know of each."""

from __future__ import annotations

from typing import Any

import msgspec

from sylvan.serve.calls import Call, Reply
from sylvan.serve.openapi import Operation
from sylvan.serve.routes.ranking import MODEL
from sylvan.serve.service import Service
from sylvan.serve.versions import Served, Version


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
