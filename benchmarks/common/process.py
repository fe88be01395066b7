"""Measurements in processes of their own, each by the interpreter that has what it needs.

A worker is a module of this package that is given a job as JSON (``python -m benchmarks.linear.worker --job JSON``) and
writes its figures to ``job["out"]``. It may run in an environment that has little more than the library that it
measures: this module needs the standard library alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks import ROOT

__all__ = ["command", "environment", "first_with", "run", "say", "serve", "served"]

Job = dict[str, Any]
Figures = dict[str, Any]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def command(python: str, module: str, job: Job) -> list[str]:
    """What starts a worker, in :func:`environment`."""
    return [python, "-m", module, "--job", json.dumps(job)]


def environment(threads: int = 1, **more: str) -> dict[str, str]:
    """This process's environment, where this package is found and libraries' own pools have so many threads."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | dict.fromkeys(_THREADS, str(threads)) | {"PYTHONPATH": path} | more


def run(
    python: str, module: str, job: Job, *, timeout: float | None = None, threads: int = 1, **more: str
) -> Figures:
    """A worker's figures, or ``{"error": ...}`` with the last line that it wrote.

    The job is given a file to write to, as "out", and a folder of its own, as "scratch"; ``more`` is for its
    environment.
    """
    with tempfile.TemporaryDirectory() as scratch:
        out, log = Path(scratch) / "out.json", Path(scratch) / "log"
        whole = command(python, module, {**job, "out": str(out), "scratch": scratch})
        with open(log, "wb") as noise:
            try:
                done = subprocess.run(
                    whole, stdout=noise, stderr=noise, env=environment(threads, **more), timeout=timeout
                )
            except subprocess.TimeoutExpired:
                return {"error": f"took more than {timeout:g} seconds"}
        if out.exists():
            return dict(json.loads(out.read_text()))
        lines = log.read_text(errors="replace").replace("\r", "\n").strip().splitlines() or ["no message"]
        return {"error": f"exit {done.returncode}: {lines[-1].strip()[:300]}"}


def first_with(pythons: Iterable[str], ask: Callable[[str], Figures]) -> str | None:
    """The first interpreter whose answer is no error."""
    return next((python for python in pythons if "error" not in ask(python)), None)


def served(work: Callable[[Job], Figures]) -> bool:
    """Do the job that this process was started with; False where it was started without one."""
    if sys.argv[1:2] != ["--job"]:
        return False
    job = json.loads(sys.argv[2])
    out = Path(job["out"])
    beside = out.with_suffix(".part")
    beside.write_text(json.dumps(work(job)))
    os.replace(beside, out)  # whole or not at all
    return True


def serve(work: Callable[[Job], Figures]) -> None:
    """:func:`served`, for a worker that does nothing else."""
    if not served(work):
        sys.exit("This module measures one row in a process of its own; the benchmark beside it starts it with --job.")


def say(line: str) -> None:
    """One line of progress on stderr."""
    print(line, file=sys.stderr, flush=True)
