"""The runner that stores finished results in a checkpoint and skips jobs that already have one."""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

import numpy as np

from sylvan.arrays.types import Array
from sylvan.errors import CheckpointWarning, ModelError, ParameterError
from sylvan.runtime.checkpoint import Checkpoint, opened
from sylvan.runtime.groups import block_names, block_state, by_fields, grouped, read_block, storing_group
from sylvan.runtime.jobs import Arrays, Folder, Job, Packing, Results, Runner, Wrapper, current_runner
from sylvan.runtime.memory import WithinMemory, parse_bytes, private_bytes
from sylvan.runtime.plan import is_full
from sylvan.store import JSON, ScratchFiles

SECONDS = 60.0  # a checkpoint is at most so far behind, and a shorter training writes none
BLOCK_BYTES = 64 << 20
LEAST_BLOCK = 1 << 20
WAITING_SHARE = 1 / 16  # of the memory that is free under a limit, for results that wait to be written
OBJECT_BYTES = 160  # that Python takes for an array itself
_BLOCK = "block"
_Result = TypeVar("_Result")


class Checkpointed(Wrapper):
    """Stores finished results and skips jobs that already have one. Which results come into one block, and in which
    order, depends on time and threads; each has its job's name. Where the disk is full, and results are in memory
    besides, the training goes on without the checkpoint, which is tried again later."""

    def __init__(
        self, inner: Runner, checkpoint: Checkpoint, block_bytes: int | None = None, spill: bool = False
    ) -> None:
        super().__init__(inner)
        if inner.elsewhere:  # what is made of results that were never in this process needn't be there, either
            self.zeros = self.zeros_briefly = self._zeros_in_files
        self._checkpoint, self._spill = checkpoint, spill
        self._block_bytes = BLOCK_BYTES if block_bytes is None else block_bytes
        self._block_of: dict[str, str] = {}  # of each job whose result is stored
        self._waiting: dict[str, Arrays] = {}
        self._bytes, self._due = 0, time.monotonic() + SECONDS
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._number = 0
        self._full_until = 0.0  # before that, a disk that was full isn't tried again
        self._drop_unused(self._look_for_blocks())

    def _zeros_in_files(self, size: int, dtype: Any) -> Array:
        if int(size) * np.dtype(dtype).itemsize <= BLOCK_BYTES:
            return np.zeros(size, dtype)
        return ScratchFiles(tempfile.gettempdir()).zeros(size, dtype)  # of this node: shared folders keep such files

    def _look_for_blocks(self) -> list[str]:
        """Take note of the names in blocks that were not looked into yet, of what was stored twice the later."""
        new = [block for block in self._checkpoint.names(_BLOCK) if _number(block) >= self._number]
        for block in new:
            self._number = _number(block) + 1
            state = self._checkpoint.read(block)
            with suppress(ModelError):
                self._block_of.update((name, block) for name in ([] if state is None else block_names(state)))
        return new

    def run(self, jobs: Sequence[Job[_Result]], description: str | None = None) -> Results[_Result]:
        if self.elsewhere and self._checkpoint.writes and all(job.packing is not None for job in jobs):
            return self._run_elsewhere(jobs, description)
        results: Results[_Result] = _Stored(self, jobs) if self._spill else Results([None] * len(jobs))  # type: ignore[list-item]
        done = set()
        for number, result in self.stored(jobs):
            done.add(number)
            if not self._spill:
                results[number] = result
        todo = [number for number in range(len(jobs)) if number not in done]

        def deliver(place: int, result: _Result) -> None:
            number = todo[place]
            packing = jobs[number].packing
            if packing is not None:
                self._put(jobs[number].name, packing.pack(result))
            if packing is None or not self._spill:
                results[number] = result

        self.inner.stream([jobs[number] for number in todo], deliver, description)
        self.flush()
        return results

    def _run_elsewhere(self, jobs: Sequence[Job[_Result]], description: str | None) -> Results[_Result]:
        """Have the results written where they are made, and leave them there until they are needed."""
        self._checkpoint.begin()
        folder = os.fspath(self._checkpoint.folder)
        self.inner.need_folder(folder)
        todo = [job for job in jobs if job.name not in self._block_of]
        groups, run = grouped(todo, self.n_shares()), secrets.token_hex(4)  # an earlier run may still be writing
        storings = []
        for group, numbers in groups:
            names = [f"{_BLOCK}{self._number + place:06d}-{run}" for place in range(len(numbers))]
            self._number += len(numbers)
            paths = [os.path.join(folder, name) for name in names]
            storings.append(storing_group(group, [todo[number] for number in numbers], paths))

        def deliver(_: int, written: list[tuple[str, list[str]]]) -> None:
            for path, names in written:
                self._block_of.update((name, os.path.basename(path)) for name in names)

        self.inner.stream(storings, deliver, description)
        return _Stored(self, jobs)

    def one(self, job: Job[_Result], agree: Callable[[bool], bool] = bool) -> _Result:
        stored = [result for _, result in self.stored([job])]
        if agree(bool(stored)):
            return stored[0]
        result = self.inner.one(job)
        if job.packing is not None:
            self._put(job.name, job.packing.pack(result))
        return result

    def folder(self, name: str) -> Folder | None:
        return Folder(os.fspath(self._checkpoint.folder / name), self._checkpoint.begin)

    def flush(self) -> None:
        """Write what waits, if anything has been written before; a short training leaves no trace."""
        if self._checkpoint.begun:
            self._write(self._take())

    def load(self, names: Sequence[str], packing: Packing[_Result]) -> list[_Result] | None:
        jobs: list[Job[Any]] = [Job(name, dict, {}, packing=packing) for name in names]
        result = dict(self.stored(jobs))
        return [result[i] for i in range(len(names))] if len(result) == len(names) else None

    def save(self, name: str, value: _Result, packing: Packing[_Result]) -> None:
        self._put(name, packing.pack(value))
        self.flush()

    def forget(self, names: Sequence[str]) -> None:
        with self._lock:
            for name in names:
                self._bytes -= _size(self._waiting.pop(name, {}))
        written = [name for name in names if name in self._block_of]
        if written:
            self.flush()  # what was made of them is on the disk before they go
            with self._writing:
                self._drop_unused([self._block_of.pop(name) for name in written])

    def _drop_unused(self, blocks: Sequence[str]) -> None:
        """Delete those of some blocks that hold nothing that may be asked for."""
        for block in set(blocks) - set(self._block_of.values()):
            self._checkpoint.drop(block)

    def _put(self, name: str, arrays: Arrays) -> None:
        """Let a result wait until a block is full, or has waited long enough, and is written."""
        if not self._checkpoint.writes:
            return
        with self._lock:
            self._bytes += _size(arrays) - _size(self._waiting.get(name, {}))
            self._waiting[name] = arrays
            now = time.monotonic()
            full = now >= self._due or (self._bytes >= self._block_bytes and now >= self._full_until)
        if full:
            self._write(self._take())

    def _take(self) -> dict[str, Arrays]:
        """What waits."""
        with self._lock:
            batch, self._waiting, self._bytes = self._waiting, {}, 0
            return batch

    def _write(self, batch: dict[str, Arrays]) -> None:
        """Blocks of results with the same fields; threads that come with further ones wait here, not to pile up."""
        if not batch:
            return
        blocks = by_fields(list(batch.items()))
        del batch
        with self._writing:
            for number, results in enumerate(blocks):
                block = f"{_BLOCK}{self._number:06d}"
                try:
                    self._checkpoint.write(block, block_state(results))
                except ModelError as error:
                    if self._spill or not is_full(error):
                        raise
                    self._go_on_without(blocks[number:], error)
                    break
                self._number += 1
                before = [self._block_of[name] for name, _ in results if name in self._block_of]
                self._block_of.update((name, block) for name, _ in results)
                self._drop_unused(before)
                results.clear()
            self._due = time.monotonic() + SECONDS
            self.inner.release()

    def _go_on_without(self, blocks: Sequence[list[tuple[str, Arrays]]], error: ModelError) -> None:
        """Let what can't be written wait on."""
        with self._lock:
            for results in blocks:
                for name, arrays in results:
                    if name not in self._waiting:
                        self._waiting[name] = arrays
                        self._bytes += _size(arrays)
        if not self._full_until:
            warnings.warn(
                f"The checkpoint can't be written: {error} The training goes on, and tries again later.",
                CheckpointWarning,
                stacklevel=2,
            )
        self._full_until = time.monotonic() + SECONDS

    def stored(self, jobs: Sequence[Job[_Result]]) -> Iterator[tuple[int, _Result]]:
        """The results that are stored or wait, with their jobs' numbers, block by block."""
        if not self._checkpoint.writes:  # another process may have written more
            self._look_for_blocks()
        numbers = {job.name: number for number, job in enumerate(jobs) if job.packing is not None}
        wanted = numbers.keys()
        blocks = dict.fromkeys(self._block_of[name] for name in wanted if name in self._block_of)
        waiting = [(name, self._waiting[name]) for name in wanted if name in self._waiting]
        for source in (*(self._read(block) for block in blocks), waiting):
            for name, arrays in source:
                packing = jobs[numbers[name]].packing if name in numbers else None
                if packing is not None:
                    with suppress(ModelError):
                        yield numbers[name], packing.unpack(arrays)
            self.inner.release()

    def _read(self, block: str) -> Iterator[tuple[str, Arrays]]:
        """The results of a block; none when it isn't whole."""
        state = self._checkpoint.read(block)
        if state is not None:
            with suppress(ModelError):
                yield from read_block(state)


def _number(block: str) -> int:
    return int(block.removeprefix(_BLOCK).partition("-")[0])


def _size(arrays: Arrays) -> int:
    return sum(array.nbytes + OBJECT_BYTES for array in arrays.values())


class _Stored(Results[_Result]):
    """Results in a checkpoint; those of jobs without a packing are in memory."""

    in_memory = False

    def __init__(self, runner: Checkpointed, jobs: Sequence[Job[_Result]]) -> None:
        super().__init__([None] * len(jobs))  # type: ignore[list-item]
        self._runner, self._jobs = runner, jobs

    def __getitem__(self, number: Any) -> Any:
        result = super().__getitem__(number)
        stored = () if result is not None else self._runner.stored([self._jobs[number]])
        return next((value for _, value in stored), result)

    def __iter__(self) -> Iterator[_Result]:
        by_number = dict(self.scan())
        return (by_number[number] for number in range(len(self)))

    def scan(self) -> Iterator[tuple[int, _Result]]:
        n_read = 0
        for number, job in enumerate(self._jobs):
            if job.packing is None:
                n_read += 1
                yield number, super().__getitem__(number)
        for number, result in self._runner.stored(self._jobs):
            n_read += 1
            yield number, result
        if n_read < len(self):
            raise ModelError(f"{len(self) - n_read} results of this training are no longer whole in its checkpoint.")

    def drain(self, numbers: Sequence[int]) -> Iterator[tuple[int, _Result]]:
        wanted = set(numbers)
        return ((number, result) for number, result in self.scan() if number in wanted)


@contextmanager
def opened_runner(
    n_jobs: int | None = 1, *, runner: Runner | None = None, memory_limit: int | str | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None, identity: Callable[[], Mapping[str, JSON]] = dict,
    input_bytes: int = 0, writes: bool = True,
) -> Iterator[Runner]:  # fmt: skip
    """The runner of one training, made of what ``fit`` was given and cleared up behind it."""
    if runner is not None and not (memory_limit is None and checkpoint is None):
        raise ParameterError("Beside a 'runner', fit takes no 'memory_limit' and no 'checkpoint': it has its own.")
    limit = None if memory_limit is None else parse_bytes(memory_limit)
    with ExitStack() as stack:
        result = current_runner(n_jobs) if runner is None else runner
        if result.elsewhere:
            stack.callback(result.end)
        if runner is not None:
            yield runner
            return
        if limit is not None and result.elsewhere:
            raise ParameterError("On a cluster, fit takes no 'memory_limit': each node has memory of its own.")
        parts: Checkpoint | None = None
        if checkpoint is not None:
            parts = stack.enter_context(opened(checkpoint, identity, writes))
        elif limit is not None:
            parts = Checkpoint(os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="sylvan-")), "work"))
        block_bytes = BLOCK_BYTES
        if limit is not None and parts is not None:
            place = next(path for path in (parts.folder, *parts.folder.parents) if path.is_dir())
            result = within = WithinMemory(result, limit, private_bytes(input_bytes), os.fspath(place))
            block_bytes = min(block_bytes, max(LEAST_BLOCK, int(within.free * WAITING_SHARE)))
        if parts is not None:
            result = Checkpointed(result, parts, block_bytes, spill=limit is not None)
        try:
            yield result
        except BaseException:
            with suppress(ModelError):  # that the disk is full as well would hide what went wrong first
                result.flush()
            raise
