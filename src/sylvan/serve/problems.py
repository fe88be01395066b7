"""What goes wrong with a request: a status and a sentence, as problem+json (RFC 9457)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import inspect

PROBLEM_TYPE = "application/problem+json"

_PATH = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?(?P<path>\$.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_SHOWN = 60  # characters of a value that is shown


class ProblemBody(msgspec.Struct):
    """An error, as a client reads it (RFC 9457), with the id that stands beside it in the log."""

    title: str
    status: int
    detail: str
    request_id: str
    type: str = "about:blank"


class Problem(Exception):
    """An answer that says what is wrong; raised wherever that is found. With a ``pause``, it is sent so many seconds
    later."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, pause: float = 0.0) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.pause = status, detail, dict(headers or {}), pause

    def body(self, request_id: str) -> bytes:
        """The answer's JSON."""
        phrase = HTTPStatus(self.status).phrase
        return msgspec.json.encode(ProblemBody(phrase, self.status, self.detail, request_id))


def problem_of_body(error: Exception, data: bytes, kind: Any) -> Problem:
    """The problem with a body that isn't a ``kind``: which field, what it may be, and what was received."""
    if isinstance(error, msgspec.ValidationError):
        return Problem(422, _sentence(str(error), data, kind))
    if isinstance(error, UnicodeDecodeError):
        return Problem(400, f"The body must be UTF-8, but byte {error.start} of a string is not.")
    if isinstance(error, RecursionError):
        return Problem(400, "The body must be JSON, but it is nested too deeply.")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return Problem(400, "The body must be UTF-8, but it begins as UTF-16 does.")
    fault = str(error).removeprefix("JSON is malformed: ")
    return Problem(400, f"The body must be JSON, but it is malformed: {fault}.")


def _sentence(message: str, data: bytes, kind: Any) -> str:
    """A sentence of msgspec's words, such as "Expected `int` <= 1000 - at `$.k`", and the value that is there."""
    match = _PATH.fullmatch(message)
    assert match is not None
    fault, path = match["what"], match["path"] or "$"
    steps = _STEP.findall(path)
    place = f"The {path[2:]!r} field" if path.startswith("$.") else "The body"
    if fault.startswith("Object contains unknown field"):
        return f"{place} has no field {fault.split('`')[1]!r}."
    if fault.startswith("Object missing required field"):
        return f"{place} lacks the field {fault.split('`')[1]!r}."
    received, allowed = _received(steps, data), _allowed(inspect.type_info(kind), steps)
    if fault == "Number out of range" and allowed == "an object":  # which stands for whatever is JSON
        return f"{place} holds a number that is out of range."
    got = f" Got {received} instead." if received else ""
    return f"{place} must be {allowed}.{got}"


def _allowed(info: Any, steps: list[tuple[str, str]]) -> str:
    """What may stand at a path of a body, in words."""
    for number, (name, _) in enumerate(steps):
        for kind in info.types if isinstance(info, inspect.UnionType) else (info,):
            if name and isinstance(kind, inspect.StructType):
                info = next((each.type for each in kind.fields if each.encode_name == name), None)
            elif isinstance(kind, inspect.ListType | inspect.VarTupleType):
                info = kind.item_type
            elif isinstance(kind, inspect.DictType):
                info = kind.value_type
            else:
                continue
            break
        if info is None:
            return f"something else at step {number + 1}"
    return _words(info)


def _words(info: Any) -> str:
    if isinstance(info, inspect.UnionType):
        return " or ".join(_words(member) for member in info.types if not isinstance(member, inspect.NoneType))
    if isinstance(info, inspect.IntType | inspect.FloatType):
        kind, form = ("an int", "d") if isinstance(info, inspect.IntType) else ("a number", "g")
        low = f"[{info.ge:{form}}" if info.ge is not None else "(-inf" if info.gt is None else f"({info.gt:{form}}"
        return f"{kind} in {low}, {'inf)' if info.le is None else f'{info.le:{form}}]'}"
    if isinstance(info, inspect.StrType):
        return "a string" + _length(info, "characters")
    if isinstance(info, inspect.ListType | inspect.VarTupleType):
        return "a list" + _length(info, "entries")
    if isinstance(info, inspect.BoolType):
        return "true or false"
    return "an object"


def _length(info: Any, unit: str) -> str:
    if info.min_length and info.max_length is not None:
        return f" of {info.min_length:,} to {info.max_length:,} {unit}"
    return "" if info.max_length is None else f" of at most {info.max_length:,} {unit}"


def _received(steps: list[tuple[str, str]], data: bytes) -> str:
    """The value at a path of a body, shortened; empty where it can't be told."""
    try:
        value: Any = msgspec.json.decode(data)
        for name, index in steps:
            if index == "...":
                return ""
            value = value[name] if name else value[int(index)]
    except (msgspec.DecodeError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    if isinstance(value, str | list | dict) and len(value) > _SHOWN:
        unit = {str: "characters", list: "entries", dict: "fields"}[type(value)]
        return f"{len(value):,} {unit}"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 2 * _SHOWN else f"{text[: 2 * _SHOWN]}…"
