"""The card of a model that is pushed: models know how to describe themselves, and this package doesn't know models."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Description:
    """A model's card in Markdown, and what the Hub reads before it."""

    text: str
    metadata: Mapping[str, Any]


_describers: list[Callable[[str, str], Description]] = []


def register_describer(describer: Callable[[str, str], Description]) -> None:
    """Say that ``describer(folder, repository)`` describes a model's folder; :mod:`sylvan.models` calls it."""
    _describers[:] = [describer]


def describe(folder: str, repository: str) -> Description:
    """The card of the model in ``folder`` as that of a repository."""
    if not _describers:
        importlib.import_module("sylvan.models")  # which nobody has needed yet
    (describer,) = _describers
    return describer(folder, repository)
