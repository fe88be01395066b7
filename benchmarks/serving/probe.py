"""A few careful clients beside wrk's load: statuses, latencies and labels of each answer, and the event loop's lag.

Needs the standard library alone. Some threads ask for texts in turn, each on a connection of its own, and note how long
an answer took, with what status, and whether an accepted one has the expected labels. One thread asks for
``/health/live`` every few milliseconds: nothing of that waits for the model, so it answers as late as the loop comes to
it. The server's resident memory is read every second.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.common import process
from benchmarks.serving import machine

PAUSE = 0.02  # seconds between two looks at the loop


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Runs for ``job["seconds"]``."""
    bodies = Path(job["bodies"]).read_bytes().splitlines()
    expected = json.loads(Path(job["expected"]).read_text(encoding="utf-8"))
    deadline = time.monotonic() + job["seconds"]
    seen: list[tuple[int, float, bool]] = []
    lags: list[float] = []
    failures: list[str] = []

    def one_client(first: int) -> None:
        line = Line(job["port"])
        at = first
        while time.monotonic() < deadline:
            at = (at + 1) % len(expected)
            began = time.perf_counter()
            try:
                status, answer = line.ask("POST", job["path"], bodies[at])
            except (OSError, http.client.HTTPException) as error:
                failures.append(type(error).__name__)
                continue
            spent = time.perf_counter() - began
            right = status != 200 or json.loads(answer)["results"][0]["labels"] == expected[at]
            seen.append((status, spent, right))

    def loop_watcher() -> None:
        line = Line(job["port"])
        while time.monotonic() < deadline:
            began = time.perf_counter()
            try:
                line.ask("GET", "/health/live", None)
            except (OSError, http.client.HTTPException) as error:
                failures.append(type(error).__name__)
                continue
            lags.append(time.perf_counter() - began)
            time.sleep(PAUSE)

    memory: list[float] = []
    n = job["clients"]
    clients = [threading.Thread(target=one_client, args=(at * len(expected) // max(1, n),)) for at in range(n)]
    clients.append(threading.Thread(target=loop_watcher))
    for client in clients:
        client.start()
    while time.monotonic() < deadline:
        memory.append(round(machine.rss_mb(job["pid"]), 2))
        time.sleep(1.0)
    for client in clients:
        client.join()
    statuses = [status for status, _, _ in seen]
    accepted = sorted(1e3 * spent for status, spent, _ in seen if status == 200)
    return {
        "probe_statuses": {str(status): statuses.count(status) for status in sorted(set(statuses))},
        "probe_wrong": sum(not right for _, _, right in seen),
        "probe_failures": {name: failures.count(name) for name in sorted(set(failures))},
        "accepted_p50_ms": share(accepted, 0.5), "accepted_p99_ms": share(accepted, 0.99),
        "lags": len(lags), "lag_p50_ms": share(sorted(lags), 0.5) * 1e3, "lag_p99_ms": share(sorted(lags), 0.99) * 1e3,
        "lag_max_ms": max(lags, default=0.0) * 1e3, "rss_mb": memory,
    }  # fmt: skip


class Line:
    """A connection that is kept as long as the server keeps it."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        try:
            self._connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request opens another
            raise


def share(values: list[float], part: float) -> float:
    """A percentile of sorted values; 0 without any."""
    return values[min(len(values) - 1, int(part * len(values)))] if values else 0.0


if __name__ == "__main__":
    process.serve(work)
