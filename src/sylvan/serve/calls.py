"""A request and its answer, as routes see them: thin over ASGI, as most of a request's time would else go here;
and the OpenAPI document of all operations."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import urllib.parse
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive, Scope, Send

from sylvan.serve.problems import PROBLEM_TYPE, Problem, ProblemBody, problem_of_body
from sylvan.serve.service import Service
from sylvan.serve.versions import Served, Version
from sylvan.version import __version__

_PIECE = 1 << 18  # bytes: a small body mustn't become a large one at once
_GZIP = 31  # zlib's window bits for gzip
_T = TypeVar("_T")
JSON, NDJSON = "application/json", "application/x-ndjson"
# What is read, and forgotten, of a body whose request is refused: a client that still sends reads no answer, and where
# the connection is closed meanwhile it hears of that alone.
_DRAINED, _DRAINED_SECONDS = 128 << 20, 30.0
_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BOM = b"\xef\xbb\xbf"
_SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]  # fmt: skip
ANYONE, KEY, ADMIN = "anyone", "key", "admin"  # who may call a route


@dataclass
class Reply:
    """An answer: its body as a whole, or piece by piece."""

    body: bytes = b""
    status: int = 200
    type: str = JSON
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    pieces: AsyncIterator[bytes] | None = None


class ClientGone(Exception):
    """The client has closed its connection, or was dropped as it sent too slowly."""


class Call:
    """A request: its headers, its query, its body within the limits of the server."""

    def __init__(self, scope: Scope, receive: Receive, service: Service) -> None:
        self.scope, self._receive, self.service, self.limits = scope, receive, service, service.limits
        request_id = self.header(b"x-request-id")
        self.id = request_id if _ID.fullmatch(request_id) else service.new_id()
        self.route = self.model = self.key = ""  # the template of its path, once it is known
        self.version: Version | None = None  # of the model that answers
        self.rows = self.status = 0  # rows that it asks about, for the log
        self.close = False  # whether the connection ends with the answer
        self._began = self._ended = False  # to read the body

    def header(self, name: bytes) -> str:
        """A header by its name in lower case; empty where there is none."""
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value.decode("latin-1"))
        return ""

    def authorize(self, admin: bool) -> None:
        """Refuse who has no key, the wrong one, or has asked too often."""
        keyring = self.service.keyring
        if not keyring:
            if admin:
                raise Problem(403, "Models are changed with an admin key only, and this server has no keys at all.")
            return
        words = list(filter(None, (_key_in(self.header(b"authorization")), self.header(b"x-api-key"))))
        key = next(filter(None, map(keyring.find, words)), None)  # one of them may be a proxy's
        if key is None:
            fault = "doesn't know this API key" if words else "needs an API key, as 'Authorization: Bearer KEY'"
            raise Problem(401, f"This server {fault}.", {"WWW-Authenticate": "Bearer"})
        self.key = key.name
        if admin and not key.admin:
            raise Problem(403, f"The API key {key.name!r} is no admin key.")
        wait = keyring.wait(key)
        if wait > 0:
            sentence = f"The API key {key.name!r} may ask {key.rate:g} times a second. Ask again in {wait:.2g} s."
            raise Problem(429, sentence, {"Retry-After": str(int(wait) + 1)})

    def served(self, parameter: str = "model") -> Served:
        """The model that the path names by a parameter; noted for log and metrics."""
        served = self.service.find(self.scope["path_params"][parameter])
        self.model = served.name  # not what a client made up, which would fill log and metrics
        return served

    def asked(self, parameter: str = "model") -> tuple[Served, Version]:
        """The model that the path names, and its current version."""
        served = self.served(parameter)
        self.version = version = served.version()
        return served, version

    def query(self) -> dict[str, str]:
        """The query's values."""
        return fields_of(self.scope["query_string"], "query", "ascii", 100, 422)

    def need_type(self, *allowed: str) -> str:
        """The media type of the body, one of ``allowed``; a body packed in a way that isn't known is refused."""
        media_type = self.header(b"content-type").partition(";")[0].strip().lower()
        if media_type not in allowed:
            words = " or ".join(allowed)
            raise Problem(415, f"The Content-Type must be {words}. Got {media_type or 'none'!r:.100} instead.")
        self._is_packed()
        return media_type

    def _is_packed(self) -> bool:
        """Whether the body is gzip; refuse other encodings."""
        encoding = self.header(b"content-encoding")
        word = encoding.strip().lower()
        if word not in ("", "identity", "gzip", "x-gzip"):
            words = f"The Content-Encoding must be gzip or identity. Got {encoding!r:.60} instead."
            raise Problem(415, words, {"Accept-Encoding": "gzip, identity"})
        return word.endswith("gzip")

    async def read(self, kind: type[_T], served: Served | None = None) -> _T:
        """The JSON of the body as its type; where ``served`` is busy, the body isn't read."""
        self.need_type(JSON)
        if served is not None:
            served.engine.check_room()
        return decode(await self.body(), kind)

    async def body(self) -> bytes:
        """The whole body."""
        length = self.header(b"content-length")
        if length.isdecimal():
            self._check_size(int(length))
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
            *ends, remainder = data.split(b"\n")
            for end in ends:
                size += len(end)
                yield b"".join([*parts, end]) if size <= self.limits.body else None
                parts, size = [], 0
            size += len(remainder)
            if size <= self.limits.body:
                parts.append(remainder)
            else:
                parts = []  # nor is what follows of it remembered
        yield b"".join(parts) if size <= self.limits.body else None

    async def drain(self) -> None:
        """Read what is left of the body, up to a bound, and forget it."""

        async def read() -> None:
            size = 0
            while not self._ended and size < _DRAINED:
                size += len(await self._next())

        with contextlib.suppress(ClientGone, asyncio.TimeoutError):
            await asyncio.wait_for(read(), _DRAINED_SECONDS)

    @property
    def unread(self) -> bool:
        """Whether the client sends a body of which something hasn't been read."""
        has_body = self.header(b"content-length") not in ("", "0") or self.header(b"transfer-encoding")
        waits = self.header(b"expect") and not self._began  # for a word to begin, which it doesn't get
        return bool(has_body and not waits and not self._ended)

    async def _parts(self) -> AsyncIterator[bytes]:
        """The body part by part, unpacked."""
        is_packed, member = self._is_packed(), None  # gzip may be of several members, as of ``cat a.gz b.gz``
        while not self._ended:
            data = await self._next()
            if not is_packed:
                yield data
                continue
            while data:
                member = member or zlib.decompressobj(_GZIP)
                try:
                    piece = member.decompress(data, _PIECE)
                except zlib.error as error:
                    raise Problem(400, f"The body isn't gzip, though its Content-Encoding says so: {error}.") from None
                data = member.unused_data if member.eof else member.unconsumed_tail
                member = None if member.eof else member
                if piece:
                    yield piece
                    await asyncio.sleep(0)  # other requests don't wait for all of it
        if member is not None:
            raise Problem(400, "The body's gzip ends too early: it isn't whole.")

    async def _next(self) -> bytes:
        """The next part of the body, as it came."""
        self._began = True
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._ended = True
            raise ClientGone
        self._ended = not message.get("more_body", False)
        return bytes(message.get("body", b""))

    def _check_size(self, size: int) -> None:
        if size > self.limits.body:
            self.close = True  # the rest of it may be longer than what is read of it
            raise Problem(413, f"The body must have at most {self.limits.body:,} bytes. Got {size:,} or more instead.")


def fields_of(
    data: bytes, part: str, encoding: str, most: int, twice: int, names: Collection[str] = ()
) -> dict[str, str]:
    """The fields of a query or form, of these names alone if there are any. One that is there ``twice`` is
    answered with that status."""
    try:
        text = data.decode(encoding)
        pairs = urllib.parse.parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=most)
    except ValueError:
        raise Problem(400, f"The {part} must be UTF-8, percent-encoded, and of at most {most} fields.") from None
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise Problem(twice, f"The {part} gives {name!r} twice.")
        if not names or name in names:
            values[name] = value
    return values


def decode(data: bytes, kind: type[_T]) -> _T:
    """A body as its type; a mark at its beginning that it is UTF-8 is passed over."""
    data = data.removeprefix(_BOM)
    try:
        body = msgspec.json.decode(data, type=kind)
        # Of two fields of one name the last is read: the colons of the first are too many.
        if (colons := data.count(b":")) > 1:
            fields = _FIELDS.decode(data)
            if colons > ":".join([*fields, ""]).count(":") + b"".join(fields.values()).count(b":"):
                names = [name for name, _ in json.loads(data, object_pairs_hook=list, parse_int=str)]
                raise Problem(422, f"The body gives {next(n for n in names if names.count(n) > 1)!r:.60} twice.")
        return body
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise problem_of_body(error, data, kind) from None


def convert(values: dict[str, str], kind: type[_T], status: int = 422) -> _T:
    """The strings of a form or query as what they are to be."""
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(status, problem_of_body(error, msgspec.json.encode(values), kind).detail) from None


def _key_in(authorization: str) -> str:
    """The key in an Authorization header: a bearer token, or a password where a client can show nothing else."""
    scheme, _, word = authorization.partition(" ")
    if scheme.lower() != "basic":
        return word.strip() if scheme.lower() == "bearer" else ""
    try:
        return base64.b64decode(word, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


async def send_reply(send: Send, reply: Reply, call: Call) -> None:
    """Send an answer."""
    try:
        await _send(send, reply, call)
    except OSError as error:
        raise ClientGone from error
    except RuntimeError as error:  # uvloop's, where the connection was lost in this very moment
        if "closed" in str(error):
            raise ClientGone from error
        raise


async def _send(send: Send, reply: Reply, call: Call) -> None:
    headers = [(b"content-type", reply.type.encode()), *reply.headers, *_SECURITY]
    headers.append((b"x-request-id", call.id.encode("latin-1")))
    if call.close:
        headers.append((b"connection", b"close"))
    if reply.pieces is None:
        headers.append((b"content-length", str(len(reply.body)).encode()))
    call.status = reply.status
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    unread = reply.pieces is None and call.unread
    if reply.pieces is None:
        await send({"type": "http.response.body", "body": reply.body, "more_body": unread})
    else:
        async for piece in reply.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    if unread:
        await call.drain()
    if unread or reply.pieces is not None:
        await send({"type": "http.response.body", "body": b""})


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query."""

    name: str
    words: str
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "string"})


# Of paths; a model that a path names may be missing, or not open.
_IN_PATHS = {"model": "The model's name.", "project": "The model's name.", "file": "The file's name."}
_OF_MODELS = ("{model}", "{project}")


@dataclass(frozen=True)
class Operation:
    """A method of a path."""

    method: str
    path: str  # as Starlette has it, with names in braces
    handle: Callable[[Call], Awaitable[Any]]  # gives a Reply, or what JSON is made of, of the call's version
    answer: Any = None  # of the answer's JSON; None for other media types
    # The types of the request's body by media type, or their names in `Bodies`; an empty dict where it has none.
    bodies: dict[str, Any] = field(default_factory=dict)
    answer_type: str = JSON
    query: tuple[Parameter, ...] = ()
    who: str = KEY  # who may call it, where keys are configured
    errors: tuple[int, ...] = ()  # statuses of problems that it may answer, beside those that all such routes may
    tag: str = "models"
    words: str = ""  # what it does, a sentence; by default what the handler's docstring says

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As Starlette's router calls it."""
        call: Call = scope["sylvan.call"]
        call.route = f"{self.method} {self.path}"
        if self.who != ANYONE:
            call.authorize(self.who == ADMIN)
        if scope.get("query_string") and (self.query or self.bodies):  # others pass over what gets round caches
            lines = NDJSON not in self.bodies or NDJSON in call.header(b"content-type").lower()
            names = [each.name for each in self.query if lines]
            for name in call.query():
                if name not in names:
                    where = f", but {', '.join(names)}" if names else ": fields go into the body"
                    raise Problem(422, f"The query has no field {name!r:.60}{where}.")
        reply = await self.handle(call)
        if not isinstance(reply, Reply):
            reply = Reply(msgspec.json.encode(reply), headers=[] if call.version is None else call.version.headers)
        await send_reply(send, reply, call)

    def described(self, schema_of: dict[int, Any], keyed: bool) -> dict[str, Any]:
        """What the document says of it."""
        content = {self.answer_type: {} if self.answer is None else {"schema": schema_of[id(self.answer)]}}
        if NDJSON in self.bodies:
            content[NDJSON] = {}
        keyed = keyed and self.who != ANYONE
        statuses = {*self.errors, *((401, 429) if keyed else ()), *((403,) if self.who == ADMIN else ())}
        statuses.update((400, 413, 415, 422) if self.bodies else ())
        statuses.update((404, 503) if any(name in self.path for name in _OF_MODELS) else ())
        responses = {"200": {"description": "The answer.", "content": content}}
        problem = {PROBLEM_TYPE: {"schema": schema_of[id(ProblemBody)]}}
        for status in sorted(statuses):
            responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": problem}
        in_path = [Parameter(name, _IN_PATHS[name]) for name in re.findall(r"\{(\w+)\}", self.path)]
        parameters = [
            {"name": each.name, "in": place, "required": place == "path", "description": each.words,
             "schema": each.schema}
            for place, several in (("path", in_path), ("query", self.query)) for each in several
        ]  # fmt: skip
        result: dict[str, Any] = {
            "summary": self.words or " ".join((self.handle.__doc__ or "").split()),
            "operationId": re.sub(r"\W+", "_", f"{self.method.lower()}{self.path}").strip("_"),
            "tags": [self.tag], "parameters": parameters, "responses": responses,
        }  # fmt: skip
        if self.bodies:
            body = {kind: {"schema": schema_of[id(type_)]} for kind, type_ in self.bodies.items()}
            result["requestBody"] = {"required": True, "content": body}
        return {**result, "security": [{"key": []}]} if keyed else result


def document(operations: Sequence[Operation], keyed: bool) -> dict[str, Any]:
    """The document of all routes; ``keyed`` where API keys are configured."""
    types: list[Any] = [ProblemBody]
    for each in operations:
        types += [kind for kind in (each.answer, *each.bodies.values()) if kind is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = each.described(schema_of, keyed)
    security = {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}} if keyed else {}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sylvan",
            "version": __version__,
            "description": "Ranks the right labels of texts, out of very many. Errors are problem+json (RFC 9457).",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components, **security},
    }
