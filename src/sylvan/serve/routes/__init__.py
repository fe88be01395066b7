"""All routes, the one asked most often first."""

from __future__ import annotations

from sylvan.serve.calls import Operation
from sylvan.serve.routes import annif, cards, changes, page, ranking, trees
from sylvan.serve.service import Service

__all__ = ["all_operations"]


def all_operations(service: Service) -> list[Operation]:
    """Every route of a service."""
    return [
        *ranking.operations(service, ranking.streamed(service)),
        *ranking.search_operations(service),
        *ranking.explain_operations(service),
        *trees.operations(service),
        *trees.label_operations(service),
        *cards.operations(service),
        *changes.operations(service),
        *annif.operations(service),
        *cards.health_operations(service),
        *page.operations(service),
    ]
