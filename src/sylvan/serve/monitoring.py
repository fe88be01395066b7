"""What a server logs, counts and times, for Prometheus; of all its workers together."""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from sylvan.parallel import Worker

_PATIENCE = 2.0  # seconds
_MOST = 100_000  # lines that may wait to be written
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the environment's name for the folder in which workers meet
_SECONDS = (
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Log:
    """Lines that wait, and the thread that writes them."""

    def __init__(self, dropped: Callable[[int], None], stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream  # None where that is closed
        self._lines: list[bytes] = []
        self._dropped = dropped
        self._worker = Worker(self._write, "log")
        self._writing = False

    def add(self, **entry: Any) -> None:
        """Add a line; texts of users have no place in it."""
        if self._stream is None:
            return
        if len(self._lines) >= _MOST:
            self._dropped(1)
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
        """In the thread."""
        try:
            for lines in batches:
                if lines:
                    self._put(b"\n".join(lines) + b"\n")
        finally:  # a full disk, or a reader that has gone, mustn't end the service
            self._writing = False

    def _put(self, data: bytes) -> None:
        """Past Python's buffer: what can't be written is lost, and isn't tried again when the process ends."""
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError, AttributeError):  # a stream in memory
            self._stream.write(data.decode())
            return
        while data:
            data = data[os.write(descriptor, data) :]


def say(sentence: str) -> None:
    """A sentence on stderr, about the server itself."""
    if sys.stderr is not None:
        print(sentence, file=sys.stderr, flush=True)


def resident_bytes() -> int:
    """Memory that this process holds, in bytes; where the system doesn't say, the most that it has held."""
    try:
        with open("/proc/self/statm", "rb") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        if sys.platform == "win32":
            return 0
        import resource  # which Windows hasn't got

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


class Metrics:
    """The counters of one application; each has its own, as several may be in a process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def made(kind: Any, name: str, words: str, labels: tuple[str, ...] = (), **more: Any) -> Any:
            return kind(f"sylvan_{name}", words, labels, registry=self._registry, **more)

        self._requests = made(Counter, "requests", "Requests answered.", ("route", "model", "status"))
        self._seconds = made(
            Histogram,
            "request_seconds",
            "From a request's arrival to its answer.",
            ("route", "model"),
            buckets=_SECONDS,
        )
        self._rows = made(Histogram, "batch_rows", "Rows that were ranked together.", ("model",), buckets=_ROWS)
        self._queue = made(
            Gauge, "queue_requests", "Requests that wait for a model.", ("model",), multiprocess_mode="livesum"
        )
        self._info = made(
            Gauge, "model_info", "1 for the version that is served.", ("model", "version"), multiprocess_mode="livemax"
        )
        self._loaded = made(
            Gauge,
            "model_loaded_timestamp_seconds",
            "When the version was opened.",
            ("model",),
            multiprocess_mode="livemax",
        )
        self._refused = made(Counter, "model_reload_failures", "Versions that couldn't be opened.", ("model",))
        self._memory = made(
            Gauge, "process_resident_memory_bytes", "Memory of each worker, shared pages included.",
            multiprocess_mode="liveall",
        )  # fmt: skip
        self._dropped = made(Counter, "log_lines_dropped", "Lines of the log that nobody took in time.")
        self._children: dict[Any, Any] = {}

    def request(self, route: str, model: str, status: int, seconds: float) -> None:
        """Count an answer."""
        key = (route, model, status)
        known = self._children.get(key)
        if known is None:
            known = (self._requests.labels(route, model, str(status)), self._seconds.labels(route, model))
            self._children[key] = known
        known[0].inc()
        known[1].observe(seconds)

    def batched(self, model: str) -> Any:
        """What takes the number of rows of a model's batches."""
        return self._rows.labels(model).observe

    def queue(self, model: str, waiting: int) -> None:
        """Say how many requests wait for a model."""
        self._queue.labels(model).set(waiting)

    def version(self, model: str, old: str | None, new: str, seconds: float) -> None:
        """Say which version of a model is served now, and since when."""
        if old is not None and old != new:
            self._info.labels(model, old).set(0)
            if SHARED_FOLDER not in os.environ:
                self._info.remove(model, old)
        self._info.labels(model, new).set(1)
        self._loaded.labels(model).set(seconds)

    def refused(self, model: str) -> None:
        """Count a version that couldn't be opened."""
        self._refused.labels(model).inc()

    def memory(self) -> None:
        """Measure this process."""
        self._memory.set(resident_bytes())

    def dropped(self, lines: int) -> None:
        """Count lines of the log that were dropped."""
        self._dropped.inc(lines)

    def text(self) -> bytes:
        """All of it in Prometheus' text form."""
        registry = self._registry
        if SHARED_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
