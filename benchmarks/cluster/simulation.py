"""Trainings with 10^6 to 10^8 labels on 1 to 1,000 workers, on paper; JSON out.

``python -m benchmarks.cluster.simulation``: jobs by the shape of such sets, with costs measured on this machine
(``--measure`` measures them, in ten minutes or so, ``--measure ray`` only those of Ray; without it those of the last
time are taken), on simulated workers
with a network, a store and what goes wrong. ``--measured benchmarks/results/cluster-gutenberg.json`` predicts the
trainings that ``python -m benchmarks.cluster`` measured there, from the jobs of the same training in one process
(``--data``). Both are written to ``results/cluster-simulation.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster.compared import compared, ray_overheads
from benchmarks.cluster.costs import Costs, shape_of
from benchmarks.cluster.events import Machines, Outcome, Task, critical_path, simulate
from benchmarks.cluster.on_paper import Shape
from benchmarks.cluster.phases import Splits, training_tasks
from benchmarks.cluster.rates import SETTINGS, measured_rates, training_rates
from benchmarks.common import datasets, records
from benchmarks.common.process import say
from sylvan.arrays.validate import Csr

Record = dict[str, Any]
LABELS = (10**6, 10**7, 10**8)
COLUMNS = {10**6: 300_000, 10**7: 1_000_000, 10**8: 3_000_000}
WORKERS = (1, 3, 10, 30, 100, 300, 1000)
PER_NODE = 16
NETWORK, STORE = 1.25e9, 20e9  # bytes a second: 10 Gbit/s a node
SEED = 0
SLOW_SHARE, SLOW_TIMES = 0.05, 2.0
LOST_EVERY = 10 * 3600.0  # seconds of a worker
LATE = 0.9  # of a job, when its worker is lost
# What is divided among more tasks, one thing after the other.
STEPS: dict[str, Splits] = {
    "as designed": Splits(),
    "clusters by groups of 16 children": Splits(children=True),
    "long clusters by 8 children": Splits(lanes=8),
    "long clusters by 2 children": Splits(lanes=2),
    "assigning by ranges of labels": Splits(assigning=True),
    "layout on the workers": Splits(layout=True),
    "searches that map nothing": Splits(unmapped=True),
    "groups of 16, assigning and layout": Splits(assigning=True, children=True, layout=True),
    "groups of 8, assigning and layout": Splits(assigning=True, children=True, layout=True, lanes=8),
}
SPLIT_WORKERS = (100, 1000)
SET = "synthetic-300000x700000"  # of which the costs are
SETS = ("gutenberg", "eurlex57k")  # whose clusters are compared


def main() -> None:
    """What the command line asks for."""
    parser = records.command_line(__doc__, ",".join(SETS), threads=None)
    parser.add_argument(
        "--measure", nargs="?", const="all", choices=("all", "ray"), help="measure this machine's costs anew"
    )
    parser.add_argument("--measured", type=Path, help="JSON of benchmarks.cluster, to be predicted")
    options = parser.parse_args()
    path = Path(options.results) / "cluster-simulation.json"
    record: Record = json.loads(path.read_text()) if path.exists() else {}
    if options.measure == "all" or "costs" not in record:
        record = {**record, **measured(options), **records.about()}
    elif options.measure:
        record["costs"]["ray"] = ray_overheads()
    if options.measured is None:
        record["check"] = checked(record["costs"], Path(options.results) / "scale.json")
        record.update(on_paper(record["costs"]))
    else:
        own = compared(options.measured, Path(options.data), Path(options.cache), record["costs"]["ray"])
        record["measured"] = {**record.get("measured", {}), own["set"]: own}
    records.save(path, record)


def measured(options: argparse.Namespace) -> Record:
    """The costs of a large synthetic set on this machine, and the clusters of real sets."""
    cache, data = Path(options.cache), Path(options.data)
    costs = measured_rates(datasets.prepare(SET, data, cache))
    costs["ray"] = ray_overheads()
    shapes = {SET: costs["settings"]}
    for name in options.sets.split(","):
        say(f"the clusters of {name}")
        X, Y = (Csr.of(matrix) for matrix in datasets.load(datasets.prepare(name, data, cache), "X.trn", "Y.trn"))
        shapes[name] = {setting: training_rates(X, Y, parameters) for setting, parameters in SETTINGS.items()}
    return {"costs": costs, "shapes": [row for name, runs in shapes.items() for row in shape_rows(name, runs)]}


def shape_rows(name: str, runs: Mapping[str, Record]) -> list[Record]:
    """Clusters of a real set beside those on paper, layer by layer."""
    rows = []
    for setting, run in runs.items():
        for t, (layer, paper) in enumerate(zip(run["layers"], shape_of(run).layers(setting != "tfn"), strict=True)):
            if setting == "tfn" or t == len(run["layers"]) - 1:
                rows.append({
                    "set": name, "setting": setting, "layer": t + 1, "clusters": layer["clusters"],
                    "rows": layer["pairs"] / run["rows"], "largest": layer["largest"] / run["rows"],
                    "paper_rows": float(paper.rows.sum()) / run["rows"],
                    "paper_largest": float(paper.rows.max()) / run["rows"],
                })  # fmt: skip
    return rows


def checked(costs: Record, path: Path) -> list[Record]:
    """CPU seconds of trainings that were measured in one process (``linear/scale.py``), and on paper."""
    if not path.exists():
        return []
    rows = []
    like = costs["settings"]["tfn"]  # whose rows are drawn alike
    for run in json.loads(path.read_text())["runs"]:
        setting = {"fast": "tfn", "balanced": "tfn+man"}.get(run["setting"])
        if setting is None or "phases" not in run or run.get("memory_limit"):
            continue
        found = costs["settings"][setting]["layers"][-1]["pairs"] / like["rows"]
        shape = Shape(
            run["rows"], run["labels"], like["columns"], like["positives"] / like["rows"],
            like["entries"] / like["rows"], found=found,
        )  # fmt: skip
        tasks = training_tasks(shape, Costs.of(costs, setting), 1, searched=setting != "tfn")
        spent = by_phase(tasks)
        if setting != "tfn":  # what lays out the layers above is a task among theirs
            moved = sum(task.cpu_s for task in tasks if task.phase == "upper layers" and "layout" in task.name)
            spent["layout"] = spent.get("layout", 0.0) + moved
            spent["solving"] = spent.get("solving", 0.0) + spent.pop("upper layers") - moved
        names = {"embeddings": "embeddings", "clustering": "clustering", "sorting": "rows", "search": "searching",
                 "solving": "solving", "layout": "layout"}  # fmt: skip
        phases = {
            phase: {"measured_s": run["phases"][own]["cpu_s"], "paper_s": spent[phase]}
            for phase, own in names.items()
            if phase in spent and own in run["phases"]
        }
        rows.append({
            "rows": run["rows"], "labels": run["labels"], "setting": setting, "cpu": run["machine"]["cpu"],
            "phases": phases, "model_mb": run["model_mb"], "paper_model_mb": model_bytes(tasks) / 1e6,
        })  # fmt: skip
    return rows


def by_phase(tasks: Sequence[Task]) -> dict[str, float]:
    """CPU seconds."""
    spent: dict[str, float] = {}
    for task in tasks:
        spent[task.phase] = spent.get(task.phase, 0.0) + task.cpu_s
    return spent


def model_bytes(tasks: Sequence[Task]) -> float:
    """What the layout writes."""
    return sum(task.bytes_out for task in tasks if task.name.startswith("layout"))


def on_paper(costs: Record) -> Record:
    """All sizes, workers and settings; then what is divided further, and what goes wrong."""
    rows, split, faults = [], [], []
    for setting in SETTINGS:
        own = Costs.of(costs, setting)
        for labels in LABELS:
            shape = Shape(labels, labels, COLUMNS[labels])
            for workers in WORKERS:
                rows.append(row_of(shape, own, workers, setting, cluster(workers, costs["ray"])))
            for workers in SPLIT_WORKERS:
                for name, splits in STEPS.items():
                    machines = cluster(workers, costs["ray"])
                    split.append({"split": name, **row_of(shape, own, workers, setting, machines, splits)})
                tasks = training_tasks(shape, own, workers, per_node=PER_NODE, searched=setting != "tfn")
                for name, machines in troubles(cluster(workers, costs["ray"]), tasks).items():
                    faults.append({"trouble": name, **row_of(shape, own, workers, setting, machines)})
            say(f"{setting}, {labels:,} labels")
    return {"rows": rows, "splits": split, "troubles": faults}


def cluster(n_workers: int, ray: Mapping[str, float]) -> Machines:
    """A cluster on which nothing goes wrong."""
    return Machines(
        n_workers, PER_NODE, network=NETWORK, store=STORE, overhead_s=ray["overhead_s"], handing_s=ray["handing_s"]
    )


def troubles(machines: Machines, tasks: Sequence[Task]) -> dict[str, Machines]:
    """The same cluster, and what may go wrong with it.

    Longest first, the first worker has the longest task of each phase: it is lost just before the end of the longest
    of all, and it is among the slow ones or isn't.
    """
    outcome = simulate(tasks, machines)
    longest = max((at for at, task in enumerate(tasks) if not task.on_driver), key=lambda at: tasks[at].cpu_s)
    near = outcome.starts[longest] + LATE * (outcome.ends[longest] - outcome.starts[longest])
    generator = np.random.default_rng(SEED)
    n = machines.n_workers
    slow = {int(worker): SLOW_TIMES for worker in 1 + generator.permutation(n - 1)[: round(SLOW_SHARE * n)]}
    n_losses = generator.poisson(48 * 3600.0 / LOST_EVERY * n)  # of two days
    losses = sorted(zip(generator.uniform(0, 48 * 3600.0, n_losses).tolist(),
                        generator.integers(0, n, n_losses).tolist(), strict=True))  # fmt: skip
    return {
        "nothing": machines,
        "5% of the workers take twice as long": replace(machines, slow=slow),
        "and that with the longest jobs": replace(machines, slow={0: SLOW_TIMES, **slow}),
        "each worker is lost every 10 hours": replace(machines, losses=losses),
        "that with the longest job is lost when it has nearly done it": replace(machines, losses=[(near, 0)]),
        "a tenth of the network": replace(machines, network=NETWORK / 10),
        "a tenth of the store": replace(machines, store=STORE / 10),
    }


def row_of(
    shape: Shape, costs: Costs, workers: int, setting: str, machines: Machines, splits: Splits | None = None
) -> Record:
    """What one training takes."""
    tasks = training_tasks(shape, costs, workers, per_node=PER_NODE, searched=setting != "tfn", splits=splits)
    outcome = simulate(tasks, machines)
    cpu, moved = sum(task.cpu_s for task in tasks), sum(task.bytes_in + task.bytes_out for task in tasks)
    model = sum(task.bytes_out for task in tasks if task.name.startswith("layout"))
    longest, path = critical_path(tasks)
    return {
        "setting": setting, "labels": shape.n_labels, "workers": workers, "tasks": len(tasks),
        "seconds": outcome.seconds, "cpu_s": cpu, "of_ideal": cpu / workers / outcome.seconds,
        "path_s": longest, "path": longest_of(tasks, path), "chain": chain_of(tasks, outcome),
        "worker_bytes": max(task.peak_bytes for task in tasks if not task.on_driver),
        "largest": max((task for task in tasks if not task.on_driver), key=lambda task: task.peak_bytes).name,
        "driver_bytes": max((task.peak_bytes for task in tasks if task.on_driver), default=0),
        "store_bytes": moved, "least_bytes": shape.x_bytes + shape.y_bytes + model, "lost": outcome.n_lost,
    }  # fmt: skip


def longest_of(tasks: Sequence[Task], path: Sequence[int]) -> list[Record]:
    """The longest tasks of a path."""
    order = sorted(path, key=lambda number: -tasks[number].cpu_s)[:3]
    return [{"task": tasks[at].name, "phase": tasks[at].phase, "cpu_s": tasks[at].cpu_s} for at in order]


def chain_of(tasks: Sequence[Task], outcome: Outcome) -> Record:
    """Where the time went: seconds by phase of what the end waited for, and the task there that took longest."""
    seconds: dict[str, float] = {}
    links = outcome.chain(tasks)
    for number, spent in links:
        phase = tasks[number].phase
        seconds[phase] = seconds.get(phase, 0.0) + spent
    at, most = max(links, key=lambda link: link[1])
    return {"phases": seconds, "longest": tasks[at].name, "phase": tasks[at].phase, "longest_s": most}


if __name__ == "__main__":
    main()
