"""The server around the application: a socket, one process or several, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import gc
import glob
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from types import FrameType
from typing import Any

import httptools
import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from sylvan.errors import ModelError, ParameterError
from sylvan.serve.application import App
from sylvan.serve.problems import PROBLEM_TYPE, Problem
from sylvan.serve.service import SHARED_FOLDER, say
from sylvan.serve.settings import Settings, checked

_HEADER_BYTES = 64 << 10
_LEAST_RATE = 4096  # bytes of a body a second, on average, that a client must send after its first seconds
_BACKLOG = 2048
_SHARED_MEMORY, _PREFIX = "/dev/shm", "sylvan-metrics-"
_YOUNG, _LONGEST_WAIT = 10.0, 30.0  # seconds
_GARBAGE = (20_000, 20, 50)  # objects, and collections of each generation, between two of the garbage collector
_SWITCH = 0.0005  # seconds after which a thread in Python gives way to the event loop; Python's own 5 ms would be felt


class CarefulProtocol(HttpToolsProtocol):
    """Clients have some seconds for their headers, as an application's limits say, and again until a rate counts. Who
    asks for another protocol is answered in this one."""

    def connection_made(self, transport: Any) -> None:
        """Begin to watch."""
        self._slow: float = self.config.loaded_app.settings.limits.slow
        self._in_headers, self._n_header_bytes, self._received = True, 0, 0
        self._timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_headers:
            self._n_header_bytes += len(data)
        else:
            self._received += len(data)
        self._unset_keepalive_if_required()
        while data:
            try:
                self.parser.feed_data(data)
                data = b""
            # The parser takes such a request to end with its headers, so that its body would be read as the next one:
            # it is parsed again, without its wish. CONNECT, which is one by itself, becomes no method, and refused.
            except httptools.HttpParserUpgrade as upgrade:
                method = self.parser.get_method().replace(b"CONNECT", b"?")
                head = [b"%b %b HTTP/%b" % (method, self.url, self.parser.get_http_version().encode())]
                head += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
                data = b"\r\n".join([*head, b"", data[upgrade.args[0] :]])
                self.parser = httptools.HttpRequestParser(self)
            except httptools.HttpParserError:
                self._drop(400, "The request must be HTTP, but it is malformed.")
                return
        if self._in_headers and self._n_header_bytes > _HEADER_BYTES and not self.transport.is_closing():
            self._drop(431, f"The request's headers must have at most {_HEADER_BYTES:,} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True
        self._start_timer()

    def on_headers_complete(self) -> None:
        if not self.parser.should_upgrade():
            self._in_headers = False
            self._n_header_bytes = self._received = 0
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            self._stop_timer()
            super().on_message_complete()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._since = self.loop.time()
            self._timer = self.loop.call_later(self._slow, self._look)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Time for the headers, or for as much of the body as has come, is over."""
        self._timer = None
        if self.transport.is_closing():
            return
        now = self.loop.time()
        if self._in_headers:
            allowed = self._since + self._slow
        elif self.flow.read_paused:  # it is we who don't take it
            self._since, self._received, allowed = now, 0, now + self._slow
        else:
            allowed = self._since + self._slow + self._received / _LEAST_RATE
        if now >= allowed - 0.001:
            self._drop(408, "The request must be sent faster.")
        else:
            self._timer = self.loop.call_later(max(0.05, min(allowed - now, self._slow)), self._look)

    def _drop(self, status: int, detail: str) -> None:
        """Close the connection, with an answer where none has begun."""
        if self.cycle is None or self.cycle.response_complete or not (self.cycle.response_started or self.pipeline):
            body = Problem(status, detail).body(request_id := self.config.loaded_app.service.new_id())
            head = f"content-type: {PROBLEM_TYPE}\r\ncontent-length: {len(body)}\r\nx-request-id: {request_id}\r\n"
            self.transport.write(STATUS_LINE[status] + head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()


class _Server(uvicorn.Server):
    """uvicorn's server that drains at the first signal, ends at the second, and looks at its models at SIGHUP."""

    _told: float | None = None  # when it was told to end
    has_nothing = False  # to serve: no model could be opened
    _parent = 0

    @property
    def _app(self) -> App:
        app = self.config.loaded_app
        assert isinstance(app, App)
        return app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """As Python calls it between two instructions."""
        if self.config.workers > 1 and sig == signal.SIGINT:
            return  # Ctrl-C reaches every process of the terminal; the parent says what follows
        if self._told is None:
            self._told = time.monotonic()
            app = getattr(self.config, "loaded_app", None)  # there is none yet while the server starts
            if isinstance(app, App):
                app.service.draining = True
        else:
            self.should_exit = self.force_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and hear SIGHUP."""
        self._parent = os.getppid()
        sys.setswitchinterval(_SWITCH)
        gc.set_threshold(*_GARBAGE)
        if hasattr(signal, "SIGHUP"):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._look_again)
        await super().startup(sockets)
        self._settling = asyncio.get_running_loop().create_task(self._settle())

    def _look_again(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._app.service.reload_all())

    async def _settle(self) -> None:
        """Once the models are open: what is there by then stays, so that the garbage collector needn't go through it.
        Under load it would, several times a second and for some 40 ms each time, which every request then waits for; so
        too, without other thresholds, through what hundreds of connections hold."""
        await self._app.service.opened()
        if self.config.workers == 1 and not self._app.service.has_open:
            self.has_nothing = self.should_exit = True
        gc.collect()
        gc.freeze()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; a worker whose parent is gone ends too."""
        if self.config.workers > 1 and os.getppid() != self._parent and self._told is None:
            self._told = time.monotonic()
        if self._told is not None and not self.should_exit:
            self._app.service.draining = True
            self.should_exit = time.monotonic() - self._told >= self._app.settings.drain
        return await super().on_tick(counter)


class _Workers(Multiprocess):
    """uvicorn's parent of several workers: it restarts those that die, hands SIGHUP on, and ends them all at last."""

    _wait = _again_at = 0.0  # seconds to the next start of a worker, and when that may be

    def init_processes(self) -> None:
        """Start the workers."""
        self.processes.extend(self._started() for _ in range(self.processes_num))

    def _started(self) -> Any:
        process = _Process(self.config, self.sockets)
        process.start()
        return process

    def keep_subprocess_alive(self) -> None:
        """Replace the workers that have died; those that die young less and less often."""
        for number, process in enumerate(self.processes):
            now = time.monotonic()
            # Whether the process is there: its answer to a ping says no more, and a worker that starts has none yet.
            if self.should_exit.is_set() or process.process.is_alive() or now < self._again_at:
                continue
            process.join()
            young = isinstance(process, _Process) and now - process.begun < _YOUNG
            self._wait = min(_LONGEST_WAIT, 2 * self._wait + 0.5) if young else 0.0
            self._again_at = now + self._wait
            say(f"Worker {process.pid} has ended (exit code {process.exitcode}); another one takes its place.")
            mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
            self.processes[number] = self._started()

    def handle_ttin(self) -> None:
        """Start one worker more."""
        self.processes_num += 1
        self.processes.append(self._started())

    def handle_hup(self) -> None:
        """Have the workers look at their models."""
        for process in self.processes:
            if process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGHUP)

    def join_all(self) -> None:
        """Wait until the workers have drained; a second signal ends them."""
        self.signal_queue.clear()
        while any(process.process.is_alive() for process in self.processes):
            if {signal.SIGINT, signal.SIGTERM} & set(self.signal_queue):
                for process in self.processes:
                    process.process.kill()
            time.sleep(0.05)
        super().join_all()


class _Process(Process):
    """A worker, whose server is ours."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.begun = time.monotonic()

    @property
    def server(self) -> uvicorn.Server:
        """Made in the worker, when it is first asked for."""
        self._server = self._server or _Server(config=self.config)
        return self._server


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket at an address."""
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ParameterError(f"The host {host!r} is no address of this machine: {reason}.") from error
    family, *_, address = places[0]
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:  # who asks before a worker is there waits in the backlog
        bound = socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ParameterError(f"Port {port} of {host} is in use already: give another --port.") from error
        raise ParameterError(f"{host}:{port} can't be listened at: {os.strerror(error.errno or 0)}.") from error
    bound.set_inheritable(True)
    return bound


def _shared_folder(ends: contextlib.ExitStack) -> str:
    """A folder in which workers count together, locked until the end. In memory where that can be: on a full disk, a
    worker that counts into a mapped file is ended. What servers that were killed have left there is removed."""
    if not os.access(_SHARED_MEMORY, os.W_OK | os.X_OK):
        return tempfile.mkdtemp(prefix=_PREFIX)
    import fcntl  # which is where that memory is

    def lock(folder: str) -> str:
        ends.callback(os.close, descriptor := os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return folder

    for left in glob.glob(os.path.join(_SHARED_MEMORY, f"{_PREFIX}*")):
        with contextlib.suppress(OSError):  # in use, or another user's
            if time.time() - os.stat(left).st_mtime > _YOUNG:  # one that is being made isn't locked yet
                shutil.rmtree(lock(left))
    return lock(tempfile.mkdtemp(prefix=_PREFIX, dir=_SHARED_MEMORY))


def serve(settings: Settings) -> None:
    """Serve until a signal ends it: SIGTERM or Ctrl-C drain, a second one ends at once."""
    settings = checked(settings)
    bound = bound_socket(settings.host, settings.port)
    port = bound.getsockname()[1]
    with contextlib.ExitStack() as ends:
        ends.callback(bound.close)
        if hasattr(signal, "SIGHUP"):  # until it is heard, it mustn't end what is starting
            ends.callback(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_IGN))
        if settings.workers > 1:
            os.environ[SHARED_FOLDER] = shared = _shared_folder(ends)
            ends.callback(shutil.rmtree, shared, ignore_errors=True)
            ends.callback(os.environ.pop, SHARED_FOLDER, None)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        say(f"Listening at http://{host}:{port} with {settings.workers} worker{'s' * (settings.workers > 1)}.")
        config = uvicorn.Config(
            functools.partial(App, settings), factory=True, host=settings.host, port=port, workers=settings.workers,
            interface="asgi3", lifespan="on", ws="none", http=CarefulProtocol, access_log=False, log_config=None,
            log_level="error", backlog=_BACKLOG, server_header=False, proxy_headers=False, timeout_keep_alive=75,
            timeout_graceful_shutdown=int(settings.limits.seconds) + 5,
        )  # fmt: skip
        if settings.workers > 1:
            _Workers(config, [bound]).run()
        else:
            server = _Server(config)
            server.run([bound])
            if server.has_nothing:
                raise ModelError("There is nothing to serve: none of the models can be opened, for the reasons above.")
