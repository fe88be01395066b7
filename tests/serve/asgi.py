"""An application in this process, asked as an ASGI server asks it: no socket, and an event loop in a thread."""

import asyncio
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from serve.servers import Answer
from waiting import PATIENCE, until

from sylvan.serve.application import App


class Asking:
    """Asks an application that runs in the loop of another thread."""

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop) -> None:
        self.app, self.loop = app, loop

    def run(self, work: Any) -> Any:
        """A coroutine's result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def __call__(
        self, method: str, path: str, body: Any = None, *, type: str = "application/json",
        headers: dict[str, str] | None = None, parts: Iterable[bytes] | None = None,
    ) -> Answer:  # fmt: skip
        return self.run(ask(self.app, method, path, body, type=type, headers=headers, parts=parts))


async def ask(
    app: Any, method: str, path: str, body: Any = None, *, type: str = "application/json",
    headers: dict[str, str] | None = None, parts: Iterable[bytes] | None = None,
) -> Answer:  # fmt: skip
    """One request."""
    plain, _, query = path.partition("?")
    sent = {k.lower(): v for k, v in (headers or {}).items()}
    if body is not None or parts is not None:
        sent.setdefault("content-type", type)
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    pieces = [data] if parts is None else list(parts)
    messages = iter([
        {"type": "http.request", "body": piece, "more_body": at < len(pieces) - 1} for at, piece in enumerate(pieces)
    ])  # fmt: skip
    start: dict[str, Any] = {}
    received: list[bytes] = []

    async def receive() -> dict[str, Any]:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert not start
            start.update(message)
        else:
            assert start
            received.append(message.get("body", b""))

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "path": unquote(plain),
        "raw_path": plain.encode(), "query_string": query.encode(), "root_path": "", "scheme": "http",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    await app(scope, receive, send)
    given = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], given, b"".join(received))


@contextmanager
def running(app: App) -> Iterator[Asking]:
    """The application in a loop of its own, once it is ready."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asking = Asking(app, loop)
    try:
        until(lambda: asking("GET", "/health/ready").status == 200, lambda: str(asking("GET", "/health/ready").body))
        yield asking
    finally:
        asking.run(app.service.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
