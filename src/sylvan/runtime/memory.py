"""What memory process and machine have, limits as people write them, and the runner that admits jobs by memory."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from sylvan.arrays.types import Array
from sylvan.errors import MemoryLimitError, ParameterError
from sylvan.parallel import scratch
from sylvan.params.wording import shown_bytes
from sylvan.runtime.jobs import Deliver, Job, Results, Runner, Wrapper
from sylvan.store import ScratchFiles

# Held by Python, NumPy and SciPy, where the system doesn't tell.
INTERPRETER = 100_000_000
PRIVATE_INTERPRETER = 60_000_000  # without the libraries' files
_Result = TypeVar("_Result")
_Value = TypeVar("_Value")
_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "k": 10**3, "m": 10**6, "g": 10**9,
    "t": 10**12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
}  # fmt: skip
_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([a-z]*)\s*", re.IGNORECASE)
# Shares of the memory that is free under a limit: jobs in work, and arrays that stay in memory rather than in files.
# Results that wait to be written take another sixteenth, and once more while they are; the rest is for what isn't
# counted.
WORK_SHARE, ARRAY_SHARE = 5 / 8, 1 / 8


def resident_bytes() -> int:
    """Memory that this process holds now, mapped files included; a guess where the system doesn't tell."""
    return _status_bytes("VmRSS", INTERPRETER)


def private_bytes(arrays: int = 0) -> int:
    """Memory of this process that the system can't take back: what isn't the content of a file. ``arrays`` is what the
    caller knows to be there, the answer where the system doesn't tell."""
    return _status_bytes("RssAnon", PRIVATE_INTERPRETER + arrays)


def return_freed_memory() -> None:
    """Give the system what was freed, which the C library would keep for later; where it has no such call, nothing."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _status_bytes(field: str, otherwise: int) -> int:
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":")), otherwise)
    return otherwise


def available_bytes() -> int | None:
    """Memory that this process could still take, by what the machine and its control groups leave; None if unknown."""
    results = []
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as lines:
        results += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    results += [free for folder in _groups() if (free := _room(folder)) is not None]
    return max(0, min(results)) if results else None


def _groups() -> Iterator[str]:
    """Folders of the control groups that this process is in, whose limits all hold."""
    try:
        with open("/proc/self/cgroup", encoding="ascii") as lines:
            places = [line.rstrip("\n").split(":", 2) for line in lines]
    except (OSError, ValueError):
        return
    for _, controllers, path in places:
        if controllers not in ("", "memory"):
            continue
        folder = path.strip("/")
        while True:
            yield os.path.join("/sys/fs/cgroup", controllers, folder)
            if not folder:
                break
            folder = os.path.dirname(folder)


def _room(folder: str) -> int | None:
    """What a control group's limit leaves; pages of files that nobody needs don't count as taken."""
    for limit, usage in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        try:
            with open(os.path.join(folder, limit)) as most, open(os.path.join(folder, usage)) as taken:
                free = int(most.read()) - int(taken.read())
            with open(os.path.join(folder, "memory.stat")) as lines:
                free += sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
            return free
        except (OSError, ValueError):  # no such file, or "max" for a limit
            continue
    return None


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


class Gate:
    """Starts pieces of work while there is memory for them; a single one may always start."""

    def __init__(self, capacity: int, limit: int = 0, taken: int = 0) -> None:
        self.capacity, self._limit, self._taken = capacity, limit, taken
        self._held = 0
        self._room = threading.Condition()

    def need(self, n_bytes: int, piece: str) -> None:
        """Refuse a limit under which the largest ``piece`` has no room beside everything else."""
        if n_bytes > self.capacity:
            share = self.capacity / max(1, self._limit - self._taken)
            need = int(n_bytes / share) if share > 0 else n_bytes
            need_room(need, self._limit, self._taken, piece)

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


def need_room(need: int, limit: int, taken: int, piece: str) -> None:
    """Refuse a limit that the work can't keep."""
    if taken + need > limit:
        raise MemoryLimitError(
            f"memory_limit is {shown_bytes(limit)}, but {shown_bytes(taken)} are taken already and {piece} needs about "
            f"{shown_bytes(need)} more: allow at least {shown_bytes(taken + need)}."
        )


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

    def _zeros(self, size: int, dtype: Any) -> Array:
        n_bytes = int(size) * np.dtype(dtype).itemsize
        if self._array_bytes + n_bytes > self.free * ARRAY_SHARE:
            return self._files.zeros(size, dtype)
        self._array_bytes += n_bytes
        return np.zeros(size, dtype)

    def _zeros_briefly(self, size: int, dtype: Any) -> Array:
        in_memory = int(size) * np.dtype(dtype).itemsize <= self.free * ARRAY_SHARE
        return np.zeros(size, dtype) if in_memory else self._files.zeros(size, dtype)

    def release(self) -> None:
        self._files.release()
        return_freed_memory()
