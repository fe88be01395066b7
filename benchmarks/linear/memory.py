"""What a memory limit costs and keeps, and what is left to do after a kill; JSON out.

``python -m benchmarks.linear.memory --data DIR --sets eurlex57k,gutenberg,synthetic``; each training in a process of
its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.common import measure, process, records

PARTS = (1, 2, 3, 4)  # the limit is what training takes without one, divided by these; the first is without


def train(job: dict[str, Any]) -> dict[str, Any]:
    """One training: its time and what it added to the memory at its peak; runs in a process of its own."""
    import ctypes

    from sylvan import XRLinear, data
    from sylvan.errors import MemoryLimitError
    from sylvan.runtime import checkpointed
    from sylvan.runtime.memory import private_bytes

    X, Y = data.load_npz_pair(job["set"])
    checkpointed.SECONDS = job.get("seconds", checkpointed.SECONDS)
    ctypes.CDLL(None).malloc_trim(0)  # what reading left behind is no part of what training takes
    before, peak, done = private_bytes(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], private_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    options: dict[str, Any] = {"checkpoint": job["checkpoint"]} if "checkpoint" in job else {}
    if "limit" in job:
        options["memory_limit"] = before + job["limit"]
    print("begun", flush=True)
    try:
        with measure.Clock() as clock:
            XRLinear(n_jobs=job["threads"]).fit(X, Y, **options)
    except MemoryLimitError as error:
        return {"refused": str(error)}
    finally:
        done.set()
    watcher.join()
    return {"wall_s": clock.wall, "cpu_s": clock.cpu, "before": before, "peak": peak[0] - before}


def run(job: dict[str, Any], kill_after: float | None = None) -> dict[str, Any]:
    """Starts :func:`train` in a child, which is killed after so many seconds of training if that is asked for."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.json"
        command = process.command(sys.executable, "benchmarks.linear.memory", {**job, "out": str(out)})
        environment = process.environment(job["threads"])
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
            assert child.stdout is not None
            child.stdout.readline()
            if kill_after is not None:
                time.sleep(kill_after)
                os.kill(child.pid, signal.SIGKILL)
            child.stdout.read()
        return {} if kill_after is not None else dict(json.loads(out.read_text()))


def measure_set(folder: Path, threads: int) -> list[dict[str, Any]]:
    """Every limit, then a training with a checkpoint, one that is killed half way, and the rest of it."""
    job: dict[str, Any] = {"set": str(folder), "threads": threads}
    whole = run(job)
    runs = [{"setting": "no limit", **whole}]
    for parts in PARTS[1:]:
        limit = whole["peak"] // parts
        runs.append({"setting": f"1/{parts} of it", "limit": limit, **run({**job, "limit": limit})})
    with tempfile.TemporaryDirectory() as scratch:
        job |= {"checkpoint": str(Path(scratch) / "work"), "seconds": whole["wall_s"] / 20}
        checkpointed = run(job)
        runs.append({"setting": "checkpoint", **checkpointed})
        run(job, kill_after=checkpointed["wall_s"] / 2)
        runs.append({"setting": "resumed after a kill half way", **run(job)})
    return runs


def main() -> None:
    """Measures every set."""
    if process.served(train):
        return
    options = records.command_line(__doc__, "eurlex57k,gutenberg,synthetic").parse_args()
    for set_name, folder in records.prepared(options):
        runs = measure_set(folder, options.threads)
        records.write("memory", set_name, options, runs=runs)
        print(set_name, json.dumps(runs, indent=1))


if __name__ == "__main__":
    main()
