"""A runner that stands for a cluster in this process: every job, input and result goes through pickle."""

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from sylvan.runtime import Job, Once, Runner
from sylvan.runtime.groups import grouped
from sylvan.runtime.jobs import Deliver


def carried(value: Any) -> Any:
    """A value as another process has it: its arrays can't be written to, as in a store that many processes read."""
    buffers: list[pickle.PickleBuffer] = []
    sent = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(sent, buffers=[bytes(buffer.raw()) for buffer in buffers])


class Elsewhere(Runner):
    """Runs groups of jobs as a cluster would; ``before`` and ``after`` see the number of each group and its names."""

    elsewhere = True

    def __init__(
        self,
        shares: int = 4,
        before: Callable[[int], None] = lambda number: None,
        after: Callable[[int], None] = lambda number: None,
        backwards: bool = False,
    ) -> None:
        super().__init__(1)
        self.shares, self.before, self.after, self.backwards = shares, before, after, backwards
        self.n_groups, self.names = 0, []  # type: tuple[int, list[str]]

    def n_shares(self) -> int:
        return self.shares

    def stream(self, jobs: Sequence[Job[Any]], deliver: Deliver, description: str | None = None) -> None:
        groups = grouped(jobs, self.shares)
        for group, numbers in reversed(groups) if self.backwards else groups:
            self.before(self.n_groups)
            ready = group.prepared()
            inputs = {name: value() if isinstance(value, Once) else value for name, value in ready.inputs.items()}
            work, name, title, given = carried((ready.work, ready.name, ready.title, inputs))
            results = copy.deepcopy(carried(Job(name, work, given, title=title)()))
            self.n_groups += 1
            self.names += [jobs[number].name for number in numbers]
            self.after(self.n_groups - 1)
            for number, result in zip(numbers, results, strict=True):
                deliver(number, result)
