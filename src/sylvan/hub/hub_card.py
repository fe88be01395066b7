"""A model's card as the README.md of a repository on the Hugging Face Hub, with the metadata that the Hub reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sylvan import store
from sylvan.hub.card import Card, card_of
from sylvan.hub.card_text import as_markdown
from sylvan.models.base import Estimator
from sylvan.store.registry import rebuild

_LEVELS, _BRANCHES, _LABELS = 2, 6, 10  # what is shown of a tree and of the labels
_NAMES = {"P": "precision", "R": "recall", "nDCG": "ndcg"}  # the Hub's, for measures that it knows


@dataclass(frozen=True)
class Description:
    """A model's card in Markdown, and what the Hub reads before it."""

    text: str
    metadata: Mapping[str, Any]


def hub_description(folder: str, repository: str) -> Description:
    """The card of the model in ``folder`` as that of a repository."""
    state = store.load(folder)
    model = rebuild(state)
    card = card_of(state, model, folder, levels=_LEVELS, branches=_BRANCHES, n_labels=_LABELS)
    task = _task(model)
    metadata: dict[str, Any] = {"library_name": "sylvan", "tags": ["sylvan", "extreme-classification", card.kind]}
    if task is not None:
        metadata["pipeline_tag"] = task
    if card.measured is not None:
        metadata["model-index"] = [_figures(card, task or "other", repository)]
    return Description(as_markdown(card, repository), metadata)


def _task(model: Any) -> str | None:
    """What the Hub calls the task of a model that ranks labels."""
    if not isinstance(model, Estimator):
        return None
    return "text-classification" if model.takes_texts else "tabular-classification"


def _figures(card: Card, task: str, repository: str) -> dict[str, Any]:
    """The figures that training took, in the Hub's form; shares of 1."""
    measured = card.measured or {}
    result = {
        "task": {"type": task},
        "dataset": {"name": f"{measured['on']} ({measured['rows']:,} rows)", "type": "unknown"},
        "metrics": list(_metrics(measured["measures"])),
    }
    return {"name": repository.partition("/")[2], "results": [result]}


def _metrics(measures: dict[str, dict[str, float]]) -> Iterator[dict[str, Any]]:
    for name, values in measures.items():
        for at, value in sorted(values.items(), key=lambda item: int(item[0])):
            kind = f"{_NAMES.get(name, name.lower())}_at_{at}"
            yield {"type": kind, "value": round(float(value), 4), "name": f"{name}@{at}"}
