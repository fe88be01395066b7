"""Load by wrk, in a process of its own, and exact percentiles of what it measured."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.serving import machine
from benchmarks.serving.servers import Server

__all__ = ["load", "percentile", "uncorrected"]

SCRIPT = Path(__file__).with_name("wrk.lua")
GRACE = 60.0  # seconds beyond its duration that wrk may take to end
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
LATE = 30  # seconds after which wrk counts an answer as late; no latency of it is kept


def load(
    server: Server, connections: int, seconds: float, scratch: Path, *, wrk: str = "wrk", count: bool = False
) -> dict[str, Any]:
    """Keeps so many connections busy for so long; what came back, how fast, and what the server's CPU did for it.

    With ``count`` each answer's status is counted, and latencies aren't read. wrk has one thread.
    """
    out = scratch / "wrk.json"
    out.unlink(missing_ok=True)
    contender = server.contender
    whole = [
        wrk, "-t1", f"-c{connections}", f"-d{seconds:g}s", f"--timeout={LATE}s", "-s", str(SCRIPT), server.url, "--",
        contender.path, contender.content_type, str(server.texts / contender.bodies), str(out),
        "count" if count else "fast",
    ]  # fmt: skip
    before = machine.cpu_seconds(server.pid)
    done = subprocess.run(whole, capture_output=True, text=True, timeout=seconds + LATE + GRACE)
    cpu = machine.cpu_seconds(server.pid) - before
    if done.returncode or not out.exists():
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise RuntimeError(f"wrk failed: {last[0][:300]}")
    return figures(json.loads(out.read_text()), connections, cpu)


def figures(raw: Mapping[str, Any], connections: int, cpu: float) -> dict[str, Any]:
    """What wrk measured, as a record has it; latencies are those of all answers, whatever their status."""
    answered = raw["requests"] - raw["bad_statuses"]
    found = {
        "requests": raw["requests"],
        "answered": answered,
        "refused": raw["bad_statuses"],
        "failed": raw["failed"] + raw["timeouts"],
        "seconds_run": raw["microseconds"] / 1e6,
        "requests_s": answered / (raw["microseconds"] / 1e6),
        "cpu_ms": 1e3 * cpu / max(1, raw["requests"]),
        "cores": cpu / (raw["microseconds"] / 1e6),
    }
    if raw["statuses"]:  # counted, without latencies
        return found | {"statuses": raw["statuses"]}
    counts = uncorrected(raw, connections)
    percentiles = {f"{name}_ms": percentile(counts, share) for name, share in PERCENTILES.items()}
    return found | percentiles | {"max_ms": max(counts, default=0) / 1e3}


def uncorrected(raw: Mapping[str, Any], connections: int) -> dict[int, int]:
    """How many answers took how many microseconds, without those that wrk adds.

    For each latency of at least twice the mean time between a connection's requests, wrk adds one that is shorter by
    that time, one that is shorter by twice that, and so on, as if requests had waited. It counts what really was and
    these together. Subtracting them, from the longest on, leaves what was.
    """
    counts = dict(zip(raw["values"], raw["counts"], strict=True))
    rounds = raw["requests"] // connections
    if not rounds:
        return counts
    step = raw["microseconds"] // rounds
    real = {at: n - counts.get(at + step, 0) if at > step else n for at, n in counts.items()}
    measured = sum(real.values())
    if min(real.values(), default=0) < 0 or abs(measured - raw["requests"]) > raw["timeouts"] + connections:
        raise RuntimeError(f"wrk's latencies don't add up: {measured} of {raw['requests']} requests")
    return {at: n for at, n in real.items() if n}


def percentile(counts: Mapping[int, int], share: float) -> float:
    """The latency, in milliseconds, below or at which such a share of the answers are; 0 without any."""
    left = share * sum(counts.values())
    for at in sorted(counts):
        left -= counts[at]
        if left <= 1e-9:
            return at / 1e3
    return 0.0
