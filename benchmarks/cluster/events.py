"""A simulation of a training's jobs on a cluster, event by event: workers, their network, a store, what goes wrong.

The line of tasks is that of the runner: tasks that are ready are handed over in the order of their stages and, in each,
the most expensive first, no more than ``ahead`` for each worker at a time; a worker that is done takes the next one
that was handed over. A task reads, computes and writes, one after the other.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.cluster.sharing import Sharing

__all__ = ["LostTaskError", "Machines", "Outcome", "Task", "critical_path", "simulate"]


@dataclass(frozen=True)
class Task:
    """What is handed over at once.

    Attributes
    ----------
    name, phase : str
    cpu_s : float
        Seconds of one core.
    bytes_in, bytes_out : float
        Read from the store before, and written to it after.
    after : tuple of int
        Numbers of the tasks that must be done before; each lower than its own.
    stage : int
        Tasks of lower ones are handed over first.
    peak_bytes : int
        What the worker's memory holds at most.
    on_driver : bool
        Whether it is the process's that runs the training, not a worker's.
    handing_s : float
        Seconds of the driver to hand over this task, beyond those of any.
    """

    name: str
    phase: str
    cpu_s: float
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    after: tuple[int, ...] = ()
    stage: int = 0
    peak_bytes: int = 0
    on_driver: bool = False
    handing_s: float = 0.0


@dataclass(frozen=True)
class Machines:
    """A cluster.

    Attributes
    ----------
    n_workers, per_node : int
        Workers of one core each, and how many of them are on a node. The driver has a node of its own.
    cores : float
        Of all machines together, where nodes share one: all that compute get an equal part, of up to one core.
    network, store : float
        Bytes a second of a node, and of the store.
    overhead_s, handing_s : float
        Of a task: on its worker's core; and on one of the driver, which hands one over after the other.
    ahead, retries : int
        As the runner has them.
    slow : mapping of int to float
        Workers that take so many times as long to compute.
    losses : sequence of (float, int)
        When which worker is lost, with what it was doing.
    away_s : float
        Seconds until a lost worker, or one in its place, is there again.
    """

    n_workers: int
    per_node: int = 1
    cores: float = math.inf
    network: float = math.inf
    store: float = math.inf
    overhead_s: float = 0.0
    handing_s: float = 0.0
    ahead: int = 2
    retries: int = 5
    slow: Mapping[int, float] = field(default_factory=dict)
    losses: Sequence[tuple[float, int]] = ()
    away_s: float = 60.0


class LostTaskError(RuntimeError):
    """A task was lost with its worker more often than it is retried."""


@dataclass(frozen=True)
class Outcome:
    """What became of a list of tasks.

    Attributes
    ----------
    seconds : float
        Until the last one was done.
    ready, starts, ends : list of float
        Of each task: when all that it builds on was done, when its last attempt began, when it was done.
    before : list of int
        The task that its worker did just before, or -1.
    n_lost : int
        Attempts that were lost.
    busy_s : float
        Seconds in which workers had a task, of all workers together.
    """

    seconds: float
    ready: list[float]
    starts: list[float]
    ends: list[float]
    before: list[int]
    n_lost: int
    busy_s: float

    def chain(self, tasks: Sequence[Task]) -> list[tuple[int, float]]:
        """What the end waited for, back to the beginning: tasks, each with the seconds from there to the next one.

        A task waited for its worker, if that was busy when the task was ready, and else for the last of the tasks that
        it builds on.
        """
        links, at, until = [], max(range(len(tasks)), key=self.ends.__getitem__), self.seconds
        while at >= 0:
            before = self.before[at]
            if before < 0 or self.ends[before] < self.ready[at]:
                before = max(tasks[at].after, key=self.ends.__getitem__, default=-1)
            since = self.ends[before] if before >= 0 else 0.0
            links.append((at, until - since))
            at, until = before, since
        return links[::-1]


def critical_path(tasks: Sequence[Task]) -> tuple[float, list[int]]:
    """The longest chain of tasks that build on each other: its CPU seconds, and their numbers."""
    ends, links = [0.0] * len(tasks), [-1] * len(tasks)
    for number, task in enumerate(tasks):
        links[number] = max(task.after, key=ends.__getitem__, default=-1)
        ends[number] = task.cpu_s + (ends[links[number]] if task.after else 0.0)
    at = max(range(len(tasks)), key=ends.__getitem__, default=-1)
    seconds, path = (ends[at] if tasks else 0.0), []
    while at >= 0:
        path.append(at)
        at = links[at]
    return seconds, path[::-1]


def simulate(tasks: Sequence[Task], machines: Machines) -> Outcome:
    """Run the tasks on the machines.

    Raises
    ------
    ValueError
        When a task builds on itself or a later one.
    LostTaskError
    """
    for number, task in enumerate(tasks):
        if any(not 0 <= one < number for one in task.after):
            raise ValueError(f"The task {number} ({task.name}) must build on earlier tasks. Got {task.after} instead.")
    return _Run(tasks, machines).outcome()


_READ, _COMPUTE, _WRITE, _DONE = range(4)
_HANDING = -1  # the driver, where it hands over, beside the workers' numbers


class _Run:
    """One simulation: what is where at one moment."""

    def __init__(self, tasks: Sequence[Task], machines: Machines) -> None:
        self._tasks, self._machines, n = tasks, machines, len(tasks)
        self._driver = machines.n_workers  # its number among the workers
        n_nodes = -(-machines.n_workers // machines.per_node) + 1
        self._node_of = [worker // machines.per_node for worker in range(machines.n_workers)] + [n_nodes - 1]
        self._moving = Sharing(n_nodes, machines.network, total=machines.store)
        self._computing = Sharing(1, machines.cores, most=1.0)
        self._now, self._left = 0.0, n
        self._waits_for = [len(set(task.after)) for task in tasks]
        self._builds: list[list[int]] = [[] for _ in tasks]
        self._ready, self._starts, self._ends = [0.0] * n, [0.0] * n, [math.inf] * n
        self._before, self._attempts = [-1] * n, [0] * n
        self._doing: list[tuple[int, int] | None] = [None] * (self._driver + 1)  # task and part of it
        self._last = [-1] * (self._driver + 1)
        self._idle, self._alive = list(range(machines.n_workers)), machines.n_workers
        self._to_hand: list[tuple[int, float, int]] = []
        self._line: deque[int] = deque()  # handed over, and no worker has it yet
        self._of_driver: deque[int] = deque()
        self._handed, self._in_hand = 0, -1  # the task that the driver hands over just now
        self._calendar: list[tuple[float, int, Callable[[int], None], int]] = []
        self._numbers = itertools.count()  # what comes at one moment comes in this order
        self._n_lost, self._busy = 0, 0.0
        for number, task in enumerate(tasks):
            for one in set(task.after):
                self._builds[one].append(number)
        for when, worker in machines.losses:
            self._at(when, self._lose, worker)

    def outcome(self) -> Outcome:
        """Until all is done."""
        for number in range(len(self._tasks)):
            if not self._waits_for[number]:
                self._release(number)
        self._hand_over()
        while self._left:
            self._step()
        seconds = max(self._ends, default=0.0)
        return Outcome(seconds, self._ready, self._starts, self._ends, self._before, self._n_lost, self._busy)

    def _step(self) -> None:
        """The next thing that happens."""
        timed = self._calendar[0][0] - self._now if self._calendar else math.inf
        moved, node = self._moving.first()
        computed, _ = self._computing.first()
        seconds = min(timed, moved, computed)
        self._now += seconds
        self._moving.advance(seconds)
        self._computing.advance(seconds)
        if timed <= seconds:
            self._now, _, act, number = heapq.heappop(self._calendar)
            act(number)
        elif moved <= seconds:
            self._go_on(self._moving.pop(node))
        else:
            self._computed(self._computing.pop(0))

    def _computed(self, party: int) -> None:
        """A worker's task is computed, or the driver has handed one over."""
        if party == _HANDING:
            number, self._in_hand = self._in_hand, -1
            self._arrive(number)
            self._hand_over()
        else:
            self._go_on(party)

    def _at(self, when: float, act: Callable[[int], None], number: int) -> None:
        heapq.heappush(self._calendar, (when, next(self._numbers), act, number))

    # ---------------------------------------- the line

    def _release(self, number: int) -> None:
        """All that a task builds on is done."""
        task = self._tasks[number]
        self._ready[number] = self._now
        if task.on_driver:
            self._of_driver.append(number)
            self._drive()
        else:
            heapq.heappush(self._to_hand, (task.stage, -task.cpu_s, number))

    def _hand_over(self) -> None:
        """Hand over as many tasks as are wanted, as fast as the driver can."""
        machines = self._machines
        while self._to_hand and self._in_hand < 0 and self._handed < machines.ahead * self._alive:
            number = heapq.heappop(self._to_hand)[2]
            self._handed += 1
            seconds = machines.handing_s + self._tasks[number].handing_s
            if seconds:
                self._in_hand = number
                self._computing.add(0, seconds, _HANDING)
            else:
                self._arrive(number)

    def _arrive(self, number: int) -> None:
        self._line.append(number)
        self._give()

    def _give(self) -> None:
        while self._line and self._idle:
            self._begin(heapq.heappop(self._idle), self._line.popleft())

    def _drive(self) -> None:
        if self._of_driver and self._doing[self._driver] is None:
            self._begin(self._driver, self._of_driver.popleft())

    # ---------------------------------------- a worker

    def _begin(self, worker: int, number: int) -> None:
        self._starts[number], self._before[number] = self._now, self._last[worker]
        self._take_part(worker, number, _READ)

    def _go_on(self, worker: int) -> None:
        """A part of what a worker does is done."""
        doing = self._doing[worker]
        assert doing is not None
        self._take_part(worker, doing[0], doing[1] + 1)

    def _take_part(self, worker: int, number: int, part: int) -> None:
        """Begin a part of a task, or the next one that takes any time."""
        task, machines = self._tasks[number], self._machines
        while part < _DONE:
            if part == _COMPUTE:
                overhead = 0.0 if worker == self._driver else machines.overhead_s
                amount = (task.cpu_s + overhead) * machines.slow.get(worker, 1.0)
            else:
                amount = task.bytes_in if part == _READ else task.bytes_out
                if machines.network == machines.store == math.inf:
                    amount = 0.0
            if amount > 0:
                self._doing[worker] = (number, part)
                if part == _COMPUTE:
                    self._computing.add(0, amount, worker)
                else:
                    self._moving.add(self._node_of[worker], amount, worker)
                return
            part += 1
        self._finish(worker, number)

    def _finish(self, worker: int, number: int) -> None:
        self._doing[worker], self._last[worker] = None, number
        self._ends[number] = self._now
        self._left -= 1
        for one in self._builds[number]:
            self._waits_for[one] -= 1
            if not self._waits_for[one]:
                self._release(one)
        if worker == self._driver:
            self._drive()
        else:
            self._handed -= 1
            self._busy += self._now - self._starts[number]
            heapq.heappush(self._idle, worker)
            self._give()
        self._hand_over()

    def _lose(self, worker: int) -> None:
        """A worker is lost: another one begins its task anew."""
        doing = self._doing[worker]
        if doing is None:
            if worker not in self._idle:
                return  # it is away already
            self._idle.remove(worker)
            heapq.heapify(self._idle)
        else:
            self._drop(worker, *doing)
        self._alive -= 1
        self._at(self._now + self._machines.away_s, self._return, worker)
        self._hand_over()

    def _drop(self, worker: int, number: int, part: int) -> None:
        if part == _COMPUTE:
            self._computing.remove(0, worker)
        else:
            self._moving.remove(self._node_of[worker], worker)
        self._doing[worker] = None
        self._busy += self._now - self._starts[number]
        self._n_lost += 1
        self._attempts[number] += 1
        self._handed -= 1
        if self._attempts[number] > self._machines.retries:
            raise LostTaskError(f"The task {self._tasks[number].name} was lost {self._attempts[number]} times.")
        self._release(number)

    def _return(self, worker: int) -> None:
        self._alive += 1
        heapq.heappush(self._idle, worker)
        self._give()
        self._hand_over()
