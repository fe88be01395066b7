"""A request and its answer, as routes see them: thin over ASGI, as most of a request's time would else go here;
and the OpenAPI document of all operations."""

from __future__ import annotations

import asyncio
import contextlib
import re
import urllib.parse
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive, Scope, Send

from sylvan.serve.problems import PROBLEM_TYPE, Problem, ProblemBody, problem_of_body
from sylvan.serve.settings import Limits
from sylvan.version import __version__

_PIECE = 1 << 18  # bytes: a small body mustn't become a large one at once
_GZIP = 31  # zlib's window bits for gzip
_T = TypeVar("_T")
JSON, NDJSON = "application/json", "application/x-ndjson"
# What is read, and forgotten, of a body whose request is refused: a client that still sends reads no answer, and where
# the connection is closed meanwhile it hears of that alone.
_DRAINED, _DRAINED_SECONDS = 128 << 20, 30.0
_BOM = b"\xef\xbb\xbf"
ANYONE, KEY, ADMIN = "anyone", "key", "admin"  # who may call a route
_TEMPLATE = "#/components/schemas/{name}"


class Gunzip:
    """What unpacks a body; it may be of several members, as ``cat a.gz b.gz`` makes one."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._ended = True  # between two members, or before the first

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What a part of the body unpacks to."""
        while data:
            try:
                piece = self._member.decompress(data, _PIECE)
            except zlib.error as error:
                raise Problem(400, f"The body isn't gzip, though its Content-Encoding says so: {error}.") from None
            self._ended = self._member.eof
            data = self._member.unconsumed_tail
            if self._ended:
                data, self._member = self._member.unused_data, zlib.decompressobj(_GZIP)
            if piece:
                yield piece

    def end(self) -> None:
        """Refuse a body that ends too early."""
        if not self._ended:
            raise Problem(400, "The body's gzip ends too early: it isn't whole.")


def unpacker_of(encoding: str) -> Gunzip | None:
    """What unpacks bodies of a Content-Encoding; None where they aren't packed."""
    word = encoding.strip().lower()
    if word in ("", "identity"):
        return None
    if word in ("gzip", "x-gzip"):
        return Gunzip()
    words = f"The Content-Encoding must be gzip or identity. Got {encoding!r:.60} instead."
    raise Problem(415, words, {"Accept-Encoding": "gzip, identity"})


@dataclass
class Reply:
    """An answer whose body is there as a whole."""

    body: bytes = b""
    status: int = 200
    type: str = JSON
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)

    @classmethod
    def of(cls, value: Any, headers: list[tuple[bytes, bytes]] | None = None) -> Reply:
        """The JSON of a value."""
        return cls(msgspec.json.encode(value), headers=headers or [])


@dataclass
class Stream:
    """An answer whose body comes piece by piece."""

    pieces: AsyncIterator[bytes]
    type: str = NDJSON
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class ClientGone(Exception):
    """The client has closed its connection, or was dropped as it sent too slowly."""


class Call:
    """A request: its headers, its query, its body within the limits of the server."""

    def __init__(self, scope: Scope, receive: Receive, limits: Limits, id_: str) -> None:
        self.scope, self._receive, self.limits, self.id = scope, receive, limits, id_
        self.route = self.model = self.key = self.version = ""  # the template of its path, once it is known
        self.rows = self.status = 0  # rows that it asks about, for the log
        self.close = False  # whether the connection ends with the answer
        self._began = self._ended = False  # to read the body

    def header(self, name: bytes) -> str:
        """A header by its name in lower case; empty where there is none."""
        for known, value in self.scope["headers"]:
            if known == name:
                return str(value.decode("latin-1"))
        return ""

    @property
    def params(self) -> dict[str, str]:
        """What the path's template names."""
        result: dict[str, str] = self.scope.get("path_params", {})
        return result

    def query(self) -> dict[str, str]:
        """The query's values."""
        try:
            pairs = urllib.parse.parse_qsl(
                self.scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
            )
        except ValueError:
            raise Problem(400, "The query must be UTF-8, percent-encoded, and of at most 100 fields.") from None
        values: dict[str, str] = {}
        for name, value in pairs:
            if name in values:
                raise Problem(422, f"The query gives {name!r} twice.")
            values[name] = value
        return values

    def need_type(self, *allowed: str) -> str:
        """The media type of the body, one of ``allowed``; a body packed in a way that isn't known is refused."""
        given = self.header(b"content-type").partition(";")[0].strip().lower()
        if given not in allowed:
            words = " or ".join(allowed)
            raise Problem(415, f"The Content-Type must be {words}. Got {given or 'none'!r:.100} instead.")
        unpacker_of(self.header(b"content-encoding"))
        return given

    async def body(self) -> bytes:
        """The whole body."""
        self._check_length()
        parts, size = [], 0
        async for data in self._parts():
            size += len(data)
            self._check_size(size)
            parts.append(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def lines(self) -> AsyncIterator[bytes | None]:
        """The lines of a body of any length; None in place of one that is longer than the limit."""
        parts: list[bytes] = []  # of the line that hasn't ended
        size = 0
        async for data in self._parts():
            *ends, rest = data.split(b"\n")
            for end in ends:
                size += len(end)
                yield b"".join([*parts, end]) if size <= self.limits.body else None
                parts, size = [], 0
            size += len(rest)
            if size <= self.limits.body:
                parts.append(rest)
            else:
                parts = []  # nor is what follows of it remembered
        yield b"".join(parts) if size <= self.limits.body else None

    async def drain(self) -> None:
        """Read what is left of the body, up to a bound, and forget it."""
        with contextlib.suppress(ClientGone, asyncio.TimeoutError):
            await asyncio.wait_for(self._drain(), _DRAINED_SECONDS)

    async def _drain(self) -> None:
        size = 0
        while not self._ended and size < _DRAINED:
            size += len(await self._next())

    @property
    def unread(self) -> bool:
        """Whether the client sends a body of which something hasn't been read."""
        has_body = self.header(b"content-length") not in ("", "0") or self.header(b"transfer-encoding")
        waits = self.header(b"expect") and not self._began  # for a word to begin, which it doesn't get
        return bool(has_body and not waits and not self._ended)

    async def _parts(self) -> AsyncIterator[bytes]:
        """The body part by part, unpacked."""
        unpacker = unpacker_of(self.header(b"content-encoding"))
        while not self._ended:
            data = await self._next()
            if unpacker is None:
                yield data
                continue
            for piece in unpacker.pieces(data):
                yield piece
                await asyncio.sleep(0)  # other requests don't wait for all of it
        if unpacker is not None:
            unpacker.end()

    async def _next(self) -> bytes:
        """The next part of the body, as it came."""
        self._began = True
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._ended = True
            raise ClientGone
        self._ended = not message.get("more_body", False)
        return bytes(message.get("body", b""))

    def _check_length(self) -> None:
        given = self.header(b"content-length")
        if given.isdecimal():
            self._check_size(int(given))

    def _check_size(self, size: int) -> None:
        if size > self.limits.body:
            self.close = True  # the rest of it may be longer than what is read of it
            raise Problem(413, f"The body must have at most {self.limits.body:,} bytes. Got {size:,} or more instead.")


def decode(data: bytes, kind: type[_T]) -> _T:
    """A body as its type; a mark at its beginning that it is UTF-8 is passed over."""
    data = data.removeprefix(_BOM)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise problem_of_body(error, data, kind) from None


Handle = Callable[[Call], Awaitable["Reply | Stream"]]


async def send_reply(send: Send, reply: Reply | Stream, call: Call) -> None:
    """Send an answer."""
    try:
        await _send(send, reply, call)
    except OSError as error:
        raise ClientGone from error
    except RuntimeError as error:  # uvloop's, where the connection was lost in this very moment
        if "closed" in str(error):
            raise ClientGone from error
        raise


async def _send(send: Send, reply: Reply | Stream, call: Call) -> None:
    headers = [(b"content-type", reply.type.encode()), *reply.headers, (b"x-request-id", call.id.encode("latin-1"))]
    if call.close:
        headers.append((b"connection", b"close"))
    if isinstance(reply, Stream):
        call.status = 200
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for piece in reply.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    headers.append((b"content-length", str(len(reply.body)).encode()))
    call.status = reply.status
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body, "more_body": call.unread})
    if call.unread:
        await call.drain()
        await send({"type": "http.response.body", "body": b""})


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
