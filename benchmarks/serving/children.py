"""Processes that end with the block that they run in, and with the benchmark if that is killed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

__all__ = ["end_on_signals", "last_line", "running"]

_PR_SET_PDEATHSIG = 1
PATIENCE = 10.0  # seconds that a process has for ending when it is told to


@contextlib.contextmanager
def running(whole: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, which it shares with its children; whatever is left of it is killed."""
    with open(log, "wb") as noise:
        child = subprocess.Popen(
            whole, stdout=noise, stderr=noise, env=dict(environment), start_new_session=True,
            preexec_fn=_end_with_parent,
        )  # fmt: skip
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(PATIENCE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def last_line(log: Path) -> str:
    """What a process wrote last."""
    return (log.read_text(errors="replace").strip().splitlines() or ["no message"])[-1][:300]


def end_on_signals() -> None:
    """Lets SIGTERM and SIGHUP end the benchmark as an interrupt does, so that blocks are left in order."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def _end_with_parent() -> None:
    """In the child: the system tells it to end when the benchmark dies without having done so."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
