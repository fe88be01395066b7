"""The jobs of a real training, as Sylvan makes them: a runner that notes each job's cost, memory, bytes and seconds."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sylvan.arrays.validate import Csr
from sylvan.data.parts.row_parts import RowParts
from sylvan.runtime import Job, Once, Runner
from sylvan.runtime.jobs import Deliver

__all__ = ["Noted", "Recorder", "Step", "row_bytes"]

ENTRY = 8  # bytes of a feature value and its column


@dataclass(frozen=True)
class Noted:
    """One job of a training that was run.

    Attributes
    ----------
    name : str
    cost : float
        As the job gives it.
    seconds : float
        CPU seconds that it took here.
    peak_bytes : int
        As the job gives it.
    bytes_in, bytes_out : int
        Of the rows of its clusters, and of its result.
    sent_bytes, cutting_s : int and float
        What is cut out of the inputs for this job alone, and CPU seconds of cutting.
    """

    name: str
    cost: float
    seconds: float
    peak_bytes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    sent_bytes: int = 0
    cutting_s: float = 0.0


@dataclass
class Step:
    """What follows what: one job by itself, a list of independent jobs, or work of the process between them.

    Attributes
    ----------
    kind : {"one", "list", "between"}
    name : str
    jobs : list of Noted
    shared_bytes : int
        Arrays that the jobs of a list read, each of them once.
    """

    kind: str
    name: str
    jobs: list[Noted] = field(default_factory=list)
    shared_bytes: int = 0


class Recorder(Runner):
    """Runs a training's jobs one after the other in this process, and notes them.

    Parameters
    ----------
    elsewhere : bool
        Whether to be given the jobs that a cluster is given.

    Attributes
    ----------
    steps : list of Step
        In the order of the training.
    pairs : dict of str to tuple
        Of each layer, by the beginning of its jobs' names: rows of all clusters, of the largest, clusters, nodes.
    """

    def __init__(self, elsewhere: bool = False) -> None:
        super().__init__(1)
        self.elsewhere = elsewhere
        self.steps: list[Step] = []
        self.pairs: dict[str, tuple[int, int, int, int]] = {}
        self._rows: dict[int, Csr] = {}  # what has been sent for all of the training
        self._last = time.thread_time()

    def one(self, job: Job[Any], agree: Callable[[bool], bool] = bool) -> Any:
        self._between()
        inner: list[Noted] = []
        inputs = {
            name: self._noted(value, inner) if isinstance(value, Once) else value for name, value in job.inputs.items()
        }
        start = time.thread_time()
        result = dataclasses.replace(job, inputs=inputs)()
        seconds = time.thread_time() - start
        for noted in inner:  # what it builds on is a job of its own
            self.steps.append(Step("one", noted.name, [noted]))
            seconds -= noted.seconds
        noted = Noted(job.name, job.cost, seconds, job.peak_bytes, 0, array_bytes(result))
        self.steps.append(Step("one", job.name, [noted]))
        self._last = time.thread_time()
        return result

    def stream(self, jobs: Sequence[Job[Any]], deliver: Deliver, description: str | None = None) -> None:
        self._between()
        step, shared = Step("list", description or "jobs"), dict[int, Any]()
        for number, job in enumerate(jobs):
            start = time.thread_time()
            prepared = job.prepared()
            cutting = time.thread_time() - start
            common = {id(value) for value in job.inputs.values()}
            shared |= {id(value): value for value in prepared.inputs.values() if id(value) in common}
            sent = sum(array_bytes(value) for value in prepared.inputs.values() if id(value) not in common)
            start = time.thread_time()
            result = prepared()
            seconds = time.thread_time() - start
            step.jobs.append(Noted(
                job.name, job.cost, seconds, job.peak_bytes, self._read(job), array_bytes(result), sent, cutting
            ))  # fmt: skip
            deliver(number, result)
        step.shared_bytes = sum(array_bytes(value) for key, value in shared.items() if key not in self._rows)
        self._rows |= {key: value for key, value in shared.items() if isinstance(value, Csr)}
        self.steps.append(step)
        self._last = time.thread_time()

    def finish(self) -> None:
        """The training is over: what came after the last job is a step too."""
        self._between()

    def _between(self) -> None:
        seconds = time.thread_time() - self._last
        self.steps.append(Step("between", "between", [Noted("between", 0.0, seconds)]))
        self._last = time.thread_time()

    def _noted(self, once: Once, inner: list[Noted]) -> Once:
        def work() -> Any:
            start = time.thread_time()
            result = once()
            inner.append(Noted("embeddings", once.job.cost, time.thread_time() - start, 0, 0, array_bytes(result)))
            return result

        return Once(Job("embeddings", work, {}))

    def _read(self, job: Job[Any]) -> int:
        """Bytes of the rows that a block of clusters learns from; 0 for other jobs."""
        problem, clusters = job.inputs.get("problem"), job.inputs.get("clusters")
        if problem is None or clusters is None:
            return 0
        offsets = problem.row_offsets
        layer = job.name.rpartition(".")[0]
        if layer not in self.pairs:
            n_rows = np.diff(offsets)
            self.pairs[layer] = (len(problem.rows), int(n_rows.max()), len(n_rows), int(problem.child_offsets[-1]))
        rows = np.unique(problem.rows[offsets[clusters.start] : offsets[clusters.stop]])
        return row_bytes(job.inputs["features"], rows)


def row_bytes(features: Csr | RowParts, rows: Any) -> int:
    """Bytes of some rows: their entries, and where each begins."""
    return int(ENTRY * (features.indptr[rows + 1] - features.indptr[rows]).sum() + 8 * len(rows))


def array_bytes(value: Any) -> int:
    """Bytes of the arrays in a result."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, list | tuple):
        return sum(map(array_bytes, value))
    if isinstance(value, dict):
        return sum(map(array_bytes, value.values()))
    return sum(map(array_bytes, vars(value).values())) if hasattr(value, "__dict__") else 0
