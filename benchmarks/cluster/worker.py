"""One training of ``benchmarks.cluster``, in a process of its own: alone, or on a cluster of nodes of this machine."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import datasets

SETTINGS: dict[str, dict[str, Any]] = {"balanced": {}, "fast": {"preset": "fast"}, "two trees": {"n_trees": 2}}
_STORE = 1 << 30  # bytes of a node's object store
_LOOK = 0.02  # seconds between two looks at the memory of workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", type=json.loads, required=True)
    job = parser.parse_args().job
    names = ("folder", "setting", "nodes", "threads", "rows", "share", "watched")
    figures = train(**{name: job[name] for name in names})
    Path(job["out"]).write_text(json.dumps(figures))


def train(
    folder: str, setting: str, nodes: int, threads: int, rows: str, share: float, watched: bool
) -> dict[str, Any]:
    """One training, and its figures.

    Parameters
    ----------
    folder : str
        Of the prepared set.
    setting : str
        A name of SETTINGS.
    nodes : int
        Of one CPU each; 0 for one process without a cluster.
    threads : int
        Of that process.
    rows : {"memory", "parts"}
        Whether features are in memory, or in parts, whose results workers write.
    share : float
        Of the rows that are trained on.
    watched : bool
        Whether the memory of each process is looked at, which takes time itself.
    """
    from sylvan import XRLinear, data

    X, Y = datasets.load(Path(folder), "X.trn", "Y.trn")
    n = round(share * X.shape[0])
    X, Y = X[:n], Y[:n]
    least = {name: sum(part.nbytes for part in (m.data, m.indices, m.indptr)) for name, m in (("X", X), ("Y", Y))}
    about = {"n_rows": n, "bytes_X": least["X"], "bytes_Y": least["Y"]}
    parameters = dict(SETTINGS[setting])
    preset = parameters.pop("preset", None)
    model = XRLinear(n_jobs=threads, **({**XRLinear.presets[preset], **parameters} if preset else parameters))
    if not nodes:
        start, before = time.perf_counter(), time.process_time()
        with _watching(lambda: {os.getpid()}, watched) as peaks:
            model.fit(X, Y)
        times = {"cpu_s": time.process_time() - before, "wall_s": time.perf_counter() - start, "start_cpu_s": 0.0}
        return {**about, **times, "phases": [], "peaks": peaks, "bits": bits_of(model)}
    with tempfile.TemporaryDirectory() as place:
        given: tuple[Any, Any] = (X, Y)
        if rows == "parts":
            data.save_parts(Path(place) / "parts", X, Y, rows_per_part=max(1, n // 32))
            del X, Y, given
            opened, labels = data.open_parts(Path(place) / "parts")
            given = opened, labels
        options = {"checkpoint": Path(place) / "work"} if rows == "parts" else {}
        return {**about, **_on_cluster(model, given, options, nodes, watched), "bits": bits_of(model)}


def _on_cluster(model: Any, given: tuple[Any, Any], options: dict[str, Any], nodes: int, watched: bool) -> Any:
    import ray
    from ray.cluster_utils import Cluster

    from sylvan import distributed

    starting = time.process_time()
    room: dict[str, Any] = {"num_cpus": 1, "object_store_memory": _STORE}
    cluster = Cluster(initialize_head=True, head_node_args={**room, "include_dashboard": False})
    for _ in range(nodes - 1):
        cluster.add_node(**room)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        with distributed.ray() as runner:
            runner.run([_warm(number) for number in range(2 * nodes)])
            runner.phases.clear()
            time.sleep(3)  # until the cluster is idle
            before, start = cpu_of(descendants()), time.perf_counter()
            with _watching(workers, watched) as peaks:
                model.fit(*given, **options)
            wall = time.perf_counter() - start
            cpu = cpu_of(descendants()) - before
    finally:
        ray.shutdown()
        cluster.shutdown()
    phases = [vars(phase) for phase in runner.phases]
    return {"cpu_s": cpu, "wall_s": wall, "start_cpu_s": before - starting, "phases": phases, "peaks": peaks}


@contextmanager
def _watching(of: Any, watched: bool) -> Iterator[dict[str, int]]:
    """The largest private memory of some processes while the block runs, above what they had at its beginning."""
    peaks: dict[str, int] = {}
    if not watched:
        yield peaks
        return
    ended = threading.Event()
    first = {pid: private_of(pid) for pid in of() | {os.getpid()}}

    def look() -> None:
        while not ended.wait(_LOOK):
            for pid in list(first):
                name = "driver" if pid == os.getpid() else str(pid)
                peaks[name] = max(peaks.get(name, 0), private_of(pid) - first[pid])

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def private_of(pid: int) -> int:
    """Bytes of a process's memory that no file holds; pages of mapped files can be taken back at any time."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def workers() -> set[int]:
    """The workers of the cluster."""
    found = set()
    for pid in descendants():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if words.startswith(b"ray::"):
            found.add(pid)
    return found


def bits_of(model: Any) -> str:
    """A checksum of all arrays of a model."""
    digest = hashlib.sha256()

    def add(state: Any) -> None:
        for name in sorted(state.arrays):
            digest.update(name.encode() + np.ascontiguousarray(state.arrays[name]).tobytes())
        for name in sorted(state.parts):
            add(state.parts[name])

    add(model.to_state())
    return digest.hexdigest()


def cpu_of(pids: set[int]) -> float:
    """CPU seconds of some processes so far, with those of their children that have ended."""
    tick, total = os.sysconf("SC_CLK_TCK"), 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / tick
    return total


def descendants() -> set[int]:
    """This process, and all processes below it: those of the cluster that it started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return found


def _warm(number: int) -> Any:
    """A job that has a worker import what trainings need."""
    from sylvan.runtime import Job

    return Job(f"warm{number}", imports, {"seconds": 0.5})


def imports(seconds: float) -> None:
    """Import the library, and stay a while, so that every worker is given such a job."""
    import sylvan.models  # noqa: F401

    time.sleep(seconds)


if __name__ == "__main__":
    main()
