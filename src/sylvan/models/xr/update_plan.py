"""What an update is expected to take, said before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sylvan.runtime.jobs import Job
from sylvan.runtime.memory import shown_bytes
from sylvan.runtime.plan import shown_seconds, timed

TRIED = 0.2  # seconds of jobs that are run, to see how long the others take


@dataclass(frozen=True)
class UpdatePlan:
    """What an update would do."""

    nodes: tuple[int, ...]  # how many nodes of each layer would be solved again, in all trees
    seconds: float  # time until the model is changed
    peak_bytes: int  # memory that the update takes beside the model

    @classmethod
    def of(
        cls, nodes: Sequence[Sequence[int]], jobs: Sequence[Job[Any]], seconds: float, n_bytes: int, n_jobs: int
    ) -> UpdatePlan:
        """From each tree's nodes, the jobs that would solve them, what it took to find that out, and the threads."""
        depth = max(map(len, nodes))
        counts = [sum(own[t] for own in nodes if t < len(own)) for t in range(depth)]
        tried = spent = 0.0
        for job in sorted(jobs, key=lambda job: job.cost):
            with timed() as clock:
                job()
            tried, spent = tried + job.cost, spent + clock.seconds
            if spent > TRIED:
                break
        solving = spent / tried * sum(job.cost for job in jobs) / n_jobs if tried else 0.0
        largest = sorted((job.peak_bytes for job in jobs), reverse=True)[:n_jobs]
        return cls(tuple(counts), seconds + solving, n_bytes + sum(largest))

    def text(self) -> str:
        """The plan in a line for a terminal."""
        layers = ", ".join(f"{n:,} of layer {t}" for t, n in enumerate(self.nodes, 1))
        return (
            f"Nodes that would be solved: {layers}; about {shown_seconds(self.seconds)} and "
            f"{shown_bytes(self.peak_bytes)} of memory."
        )
