"""One route as data: the router is made of it, and so is the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sylvan.serve.calls import JSON, Handle

ANYONE, KEY, ADMIN = "anyone", "key", "admin"  # who may call a route


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
