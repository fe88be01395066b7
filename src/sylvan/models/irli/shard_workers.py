"""Where the shards of an index live and are asked: in processes of their own, or in this one. A distributed engine
takes over by giving :class:`~sylvan.ShardedIRLIIndex` an executor of its own: it holds one :class:`ShardWorker` a shard
wherever it likes, and calls methods of all of them at once."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sylvan import store
from sylvan.errors import ModelError, NotFittedError, SylvanError
from sylvan.models.irli.index import IRLIIndex
from sylvan.parallel import quiet, resolve_jobs

_MOST_LOSSES = 5  # of one list of calls: a shard that its node has no memory for is lost each time
STARTING = ("build", "load", "take")  # methods of a ShardWorker that give it an index, whatever it had before

# What the libraries for matrix products ask how many threads they may have.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_starting = threading.Lock()


@dataclass(frozen=True)
class ShardCall:
    """A method of :class:`ShardWorker`, and what to call it with."""

    method: str
    # plain values, NumPy arrays and Sylvan's own objects: whatever can be pickled
    arguments: Mapping[str, Any] = field(default_factory=dict)


class LostShardsError(SylvanError):
    """Raised by a :class:`ShardExecutor` when workers of shards have ended."""

    def __init__(self, lost: Mapping[int, str], answers: Sequence[Any]) -> None:
        self.lost, self.answers = dict(sorted(lost.items())), list(answers)
        super().__init__("; ".join(f"shard {number} was lost: {why}" for number, why in self.lost.items()) + ".")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.lost, self.answers)


class ShardExecutor(Protocol):
    """What has a :class:`ShardWorker` for each shard, made empty, for as long as it is open."""

    def run(self, calls: Sequence[ShardCall | None]) -> list[Any]:
        """The answer of each shard to its call, in the order of the shards; shards with None aren't called. The calls
        may run at the same time. When some fail, all others are finished first, and the error of the first shard that
        failed is raised. An executor whose workers can be lost one by one raises a
        :class:`LostShardsError`, and gives such a shard a new worker for the next call
        of :data:`STARTING`."""
        ...

    def close(self) -> None:
        """Give the workers up."""
        ...


class ShardWorker:
    """One shard's index where it lives; ids are the shard's own. Other methods than those below are the index's."""

    def __init__(self) -> None:
        self.index: IRLIIndex | None = None

    def call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """The answer to a call."""
        if method in STARTING:
            return getattr(self, method)(**arguments)
        if self.index is None:
            raise NotFittedError("This shard has no index yet.")
        return self.index if method == "give" else getattr(self.index, method)(**arguments)

    def build(self, params: Mapping[str, Any], **arguments: Any) -> None:
        """Fit a new index with what :meth:`IRLIIndex.fit` takes."""
        self.index = IRLIIndex(**params).fit(**arguments)

    def load(self, folder: str, checksum: str, part: str, n_jobs: int) -> None:
        """Map the part of a saved index that is this shard's."""
        if store.contents(folder).get("checksum") != checksum:
            raise ModelError(f"The model in {folder!r} was replaced since it was loaded: load it again.")
        self.take(IRLIIndex.from_state(store.need_part(store.load(folder), part)), n_jobs)

    def take(self, index: IRLIIndex, n_jobs: int) -> None:
        """Use an index that is in memory already."""
        self.index = index.set_params(n_jobs=n_jobs)


class SerialExecutor:
    """All shards in this process, asked one after another; each has all of the threads."""

    def __init__(self, n_shards: int) -> None:
        self._workers = [ShardWorker() for _ in range(n_shards)]

    def run(self, calls: Sequence[ShardCall | None]) -> list[Any]:
        """See :class:`ShardExecutor`."""
        return _answers([_outcome(worker, call) for worker, call in zip(self._workers, calls, strict=True)])

    def close(self) -> None:
        """See :class:`ShardExecutor`."""
        self._workers = [ShardWorker() for _ in self._workers]


class ProcessExecutor:
    """Each shard in a process of its own on this machine; they share its cores. The processes are spawned, not
    forked, so a script must start its work below ``if __name__ == "__main__":``. They end with :meth:`close`, and with
    this process."""

    def __init__(self, n_shards: int) -> None:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        n_jobs = max(1, resolve_jobs(None) // n_shards)
        self._lock = threading.Lock()
        self._owed = [False] * n_shards  # answers that a call that was interrupted has left to come
        self._processes, self._pipes = [], []
        try:
            with _starting, _few_threads(n_jobs):
                for number in range(n_shards):
                    here, child = context.Pipe()
                    process = context.Process(target=_serve, args=(child,), daemon=True, name=f"sylvan-shard-{number}")
                    process.start()
                    child.close()
                    self._processes.append(process)
                    self._pipes.append(here)
        except BaseException:
            self.close()
            raise

    def run(self, calls: Sequence[ShardCall | None]) -> list[Any]:
        """See :class:`ShardExecutor`."""
        with self._lock:
            for number, owed in enumerate(self._owed):
                if owed:
                    self._receive(number)
            for number, call in enumerate(calls):
                if call is not None:
                    self._send(number, call)
            return _answers([None if call is None else self._receive(number) for number, call in enumerate(calls)])

    def _send(self, number: int, call: ShardCall) -> None:
        try:
            self._owed[number] = True
            self._pipes[number].send(call)
        except OSError as error:
            raise self._lost(number) from error

    def _receive(self, number: int) -> Any:
        try:
            outcome = self._pipes[number].recv()
        except (EOFError, OSError) as error:
            raise self._lost(number) from error
        self._owed[number] = False
        return outcome

    def _lost(self, number: int) -> SylvanError:
        self._processes[number].join(1)
        code = self._processes[number].exitcode
        self.close()
        return SylvanError(
            f"The process of shard {number} has ended (exit code {code}), and the others were ended with it. In a "
            "script, work with shards must start below: if __name__ == '__main__':"
        )

    def close(self) -> None:
        """See :class:`ShardExecutor`."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()


# Makers of executors by name; each takes the number of shards.
EXECUTORS: Mapping[str, Callable[[int], ShardExecutor]] = {"processes": ProcessExecutor, "serial": SerialExecutor}


def run_calls(
    executor: ShardExecutor, calls: Sequence[ShardCall | None], sources: Sequence[ShardCall] | None = None
) -> list[Any]:
    """The shards' answers; those that are lost meanwhile are started again and asked again."""
    try:
        return executor.run(calls)
    except LostShardsError as lost:
        return recovered(executor, calls, sources, lost)


def recovered(
    executor: ShardExecutor, calls: Sequence[ShardCall | None], sources: Sequence[ShardCall] | None,
    lost: LostShardsError, n_losses: int = 1,
) -> list[Any]:  # fmt: skip
    """The answers to calls in which ``lost`` was raised; parameters and errors as those of :func:`run_calls`."""
    number, why = next(iter(lost.lost.items()))
    if n_losses > _MOST_LOSSES:
        raise SylvanError(f"Shard {number} was lost {n_losses} times, the last time because {why}.") from lost
    again = [call if number in lost.lost else None for number, call in enumerate(calls)]
    starts: list[ShardCall | None] = [None] * len(again)
    for number, call in enumerate(again):
        if call is not None and call.method not in STARTING:
            if sources is None:
                raise SylvanError(
                    f"Shard {number} was lost with vectors that were not saved, because {lost.lost[number]}. Fit the "
                    "index again, or load it from where it was saved before. An index that is saved after it was "
                    "fitted or changed starts lost shards again by itself."
                ) from lost
            starts[number] = sources[number]
    for part in (starts, again):
        if any(call is not None for call in part):
            try:
                answers = executor.run(part)
            except LostShardsError as more:
                answers = recovered(executor, part, sources, more, n_losses + 1)
    return [answers[number] if number in lost.lost else answer for number, answer in enumerate(lost.answers)]


def _outcome(worker: ShardWorker, call: ShardCall | None) -> Any:
    """The answer to a call and None, or None and the error."""
    if call is None:
        return None
    try:
        return worker.call(call.method, call.arguments), None
    except Exception as error:
        return None, error


def _answers(outcomes: Sequence[Any]) -> list[Any]:
    for outcome in outcomes:
        if outcome is not None and outcome[1] is not None:
            raise outcome[1]
    return [None if outcome is None else outcome[0] for outcome in outcomes]


def _serve(pipe: Any) -> None:
    """A shard's process: calls come in, answers go out, until the other end is closed."""
    import multiprocessing
    import signal
    from multiprocessing.connection import wait

    parent = multiprocessing.parent_process()
    if parent is not None:
        # A parent that is killed notifies nobody, and a shard in training wouldn't look for hours.
        sentinel = parent.sentinel
        threading.Thread(target=lambda: (wait([sentinel]), os._exit(1)), daemon=True, name="sylvan-parent").start()
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks hears Ctrl-C, and decides
    worker = ShardWorker()
    with contextlib.suppress(EOFError, OSError), quiet():
        while True:
            outcome = _outcome(worker, pipe.recv())
            try:
                pipe.send(outcome)
            except OSError:
                raise
            except Exception:  # an error that can't be pickled
                pipe.send((None, SylvanError(f"A shard failed: {outcome[1]!r}")))


@contextlib.contextmanager
def _few_threads(n_threads: int) -> Iterator[None]:
    """Processes started meanwhile take so many threads for matrix products, where nobody has said how many."""
    missing = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, str(n_threads)))
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)
