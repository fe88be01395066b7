"""Jobs, the independent pieces of work of every training, and the runners that run them. Algorithms don't know which
runner they have; runners compose."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan.errors import ModelError, SylvanError
from sylvan.parallel import map_parallel, resolve_jobs

Arrays = Mapping[str, npt.NDArray[Any]]
_Result = TypeVar("_Result")
Deliver = Callable[[int, Any], None]
_RAISED = "It was raised in the job"
_current: ContextVar[Runner | None] = ContextVar("sylvan_runner", default=None)


@dataclass(frozen=True)
class Packing(Generic[_Result]):
    """How a job's result is converted to named arrays, for a file or another machine, and back."""

    # from a result to its arrays. All jobs of one list give arrays of the same names and dtypes
    pack: Callable[[_Result], Arrays]
    # from the arrays to the result; raises a `ModelError` where they don't make one
    unpack: Callable[[Arrays], _Result]


@dataclass(frozen=True)
class Job(Generic[_Result]):
    """A piece of work: a pure function, its inputs by name, and what is known about it in advance. Calling a job runs
    it. It may run twice, in any process: its result depends on its inputs alone."""

    name: str  # unique among the jobs of the training: its result is stored under this name
    # a function of a module, called with `inputs`; threads run in parallel where its kernels release the GIL
    work: Callable[..., _Result]
    # arrays in memory or mapped from files, and plain values; what many jobs read is the same object in each. A `Once`
    # is an input that is only computed when a job needs it
    inputs: Mapping[str, Any]
    cost: float = 1.0  # in any unit that is the same for all jobs of a list: the most expensive are started first
    peak_bytes: int = 0  # peak memory of the work, besides its inputs
    # how the result is stored; without it, every training computes the result again
    packing: Packing[_Result] | None = None
    title: str = "this work"  # name of the work in messages
    shared: bool = False  # whether many other jobs read the result, which is then stored where all of them can read it
    # from `inputs` to what `work` is called with: a part of them that is only made when the job is run, or before it is
    # sent to another machine
    cut: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None

    def prepared(self) -> Job[_Result]:
        """The job with its inputs cut."""
        return self if self.cut is None else dataclasses.replace(self, inputs=self.cut(self.inputs), cut=None)

    def __call__(self) -> _Result:
        """The result; an error that isn't a sentence of Sylvan's own says which job it came from."""
        try:
            prepared = self.prepared().inputs
            inputs = {name: value() if isinstance(value, Once) else value for name, value in prepared.items()}
            return self.work(**inputs)
        except SylvanError:
            raise
        except Exception as error:
            notes = getattr(error, "__notes__", [])
            if not any(note.startswith(_RAISED) for note in notes):  # by a job within this one
                note = f"{_RAISED} {self.name!r} ({self.title})."
                error.__dict__["__notes__"] = [*notes, note]  # add_note needs Python 3.11
            raise


@dataclass(frozen=True)
class Folder:
    """Where a job that is one long sequence of steps stores by itself what it has reached."""

    path: str  # of a folder that needn't exist
    begin: Callable[[], None]  # to be called before anything is written: until then a training leaves no trace


class Once:
    """The result of a job that others build on, made when it is first asked for: not where all of them are stored."""

    def __init__(self, job: Job[Any]) -> None:
        self.job = job
        self._results: list[Any] = []

    def __call__(self) -> Any:
        if not self._results:
            self._results.append(self.job())
        return self._results[0]


def _pack_array(array: npt.NDArray[Any]) -> Arrays:
    return {"values": array}


def _unpack_array(arrays: Arrays) -> npt.NDArray[Any]:
    if set(arrays) != {"values"}:
        raise ModelError(f"A single array is stored as 'values'. Got {sorted(arrays)} instead.")
    return np.array(arrays["values"])


ARRAY: Packing[npt.NDArray[Any]] = Packing(_pack_array, _unpack_array)


def _same(value: _Result) -> _Result:
    return value


class Results(list[_Result]):
    """The results of a list of jobs, in its order."""

    in_memory = True  # whether they are in memory, so that any order of reading costs the same

    def scan(self) -> Iterator[tuple[int, _Result]]:
        """Each result with its number, in whichever order is the cheapest."""
        return enumerate(self)

    def drain(self, numbers: Sequence[int]) -> Iterator[tuple[int, _Result]]:
        """Those of some numbers; what was given out is let go."""
        for number in numbers:
            result = self[number]
            self[number] = None  # type: ignore[assignment]
            yield number, result


class Runner:
    """Runs jobs on threads of this process."""

    elsewhere = False  # whether jobs run in other processes, with memory of their own

    def __init__(self, n_jobs: int | None = 1) -> None:
        self.n_jobs = resolve_jobs(n_jobs)  # number of threads; None or -1 for every core. Results don't depend on it

    def end(self) -> None:
        """Let go of what was sent elsewhere for a training: it is over, and the arrays may change."""

    def run(self, jobs: Sequence[Job[_Result]], description: str | None = None) -> Results[_Result]:
        """The results in the order of the jobs."""
        results: Results[_Result] = Results([None] * len(jobs))  # type: ignore[list-item]
        self.stream(jobs, results.__setitem__, description)
        return results

    def one(self, job: Job[_Result], agree: Callable[[bool], bool] = bool) -> _Result:
        """The result of a single job, which may use all threads and all memory for itself."""
        return job()

    def each(self, jobs: Sequence[Job[_Result]]) -> list[Callable[[], _Result]]:
        """Calls that give the results of jobs of which each may use all threads and all memory for itself. A job is run
        when its result is asked for, as :meth:`one` does; where jobs run in other processes, all of them are run at
        once, beside each other."""
        if self.elsewhere:
            return [partial(_same, result) for result in self.run(jobs)]
        return [partial(self.one, job) for job in jobs]

    def stream(self, jobs: Sequence[Job[Any]], deliver: Deliver, description: str | None = None) -> None:
        """Run the jobs and hand each result to ``deliver(number, result)``, from any thread, as soon as it is there."""

        def work(number: int) -> None:
            deliver(number, jobs[number]())

        costs = [job.cost for job in jobs]
        map_parallel(work, range(len(jobs)), self.n_jobs, costs=costs, description=description)

    def within(self, name: str) -> Runner:
        """The same runner for a part of the training, whose jobs' names begin with ``name``."""
        return Within(self, name)

    # ---------------------------------------- where large arrays lie

    zeros: Callable[[int, Any], npt.NDArray[Any]] = staticmethod(np.zeros)  # large arrays to be filled
    zeros_briefly: Callable[[int, Any], npt.NDArray[Any]] = staticmethod(np.zeros)  # and such as are soon let go of

    def release(self) -> None:
        """Give back memory that isn't needed now."""

    def n_shares(self) -> int:
        """Into how many groups a list of jobs is best cut, where they run elsewhere."""
        return 1

    def need_folder(self, path: str) -> None:
        """Refuse a folder of a checkpoint that not all processes see in which jobs run."""

    def folder(self, name: str) -> Folder | None:
        """A folder for a job that stores what it has reached so far by itself; None where nothing is stored."""
        return None

    def flush(self) -> None:
        """Bring results that are stored later to safety, where anything has been stored."""

    # ---------------------------------------- what a loop goes on from

    def load(self, names: Sequence[str], packing: Packing[_Result]) -> list[_Result] | None:
        """What is stored under names of jobs, or by :meth:`save`; None unless all of it is there and whole."""
        return None

    def save(self, name: str, value: _Result, packing: Packing[_Result]) -> None:
        """Store what a loop goes on from, instead of what was stored under this name before."""

    def forget(self, names: Sequence[str]) -> None:
        """Delete the results stored under these names, where there are any: no later job needs them."""


class Wrapper(Runner):
    """Base of runners that add something to another runner."""

    def __init__(self, inner: Runner) -> None:
        self.inner, self.n_jobs, self.elsewhere = inner, inner.n_jobs, inner.elsewhere
        self.zeros, self.zeros_briefly = inner.zeros, inner.zeros_briefly

    def run(self, jobs: Sequence[Job[_Result]], description: str | None = None) -> Results[_Result]:
        return self.inner.run(jobs, description)

    def one(self, job: Job[_Result], agree: Callable[[bool], bool] = bool) -> _Result:
        return self.inner.one(job, agree)

    def stream(self, jobs: Sequence[Job[Any]], deliver: Deliver, description: str | None = None) -> None:
        self.inner.stream(jobs, deliver, description)

    def release(self) -> None:
        self.inner.release()

    def n_shares(self) -> int:
        return self.inner.n_shares()

    def need_folder(self, path: str) -> None:
        self.inner.need_folder(path)

    def folder(self, name: str) -> Folder | None:
        return self.inner.folder(name)

    def flush(self) -> None:
        self.inner.flush()

    def load(self, names: Sequence[str], packing: Packing[_Result]) -> list[_Result] | None:
        return self.inner.load(names, packing)

    def save(self, name: str, value: _Result, packing: Packing[_Result]) -> None:
        self.inner.save(name, value, packing)

    def forget(self, names: Sequence[str]) -> None:
        self.inner.forget(names)


class Within(Wrapper):
    """Adds a prefix to the names of all jobs, so that the parts of a training have different names."""

    def __init__(self, inner: Runner, name: str) -> None:
        super().__init__(inner)
        self._name = name

    def run(self, jobs: Sequence[Job[_Result]], description: str | None = None) -> Results[_Result]:
        return self.inner.run([self._named(job) for job in jobs], description)

    def one(self, job: Job[_Result], agree: Callable[[bool], bool] = bool) -> _Result:
        return self.inner.one(self._named(job), agree)

    def stream(self, jobs: Sequence[Job[Any]], deliver: Deliver, description: str | None = None) -> None:
        self.inner.stream([self._named(job) for job in jobs], deliver, description)

    def folder(self, name: str) -> Folder | None:
        return self.inner.folder(f"{self._name}.{name}")

    def load(self, names: Sequence[str], packing: Packing[_Result]) -> list[_Result] | None:
        return self.inner.load([f"{self._name}.{name}" for name in names], packing)

    def save(self, name: str, value: _Result, packing: Packing[_Result]) -> None:
        self.inner.save(f"{self._name}.{name}", value, packing)

    def forget(self, names: Sequence[str]) -> None:
        self.inner.forget([f"{self._name}.{name}" for name in names])

    def _named(self, job: Job[_Result]) -> Job[_Result]:
        return dataclasses.replace(job, name=f"{self._name}.{job.name}")


@contextmanager
def using(runner: Runner) -> Iterator[Runner]:
    """Trainings that begin within the block, in this thread, run their jobs on ``runner``. A checkpoint that ``fit`` is
    given is added to it."""
    token = _current.set(runner)
    try:
        yield runner
    finally:
        _current.reset(token)


def current_runner(n_jobs: int | None) -> Runner:
    """The runner of the block that this is in; without one, ``n_jobs`` threads."""
    runner = _current.get()
    return Runner(n_jobs) if runner is None else runner
