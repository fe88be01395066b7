"""Batching without waiting: a request that finds the engine idle is ranked at once, the others together after it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import random
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from sylvan.parallel import Worker
from sylvan.params.wording import noun
from sylvan.serve.problems import Problem

# Seconds by which a refusal for want of room is held back: clients that ask again at once would otherwise take the time
# that those who wait need. Not the same for all, as those who are refused together would come back together.
_PAUSES = (0.4, 1.2)
MOST_ROWS = 256  # of a batch: more gain nothing, and those behind would wait longer


@dataclass
class Work:
    """Rows that wait for an answer; those of the same ``key`` may be answered together."""

    key: Hashable
    rows: list[Any]
    answer: Callable[[list[Any]], list[Any]]  # of all rows of a batch, one result a row
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[list[Any]]
    deadline: float
    outcome: list[Any] | Exception | None = None

    def deliver(self, outcome: list[Any] | Exception) -> None:
        """In the event loop: give the outcome to who waits for it, if anybody still does."""
        if self.result.done():
            return
        if isinstance(outcome, Exception):
            self.result.set_exception(outcome)
        else:
            self.result.set_result(outcome)


class Engine:
    """One thread that answers for one model. The event loop hands it what comes in and goes on. Kernels release the
    GIL, so both run at once. There is no timer: what arrives while the thread computes is taken as soon as it is done,
    together."""

    def __init__(
        self, name: str, queue: int, seconds: float, batched: Callable[[int], None] = lambda n_rows: None
    ) -> None:
        self.name, self._most, self._seconds, self._batched = name, queue, seconds, batched
        self._worker = Worker(self._work, f"engine-{name}")
        self.waiting = 0  # requests that are not answered yet; the event loop's alone

    def close(self) -> None:
        """Answer what is there, and end."""
        self._worker.close()

    def check_room(self) -> None:
        """Refuse a request that would have to wait too long, before its body is read."""
        if self.waiting >= self._most:
            raise Problem(
                429, f"The model {self.name!r} is busy: {self.waiting:,} requests wait already. Ask again later.",
                {"Retry-After": "1"}, pause=random.uniform(*_PAUSES),
            )  # fmt: skip

    async def ask(
        self, key: Hashable, rows: list[Any], answer: Callable[[list[Any]], list[Any]], *, patient: bool = False
    ) -> list[Any]:
        """The results of ``answer(rows)``, computed with the rows of others that have the same ``key``. Who is
        ``patient`` waits as long as it takes, once there is room."""
        self.check_room()
        loop = asyncio.get_running_loop()
        result: asyncio.Future[list[Any]] = loop.create_future()
        seconds = math.inf if patient else self._seconds
        self._worker.put(work := Work(key, rows, answer, loop, result, time.monotonic() + seconds))
        self.waiting += 1
        timer = None if patient else loop.call_later(seconds, self._give_up, work)
        try:
            return await result
        finally:
            if timer is not None:
                timer.cancel()
            self.waiting -= 1
            del work, result  # an error holds this frame, which must not hold the error: see App._answer

    def _give_up(self, work: Work) -> None:
        work.deliver(self._late())

    def _late(self) -> Problem:
        words = f"There was no answer within {self._seconds:g} {noun(self._seconds, 'second')}. Ask again later."
        return Problem(503, words, {"Retry-After": "1"})

    def _work(self, works: list[Work]) -> None:
        """In the thread: answer all that has come, in batches of one key each, in the order in which they came."""
        while works:
            batch, works = _first_batch(works)
            now = time.monotonic()
            for work in batch:
                if work.deadline < now or work.result.cancelled():
                    work.outcome = self._late()
            waiting = [work for work in batch if work.outcome is None]
            if waiting:
                with contextlib.suppress(Exception):  # who counts must not keep those who wait from their answers
                    self._batched(sum(len(work.rows) for work in waiting))
                _answer(waiting)
            for work in batch:
                with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
                    work.loop.call_soon_threadsafe(work.deliver, work.outcome or [])


def _first_batch(works: list[Work]) -> tuple[list[Work], list[Work]]:
    """The first request and those of the same key, up to as many rows as a batch may have; and the others."""
    batch: list[Work] = []
    remaining: list[Work] = []
    n_rows = 0
    for work in works:
        fits = not batch or (work.key == batch[0].key and n_rows + len(work.rows) <= MOST_ROWS)
        (batch if fits else remaining).append(work)
        n_rows += len(work.rows) if fits else 0
    return batch, remaining


def _answer(batch: list[Work]) -> None:
    """Answer a batch; where that fails, each request by itself, so that one at fault spoils no other's answer."""
    try:
        results = iter(batch[0].answer([row for work in batch for row in work.rows]))
        for work in batch:
            work.outcome = list(itertools.islice(results, len(work.rows)))
    except Exception as error:
        if len(batch) == 1:
            batch[0].outcome = error
        else:
            for work in batch:
                _answer([work])

