"""The runner that runs a training's jobs as tasks of a Ray cluster."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from sylvan.errors import MemoryLimitError, SylvanError
from sylvan.parallel import progress
from sylvan.runtime.jobs import Deliver, Job, Once, Runner

__all__ = ["RayRunner"]

_RETRIES = 5  # of a job whose worker or node is lost
_AHEAD = 2  # jobs for each CPU that are handed over at once: a worker that is done has its next one there
_LOOK = 1.0  # seconds between two looks at the cluster while nothing is finished
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class RayRunner(Runner):
    """Runs lists of jobs on a Ray cluster; see :func:`sylvan.distributed.ray`.

    A job is a pure function of its inputs, so that it may be run anywhere, and again where a worker or a node is lost.
    What several jobs read is sent once, into the cluster's object store, from where workers map it. A single job
    (:meth:`one`) is run in this process.

    Parameters
    ----------
    module : module
        Ray, connected to a cluster.
    n_jobs : int, optional
        Threads of this process.

    Attributes
    ----------
    bytes_sent : int
        Bytes of inputs that were put into the object store, as far as they are arrays.
    """

    elsewhere = True

    def __init__(self, module: Any, n_jobs: int | None = 1) -> None:
        super().__init__(n_jobs)
        self._ray = module
        self.bytes_sent = 0
        self._call = module.remote(num_cpus=1, max_retries=_RETRIES, retry_exceptions=False)(_call)

    def stream(self, jobs: Sequence[Job[Any]], deliver: Deliver, description: str | None = None) -> None:
        """Run the jobs on the cluster, the most expensive first, and deliver their results as they come."""
        if not jobs:
            return
        self._check_memory(jobs)
        order = iter(sorted(range(len(jobs)), key=lambda number: -jobs[number].cost))
        shared = _Shared(self)
        pending: dict[Any, int] = {}
        total = sum(job.cost for job in jobs)
        most, looked = _AHEAD * max(1, self._n_cpus()), time.monotonic()
        with progress(description, total) if description else nullcontext() as bar:
            try:
                while True:
                    if time.monotonic() - looked > _LOOK:  # nodes come and go
                        most, looked = _AHEAD * max(1, self._n_cpus()), time.monotonic()
                    while len(pending) < most:
                        number = next(order, None)
                        if number is None:
                            break
                        pending[self._submit(jobs[number], shared)] = number
                    if not pending:
                        return
                    done, _ = self._ray.wait(list(pending), num_returns=1, timeout=_LOOK)
                    for reference in done:
                        number = pending.pop(reference)
                        deliver(number, self._result(reference, jobs[number]))
                        if bar is not None:
                            bar.update(jobs[number].cost)
            finally:
                for reference in pending:
                    with suppress(Exception):
                        self._ray.cancel(reference, force=False)

    def put(self, value: Any) -> Any:
        """Send a value to the object store."""
        self.bytes_sent += array_bytes(value)
        return self._ray.put(value)

    def _submit(self, job: Job[Any], shared: _Shared) -> Any:
        names, values = list(job.inputs), [shared.of(value) for value in job.inputs.values()]
        options: dict[str, Any] = {"name": job.name}
        if job.peak_bytes:
            options["memory"] = job.peak_bytes
        return self._call.options(**options).remote(job.work, job.name, job.title, names, *values)

    def submit_once(self, once: Once, shared: _Shared) -> Any:
        """Have what several jobs build on made, once; its reference."""
        return self._submit(once.job, shared)

    def _result(self, reference: Any, job: Job[Any]) -> Any:
        """A result in this process's own memory, writable as one that was made here."""
        errors = self._ray.exceptions
        try:
            return copy.deepcopy(self._ray.get(reference))
        except errors.RayTaskError as error:
            cause = getattr(error, "cause", None)
            raise (cause if isinstance(cause, Exception) else error) from None
        except errors.OutOfMemoryError as error:
            raise MemoryLimitError(
                f"The job {job.name!r} ({job.title}) ran out of memory on its node, {_RETRIES + 1} times."
            ) from error
        except errors.RayError as error:
            what = str(error).strip().splitlines()
            raise SylvanError(
                f"The job {job.name!r} ({job.title}) was lost {_RETRIES + 1} times with its worker or node: "
                f"{what[0] if what else type(error).__name__}"
            ) from error

    def _n_cpus(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))

    def _check_memory(self, jobs: Sequence[Job[Any]]) -> None:
        """Refuse jobs that no node will ever have room for, at once.

        Raises
        ------
        MemoryLimitError
        """
        rooms = [node["Resources"].get("memory", 0) for node in self._ray.nodes() if node["Alive"]]
        most, largest = max(rooms, default=0), max(jobs, key=lambda job: job.peak_bytes)
        if largest.peak_bytes > most:
            raise MemoryLimitError(
                f"The job {largest.name!r} ({largest.title}) needs {largest.peak_bytes:,} bytes, but the largest node "
                f"of the cluster has {int(most):,}."
            )
        if not self._n_cpus():
            raise SylvanError("The Ray cluster has no CPUs: no job will ever be run there.")


class _Shared:
    """The inputs of one list of jobs: each object is sent once, however many jobs read it."""

    def __init__(self, runner: RayRunner) -> None:
        self._runner = runner
        self._sent: dict[int, tuple[Any, Any]] = {}  # by identity; with the object, which so stays alive

    def of(self, value: Any) -> Any:
        """What a task is given for a value: itself where it is small and plain, else a reference."""
        if isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(isinstance(one, _PLAIN) for one in value)):
            return value
        if id(value) not in self._sent:
            once = isinstance(value, Once)
            sent = self._runner.submit_once(value, self) if once else self._runner.put(value)
            self._sent[id(value)] = (value, sent)
        return self._sent[id(value)][1]


def _call(work: Any, name: str, title: str, names: list[str], *values: Any) -> Any:
    """In a worker: the result of a job."""
    return Job(name, work, dict(zip(names, values, strict=True)), title=title)()


def array_bytes(value: Any) -> int:
    """Bytes of the arrays in a value, in its fields and in what it holds."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(map(array_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(array_bytes, value))
    return sum(map(array_bytes, vars(value).values())) if hasattr(value, "__dict__") else 0
