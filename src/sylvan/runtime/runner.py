"""Runners: who runs a training's jobs. Algorithms don't know which one they have; runners compose."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan.parallel import map_parallel, resolve_jobs, scratch
from sylvan.runtime.job import Job
from sylvan.runtime.memory import Gate, need_room, return_freed_memory
from sylvan.store import ScratchFiles

__all__ = ["Results", "Runner", "Within", "WithinMemory", "Wrapper"]

_Result = TypeVar("_Result")
_Value = TypeVar("_Value")
_Deliver = Callable[[int, Any], None]


class Results(list[_Result]):
    """The results of a list of jobs, in its order.

    Attributes
    ----------
    in_memory : bool
        Whether they lie there, so that any order of reading costs the same.
    """

    in_memory = True

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
    """Runs jobs on threads of this process.

    Parameters
    ----------
    n_jobs : int, optional
        Threads; None or -1 for every core. Results don't depend on it.
    """

    def __init__(self, n_jobs: int | None = 1) -> None:
        self.n_jobs = resolve_jobs(n_jobs)

    def run(self, jobs: Sequence[Job[_Result]], description: str | None = None) -> Results[_Result]:
        """The results in the order of the jobs.

        Parameters
        ----------
        jobs : sequence of Job
        description : str, optional
            Title of a progress bar.

        Raises
        ------
        Exception
            The first error of any job.
        """
        results: Results[_Result] = Results([None] * len(jobs))  # type: ignore[list-item]
        self.stream(jobs, results.__setitem__, description)
        return results

    def one(self, job: Job[_Result]) -> _Result:
        """The result of a single job, which may use all threads and all memory for itself."""
        return job()

    def stream(self, jobs: Sequence[Job[Any]], deliver: _Deliver, description: str | None = None) -> None:
        """Run the jobs and hand each result to ``deliver(number, result)``, from any thread, as soon as it is there."""

        def work(number: int) -> None:
            deliver(number, jobs[number]())

        costs = [job.cost for job in jobs]
        map_parallel(work, range(len(jobs)), self.n_jobs, costs=costs, description=description)

    def within(self, name: str) -> Runner:
        """The same runner for a part of the training, whose jobs' names begin with ``name``."""
        return Within(self, name)

    # ---------------------------------------- where large arrays lie

    def share(self, value: _Value) -> _Value:
        """What many jobs will read, put where all of them can: the value itself, or one like it in files."""
        return value

    def zeros(self, size: int, dtype: Any, *, brief: bool = False) -> npt.NDArray[Any]:
        """A large array to be filled; ``brief`` for one that is soon let go of."""
        return np.zeros(size, dtype)

    def release(self) -> None:
        """Give back memory that isn't needed now."""

    def folder(self, name: str) -> str | None:
        """A folder for a job that stores what it has reached so far by itself; None where nothing is stored."""
        return None

    def flush(self) -> None:
        """Bring results that are stored later to safety, where anything has been stored."""


class Wrapper(Runner):
    """A runner over another one, which does what this one doesn't."""

    def __init__(self, inner: Runner) -> None:
        super().__init__(inner.n_jobs)
        self.inner = inner

    def run(self, jobs: Sequence[Job[_Result]], description: str | None = None) -> Results[_Result]:
        return self.inner.run(jobs, description)

    def one(self, job: Job[_Result]) -> _Result:
        return self.inner.one(job)

    def stream(self, jobs: Sequence[Job[Any]], deliver: _Deliver, description: str | None = None) -> None:
        self.inner.stream(jobs, deliver, description)

    def share(self, value: _Value) -> _Value:
        return self.inner.share(value)

    def zeros(self, size: int, dtype: Any, *, brief: bool = False) -> npt.NDArray[Any]:
        return self.inner.zeros(size, dtype, brief=brief)

    def release(self) -> None:
        self.inner.release()

    def folder(self, name: str) -> str | None:
        return self.inner.folder(name)

    def flush(self) -> None:
        self.inner.flush()


class Within(Wrapper):
    """Puts a name before those of all jobs, so that the parts of a training have names of their own."""

    def __init__(self, inner: Runner, name: str) -> None:
        super().__init__(inner)
        self._name = name

    def run(self, jobs: Sequence[Job[_Result]], description: str | None = None) -> Results[_Result]:
        return self.inner.run([self._named(job) for job in jobs], description)

    def one(self, job: Job[_Result]) -> _Result:
        return self.inner.one(self._named(job))

    def stream(self, jobs: Sequence[Job[Any]], deliver: _Deliver, description: str | None = None) -> None:
        self.inner.stream([self._named(job) for job in jobs], deliver, description)

    def folder(self, name: str) -> str | None:
        return self.inner.folder(f"{self._name}.{name}")

    def _named(self, job: Job[_Result]) -> Job[_Result]:
        return dataclasses.replace(job, name=f"{self._name}.{job.name}")


# Shares of the memory that is free under a limit: jobs in work, and arrays that stay in memory rather than in files.
# Results that wait to be written take another sixteenth, and once more while they are; the rest is for what isn't
# counted.
WORK_SHARE, ARRAY_SHARE = 5 / 8, 1 / 8


class WithinMemory(Wrapper):
    """Admits jobs while there is memory for them, and puts large arrays into files.

    Parameters
    ----------
    inner : Runner
    limit : int
        Bytes that the process may hold.
    taken : int
        Bytes that it holds already.
    folder : str
        Where the files lie, which have no names and go with the process.
    """

    def __init__(self, inner: Runner, limit: int, taken: int, folder: str) -> None:
        super().__init__(inner)
        self._limit, self._taken = limit, taken
        self.free = max(0, limit - taken)
        self._gate = Gate(int(self.free * WORK_SHARE), limit, taken)
        self._files = ScratchFiles(folder)
        self._array_bytes = 0

    def run(self, jobs: Sequence[Job[_Result]], description: str | None = None) -> Results[_Result]:
        return Runner.run(self, jobs, description)

    def one(self, job: Job[_Result]) -> _Result:
        need_room(job.peak_bytes, self._limit, self._taken, job.title)
        try:
            return self.inner.one(job)
        finally:
            self.release()

    def stream(self, jobs: Sequence[Job[Any]], deliver: _Deliver, description: str | None = None) -> None:
        if jobs:
            largest = max(jobs, key=lambda job: job.peak_bytes)
            self._gate.need(largest.peak_bytes, largest.title)
        admitted = [dataclasses.replace(job, work=self._admitted, inputs={"job": job}) for job in jobs]
        self.inner.stream(admitted, deliver, description)
        self.release()

    def _admitted(self, job: Job[_Result]) -> _Result:
        with self._gate.hold(job.peak_bytes):
            result = job()
            if job.peak_bytes * self.n_jobs > self._gate.capacity // 4:  # too much to sit on while others wait
                scratch().clear()
            return result

    def share(self, value: _Value) -> _Value:
        """Arrays, and the arrays of lists and dataclasses, copied into files."""
        shared: Any = value
        if isinstance(value, np.ndarray):
            shared = self.zeros(value.size, value.dtype).reshape(value.shape)
            shared[...] = value
        elif isinstance(value, (list, tuple)):
            parts = [self.share(each) for each in value]
            shared = type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)  # named tuples, others
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [field.name for field in dataclasses.fields(value) if field.init]
            shared = dataclasses.replace(value, **{name: self.share(getattr(value, name)) for name in fields})
        found: _Value = shared
        return found

    def zeros(self, size: int, dtype: Any, *, brief: bool = False) -> npt.NDArray[Any]:
        n_bytes = int(size) * np.dtype(dtype).itemsize
        if (0 if brief else self._array_bytes) + n_bytes > self.free * ARRAY_SHARE:
            return self._files.zeros(size, dtype)
        self._array_bytes += 0 if brief else n_bytes
        return np.zeros(size, dtype)

    def release(self) -> None:
        self._files.release()
        return_freed_memory()
