"""The servers as they are started, each in a group of processes of its own that ends with the benchmark."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import process
from benchmarks.serving import children, machine, sets

__all__ = ["CONTENDERS", "Contender", "Server", "settle", "started"]

NAME = "set"  # of Sylvan's model in addresses
JSON, FORM = "application/json", "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Contender:
    """One way to serve: whose, in which variant, by how many processes."""

    name: str
    kind: str  # whose model
    workers: int = 1
    variant: str = ""

    @property
    def path(self) -> str:
        """Where it ranks."""
        where = {"sylvan": f"/v1/models/{NAME}/rank", "libpecos": "/rank"}
        return where.get(self.kind, f"/v1/projects/{sets.ANNIF_PROJECT}/suggest")

    @property
    def ready(self) -> str:
        """What it answers when it can rank."""
        return {"sylvan": "/health/ready", "libpecos": "/ready"}.get(self.kind, "/v1/projects")

    @property
    def content_type(self) -> str:
        """Of its requests."""
        return FORM if self.kind == "annif" else JSON

    @property
    def bodies(self) -> str:
        """The file of ready requests."""
        return "form.bodies" if self.kind == "annif" else "json.bodies"

    def labels(self, answer: Any) -> list[str]:
        """The names in an answer, best first."""
        if self.kind == "sylvan":
            return list(answer["results"][0]["labels"])
        if self.kind == "libpecos":
            return list(answer["labels"])
        return [one["label"] for one in answer["results"]]


CONTENDERS = {
    one.name: one
    for one in (
        Contender("sylvan", "sylvan"),
        Contender("sylvan-2", "sylvan", 2),
        Contender("fastapi", "libpecos", variant="app"),
        Contender("fastapi-async", "libpecos", variant="app_async"),
        Contender("fastapi-2", "libpecos", 2, "app"),
        Contender("annif", "annif"),
        Contender("annif-2", "annif", 2),
    )
}


@dataclass
class Server:
    """A server that runs."""

    contender: Contender
    port: int
    pid: int
    ready_s: float  # from its start to its first answer
    texts: Path

    @property
    def url(self) -> str:
        """Its root."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, body: str, timeout: float = 60.0) -> Any:
        """The answer to one ready request."""
        head = {"Content-Type": self.contender.content_type}
        asked = urllib.request.Request(self.url + self.contender.path, body.encode(), head, method="POST")
        with urllib.request.urlopen(asked, timeout=timeout) as answer:
            return json.load(answer)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def command(
    contender: Contender, python: str, model: Path, port: int, scratch: Path, limits: dict[str, float]
) -> tuple[list[str], dict[str, str]]:
    """What starts a server, and its environment. None logs requests; ``limits`` are Sylvan's, by default its own."""
    workers = str(contender.workers)
    if contender.kind == "sylvan":
        settings = ["log = false", "[limits]", *(f"{name} = {value}" for name, value in limits.items())]
        settings += [f"[models.{NAME}]", f"folder = {json.dumps(str(model / 'model'))}"]
        (scratch / "serve.toml").write_text("\n".join(settings) + "\n", encoding="utf-8")
        whole = [python, "-m", "sylvan", "serve", "--config", str(scratch / "serve.toml")]
        return [*whole, "--port", str(port), "--workers", workers], process.environment(1)
    if contender.kind == "libpecos":
        app = f"benchmarks.serving.fastapi_app:{contender.variant}"
        whole = [
            python, "-m", "uvicorn", app, "--port", str(port), "--workers", workers, "--http", "httptools", "--loop",
            "uvloop", "--no-access-log", "--log-level", "warning",
        ]  # fmt: skip
        return whole, process.environment(1, MODEL=str(model / "model"))
    whole = [
        str(Path(python).parent / "gunicorn"), "annif:create_app()", "--bind", f"127.0.0.1:{port}",
        "--workers", workers, "--worker-class", "uvicorn.workers.UvicornWorker", "--timeout", "600",
        "--log-level", "warning",
    ]  # fmt: skip
    return whole, sets.annif_environment(model)


@contextlib.contextmanager
def started(
    contender: Contender, python: str, model: Path, texts: Path, scratch: Path,
    limits: dict[str, float] | None = None, timeout: float = 180.0,
) -> Iterator[Server]:  # fmt: skip
    """A server that answers; all its processes end with the block, however that ends."""
    port = free_port()
    whole, environment = command(contender, python, model.resolve(), port, scratch, limits or {})
    log = scratch / "server.log"
    begun = time.monotonic()
    with children.running(whole, log, environment) as child:
        server = Server(contender, port, child.pid, 0.0, texts)
        while not answers(server):
            if child.poll() is not None or time.monotonic() > begun + timeout:
                raise RuntimeError(f"{contender.name} didn't start: {children.last_line(log)}")
            time.sleep(0.05)
        server.ready_s = time.monotonic() - begun
        settle(server)  # its other workers may still load
        yield server


def answers(server: Server) -> bool:
    """Whether it says that it is ready."""
    try:
        with urllib.request.urlopen(server.url + server.contender.ready, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def settle(server: Server, timeout: float = 60.0) -> None:
    """Returns when its processes have nothing to do."""
    begun, spent = time.monotonic(), machine.cpu_seconds(server.pid)
    while time.monotonic() < begun + timeout:
        time.sleep(0.5)
        now = machine.cpu_seconds(server.pid)
        if now - spent < 0.05:
            return
        spent = now
