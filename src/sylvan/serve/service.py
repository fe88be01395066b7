"""What an application serves with: its models, keys, metrics and log, from start to end."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import os
import secrets
import sys
import time
import traceback
from collections.abc import Coroutine
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from sylvan.parallel import Worker
from sylvan.runtime.memory import resident_bytes
from sylvan.serve.bodies import make_bodies
from sylvan.serve.problems import Problem
from sylvan.serve.settings import Keyring, Limits, Settings
from sylvan.serve.versions import Served

_HOUSEKEEPING = 0.1  # seconds between two times that the log is written and gauges are set
_PATIENCE = 2.0  # seconds
_MOST = 100_000  # lines that may wait to be written
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the environment's name for the folder in which workers meet
_SECONDS = (
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# What is measured, for Prometheus: kind, words, labels, and buckets of a histogram or how workers count for a gauge.
_METRICS: dict[str, tuple[Any, str, tuple[str, ...], Any]] = {
    "requests": (Counter, "Requests answered.", ("route", "model", "status"), None),
    "request_seconds": (Histogram, "From a request's arrival to its answer.", ("route", "model"), _SECONDS),
    "batch_rows": (Histogram, "Rows that were ranked together.", ("model",), _ROWS),
    "queue_requests": (Gauge, "Requests that wait for a model.", ("model",), "livesum"),
    "model_info": (Gauge, "1 for the version that is served.", ("model", "version"), "livemax"),
    "model_loaded_timestamp_seconds": (Gauge, "When the version was opened.", ("model",), "livemax"),
    "model_reload_failures": (Counter, "Versions that couldn't be opened.", ("model",), None),
    "process_resident_memory_bytes": (Gauge, "Memory of each worker, shared pages included.", (), "liveall"),
    "log_lines_dropped": (Counter, "Lines of the log that nobody took in time.", (), None),
}
_OPTIONS = {Counter: "", Histogram: "buckets", Gauge: "multiprocess_mode"}


def say(sentence: str) -> None:
    """A sentence on stderr, about the server itself; where nobody reads it any more, the server goes on."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(sentence, file=sys.stderr, flush=True)


class Metrics:
    """The counters of one application, by their names in ``_METRICS``; each has its own, as several may be in a
    process. With several workers, all of them are counted together."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._all: dict[str, Any] = {}
        for name, (kind, words, labels, value) in _METRICS.items():
            options = {} if value is None else {_OPTIONS[kind]: value}
            self._all[name] = kind(f"sylvan_{name}", words, labels, registry=self._registry, **options)

    def __call__(self, name: str, *labels: str) -> Any:
        """A counter, gauge or histogram of these labels."""
        return self._all[name].labels(*labels) if labels else self._all[name]

    def request(self, route: str, model: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self("requests", route, model, str(status)).inc()
        self("request_seconds", route, model).observe(seconds)

    def version(self, model: str, old: str | None, new: str) -> None:
        """Say which version of a model is served from now on."""
        if old is not None and old != new:
            self("model_info", model, old).set(0)
            if SHARED_FOLDER not in os.environ:
                self("model_info").remove(model, old)
        self("model_info", model, new).set(1)
        self("model_loaded_timestamp_seconds", model).set(time.time())

    def text(self) -> bytes:
        """All of it in Prometheus' text form."""
        registry = self._registry
        if SHARED_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


class Log:
    """Lines that wait, and the thread that writes them."""

    def __init__(self, metrics: Metrics) -> None:
        self._stream = sys.stdout  # None where that is closed
        self._lines: list[bytes] = []
        self._metrics = metrics
        self._worker = Worker(self._write, "log")
        self._writing = False

    def add(self, **entry: Any) -> None:
        """Add a line; texts of users have no place in it."""
        if self._stream is None:
            return
        if len(self._lines) >= _MOST:
            self._metrics("log_lines_dropped").inc()
            return
        now = datetime.datetime.fromtimestamp(time.time(), datetime.timezone.utc).isoformat(timespec="milliseconds")
        self._lines.append(msgspec.json.encode({"time": now, **entry}))

    def flush(self) -> None:
        """Have what waits written; called now and then, not for each line."""
        if self._lines and not self._writing:
            lines, self._lines = self._lines, []
            self._writing = True
            self._worker.put(lines)

    def close(self) -> None:
        """Write what is left, and end; a reader who takes nothing isn't waited for."""
        self._worker.put(self._lines)
        self._lines = []
        self._worker.close(_PATIENCE)

    def _write(self, batches: list[list[bytes]]) -> None:
        """In the thread. Past Python's buffer: what can't be written is lost, and isn't tried again when the process
        ends."""
        try:
            for data in (b"\n".join(lines) + b"\n" for lines in batches if lines):
                try:
                    descriptor = self._stream.fileno()
                except (OSError, ValueError, AttributeError):  # a stream in memory
                    self._stream.write(data.decode())
                    continue
                while data:
                    data = data[os.write(descriptor, data) :]
        finally:  # a full disk, or a reader that has gone, mustn't end the service
            self._writing = False


class Service:
    """The parts of a server that its routes use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limits: Limits = settings.limits
        self.bodies = make_bodies(settings.limits)
        self.metrics, self.keyring = Metrics(), Keyring(settings.keys)
        self.served: dict[str, Served] = {}  # by name; empty until it is started
        self.draining = False  # whether it was told to end, and answers what still comes
        self.openapi = b"{}"  # the OpenAPI document
        self.log: Log | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ids = itertools.count()
        self._prefix = secrets.token_hex(4)

    @property
    def started(self) -> bool:
        """Whether it is at work."""
        return bool(self.served)

    @property
    def has_open(self) -> bool:
        """Whether there is a model that answers."""
        return any(served.current is not None for served in self.served.values())

    def new_id(self) -> str:
        """An id for a request that came without one."""
        return f"{self._prefix}-{next(self._ids):x}"

    def start(self) -> None:
        """Begin to open the models, in threads; called in the event loop."""
        for folder in self.settings.models:
            batched = self.metrics("batch_rows", folder.name).observe
            self.metrics("model_reload_failures", folder.name)  # 0: an increase from nothing alerts nobody
            self.served[folder.name] = Served(folder, self.limits, batched, self._changed)
        if self.settings.log:
            self.log = Log(self.metrics)
        works = [*(served.watch(self.settings.watch) for served in self.served.values()), self._keep_house()]
        self._tasks += [asyncio.get_running_loop().create_task(_said(work)) for work in works]

    async def stop(self) -> None:
        """End what was begun."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        closing = [served.close for served in self.served.values()] + ([] if self.log is None else [self.log.close])
        for close in closing:
            await asyncio.to_thread(close)
        self.served, self._tasks = {}, []

    async def opened(self) -> None:
        """Wait until every model is open, or can't be opened."""
        while not all(served.looked for served in self.served.values()):
            await asyncio.sleep(_HOUSEKEEPING / 4)

    async def reload_all(self) -> None:
        """Read all folders again, and what is beside them."""
        for served in self.served.values():
            await served.reload(force=True)

    def find(self, name: str) -> Served:
        """The model of that name."""
        if name not in self.served:
            names = ", ".join(map(repr, self.served))
            raise Problem(404, f"There is no model {name!r:.100} here. There is: {names}.")
        return self.served[name]

    def readiness(self) -> dict[str, Any]:
        """Whether the models can answer, and what is wrong with each. A model that can't be opened takes none of the
        others away: it is named, and they are ready."""
        models = {
            name: {"ready": served.current is not None, "version": served.checksum, "message": served.message}
            for name, served in self.served.items()
        }
        looked = all(served.looked for served in self.served.values())
        return {
            "ready": looked and self.has_open and not self.draining, "draining": self.draining, "models": models,
        }  # fmt: skip

    def _changed(self, served: Served, old: str | None, message: str | None) -> None:
        """A model's folder was looked at: say what is new since it had that checksum and message."""
        new = served.checksum
        if served.refused and served.refused != message:
            stays = f" The version {new} is still served." if new else ""
            say(f"The model {served.name!r} on disk can't be served: {served.refused}{stays}")
            self.metrics("model_reload_failures", served.name).inc()
        if new is not None and new != old:
            say(f"Serving {served.name!r} from {served.folder.folder}, version {new}.")
            self.metrics.version(served.name, old, new)
        if served.message and not served.refused and served.message != message:
            say(f"The model {served.name!r} is served, but: {served.message}")

    async def _keep_house(self) -> None:
        """Write the log and set the gauges now and then."""
        for turn in itertools.count():
            if self.log is not None:
                self.log.flush()
            if turn % 10 == 0:
                self.metrics("process_resident_memory_bytes").set(resident_bytes())
                for name, served in self.served.items():
                    self.metrics("queue_requests", name).set(served.engine.waiting)
            await asyncio.sleep(_HOUSEKEEPING)


async def _said(work: Coroutine[Any, Any, None]) -> None:
    """Say it where work that has no end ends in an error: nobody else would hear of it."""
    try:
        await work
    except Exception as error:
        say(f"Something went wrong inside the server ({type(error).__name__}: {error}).\n{traceback.format_exc()}")
