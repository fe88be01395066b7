"""The OpenAPI 3.1 document, made of the routes and of the types that parse their bodies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import msgspec

from sylvan.serve.calls import JSON, NDJSON, Handle
from sylvan.serve.problems import PROBLEM_TYPE, ProblemBody
from sylvan.version import __version__

ANYONE, KEY, ADMIN = "anyone", "key", "admin"  # who may call a route
_TEMPLATE = "#/components/schemas/{name}"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a path or query."""

    name: str
    words: str
    place: str = "query"
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True)
class Operation:
    """A method of a path."""

    method: str
    path: str  # as Starlette has it, with names in braces
    handle: Handle  # from a Call to a Reply or Stream
    words: str  # what it does, a sentence
    answer: Any = None  # of the answer's JSON; None for other media types
    # the types of the request's body by media type; an empty dict where it has none
    bodies: dict[str, Any] = field(default_factory=dict)
    answer_type: str = JSON
    parameters: tuple[Parameter, ...] = ()
    who: str = KEY  # who may call it, where keys are configured
    errors: tuple[int, ...] = ()  # statuses of problems that it may answer, beside those of all routes
    tag: str = "models"


def document(operations: Sequence[Operation], keyed: bool) -> dict[str, Any]:
    """The document of all routes; ``keyed`` where API keys are configured."""
    types: list[Any] = [ProblemBody]
    for one in operations:
        types += [kind for kind in (one.answer, *one.bodies.values()) if kind is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=_TEMPLATE)
    schema_of = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, schema_of, keyed)
    result: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Sylvan",
            "version": __version__,
            "description": "Ranks the right labels of texts, out of very many. Errors are problem+json (RFC 9457).",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if keyed:
        result["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return result


def _operation(one: Operation, schema_of: dict[int, Any], keyed: bool) -> dict[str, Any]:
    content = {one.answer_type: {} if one.answer is None else {"schema": schema_of[id(one.answer)]}}
    if NDJSON in one.bodies:
        content[NDJSON] = {}
    statuses = {*one.errors, *((401, 429) if keyed and one.who != ANYONE else ())}
    if one.bodies:
        statuses |= {400, 413, 415, 422}
    if one.who == ADMIN:
        statuses.add(403)
    responses = {"200": {"description": "The answer.", "content": content}}
    for status in sorted(statuses):
        responses[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {PROBLEM_TYPE: {"schema": schema_of[id(ProblemBody)]}},
        }
    named = [
        {"name": each.name, "in": each.place, "required": each.place == "path", "description": each.words,
         "schema": each.schema}
        for each in one.parameters
    ]  # fmt: skip
    name = re.sub(r"\W+", "_", f"{one.method.lower()}{one.path}").strip("_")
    result: dict[str, Any] = {
        "summary": one.words, "operationId": name, "tags": [one.tag], "parameters": named, "responses": responses,
    }  # fmt: skip
    if one.bodies:
        body = {kind: {"schema": schema_of[id(type_)]} for kind, type_ in one.bodies.items()}
        result["requestBody"] = {"required": True, "content": body}
    if keyed and one.who != ANYONE:
        result["security"] = [{"key": []}]
    return result
