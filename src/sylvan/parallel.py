"""The only place with threads: a list of work, progress, Ctrl-C, the first error wins."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from sylvan.errors import ParameterError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Method = TypeVar("_Method", bound=Callable[..., Any])
_state = threading.local()
_changing: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()  # not the objects' own: locks can't be copied
_entering = threading.Lock()
_LAST = object()  # what a Worker is to end at


def resolve_jobs(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` means: None or -1 for every core this process may use."""
    if n_jobs is None or n_jobs == -1:
        if hasattr(os, "sched_getaffinity"):
            return max(1, len(os.sched_getaffinity(0)))
        return os.cpu_count() or 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs < 1:
        raise ParameterError(
            f"The 'n_jobs' parameter must be an int in [1, inf), or -1 or None for every core. Got {n_jobs!r} instead."
        )
    return int(n_jobs)


def one_at_a_time(method: _Method) -> _Method:
    """A method that changes its object, called by several threads as one after the other. A change is made of what
    there was before: of two at once, the later would lose what the earlier has done."""

    @wraps(method)
    def alone(self: Any, *args: Any, **options: Any) -> Any:
        with _entering:
            lock = _changing.setdefault(self, threading.RLock())
        with lock:
            return method(self, *args, **options)

    return cast(_Method, alone)


def all_at_once(method: _Method) -> _Method:
    """A method as of :func:`one_at_a_time` that changes a shallow copy, whose fields the object then takes in one step.
    A method of :func:`of_one_state` that runs meanwhile goes on with the fields from before; a method that fails has
    changed nothing."""

    @wraps(method)
    def whole(self: Any, *args: Any, **options: Any) -> Any:
        later = object.__new__(type(self))
        later.__dict__.update(self.__dict__)
        method(later, *args, **options)
        self.__dict__ = later.__dict__
        return self

    return one_at_a_time(cast(_Method, whole))


def of_one_state(method: _Method) -> _Method:
    """A method that answers from its object as it is when it is called, whatever a method of :func:`all_at_once` makes
    of the object meanwhile: it runs on another object with the same ``__dict__``, which that one replaces."""

    @wraps(method)
    def steady(self: Any, *args: Any, **options: Any) -> Any:
        snapshot = object.__new__(type(self))
        snapshot.__dict__ = self.__dict__
        return method(snapshot, *args, **options)

    return cast(_Method, steady)


def split_ranges(n: int, size: int) -> list[tuple[int, int]]:
    """``[0, n)`` cut into consecutive ranges of ``size`` (the last may be shorter)."""
    return [(start, min(start + size, n)) for start in range(0, n, max(1, size))]


class Progress:
    """A progress bar that several threads may move; nothing happens where none is drawn."""

    def __init__(self, bar: Any = None) -> None:
        self._bar, self._lock = bar, threading.Lock()

    def update(self, amount: float = 1) -> None:
        """Say that ``amount`` more is done."""
        if self._bar is not None:
            with self._lock:
                self._bar.update(amount)


@contextmanager
def progress(description: str, total: float | None = None, unit: str = "it") -> Iterator[Progress]:
    """A progress bar on stderr, with rate and time left, while the block runs; none when stderr is no terminal or
    ``quiet()`` holds. tqdm is imported only when a bar is really drawn, so that ``import sylvan`` stays light."""
    if getattr(_state, "quiet", False) or sys.stderr is None or not sys.stderr.isatty():
        yield Progress()
        return
    from tqdm import tqdm

    with tqdm(
        total=total, desc=description, unit=unit, delay=0.5, leave=False, file=sys.stderr, unit_scale=True
    ) as bar:
        yield Progress(bar)


@contextmanager
def quiet(on: bool = True) -> Iterator[None]:
    """No progress bars in this thread while the block runs."""
    before = getattr(_state, "quiet", False)
    _state.quiet = on or before
    try:
        yield
    finally:
        _state.quiet = before


def scratch() -> dict[str, npt.NDArray[Any]]:
    """Arrays that this thread uses again from one piece of work to the next, for as long as :func:`map_parallel` runs.
    What is in them is whatever the last piece left; outside of :func:`map_parallel` there are none."""
    result: dict[str, npt.NDArray[Any]] | None = getattr(_state, "scratch", None)
    return {} if result is None else result


class _Ended(BaseException):
    """Ends the work of a thread whose companions have failed or were interrupted."""


def advance(amount: float = 1) -> None:
    """Say, from within a piece of work of :func:`map_parallel`, that ``amount`` of its cost is done. A long piece of
    work that says so moves the progress bar, and ends here when another piece has failed or after Ctrl-C, for which it
    would be waited otherwise. Nothing happens outside of map_parallel."""
    meter = getattr(_state, "meter", None)
    if meter is not None:
        meter.advance(amount)


class _Meter:
    """How far the work of one thread has come."""

    def __init__(self, bar: Progress, stop: threading.Event) -> None:
        self._bar, self._stop = bar, stop
        self._done = 0.0  # of the cost of the piece at hand

    def advance(self, amount: float) -> None:
        self._bar.update(amount)
        self._done += amount
        if self._stop.is_set():
            raise _Ended

    def finish(self, cost: float) -> None:
        """The piece at hand is done."""
        self._bar.update(cost - self._done)
        self._done = 0.0


@contextmanager
def _working(bar: Progress, stop: threading.Event) -> Iterator[_Meter]:
    """Within it, a thread has its own scratch arrays and meter."""
    before = getattr(_state, "scratch", None), getattr(_state, "meter", None)
    _state.scratch, _state.meter = {}, _Meter(bar, stop)
    try:
        yield _state.meter
    finally:
        _state.scratch, _state.meter = before


def map_parallel(
    work: Callable[[_Item], _Result], items: Sequence[_Item], n_jobs: int = 1, *, costs: Sequence[float] | None = None,
    description: str | None = None,
) -> list[_Result]:  # fmt: skip
    """``[work(item) for item in items]`` on ``n_jobs`` threads; results in the order of ``items``."""
    costs = [1] * len(items) if costs is None else costs
    order = sorted(range(len(items)), key=costs.__getitem__, reverse=True)  # those of equal costs as they stand
    results: list[Any] = [None] * len(items)

    def run(todo: Iterable[int], meter: _Meter) -> None:
        for i in todo:
            results[i] = work(items[i])
            meter.finish(costs[i])

    with progress(description, float(sum(costs))) if description else nullcontext(Progress()) as bar:
        if n_jobs == 1 or len(items) <= 1:
            with _working(bar, threading.Event()) as meter:
                run(order, meter)
        else:
            _run_threads(run, order, min(n_jobs, len(items)), bar)
    return results


def _run_threads(
    work: Callable[[Iterable[int], _Meter], None], order: Sequence[int], n_threads: int, bar: Progress
) -> None:
    """Feed numbers to threads through one shared iterator; the calling thread works as the first of them."""
    todo, lock, stop, idle = iter(order), threading.Lock(), threading.Event(), threading.Condition()
    n_running = 0  # of the threads started here
    errors: list[BaseException] = []

    def numbers() -> Iterator[int]:
        while not stop.is_set():
            with lock:
                i = next(todo, None)
            if i is None:
                return
            yield i

    def run() -> None:
        try:
            with _working(bar, stop) as meter:
                work(numbers(), meter)
        except BaseException as error:  # the first error of any kind ends the work and is raised below
            errors.append(error)
            stop.set()

    def follow() -> None:
        nonlocal n_running
        with idle:
            if stop.is_set():
                return
            n_running += 1
        try:
            run()
        finally:
            with idle:
                n_running -= 1
                idle.notify_all()

    # Not Thread.join: a Ctrl-C inside it makes Python believe that the thread has ended (python/cpython#90882), and a
    # process that then ends while the thread is in a kernel is aborted.
    try:
        for i in range(1, n_threads):
            threading.Thread(target=follow, daemon=True, name=f"sylvan-{i}").start()
        run()
        with idle:
            idle.wait_for(lambda: n_running == 0)
    except BaseException as error:
        errors.append(error)
    with idle:
        stop.set()
        idle.wait_for(lambda: n_running == 0)
    if errors:
        raise errors[0]


class Worker:
    """A thread that takes whatever was put before it, all at once, as soon as it is free."""

    def __init__(self, work: Callable[[list[Any]], None], name: str) -> None:
        self._work = work
        self._todo: SimpleQueue[Any] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"sylvan-{name}")
        self._thread.start()

    def put(self, item: Any) -> None:
        """Put one thing before it; never waits."""
        self._todo.put(item)

    def close(self, seconds: float | None = None) -> None:
        """End the thread after what is there already, and wait for that, so many seconds at most."""
        self._todo.put(_LAST)
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            items = [self._todo.get()]
            with suppress(Empty):
                while items[-1] is not _LAST:
                    items.append(self._todo.get_nowait())
            last = items[-1] is _LAST
            if last:
                items.pop()
            if items:
                with suppress(Exception):
                    self._work(items)
            if last:
                return


@contextmanager
def exit_on_interrupt(
    sentence: Callable[[], str], exit_code: int, patience: float = 0.6, answers: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """End the process soon after Ctrl-C, even while its main thread is deep inside a kernel. Python raises
    ``KeyboardInterrupt`` only between two of its own instructions, so a kernel that runs for seconds would hold it
    back. Here a thread sees the signal at once, gives the main thread ``patience`` seconds to leave the block by
    itself, and ends the process otherwise. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hear, tell = socket.socketpair()
    tell.setblocking(False)
    left = threading.Event()

    def watch() -> None:
        while signals := hear.recv(64):  # several where they came faster than they were heard
            for _ in range(signals.count(signal.SIGINT)):
                if not answers() and not left.wait(patience):
                    os.write(2, f"\n{sentence()}\n".encode())
                    os._exit(exit_code)

    watcher = threading.Thread(target=watch, daemon=True, name="sylvan-interrupt")
    before = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        left.set()
        signal.set_wakeup_fd(before)
        tell.close()
        watcher.join()
        hear.close()
