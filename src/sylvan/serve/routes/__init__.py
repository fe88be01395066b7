"""All routes, the one asked most often first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from sylvan.lazy import provided
from sylvan.serve.calls import NDJSON, Operation, Parameter
from sylvan.serve.routes import models, ranking
from sylvan.serve.service import Service

__all__ = ["all_operations"]


def all_operations(service: Service) -> list[Operation]:
    """Every route of a service, with the types of its bodies."""
    models.page_files()  # read now, so that nothing that happens to them later is seen
    annif: list[Operation] = provided["annif_operations"](service)
    operations = (*ranking.OPERATIONS, *models.OPERATIONS, *annif, *models.HEALTH, *models.PAGE)
    return [_with_types(operation, service.bodies) for operation in operations]


def _with_types(operation: Operation, types: dict[str, Any]) -> Operation:
    bodies = {media: types.get(kind, kind) for media, kind in operation.bodies.items()}
    query = _options(types["options"]) if NDJSON in bodies else operation.query
    return replace(operation, bodies=bodies, query=query)


def _options(kind: type[Any]) -> tuple[Parameter, ...]:
    """The options of lines, which are in the query."""
    (schema,) = msgspec.json.schema_components([kind])[1].values()
    return tuple(
        Parameter(name, "For lines of NDJSON; JSON has it in its body.", described)
        for name, described in schema["properties"].items()
        if name not in ranking.NOT_IN_QUERIES
    )
