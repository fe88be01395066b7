"""All routes, the one asked most often first."""

from __future__ import annotations

from sylvan.serve.openapi import Operation
from sylvan.serve.routes import annif, bulk, cards, changes, explaining, health, labels, page, ranking, searching, trees
from sylvan.serve.service import Service

__all__ = ["all_operations"]


def all_operations(service: Service) -> list[Operation]:
    """Every route of a service."""
    return [
        *ranking.operations(service, bulk.streamed(service)),
        *searching.operations(service),
        *explaining.operations(service),
        *trees.operations(service),
        *labels.operations(service),
        *cards.operations(service),
        *changes.operations(service),
        *annif.operations(service),
        *health.operations(service),
        *page.operations(service),
    ]
