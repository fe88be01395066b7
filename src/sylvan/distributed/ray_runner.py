"""The runner that runs a training's jobs as tasks of a Ray cluster."""

from __future__ import annotations

import copy
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from sylvan import store
from sylvan.distributed.nodes import ask_nodes
from sylvan.errors import MemoryLimitError, ModelError, SylvanError
from sylvan.parallel import progress
from sylvan.runtime.groups import SentAlong, grouped
from sylvan.runtime.jobs import Deliver, Job, Once, Runner

_RETRIES = 5  # of a job whose worker or node is lost
SHARES = 16  # of a list's cost, for each CPU: so much work is worth sending
_AHEAD = 2  # jobs for each CPU that are handed over at once: a worker that is done has its next one there
_PATIENCE = 120.0  # seconds in which a node must come back without which jobs can't be run
_LOOK = 1.0  # seconds between two looks at the cluster while nothing is finished
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class RayRunner(Runner):
    """Runs lists of jobs on a Ray cluster; see :func:`sylvan.distributed.ray`. A job is a pure function of its inputs,
    so that it may be run anywhere, and again where a worker or a node is lost. Small jobs are sent together. What
    several jobs read is sent once, into the cluster's object store, from where workers map it. A single job
    (:meth:`one`) is run in this process."""

    elsewhere = True

    def __init__(self, module: Any, n_jobs: int | None = 1) -> None:
        super().__init__(n_jobs)
        self._ray = module
        self.phases: list[Phase] = []  # what each list of jobs moved, as far as it was arrays
        self._call = module.remote(num_cpus=1, max_retries=_RETRIES, retry_exceptions=False)(_call)

    def n_shares(self) -> int:
        return SHARES * max(1, self._n_cpus())

    def stream(self, jobs: Sequence[Job[Any]], deliver: Deliver, description: str | None = None) -> None:
        """Run the jobs on the cluster, the most expensive first, and deliver their results as they come."""
        if not jobs:
            return
        self._check_memory(jobs)
        phase = Phase(description or jobs[0].title, len(jobs))
        self.phases.append(phase)
        groups = grouped(jobs, self.n_shares())
        order, shared = iter(groups), _Shared(self, phase)
        pending: dict[Any, tuple[Job[Any], list[int]]] = {}
        lost: Counter[str] = Counter()
        total = sum(job.cost for job in jobs)
        most, looked = _AHEAD * max(1, self._n_cpus()), time.monotonic()
        room = looked  # when the cluster was last seen to have room for all that waits
        with progress(description, total) if description else nullcontext() as bar:
            try:
                while True:
                    if pending and time.monotonic() - looked > _LOOK:  # nodes come and go
                        most, looked = _AHEAD * max(1, self._n_cpus()), time.monotonic()
                        room = self._still_has_room([group for group, _ in pending.values()], room)
                    while len(pending) < most:
                        group, numbers = next(order, (None, []))
                        if group is None:
                            break
                        pending[self._submit(group, shared)] = group, numbers
                    if not pending:
                        return
                    done, _ = self._ray.wait(list(pending), num_returns=1, timeout=_LOOK)
                    for reference in done:
                        group, numbers = pending.pop(reference)
                        results = self._result_unless_lost(reference, group, shared, lost)
                        if results is None:
                            pending[self._submit(group, shared)] = group, numbers
                            continue
                        phase.bytes_returned += array_bytes(results)
                        for number, result in zip(numbers, results, strict=True):
                            deliver(number, result)
                        if bar is not None:
                            bar.update(group.cost)
            except BaseException as error:
                self._leave(pending, error)
                raise

    def need_folder(self, path: str) -> None:
        """Refuse a checkpoint's folder that a node doesn't see."""
        wanted = _seen(path)
        for node, answer in ask_nodes(self._ray, _seen, path):
            if answer != wanted:
                raise ModelError(
                    f"The node {node!r} doesn't see the checkpoint in {path!r}: choose a folder on a file system that "
                    "all nodes share."
                )

    def put(self, value: Any) -> Any:
        """Send a value to the object store."""
        return self._ray.put(value)

    def ordered(self, jobs: Iterable[Job[Any]], common: Mapping[str, Any]) -> Iterator[Any]:
        """The results of jobs that are made while others run, in the order of the jobs; few are there at a time."""
        pending: deque[tuple[Any, Job[Any]]] = deque()
        self.phases.append(Phase("in order", 0))
        shared = _Shared(self, self.phases[-1])
        try:
            for job in jobs:
                whole = replace(job, inputs={**common, **job.inputs})
                pending.append((self._submit(whole, shared, common.values()), job))
                self.phases[-1].n_jobs += 1
                if len(pending) >= _AHEAD * max(1, self._n_cpus()):
                    yield self._first(pending)
            while pending:
                yield self._first(pending)
        except BaseException as error:
            self._leave((reference for reference, _ in pending), error)
            raise

    def _first(self, pending: deque[tuple[Any, Job[Any]]]) -> Any:
        self._ray.wait([pending[0][0]])  # where this is interrupted, it is one of those to be cancelled
        return self._result(*pending.popleft())

    def _submit(self, job: Job[Any], shared: _Shared, common: Collection[Any] | None = None) -> Any:
        """Hand a job over; what it has in ``common`` with others, by default all that isn't cut, is sent once."""
        own = job.prepared()
        common = {id(value) for value in (job.inputs.values() if common is None else common)}
        values: list[Any] = []
        places: dict[int, int] = {}  # of each value, by its identity: what several jobs of a group read is named once
        where = {}
        for name, value in own.inputs.items():
            if id(value) not in places:
                places[id(value)] = len(values)
                values.append(shared.of(value) if id(value) in common else shared.sent_along(value))
            where[name] = places[id(value)]
        options: dict[str, Any] = {"name": job.name}
        if job.peak_bytes:
            options["memory"] = job.peak_bytes
        return self._call.options(**options).remote(job.work, job.name, job.title, where, *values)

    def submit_once(self, once: Once, shared: _Shared) -> Any:
        """Have what several jobs build on made, once; its reference."""
        return self._submit(once.job, shared)

    def _leave(self, references: Iterable[Any], error: BaseException) -> None:
        """Cancel what has been handed over, after Ctrl-C. After an error it runs to its end, two jobs for each CPU at
        most: to cancel a task whose answer is on its way aborts this process (a check in Ray's task manager, seen in
        2.60), which would lose the error."""
        if isinstance(error, KeyboardInterrupt | SystemExit):
            for reference in references:
                with suppress(Exception):
                    self._ray.cancel(reference, force=False)

    def _result(self, reference: Any, job: Job[Any]) -> Any:
        """A result in this process's own memory, writable as one that was made here."""
        errors = self._ray.exceptions
        try:
            return copy.deepcopy(self._ray.get(reference))
        except errors.RayTaskError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, errors.ObjectLostError):
                raise _ObjectLostError(self._lost(job, cause)) from cause
            raise (cause if isinstance(cause, Exception) else error) from None
        except errors.OutOfMemoryError as error:
            raise MemoryLimitError(
                f"The job {job.name!r} ({job.title}) ran out of memory on its node, {_RETRIES + 1} times."
            ) from error
        except errors.ObjectLostError as error:
            raise _ObjectLostError(self._lost(job, error)) from error
        except errors.RayError as error:
            raise SylvanError(self._lost(job, error)) from error

    def _result_unless_lost(
        self, reference: Any, group: Job[list[Any]], shared: _Shared, lost: Counter[str]
    ) -> list[Any] | None:
        """The results of a group; None where something that it needs was lost, and will be sent anew."""
        try:
            results: list[Any] = self._result(reference, group)
            return results
        except _ObjectLostError as error:
            lost[group.name] += 1
            if lost[group.name] > _RETRIES:
                raise SylvanError(str(error)) from error.__cause__
            shared.forget()
            return None

    @staticmethod
    def _lost(job: Job[Any], error: Exception) -> str:
        what = str(error).strip().splitlines()
        return (
            f"The job {job.name!r} ({job.title}) was lost {_RETRIES + 1} times with its worker or node: "
            f"{what[0] if what else type(error).__name__}"
        )

    def _n_cpus(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))

    def _still_has_room(self, jobs: Sequence[Job[Any]], before: float) -> float:
        """When the cluster last had room for the jobs: now, or ``before``; refuse to wait for it too long."""
        try:
            self._check_memory(jobs)
        except SylvanError:
            if time.monotonic() - before > _PATIENCE:
                raise
            return before
        return time.monotonic()

    def _check_memory(self, jobs: Sequence[Job[Any]]) -> None:
        """Refuse jobs that no node will ever have room for, at once."""
        rooms = [node["Resources"].get("memory", 0) for node in self._ray.nodes() if node["Alive"]]
        most, largest = max(rooms, default=0), max(jobs, key=lambda job: job.peak_bytes)
        if largest.peak_bytes > most:
            raise MemoryLimitError(
                f"The job {largest.name!r} ({largest.title}) needs {largest.peak_bytes:,} bytes, but the largest node "
                f"of the cluster has {int(most):,}."
            )
        if not self._n_cpus():
            raise SylvanError("The Ray cluster has no CPUs: no job will ever be run there.")


class _ObjectLostError(Exception):
    """What a job was given, or what it made, is no longer in the object store."""


@dataclass
class Phase:
    """What one list of jobs moved."""

    name: str
    n_jobs: int
    bytes_shared: int = 0  # of arrays that several jobs read, which were put into the object store once
    bytes_sent: int = 0  # of arrays that went to a single job each
    bytes_returned: int = 0  # of arrays in results that came back to this process


class _Shared:
    """The inputs of one list of jobs: each object is sent once, however many jobs read it."""

    def __init__(self, runner: RayRunner, phase: Phase) -> None:
        self._runner, self._phase = runner, phase
        self._sent: dict[int, tuple[Any, Any]] = {}  # by identity; with the object, which so stays alive

    def of(self, value: Any) -> Any:
        """What a task is given for a value: itself where it is small and plain, else a reference."""
        if isinstance(value, (*_PLAIN, SentAlong)):
            return value
        if isinstance(value, tuple) and all(isinstance(one, _PLAIN) for one in value):
            return value
        if id(value) not in self._sent:
            once = isinstance(value, Once)
            self._phase.bytes_shared += 0 if once else array_bytes(value)
            sent = self._runner.submit_once(value, self) if once else self._runner.put(value)
            self._sent[id(value)] = (value, sent)
        return self._sent[id(value)][1]

    def sent_along(self, value: Any) -> Any:
        """A value for one task alone."""
        self._phase.bytes_sent += array_bytes(value)
        return value

    def forget(self) -> None:
        """Send everything anew, to jobs that are handed over from now on."""
        self._sent.clear()


def _call(work: Any, name: str, title: str, where: dict[str, int], *values: Any) -> Any:
    """In a worker: the result of a job, whose inputs have these places among the values."""
    return Job(name, work, {own: values[place] for own, place in where.items()}, title=title)()


def _seen(path: str) -> str:
    """What a node finds of a checkpoint."""
    try:
        return str(store.contents(Path(path) / "training")["checksum"])
    except SylvanError:
        return ""


def array_bytes(value: Any) -> int:
    """Bytes of the arrays in a value, in its fields and in what it holds, each object once."""
    seen: set[int] = set()

    def size(one: Any) -> int:
        if isinstance(one, (*_PLAIN, type, FunctionType, ModuleType)) or id(one) in seen:
            return 0
        seen.add(id(one))
        if hasattr(one, "nbytes"):
            return int(one.nbytes)
        if isinstance(one, Mapping):
            return sum(map(size, one.values()))
        if isinstance(one, list | tuple):
            return sum(map(size, one))
        return sum(map(size, vars(one).values())) if hasattr(one, "__dict__") else 0

    return size(value)
