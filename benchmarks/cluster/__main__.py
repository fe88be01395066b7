"""What a training on a Ray cluster costs beside one process, with 1, 2 and 3 nodes on this machine; JSON out.

``python -m benchmarks.cluster --data DATA --sets eurlex57k --nodes 1,2,3 --repeats 3``

All nodes are on this machine, so that there is no speed to be gained: what is measured is what is lost. A training is
a process; CPU seconds are those of this process and of all processes of the cluster, from the moment when it is ready
and idle (the cost of starting it is a row of its own). Bytes sent are the arrays put into the cluster's object store;
the least possible is each input once. The model's bits are compared with those of the training in one process.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, process, records
from benchmarks.common.process import say

SETTINGS: dict[str, dict[str, Any]] = {"balanced": {}, "fast": {"preset": "fast"}, "two trees": {"n_trees": 2}}


def main() -> None:
    parser = records.command_line(__doc__, "eurlex57k")
    parser.add_argument("--nodes", default="1,2,3")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for set_name, folder in records.prepared(options):
        rows: list[dict[str, Any]] = []
        for repeat in range(options.repeats):
            for setting in SETTINGS:
                for nodes in (0, *map(int, options.nodes.split(","))):
                    job = {"folder": str(folder), "setting": setting, "nodes": nodes}
                    figures = process.run(sys.executable, "benchmarks.cluster.worker", job, timeout=1200)
                    rows.append({"repeat": repeat, "setting": setting, "nodes": nodes, **figures})
                    say(f"{rows[-1]}")
        records.write("cluster", set_name, options, rows=rows, medians=medians(rows))


def medians(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each setting and number of nodes; the ratio to one process is that of the medians."""
    results = []
    for setting in SETTINGS:
        alone: float | None = None
        for nodes in sorted({row["nodes"] for row in rows}):
            mine = [row for row in rows if (row["setting"], row["nodes"]) == (setting, nodes) and "error" not in row]
            if not mine:
                continue
            middle = {name: statistics.median(row[name] for row in mine) for name in ("cpu_s", "wall_s", "start_cpu_s")}
            alone = middle["cpu_s"] if nodes == 0 else alone
            plain = {row["bits"] for row in rows if row["setting"] == setting and "bits" in row}
            results.append({
                "setting": setting, "nodes": nodes, **middle, "bytes_sent": mine[0]["bytes_sent"],
                "least_bytes": mine[0]["least_bytes"], "same_bits": len(plain) == 1,
                "cpu_ratio": middle["cpu_s"] / alone if alone else None,
            })  # fmt: skip
    return results


def bits_of(model: Any) -> str:
    """A checksum of all arrays of a model."""
    digest = hashlib.sha256()

    def add(state: Any) -> None:
        for name in sorted(state.arrays):
            digest.update(name.encode() + state.arrays[name].tobytes())
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
    """This process, and all processes below it or started by Ray."""
    parents: dict[int, int] = {}
    rays: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"ray/core" in words or b"ray::" in words or b"ray/_private" in words:
                rays.add(int(entry.name))
    found = {os.getpid()} | rays
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return found


def train(folder: Path, setting: str, nodes: int) -> dict[str, Any]:
    """One training, and its figures."""
    from sylvan import XRLinear, distributed

    X, Y = datasets.load(folder, "X.trn", "Y.trn")
    least = sum(part.nbytes for matrix in (X, Y) for part in (matrix.data, matrix.indices, matrix.indptr))
    parameters = dict(SETTINGS[setting])
    preset = parameters.pop("preset", None)
    if preset:
        parameters.update(XRLinear.presets[preset])
    model = XRLinear(n_jobs=1, **parameters)
    if not nodes:
        start, before = time.perf_counter(), time.process_time()
        model.fit(X, Y)
        figures = {"cpu_s": time.process_time() - before, "wall_s": time.perf_counter() - start, "start_cpu_s": 0.0,
                   "bytes_sent": 0}  # fmt: skip
        return {**figures, "least_bytes": least, "bits": bits_of(model)}
    import ray
    from ray.cluster_utils import Cluster

    starting = time.process_time()
    room: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 1 << 30}
    cluster = Cluster(initialize_head=True, head_node_args={**room, "include_dashboard": False})
    for _ in range(nodes - 1):
        cluster.add_node(**room)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        with distributed.ray() as runner:
            runner.run([_warm(number) for number in range(2 * nodes)])
            time.sleep(3)  # until the cluster is idle
            before = cpu_of(descendants())
            begun = before - starting
            start = time.perf_counter()
            model.fit(X, Y)
            wall = time.perf_counter() - start
            figures = {"cpu_s": cpu_of(descendants()) - before, "wall_s": wall, "start_cpu_s": begun,
                       "bytes_sent": runner.bytes_sent}  # fmt: skip
    finally:
        ray.shutdown()
        cluster.shutdown()
    return {**figures, "least_bytes": least, "bits": bits_of(model)}


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
