"""Which runner trainings have that weren't given one: threads of this process, unless a block says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sylvan.runtime.jobs import Runner

_current: ContextVar[Runner | None] = ContextVar("sylvan_runner", default=None)


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
    made = _current.get()
    return Runner(n_jobs) if made is None else made
