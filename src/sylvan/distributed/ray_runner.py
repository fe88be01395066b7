"""A Ray cluster: this process's connection to it, which all that need it share, and what its nodes answer; and the
runner that runs a training's jobs as its tasks, ``with sylvan.distributed.ray(…):``."""

from __future__ import annotations

import copy
import os
import platform
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from sylvan import store
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError, MemoryLimitError, ModelError, ParameterError, SylvanError
from sylvan.lazy import need_extra
from sylvan.parallel import progress
from sylvan.runtime.groups import SentAlong, grouped
from sylvan.runtime.jobs import Deliver, Job, Once, Runner, using
from sylvan.version import __version__

_CONNECTED_WITHIN = 10.0  # seconds in which an address must accept a connection
# Ray's own setting for how often it looks for a cluster, some 40 seconds each time. It does so 20 times where nothing
# is said, a quarter of an hour; here once, unless the environment says otherwise.
_TIMES = "RAY_gcs_server_port_wait_time_s"
_ANSWERS = 60.0  # seconds in which every node must have answered
_lock = threading.RLock()  # the garbage collector may close one connection while another is opened
_users: dict[tuple[str, str], int] = {}  # of the connections that were opened here


def need_ray(module: str = "ray") -> Any:
    """Ray, or its ``ray.data``, or how to get it."""
    return need_extra(f"Working on a cluster needs {'Ray' if module == 'ray' else 'Ray Data ({})'}", "ray", module)


def connect(module: Any, address: str | None, options: Mapping[str, Any]) -> None:
    """``ray.init`` that says within a minute what is wrong."""
    where = "A Ray cluster can't be started on this machine"
    if address is not None:
        where = f"The Ray cluster at {address!r} can't be reached"
        _check_address(address, where)
    place = "local" if address is None else address
    once = place != "local" and _TIMES not in os.environ
    if once:
        os.environ[_TIMES] = "1"
    try:
        module.init(address=place, log_to_driver=False, configure_logging=False, **options)
    except Exception as error:
        raise SylvanError(f"{where}: {line_of(error, -1).rstrip('.: ')}.") from error
    finally:
        if once:
            os.environ.pop(_TIMES, None)


def line_of(error: Exception, number: int = 0) -> str:
    """A line of what an error says; its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[number].strip()


def _check_address(address: str, where: str) -> None:
    """Refuse an address where nobody listens."""
    if not isinstance(address, str):
        raise ParameterError(f"The address of a Ray cluster must be a string. Got {address!r} instead.")
    place = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    if place.startswith("ray://"):  # Ray Client, after whose failure no other connection can be made
        wanted = "that of its own port, HOST:6379"
        raise ParameterError(f"The address of a Ray cluster must be {wanted}. Got {place!r} instead.")
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        return  # Ray finds it, or says what is wrong with it
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECTED_WITHIN).close()
    except (OSError, OverflowError, UnicodeError) as error:
        of = "" if place == address else f" (RAY_ADDRESS is {place!r})"
        raise SylvanError(f"{where}{of}: {getattr(error, 'strerror', None) or error}.") from error


class Connection:
    """What needs Ray has one while it does. Ray is connected to one cluster at a time. Where this process is connected
    already, that connection is taken; one that was opened here is shut down when the last that needs it has closed."""

    def __init__(self, module: Any, address: str | None = None, **options: Any) -> None:
        self._ray, self._open = module, True
        with _lock:
            opened = not module.is_initialized()
            if opened:
                if address is None:  # workers of this machine import what this process does
                    places = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
                    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, places))}}
                    options.setdefault("runtime_env", environment)
                connect(module, address, options)
            elif address not in (None, "auto", present := module.get_runtime_context().gcs_address):
                words = f"This process is connected to the Ray cluster at {present} already"
                raise ParameterError(f"{words}. Got {address!r} instead.")
            self._job = self._current_job()
            if opened or self._job in _users:
                _users[self._job] = 1 if opened else _users[self._job] + 1

    def is_alive(self) -> bool:
        """Whether this process is still connected: Ray can be shut down by anybody."""
        return bool(self._ray.is_initialized()) and self._current_job() == self._job

    def close(self) -> None:
        """Say that it isn't needed any more; a second time says nothing."""
        with _lock:
            if self._open and self._job in _users:
                _users[self._job] -= 1
                if not _users[self._job]:
                    del _users[self._job]
                    if self.is_alive():
                        self._ray.shutdown()
            self._open = False

    def _current_job(self) -> tuple[str, str]:
        context = self._ray.get_runtime_context()
        return str(context.gcs_address), str(context.get_job_id())


def ask_nodes(module: Any, work: Callable[..., Any], *arguments: Any) -> list[tuple[str, Any]]:
    """What a worker of every node answers: names of nodes and answers. ``work`` is a function of a module."""
    task = module.remote(num_cpus=0, max_retries=0)(work)
    strategy = module.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    nodes = [node for node in module.nodes() if node["Alive"]]
    answers = [
        (node["NodeManagerHostname"], node["NodeID"],
         task.options(scheduling_strategy=strategy(node["NodeID"], soft=False)).remote(*arguments))
        for node in nodes
    ]  # fmt: skip
    results = []
    for name, number, reference in answers:
        try:
            results.append((name, module.get(reference, timeout=_ANSWERS)))
        except module.exceptions.TaskUnschedulableError:
            continue  # a node that has just left the cluster runs nothing
        except Exception as error:
            if number not in {node["NodeID"] for node in module.nodes() if node["Alive"]}:
                continue  # it left while it was asked
            raise DataError(f"The node {name!r} can't run Sylvan: {line_of(error, -1)}") from error
    return results


def versions() -> dict[str, str]:
    """What must be the same in this process and in every worker, for the same bits and for results that fit."""
    return {"Python": platform.python_version(), "NumPy": np.__version__, "Sylvan": __version__}


def check_nodes(module: Any) -> None:
    """Ask every node for its versions."""
    for name, remote in ask_nodes(module, versions):
        for package, version in versions().items():
            if remote[package] != version:
                raise DataError(f"The node {name!r} has {package} {remote[package]}, but this process has {version}.")


_RETRIES = 5  # of a job whose worker or node is lost
SHARES = 16  # of a list's cost, for each CPU: so much work is worth sending
_AHEAD = 2  # jobs for each CPU that are handed over at once: a worker that is done has its next one there
_PATIENCE = 120.0  # seconds in which a node must come back without which jobs can't be run
_LOOK = 1.0  # seconds between two looks at the cluster while nothing is finished
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class RayRunner(Runner):
    """Runs lists of jobs on a Ray cluster; see :func:`sylvan.distributed.ray`. A job is a pure function of its inputs,
    so that it may be run anywhere, and again where a worker or a node is lost. Small jobs are sent together. What
    several jobs read is sent once, into the cluster's object store, from where workers map it: rows once for all of a
    training, what else a list of jobs shares once for the list. A single job (:meth:`one`) is run in this process."""

    elsewhere = True

    def __init__(self, module: Any, n_jobs: int | None = 1) -> None:
        super().__init__(n_jobs)
        self._ray = module
        self.phases: list[Phase] = []  # what each list of jobs moved, as far as it was arrays
        self._rows: dict[int, tuple[Csr, Any]] = {}  # references to the rows of the training, by their identity
        self._call = module.remote(num_cpus=1, max_retries=_RETRIES, retry_exceptions=False)(_call)

    def n_shares(self) -> int:
        return SHARES * max(1, self._n_cpus())

    def end(self) -> None:
        self._rows.clear()

    def stream(self, jobs: Sequence[Job[Any]], deliver: Deliver, description: str | None = None) -> None:
        """Run the jobs on the cluster, the most expensive first, and deliver their results as they come."""
        if not jobs:
            return
        self._check_memory(jobs)
        phase = Phase(description or jobs[0].title, len(jobs))
        self.phases.append(phase)
        groups = grouped(jobs, self.n_shares())
        order, shared = iter(groups), _Shared(phase)
        pending: dict[Any, tuple[Job[Any], list[int]]] = {}
        lost: Counter[str] = Counter()
        total = sum(job.cost for job in jobs)
        most, looked = _AHEAD * max(1, self._n_cpus()), time.monotonic()
        roomy = looked  # when the cluster was last seen to have room for all that waits
        with progress(description, total) if description else nullcontext() as bar:
            try:
                while True:
                    if pending and time.monotonic() - looked > _LOOK:  # nodes come and go
                        most, looked = _AHEAD * max(1, self._n_cpus()), time.monotonic()
                        roomy = self._still_has_room([group for group, _ in pending.values()], roomy)
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
                way = "choose a folder on a file system that all nodes share"
                raise ModelError(f"The node {node!r} doesn't see the checkpoint in {path!r}: {way}.")

    def ordered(self, jobs: Iterable[Job[Any]], common: Mapping[str, Any]) -> Iterator[Any]:
        """The results of jobs that are made while others run, in the order of the jobs; few are there at a time."""
        pending: deque[tuple[Any, Job[Any]]] = deque()
        self.phases.append(Phase("in order", 0))
        shared = _Shared(self.phases[-1])
        try:
            for job in jobs:
                full_job = replace(job, inputs={**common, **job.inputs})
                pending.append((self._submit(full_job, shared, common.values()), job))
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
        common = {id(value) for value in (job.inputs.values() if common is None else common)}
        values: list[Any] = []
        places: dict[int, int] = {}  # of each value, by its identity: what several jobs of a group read is named once
        where = {}
        for name, value in job.prepared().inputs.items():
            if id(value) not in places:
                places[id(value)] = len(values)
                values.append(self._sent(value, shared) if id(value) in common else value)
                shared.phase.bytes_sent += 0 if id(value) in common else array_bytes(value)
            where[name] = places[id(value)]
        memory = {"memory": job.peak_bytes} if job.peak_bytes else {}
        return self._call.options(name=job.name, **memory).remote(job.work, job.name, job.title, where, *values)

    def _sent(self, value: Any, shared: _Shared) -> Any:
        """What a task is given for a value that several read: itself where it is small and plain, else a reference.
        What they build on is made once."""
        if isinstance(value, (*_PLAIN, SentAlong)):
            return value
        if isinstance(value, tuple) and all(isinstance(part, _PLAIN) for part in value):
            return value
        sent = self._rows if isinstance(value, Csr) else shared.sent
        if id(value) not in sent:
            once = isinstance(value, Once)
            shared.phase.bytes_shared += 0 if once else array_bytes(value)
            sent[id(value)] = value, self._submit(value.job, shared) if once else self._ray.put(value)
        return sent[id(value)][1]

    def _leave(self, references: Iterable[Any], error: BaseException) -> None:
        """After Ctrl-C in a session that goes on, cancel what has been handed over. Else it ends with this process, or
        after an error by itself, two jobs for each CPU at most: to cancel a task whose answer is on its way aborts this
        process (a check in Ray's task manager, seen in 2.60), which would lose the error, or what is said of Ctrl-C."""
        if isinstance(error, KeyboardInterrupt) and hasattr(sys, "ps1"):
            for reference in references:
                with suppress(Exception):
                    self._ray.cancel(reference, force=False)

    def _result(self, reference: Any, job: Job[Any]) -> Any:
        """A result in this process's own memory, writable as one that was made here."""
        errors = self._ray.exceptions
        try:
            return copy.deepcopy(self._ray.get(reference))
        except errors.RayError as error:
            cause = getattr(error, "cause", None) if isinstance(error, errors.RayTaskError) else error
            if isinstance(cause, errors.ObjectLostError):
                raise _ObjectLostError(self._lost(job, cause)) from cause
            if isinstance(error, errors.RayTaskError):
                raise (cause if isinstance(cause, Exception) else error) from None
            if isinstance(error, errors.OutOfMemoryError):
                words = f"ran out of memory on its node, {_RETRIES + 1} times"
                raise MemoryLimitError(f"The job {job.name!r} ({job.title}) {words}.") from error
            raise SylvanError(self._lost(job, error)) from error

    def _result_unless_lost(
        self, reference: Any, group: Job[list[Any]], shared: _Shared, lost: Counter[str]
    ) -> list[Any] | None:
        """The results of a group; None where something that it needs was lost, and will be sent again."""
        try:
            return list(self._result(reference, group))
        except _ObjectLostError as error:
            lost[group.name] += 1
            if lost[group.name] > _RETRIES:
                raise SylvanError(str(error)) from error.__cause__
            shared.sent.clear()  # and all of it is sent again, to jobs that are handed over from now on
            self._rows.clear()
            return None

    @staticmethod
    def _lost(job: Job[Any], error: Exception) -> str:
        where = f"{_RETRIES + 1} times with its worker or node: {line_of(error)}"
        return f"The job {job.name!r} ({job.title}) was lost {where}"

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
        sizes = [node["Resources"].get("memory", 0) for node in self._ray.nodes() if node["Alive"]]
        most, largest = int(max(sizes, default=0)), max(jobs, key=lambda job: job.peak_bytes)
        if largest.peak_bytes > most:
            words = f"needs {largest.peak_bytes:,} bytes, but the largest node of the cluster has {most:,}"
            raise MemoryLimitError(f"The job {largest.name!r} ({largest.title}) {words}.")
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


@dataclass
class _Shared:
    """The inputs of one list of jobs: each object is sent once, however many jobs read it."""

    phase: Phase
    # References by the identity of what was sent; with the object, which so stays alive.
    sent: dict[int, tuple[Any, Any]] = field(default_factory=dict)


def _call(work: Any, name: str, title: str, where: dict[str, int], *values: Any) -> Any:
    """In a worker: the result of a job, whose inputs have these places among the values."""
    return Job(name, work, {key: values[place] for key, place in where.items()}, title=title)()


def _seen(path: str) -> str:
    """What a node finds of a checkpoint."""
    try:
        return str(store.contents(Path(path) / "training")["checksum"])
    except SylvanError:
        return ""


def array_bytes(value: Any) -> int:
    """Bytes of the arrays in a value, in its fields and in what it holds, each object once."""
    seen: set[int] = set()

    def size(part: Any) -> int:
        if isinstance(part, (*_PLAIN, type, FunctionType, ModuleType)) or id(part) in seen:
            return 0
        seen.add(id(part))
        if hasattr(part, "nbytes"):
            return int(part.nbytes)
        if isinstance(part, Mapping):
            return sum(map(size, part.values()))
        if isinstance(part, list | tuple):
            return sum(map(size, part))
        return sum(map(size, vars(part).values())) if hasattr(part, "__dict__") else 0

    return size(value)


@contextmanager
def ray(address: str | None = None, *, n_jobs: int | None = 1, **options: Any) -> Iterator[RayRunner]:
    """Trainings within the block run their jobs on a Ray cluster; models have the same bits as without.

    Parameters
    ----------
    address : str, optional
        Of the cluster, or "auto" for the one that this machine belongs to; None takes the one that this process is
        connected to already, or starts one on this machine, whatever RAY_ADDRESS says.
    n_jobs : int, optional
        Threads of this process, for what isn't divided into jobs.
    **options
        For ``ray.init``, where it is called here.

    Yields
    ------
    RayRunner
        Also taken by ``fit(…, runner=…)``.

    Raises
    ------
    ImportError
        Without Ray.
    SylvanError
        When there is no cluster at the address, or a node has another version of Python, NumPy or Sylvan.

    Examples
    --------
    ::

        with sylvan.distributed.ray("auto"):
            model = XRLinear().fit(X, Y)
    """
    module = need_ray()
    with ExitStack() as ends:
        ends.callback(Connection(module, address, **options).close)
        check_nodes(module)
        runner = RayRunner(module, n_jobs)
        with using(runner):
            yield runner
