"""What a training on a Ray cluster costs beside one process, with 1, 2 and 3 nodes on this machine; JSON out.

``python -m benchmarks.cluster --data DATA --sets eurlex57k --nodes 1,2,3 --repeats 3``

All nodes are on this machine, so that there is no speed to be gained: what is measured is what is lost. A training is
a process; CPU seconds are those of this process and of all processes of the cluster, from the moment when it is ready
and idle (the cost of starting it is a row of its own). Rows are in memory, or in parts on a file system, and then
workers write what they make. Bytes moved are those of arrays, phase by phase; the least possible is each input once.
With ``--memory`` the peak of each process's private memory is measured instead, with a quarter, a half and all of the
rows. The model's bits are compared with those of the training in one process.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

from benchmarks.cluster.worker import SETTINGS
from benchmarks.common import process, records
from benchmarks.common.process import say

_SHARES = (0.25, 0.5, 1.0)


def main() -> None:
    parser = records.command_line(__doc__, "eurlex57k")
    parser.add_argument("--nodes", default="1,2,3")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--memory", action="store_true", help="measure memory, not time")
    options = parser.parse_args()
    numbers = [int(number) for number in options.nodes.split(",")]
    for set_name, folder in records.prepared(options):
        if options.memory:
            rows = [
                _run(str(folder), "fast", nodes, "parts", share, True)
                for share in _SHARES
                for nodes in (0, *numbers)
            ]  # fmt: skip
            records.write("cluster-memory", set_name, options, rows=rows)
            continue
        rows = [
            {"repeat": repeat, **_run(str(folder), setting, nodes, where, 1.0, False, threads)}
            for repeat in range(options.repeats)
            for setting in options.settings.split(",")
            for nodes, where, threads in [
                (0, "memory", 1), (0, "memory", 2), *((n, where, 1) for n in numbers for where in ("memory", "parts"))
            ]
        ]
        records.write("cluster", set_name, options, rows=rows, medians=medians(rows))


def _run(
    folder: str, setting: str, nodes: int, rows: str, share: float, watched: bool, threads: int = 1
) -> dict[str, Any]:
    about = {"setting": setting, "nodes": nodes, "threads": threads, "rows": rows, "share": share}
    job = {"folder": folder, "watched": watched, **about}
    figures = process.run(sys.executable, "benchmarks.cluster.worker", job, timeout=1200)
    result = {**about, **figures}
    say(str({name: value for name, value in result.items() if name not in ("phases", "bits")}))
    return result


def medians(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each setting, number of nodes and place of the rows.

    Ratios are those of medians, to one process with one thread, or with two where there are several nodes: with both
    of the machine's cores at work, each does less in a second.
    """
    results: list[dict[str, Any]] = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        alone: dict[int, float] = {}
        bits = {row["bits"] for row in rows if row["setting"] == setting and "bits" in row}
        kinds = dict.fromkeys((r["nodes"], r["threads"], r["rows"]) for r in rows if r["setting"] == setting)
        for nodes, threads, where in kinds:
            kind = (setting, nodes, threads, where)
            mine = [r for r in rows if (r["setting"], r["nodes"], r["threads"], r["rows"]) == kind and "error" not in r]
            if not mine:
                continue
            middle = {name: statistics.median(row[name] for row in mine) for name in ("cpu_s", "wall_s", "start_cpu_s")}
            if not nodes:
                alone[threads] = middle["cpu_s"]
            beside = alone.get(min(2, nodes or threads))
            results.append({
                "setting": setting, "nodes": nodes, "threads": threads, "rows": where, **middle,
                "phases": moved(mine[0]["phases"]), "bytes_X": mine[0]["bytes_X"], "bytes_Y": mine[0]["bytes_Y"],
                "same_bits": len(bits) == 1, "cpu_ratio": middle["cpu_s"] / beside if beside else None,
            })  # fmt: skip
    return results


def moved(phases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What phases of the same name moved together."""
    found: dict[str, dict[str, Any]] = {}
    for phase in phases:
        whole = found.setdefault(phase["name"], {"name": phase["name"], "n_jobs": 0, "bytes_shared": 0,
                                                 "bytes_sent": 0, "bytes_returned": 0})  # fmt: skip
        for name in whole:
            if name != "name":
                whole[name] += phase[name]
    return list(found.values())


if __name__ == "__main__":
    main()
