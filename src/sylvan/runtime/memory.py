"""Memory limits: amounts as people write them, what is refused, and the runner that admits jobs by memory."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan.errors import MemoryLimitError, ParameterError
from sylvan.parallel import scratch
from sylvan.runtime.jobs import Deliver, Job, Results, Runner, Wrapper
from sylvan.runtime.machine import return_freed_memory
from sylvan.store import ScratchFiles

_Result = TypeVar("_Result")
_Value = TypeVar("_Value")
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_bytes(value: Any, name: str = "memory_limit") -> int:
    """An amount of memory in bytes."""
    amount: float = -1
    if isinstance(value, str):
        match = _AMOUNT.fullmatch(value)
        if match is not None and match[2].lower() in _UNITS:
            amount = float(match[1]) * _UNITS[match[2].lower()]
    elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        amount = int(value)
    if not 1 <= amount < 2**62:
        raise ParameterError(
            f"The {name!r} parameter must be a number of bytes in [1, 2^62), or text such as '500MB' or '4GB'. "
            f"Got {value!r} instead."
        )
    return int(amount)


def shown_bytes(n_bytes: float) -> str:
    """Bytes as sentences show them: ``"1.2 GB"``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes / 1e3:.0f} kB"


class Gate:
    """Starts pieces of work while there is memory for them; a single one may always start."""

    def __init__(self, capacity: int, limit: int = 0, taken: int = 0) -> None:
        self.capacity, self._limit, self._taken = capacity, limit, taken
        self._held = 0
        self._room = threading.Condition()

    def need(self, n_bytes: int, what: str) -> None:
        """Refuse a limit under which ``what``, the largest piece, has no room beside everything else."""
        if n_bytes > self.capacity:
            share = self.capacity / max(1, self._limit - self._taken)
            need = int(n_bytes / share) if share > 0 else n_bytes
            need_room(need, self._limit, self._taken, what)

    @contextmanager
    def hold(self, n_bytes: int) -> Iterator[None]:
        """Wait until there is room, and keep it while the block runs."""
        with self._room:
            self._room.wait_for(lambda: not self._held or self._held + n_bytes <= self.capacity)
            self._held += n_bytes
        try:
            yield
        finally:
            with self._room:
                self._held -= n_bytes
                self._room.notify_all()


def need_room(need: int, limit: int, taken: int, what: str) -> None:
    """Refuse a limit that the work can't keep."""
    if taken + need > limit:
        raise MemoryLimitError(
            f"memory_limit is {shown_bytes(limit)}, but {shown_bytes(taken)} are taken already and {what} needs about "
            f"{shown_bytes(need)} more: allow at least {shown_bytes(taken + need)}."
        )


# Shares of the memory that is free under a limit: jobs in work, and arrays that stay in memory rather than in files.
# Results that wait to be written take another sixteenth, and once more while they are; the rest is for what isn't
# counted.
WORK_SHARE, ARRAY_SHARE = 5 / 8, 1 / 8


class WithinMemory(Wrapper):
    """Starts jobs while there is memory for them, and puts large arrays into files."""

    def __init__(self, inner: Runner, limit: int, taken: int, folder: str) -> None:
        super().__init__(inner)
        self._limit, self._taken = limit, taken
        self.free = max(0, limit - taken)
        self._gate = Gate(int(self.free * WORK_SHARE), limit, taken)
        self._files = ScratchFiles(folder)
        self._array_bytes = 0
        self.zeros, self.zeros_briefly = self._zeros, self._zeros_briefly

    def run(self, jobs: Sequence[Job[_Result]], description: str | None = None) -> Results[_Result]:
        return Runner.run(self, jobs, description)

    def one(self, job: Job[_Result], agree: Callable[[bool], bool] = bool) -> _Result:
        need_room(job.peak_bytes, self._limit, self._taken, job.title)
        try:
            result = self.inner.one(job, agree)
            return self._in_files(result) if job.shared else result
        finally:
            self.release()

    def stream(self, jobs: Sequence[Job[Any]], deliver: Deliver, description: str | None = None) -> None:
        if jobs:
            largest = max(jobs, key=lambda job: job.peak_bytes)
            self._gate.need(largest.peak_bytes, largest.title)
        admitted = [dataclasses.replace(job, work=self._admitted, inputs={"job": job}, cut=None) for job in jobs]
        self.inner.stream(admitted, deliver, description)
        self.release()

    def _admitted(self, job: Job[_Result]) -> _Result:
        with self._gate.hold(job.peak_bytes):
            result = job()
            if job.peak_bytes * self.n_jobs > self._gate.capacity // 4:  # too much to sit on while others wait
                scratch().clear()
            return result

    def _in_files(self, value: _Value) -> _Value:
        """Arrays, and the arrays of lists and dataclasses, copied into files."""
        shared: Any = value
        if isinstance(value, np.ndarray):
            shared = self.zeros(value.size, value.dtype).reshape(value.shape)
            shared[...] = value
        elif isinstance(value, (list, tuple)):
            parts = [self._in_files(each) for each in value]
            shared = type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)  # named tuples, others
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [field.name for field in dataclasses.fields(value) if field.init]
            shared = dataclasses.replace(value, **{name: self._in_files(getattr(value, name)) for name in fields})
        result: _Value = shared
        return result

    def _zeros(self, size: int, dtype: Any) -> npt.NDArray[Any]:
        n_bytes = int(size) * np.dtype(dtype).itemsize
        if self._array_bytes + n_bytes > self.free * ARRAY_SHARE:
            return self._files.zeros(size, dtype)
        self._array_bytes += n_bytes
        return np.zeros(size, dtype)

    def _zeros_briefly(self, size: int, dtype: Any) -> npt.NDArray[Any]:
        in_memory = int(size) * np.dtype(dtype).itemsize <= self.free * ARRAY_SHARE
        return np.zeros(size, dtype) if in_memory else self._files.zeros(size, dtype)

    def release(self) -> None:
        self._files.release()
        return_freed_memory()
