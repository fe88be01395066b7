"""`sylvan serve` as a process of its own, and clients that need nothing but sockets."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import child_processes
import pytest
from waiting import PATIENCE, until

from sylvan import store

JSON, NDJSON, PROBLEM = "application/json", "application/x-ndjson", "application/problem+json"
ADMIN_KEY = "the-key-of-who-may-change-models"
PACKAGES = ("uvicorn", "starlette", "msgspec", "prometheus_client")
pytestmark = [
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in PACKAGES), reason='needs pip install "sylvan[serve]"'
    ),
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes under /proc"),
]
LISTENING = re.compile(r"^Listening at http://(\S+):(\d+) ", re.M)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def type(self) -> str:
        return self.headers["content-type"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        """Lines of JSON."""
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def detail(self) -> str:
        """The sentence of a problem, which must be one as RFC 9457 has it."""
        assert self.type == PROBLEM, self
        problem = self.json
        assert set(problem) == {"type", "title", "status", "detail", "request_id"}
        assert problem["status"] == self.status and problem["type"] == "about:blank" and problem["title"]
        assert problem["request_id"] == self.headers["x-request-id"]
        return str(problem["detail"])


class Connection:
    """One connection that is kept."""

    def __init__(self, port: int, timeout: float = PATIENCE) -> None:
        self._inner = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Ask; a body that isn't bytes goes as JSON."""
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("Content-Type", JSON)
        self._inner.request(method, path, body, sent)
        response = self._inner.getresponse()
        content = response.read()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, content)

    @property
    def socket(self) -> socket.socket:
        """What it goes through, once something has been asked."""
        return self._inner.sock

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Server:
    """A server that runs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, errors: Path) -> None:
        self.process = process
        self.port = 0
        self._log, self._errors = log, errors

    # What it says.

    @property
    def errors(self) -> str:
        return self._errors.read_text("utf-8", "replace")

    @property
    def log(self) -> list[dict[str, Any]]:
        """The lines of its log, of requests that it has finished."""
        text = self._log.read_text("utf-8", "strict")
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def logged(self, **wanted: Any) -> dict[str, Any]:
        """The first line of the log with such values."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found.extend(line for line in self.log if all(line[name] == value for name, value in wanted.items()))
            return bool(found)

        until(is_there, f"no line of the log has {wanted}")
        return found[0]

    # Asking it.

    def connect(self, timeout: float = PATIENCE) -> Connection:
        return Connection(self.port, timeout)

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Ask once, over a connection of its own."""
        with self.connect() as connection:
            return connection.ask(method, path, body, headers)

    def rank(self, model: str = "first", **body: Any) -> Answer:
        return self.ask("POST", f"/v1/models/{model}/rank", body)

    def lines(self, lines: bytes, model: str = "first", **options: Any) -> Answer:
        """NDJSON at once; fit for some thousand lines."""
        path = f"/v1/models/{model}/rank" + ("?" + urlencode(options) if options else "")
        return self.ask("POST", path, lines, {"Content-Type": NDJSON})

    def raw(self, timeout: float = PATIENCE) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def talk(self, data: bytes, timeout: float = PATIENCE) -> bytes:
        """Send bytes, and read until the server closes the connection."""
        with self.raw(timeout) as sock:
            with suppress(BrokenPipeError, ConnectionResetError):  # it may have heard enough
                sock.sendall(data)
            return read_all(sock)

    def version(self, model: str = "first") -> str:
        return str(self.ask("GET", f"/v1/models/{model}").json["version"])

    def metric(self, name: str, headers: Mapping[str, str] | None = None, **labels: str) -> float:
        """The sum of a metric's values under some labels."""
        total = 0.0
        for line in self.ask("GET", "/metrics", None, headers).body.decode().splitlines():
            match = re.fullmatch(r"([a-zA-Z_:]+)(?:\{(.*)\})? (\S+)", line)
            if match and match[1] == name:
                found = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
                if labels.items() <= found.items():
                    total += float(match[3])
        return total

    def wait_for_arrival(self, n: int, rows: int, before: float = 0) -> None:
        """Wait until ``n`` rankings of so many rows each have reached it, ``before`` which it ranked so many rows."""

        def have() -> bool:
            ranked = self.metric("sylvan_batch_rows_sum") - before
            return self.metric("sylvan_queue_requests") >= n or ranked >= n * rows

        until(have, "the requests don't arrive")

    # Its processes.

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    @property
    def workers(self) -> list[int]:
        """The processes that answer: those that hold the socket, other than the parent of several."""
        return sorted(pid for pid in descendants(self.process.pid) if "multiprocessing.spawn" in command(pid))

    @property
    def shared_folders(self) -> set[str]:
        """Where workers count together."""
        return {folder for pid in self.workers if (folder := shared_folder(pid))}

    @property
    def memory(self) -> int:
        """Bytes that it and its workers hold, files that are mapped left out."""
        return sum(anonymous_bytes(pid) for pid in [self.process.pid, *self.workers])

    def exit_code(self, timeout: float = PATIENCE) -> int:
        return self.process.wait(timeout)


@contextmanager
def serving(
    folder: Path,
    *words: str | Path,
    config: str = "",
    admin: bool = False,
    environment: Mapping[str, str] | None = None,
    ready: bool = True,
    open: bool = True,
    **options: Any,
) -> Iterator[Server]:
    """A server on a free port, ready to answer. It and its workers have ended afterwards, whatever happened.

    Without ``ready`` its models may not be open, and without ``open`` it may not listen. ``folder`` is where its log,
    its errors and the settings in ``config`` are written.
    """
    log, errors = folder / "log", folder / "errors"
    (folder / "serve.toml").write_text(patient(config))
    command = [sys.executable, "-m", "sylvan", "serve", *map(str, words), "--port", "0"]
    command += ["--config", str(folder / "serve.toml")]
    variables = child_processes.environment(**({"SYLVAN_ADMIN_KEY": ADMIN_KEY} if admin else {}), **(environment or {}))
    with log.open("wb") as out, errors.open("wb") as err:
        given = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, "env": variables, **options}
        process = child_processes.start(command, lasting=True, **given)
    server = Server(process, log, errors)
    try:

        def listens() -> bool:
            assert process.poll() is None, f"the server ended: {server.errors}"
            return LISTENING.search(server.errors) is not None

        until(listens, lambda: f"the server doesn't listen: {server.errors}")
        server.port = int(LISTENING.findall(server.errors)[0][1])
        if open:
            until(lambda: is_open(server.port), "nobody listens")
        if ready:
            wait_ready(server)
        yield server
    finally:
        counted = server.shared_folders
        child_processes.end(process)
        for place in counted:  # a server that is killed leaves it
            shutil.rmtree(place, ignore_errors=True)


def patient(config: str) -> str:
    """A configuration with time for a busy machine, where it names no limits of time itself."""
    missing = [name for name in ("seconds", "slow") if not re.search(rf"^{name}\b", config, re.M)]
    more = "".join(f"{name} = {PATIENCE}\n" for name in missing)
    if "[limits]\n" in config:
        return config.replace("[limits]\n", "[limits]\n" + more)
    return f"{config}\n[limits]\n{more}"


def is_open(port: int) -> bool:
    """Whether somebody listens."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), PATIENCE):
        return True
    return False


def wait_ready(server: Server) -> None:
    """Wait until every worker has opened its models."""

    def is_ready() -> bool:
        assert server.process.poll() is None, f"the server ended: {server.errors}"
        with suppress(OSError, http.client.HTTPException):
            return server.ask("GET", "/health/ready").status == 200
        return False

    def all_ready() -> bool:
        each = int(re.findall(r" with (\d+) workers?\.$", server.errors, re.M)[0])
        return len(re.findall(r"^Serving '", server.errors, re.M)) >= each * n_models

    until(is_ready, lambda: f"the server isn't ready: {server.errors}")
    n_models = len(server.ask("GET", "/health/ready").json["models"])
    until(all_ready, lambda: f"a worker isn't ready: {server.errors}")


@contextmanager
def meanwhile(*works: Callable[[], object]) -> Iterator[None]:
    """Work that goes on in threads of its own beside the block, and has ended after it; its faults are raised then."""
    with ThreadPoolExecutor(len(works)) as pool:
        tasks = [pool.submit(work) for work in works]
        yield
    for task in tasks:
        task.result()


def checksum(folder: Path) -> str:
    """The version that a served folder has."""
    return str(store.contents(folder)["checksum"])


def read_all(sock: socket.socket) -> bytes:
    """What comes until the other side closes the connection."""
    parts = []
    with suppress(ConnectionResetError):
        while part := sock.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def statuses(answers: bytes) -> list[int]:
    """The statuses of the answers that came over a connection."""
    return [int(each) for each in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answers)]


def request(method: str, path: str, body: bytes = b"", *headers: str, close: bool = True) -> bytes:
    """A request's bytes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + body


# Processes, as Linux shows them.


def command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def descendants(parent: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found, new = set(), {parent}
    while new:
        new = {pid for pid, above in parents.items() if above in new} - found
        found |= new
    return sorted(found)


def group(leader: int) -> list[int]:
    """The processes of a group that run, even where their parent has gone."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            state, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(of) == leader and state != "Z":
                found.append(int(entry.name))
    return sorted(found)


def shared_folder(pid: int) -> str:
    """The folder in which a worker counts together with others, if it does."""
    with suppress(OSError):
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if variable.startswith(b"PROMETHEUS_MULTIPROC_DIR="):
                return os.fsdecode(variable.partition(b"=")[2])
    return ""


def anonymous_bytes(pid: int) -> int:
    with suppress(OSError):
        match = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
        return int(match[1]) << 10 if match else 0
    return 0
