"""Measured trainings on Ray beside what the simulation says of them, from the jobs of the same training."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster.events import Machines, Task, simulate
from benchmarks.cluster.recorded import Noted, Recorder, Step
from benchmarks.cluster.worker import SETTINGS, cpu_of, descendants
from benchmarks.common import datasets
from sylvan import XRLinear, data
from sylvan.distributed.ray_runner import SHARES
from sylvan.runtime import Job
from sylvan.runtime.groups import grouped
from sylvan.runtime.jobs import using

__all__ = ["compared", "ray_overheads", "tasks_of"]

Record = dict[str, Any]
LISTS, COPIED = 10, 1 << 26  # what a cluster's overheads are measured with
# As a block of clusters has them: arrays that all jobs share, each too large to be sent with a job, and a result.
SHARED, SHARED_VALUES, RESULTS, RESULT_VALUES = 8, 1 << 16, 8, 1 << 12


def ray_overheads() -> Record:
    """Seconds of tasks that compute nothing on a cluster of two workers.

    A task has as many arrays to read and to give as a block of clusters. How fast such tasks are done is how fast this
    process hands them over and takes their results; CPU time of all other processes is the workers'. And seconds for a
    byte that is put into the object store, or copied out of it.
    """
    import ray

    from sylvan import distributed

    ray.init("local", num_cpus=2, object_store_memory=1 << 28, log_to_driver=False, include_dashboard=False)
    try:
        with distributed.ray() as runner:
            shared = {f"array{at}": np.full(SHARED_VALUES, at, np.float64) for at in range(SHARED)}
            n_tasks = runner.n_shares()  # of a list: more jobs would be grouped
            jobs = [Job(f"nothing{number}", _nothing, {"number": number, **shared}) for number in range(n_tasks)]
            runner.run(jobs)
            processes = descendants()
            wall, own, cpu = time.perf_counter(), time.process_time(), cpu_of(processes)
            for _ in range(LISTS):
                runner.run(jobs)
            wall, own, cpu = time.perf_counter() - wall, time.process_time() - own, cpu_of(processes) - cpu
            array, start = np.ones(COPIED, np.uint8), time.process_time()
            ray.put(array)
            copying = (time.process_time() - start) / COPIED
    finally:
        ray.shutdown()
    n_tasks *= LISTS
    return {
        "overhead_s": max(0.0, cpu - own) / n_tasks,
        "handing_s": wall / n_tasks,
        "copying": copying,
        "tasks": n_tasks,
    }


def _nothing(number: int, **_: Any) -> list[Any]:
    return [np.full(RESULT_VALUES, number, np.float32) for _ in range(RESULTS)]


def compared(path: Path, sets: Path, cache: Path, ray: Record) -> Record:
    """Predicted wall seconds of the trainings in a JSON file of ``benchmarks.cluster``, which were all on one machine.

    Parameters
    ----------
    path : Path
    sets, cache : Path
        Folders of the sets, and of the prepared ones.
    ray : dict
        What :func:`ray_overheads` measured.
    """
    record = json.loads(path.read_text())
    X, Y = datasets.load(datasets.prepare(record["set"], sets, cache), "X.trn", "Y.trn")
    medians, rows = record["medians"], []
    for setting, where in dict.fromkeys((row["setting"], row["rows"]) for row in medians if row["nodes"]):
        one = next(row for row in medians if (row["setting"], row["nodes"]) == (setting, 0))
        # What a unit of work takes was another thing then: a training in one process tells, now and then.
        alone = _recorded(X, Y, setting, None)
        scale = one["cpu_s"] / sum(job.seconds for step in alone for job in step.jobs)
        steps = _recorded(X, Y, setting, where)
        for row in medians:
            if (row["setting"], row["rows"]) == (setting, where) and row["nodes"]:
                tasks = tasks_of(steps, ray["copying"], SHARES * row["nodes"], scale)
                outcome = simulate(tasks, Machines(
                    row["nodes"], cores=record["machine"]["cores"], overhead_s=ray["overhead_s"],
                    handing_s=ray["handing_s"],
                ))  # fmt: skip
                rows.append({
                    "setting": setting, "nodes": row["nodes"], "where": where,
                    "tasks": sum(not task.on_driver for task in tasks), "wall_s": row["wall_s"],
                    "paper_s": outcome.seconds, "one_process_s": one["wall_s"],
                    "bytes": sum(phase["bytes_shared"] + phase["bytes_sent"] for phase in row["phases"]),
                    "paper_bytes": sum(step.shared_bytes + sum(job.sent_bytes for job in step.jobs) for step in steps),
                })  # fmt: skip
    return {"set": record["set"], "date": record["date"], "machine": record["machine"], "rows": rows}


def _recorded(X: Any, Y: Any, setting: str, where: str | None) -> list[Step]:
    """The jobs of a training: in one process, or as a cluster is given them, with rows in memory or in parts."""
    parameters = dict(SETTINGS[setting])
    preset = parameters.pop("preset", None)
    model = XRLinear(n_jobs=1, **({**XRLinear.presets[preset], **parameters} if preset else parameters))
    with tempfile.TemporaryDirectory() as place:
        given = (X, Y)
        if where == "parts":
            data.save_parts(place + "/parts", X, Y, rows_per_part=max(1, X.shape[0] // 32))
            given = data.open_parts(place + "/parts")
        recorder = Recorder(elsewhere=where is not None)
        with using(recorder):  # which also reads rows in parts before the training's own jobs
            model.fit(*given)
        recorder.finish()
    return recorder.steps


def tasks_of(steps: Sequence[Step], copying: float, n_shares: int, scale: float = 1.0) -> list[Task]:
    """The tasks of a recorded training.

    A job of a list takes what its cost says, at the list's mean rate, as a plan would know it; what is done by itself
    takes what it took.

    Parameters
    ----------
    steps : sequence of Step
    copying : float
        Seconds of the driver for a byte that a list's jobs share, or that they give.
    n_shares : int
        Of a list's cost, which make a task each, as the Ray runner has it.
    scale : float
        How much longer all takes than where it was recorded.
    """
    tasks: list[Task] = []
    after: tuple[int, ...] = ()
    for stage, step in enumerate(steps):
        seconds = scale * sum(job.seconds for job in step.jobs)
        if step.kind != "list":
            tasks.append(Task(step.name, step.name, seconds, after=after, stage=stage, on_driver=True))
            after = (len(tasks) - 1,)
            continue
        tasks.append(Task("sending", step.name, copying * step.shared_bytes, after=after, stage=stage, on_driver=True))
        after = (len(tasks) - 1,)
        total, begun = sum(job.cost for job in step.jobs), len(tasks)
        for group, numbers in grouped([_like(job) for job in step.jobs], n_shares):
            own = [step.jobs[number] for number in numbers]
            handing = sum(job.cutting_s * scale + job.sent_bytes * copying for job in own)
            tasks.append(Task(group.name, step.name, seconds * group.cost / total, after=after, stage=stage,
                              peak_bytes=group.peak_bytes, handing_s=handing))  # fmt: skip
        copied = copying * sum(job.bytes_out for job in step.jobs)
        done = tuple(range(begun, len(tasks)))
        tasks.append(Task("receiving", step.name, copied, after=done, stage=stage, on_driver=True))
        after = (len(tasks) - 1,)
    return tasks


def _like(noted: Noted) -> Job[Any]:
    """A job of this name, cost and memory, to be grouped with others."""
    return Job(noted.name, _nothing, {}, noted.cost, noted.peak_bytes)
