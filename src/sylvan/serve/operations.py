"""One route as data: the router is made of it, and so is the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sylvan.serve.calls import JSON, Handle

__all__ = ["ADMIN", "ANYONE", "KEY", "Operation", "Parameter"]

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
    """A method of a path.

    Attributes
    ----------
    method, path : str
        The path as Starlette has it, with names in braces.
    handle : callable
        From a Call to a Reply or Stream.
    words : str
        What it does, a sentence.
    answer : type, optional
        Of the answer's JSON; None for other media types.
    bodies : dict of str to type
        The types of the request's body by media type; an empty dict where it has none.
    answer_type : str
    parameters : tuple of Parameter
    who : {"anyone", "key", "admin"}
        Who may call it, where keys are configured.
    errors : tuple of int
        Statuses of problems that it may answer, beside those of all routes.
    tag : str
    """

    method: str
    path: str
    handle: Handle
    words: str
    answer: Any = None
    bodies: dict[str, Any] = field(default_factory=dict)
    answer_type: str = JSON
    parameters: tuple[Parameter, ...] = ()
    who: str = KEY
    errors: tuple[int, ...] = ()
    tag: str = "models"
