"""What goes wrong with a request: a status and a sentence, as problem+json (RFC 9457)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

__all__ = ["Problem", "ProblemBody", "problem_of_body"]

_PATH = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>(?:key in )?\$.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_KINDS = {
    "int": "an int", "float": "a number", "str": "a string", "bool": "true or false", "array": "a list",
    "object": "an object", "null": "null", "int | str": "a name or an id", "int | float": "a number",
}  # fmt: skip


class ProblemBody(msgspec.Struct):
    """An error, as a client reads it (RFC 9457)."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"


class Problem(Exception):
    """An answer that says what is wrong; raised wherever that is found."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})

    def body(self) -> bytes:
        """The answer's JSON."""
        return msgspec.json.encode(ProblemBody(HTTPStatus(self.status).phrase, self.status, self.detail))


def problem_of_body(error: Exception, data: bytes) -> Problem:
    """The problem with a body that isn't what its type says: which field, what it may be, and what was received."""
    if isinstance(error, msgspec.ValidationError):
        return Problem(422, _sentence(str(error), data))
    if isinstance(error, UnicodeDecodeError):
        return Problem(400, f"The body must be UTF-8, but byte {error.start} of a string is not.")
    if isinstance(error, RecursionError):
        return Problem(400, "The body must be JSON, but it is nested too deeply.")
    what = str(error).removeprefix("JSON is malformed: ")
    return Problem(400, f"The body must be JSON, but it is malformed: {what}.")


def _sentence(message: str, data: bytes) -> str:
    """A sentence of msgspec's words, such as "Expected `int` <= 1000 - at `$.k`", and the value that is there."""
    match = _PATH.fullmatch(message)
    assert match is not None
    what, path = match["what"], match["path"] or "$"
    field = path.removeprefix("key in ").removeprefix("$").removeprefix(".")
    place = f"The {field!r} field" if field else "The body"
    if what.startswith("Object contains unknown field"):
        return f"{place} has no field {what.split('`')[1]!r}."
    if what.startswith("Object missing required field"):
        return f"{place} lacks the field {what.split('`')[1]!r}."
    expected = what.split(", got ")[0]
    allowed = re.fullmatch(r"Expected `(?P<kind>[^`]+)`(?P<rest>.*)", expected, re.DOTALL)
    if allowed is None:
        return f"{place}: {what[:1].lower()}{what[1:]}."
    kind = allowed["kind"]
    words = _KINDS.get(kind, " or ".join(_KINDS.get(each, each) for each in kind.split(" | ")))
    received = _received(path, data)
    got = f" Got {received} instead." if received else ""
    return f"{place} must be {words}{_bound(allowed['rest'])}.{got}"


def _bound(rest: str) -> str:
    """The range in words."""
    match = re.fullmatch(r" of length (<=|>=) (\d+)", rest)
    if match:
        return f" of at {'most' if match[1] == '<=' else 'least'} {int(match[2]):,} entries or characters"
    match = re.fullmatch(r" (<=|>=|<|>) (\S+)", rest)
    if match:
        return {"<=": " of at most", ">=": " of at least", "<": " below", ">": " above"}[match[1]] + f" {match[2]}"
    return rest


def _received(path: str, data: bytes) -> str:
    """The value at a path of a body, shortened; empty where it can't be told."""
    try:
        value: Any = msgspec.json.decode(data)
        for name, index in _STEP.findall(path):
            if index == "...":
                return ""
            value = value[name] if name else value[int(index)]
    except (msgspec.DecodeError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    if isinstance(value, str | list | dict) and len(value) > 40:
        kind = {str: "characters", list: "entries", dict: "fields"}[type(value)]
        return f"{len(value):,} {kind}"
    return msgspec.json.encode(value).decode()
