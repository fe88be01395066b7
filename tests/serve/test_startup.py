"""How an application starts where another server than ``sylvan serve`` asks it to, by ASGI's lifespan."""

import asyncio
import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from kit.errors import raises
from serve.asgi import ask
from uvicorn.server import ServerState
from waiting import PATIENCE

from sylvan import serve
from sylvan.errors import ModelError
from sylvan.serve import ServedFolder, calls, versions
from sylvan.serve import server as module
from sylvan.serve.application import App
from sylvan.serve.versions import open_version


class Server:
    """Sends the lifespan's messages, and notes the answers."""

    def __init__(self, app: App) -> None:
        self.answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(
            app({"type": "lifespan"}, self._messages.get, self.answers.put)  # type: ignore[arg-type]
        )

    async def told(self, what: str) -> dict[str, Any]:
        self._messages.put_nowait({"type": f"lifespan.{what}"})
        return await asyncio.wait_for(self.answers.get(), PATIENCE)

    def end(self) -> None:
        self._task.cancel()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Set when a model is being opened; to be set for it to be opened."""
    opening, go = threading.Event(), threading.Event()

    def opened(folder: Any) -> Any:
        opening.set()
        assert go.wait(PATIENCE)
        return open_version(folder)

    monkeypatch.setattr("sylvan.serve.versions.open_version", opened)
    yield opening, go
    go.set()


@pytest.mark.parametrize("wait", [True, False])
def test_who_waits_has_started_when_the_models_are_open(
    wait: bool, books: Path, gate: tuple[threading.Event, threading.Event]
) -> None:
    async def scenario() -> None:
        opening, go = gate
        app = serve.app({"books": books}, wait=wait)
        server = Server(app)
        start = asyncio.get_running_loop().create_task(server.told("startup"))
        assert await asyncio.to_thread(opening.wait, PATIENCE)
        if wait:
            for _ in range(10):  # in which an answer would have come through
                await asyncio.sleep(0)
            assert not start.done()
        else:
            await start
        body = {"text": "whales at sea", "k": 1}
        early = await ask(app, "POST", "/v1/models/books/rank", body)
        assert early.status == 503 and early.headers["retry-after"] == "1" and "'books'" in early.detail
        ready = await ask(app, "GET", "/health/ready")
        assert ready.status == 503 and ready.json["ready"] is False
        go.set()
        assert (await start)["type"] == "lifespan.startup.complete"
        if wait:
            assert (await ask(app, "POST", "/v1/models/books/rank", body)).status == 200
        assert (await server.told("shutdown"))["type"] == "lifespan.shutdown.complete"
        assert not app.service.started

    asyncio.run(scenario())


@pytest.mark.parametrize("wait", [True, False])
def test_a_damaged_model_fails_the_startup_of_who_waits(wait: bool, books: Path) -> None:
    largest = max(books.glob("*.npy"), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[-1] ^= 1
    largest.write_bytes(data)

    async def scenario() -> None:
        app = serve.app({"damaged": books}, wait=wait)
        server = Server(app)
        answer = await server.told("startup")
        if wait:
            assert answer["type"] == "lifespan.startup.failed" and not app.service.started
            assert answer["message"].startswith("The model 'damaged' can't be opened: ")
            assert "its checksum is not the one in the manifest" in answer["message"]
        else:
            assert answer["type"] == "lifespan.startup.complete" and app.service.started
            await server.told("shutdown")
        assert "sylvan-engine-damaged" not in {thread.name for thread in threading.enumerate()}
        server.end()

    with suppress(asyncio.CancelledError):
        asyncio.run(scenario())


# ---------------------------------------- Sylvan's own server, in this process


@pytest.fixture
def config(books: Path) -> uvicorn.Config:
    made = uvicorn.Config(
        serve.app({"books": books}), interface="asgi3", lifespan="off", ws="none", proxy_headers=False
    )
    made.load()
    return made


def test_one_signal_drains_and_a_second_one_ends(config: uvicorn.Config) -> None:
    server = module._Server(config)
    assert not server.has_nothing
    config.workers = 2
    server.handle_exit(signal.SIGINT, None)  # the parent says what follows
    assert not config.loaded_app.service.draining
    config.workers = 1
    for forced in (False, True):
        server.handle_exit(signal.SIGTERM, None)
        assert config.loaded_app.service.draining and server.should_exit == server.force_exit == forced


def test_a_drain_ends_when_its_time_is_over(config: uvicorn.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    now, server = [100.0], module._Server(config)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(config.loaded_app, "settings", replace(config.loaded_app.settings, drain=30.0))
    server.handle_exit(signal.SIGTERM, None)
    for now[0], over in ((100.0, False), (129.9, False), (130.0, True)):
        asyncio.run(server.on_tick(1))
        assert server.should_exit == over


class Transport(asyncio.Transport):
    """Notes what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written, self.closed = b"", False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


@pytest.mark.parametrize("closing", [False, True])
@pytest.mark.parametrize(("size", "refused"), [(0, False), (1, True)])
def test_headers_that_are_too_long_are_refused_once(
    size: int, refused: bool, closing: bool, config: uvicorn.Config
) -> None:
    async def scenario() -> None:
        transport, protocol = Transport(), module.CarefulProtocol(config, ServerState(), {})
        protocol.connection_made(transport)
        head = b"GET / HTTP/1.1\r\nx: "
        transport.closed = closing
        protocol.data_received(head + b"a" * (module._HEADER_BYTES - len(head) + size))
        assert transport.written.startswith(b"HTTP/1.1 431") == (refused and not closing)
        if transport.written:  # as of every answer, the id is a header besides
            head, _, body = transport.written.decode().partition("\r\n\r\n")
            assert f"\r\nx-request-id: {json.loads(body)['request_id']}\r\n" in head
        assert transport.closed == (refused or closing)
        protocol.connection_lost(None)

    asyncio.run(scenario())


def test_workers_that_die_young_are_replaced_later_and_later(
    config: uvicorn.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # which stay pytest's
    now, workers = [100.0], module._Workers(config, [])
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "mark_process_dead", lambda pid: None)

    def dead() -> module._Process:
        process = module._Process(config, [])
        process.process = SimpleNamespace(is_alive=lambda: False, join=lambda: None, pid=1, exitcode=1)
        return process

    monkeypatch.setattr(workers, "_started", dead)
    workers.processes, waits = [dead()], []
    for seconds in (1, 1, 2, 20):
        now[0] += seconds
        workers.keep_subprocess_alive()
        waits.append(workers._wait)
    assert waits == [0.5, 1.5, 3.5, 0]
    now[0] += 1
    workers.should_exit.set()
    before = workers.processes[0]
    workers.keep_subprocess_alive()
    assert workers.processes[0] is before


@pytest.mark.parametrize(("error", "words"), [(OSError(5, "Input/output error"), "Input/output error"),
                                              (OSError("no such protocol"), "no such protocol")])  # fmt: skip
def test_a_folder_that_cannot_be_read_says_why(error: OSError, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(served: ServedFolder) -> None:
        raise error

    monkeypatch.setattr(versions, "_opened", fails)
    with raises(ModelError, "'books'", f": {words}."):
        versions.open_version(ServedFolder("m", "books"))


@pytest.mark.parametrize(("error", "seen"), [
    (RuntimeError("the handler is closed"), calls.ClientGone), (ConnectionResetError(), calls.ClientGone),
    (RuntimeError("another"), RuntimeError),
])  # fmt: skip
def test_a_client_that_goes_amid_its_answer(
    error: Exception, seen: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(calls, "_send", fails)
    with pytest.raises(seen) as caught:
        asyncio.run(calls.send_reply(None, None, None))  # type: ignore[arg-type]
    assert type(caught.value) is seen
