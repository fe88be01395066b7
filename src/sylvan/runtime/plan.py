"""Plans: how long a training will take, how much memory, how large the model will be; what would fit, and whether what
will be written fits onto the disks."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from sylvan.errors import DiskSpaceError, MemoryLimitError
from sylvan.params.wording import shown_bytes, shown_seconds
from sylvan.runtime.jobs import Job
from sylvan.store import State

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


class Need(NamedTuple):
    """What will be written into a folder, and about how much it is."""

    what: str
    folder: str
    n_bytes: int


def is_full(error: BaseException | None) -> bool:
    """Whether an error says, or comes of one that says, that a disk or somebody's share of it is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__
    return False


def free_bytes(folder: str | os.PathLike[str]) -> int | None:
    """What can still be written into a folder, which needn't exist yet; None where the system doesn't say."""
    try:
        return shutil.disk_usage(_there(folder)).free
    except OSError:
        return None


def disk_of(folder: str | os.PathLike[str]) -> int | None:
    """The number of the file system that a folder is on, or will be."""
    try:
        return os.stat(_there(folder)).st_dev
    except OSError:
        return None


def need_room(needs: Iterable[Need]) -> None:
    """Refuse what has no room, all that comes onto one disk together."""
    disks: dict[int | None, list[Need]] = {}
    for need in needs:
        disks.setdefault(disk_of(need.folder), []).append(need)
    for together in disks.values():
        free = free_bytes(together[0].folder)
        if free is None or sum(need.n_bytes for need in together) <= free:
            continue
        parts = [f"{need.what} in {need.folder!r} about {shown_bytes(need.n_bytes)}" for need in together]
        raise DiskSpaceError(
            f"The disk has no room for this training: it would write {' and '.join(parts)}, but only "
            f"{shown_bytes(free)} is free there. Make room or choose another disk, or go on regardless with --force."
        )


def _there(folder: str | os.PathLike[str]) -> Path:
    """The folder, or the nearest above it that exists."""
    path = Path(os.path.realpath(folder))
    return next((place for place in (path, *path.parents) if place.exists()), path)


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
        counts = [sum(counts_of[t] for counts_of in nodes if t < len(counts_of)) for t in range(depth)]
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


@dataclass(frozen=True)
class Phase:
    """One phase of a training: its seconds, and the bytes that it adds at its worst to what was there before."""

    name: str
    seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Plan:
    """What a training is expected to need."""

    seconds: float  # time until the model is trained, from features in memory (from texts in memory for a text model)
    peak_bytes: int  # peak memory of the process, including the data and its current memory
    model_bytes: int  # size of the saved model
    available_bytes: int | None  # memory that this machine has for the process now; None if the system doesn't say
    phases: tuple[Phase, ...] = ()
    offers: tuple[str, ...] = ()  # what would need less memory, and how much less; least harmful first
    sampled_rows: int = 0  # the rows from which the rest was estimated; 0 if all were seen

    @property
    def fits(self) -> bool:
        """Whether the machine has the memory, as far as is known."""
        return self.available_bytes is None or self.peak_bytes <= self.available_bytes

    def check(self) -> None:
        """Refuse to go on without the memory."""
        if not self.fits and self.available_bytes is not None:
            raise MemoryLimitError(
                f"Training would take about {shown_bytes(self.peak_bytes)} of memory, but there are only "
                f"{shown_bytes(self.available_bytes)}. What takes less: {'; '.join(self.offers) or 'fewer rows'}. "
                "Or go on regardless with force=True (--force)."
            )

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {**asdict(self), "fits": self.fits}

    def text(self) -> str:
        """The plan as a few lines for a terminal."""
        width = max([len(phase.name) for phase in self.phases] + [12])
        lines = [
            f"{phase.name:<{width}}  {shown_seconds(phase.seconds):>9}  +{shown_bytes(phase.peak_bytes)} of memory"
            for phase in self.phases
        ]
        lines += [
            f"{'time':<{width}}  {shown_seconds(self.seconds):>9}",
            f"{'peak memory':<{width}}  {shown_bytes(self.peak_bytes):>9}",
            f"{'saved model':<{width}}  {shown_bytes(self.model_bytes):>9}",
        ]
        if self.available_bytes is not None:
            verdict = "enough" if self.fits else "too little"
            lines.append(f"{'available':<{width}}  {shown_bytes(self.available_bytes):>9}, which is {verdict}")
        if self.sampled_rows:
            lines.append(
                f"Estimated from {self.sampled_rows:,} of the rows: memory and size within about a third, time roughly."
            )
        if not self.fits:
            lines += ["What takes less:", *(f"  - {offer}" for offer in self.offers)]
        return "\n".join(lines)

    def after(self, phase: Phase, model_bytes: int) -> Plan:
        """The plan with a phase before it, whose part of the model takes ``model_bytes``."""
        return replace(
            self,
            seconds=self.seconds + phase.seconds,
            model_bytes=self.model_bytes + model_bytes,
            phases=(phase, *self.phases),
        )


def state_bytes(state: State) -> int:
    """What the arrays of a state and of its parts take on disk."""
    return sum(array.nbytes for array in state.arrays.values()) + sum(map(state_bytes, state.parts.values()))


@dataclass
class timed:
    """A block of code and the seconds that all its threads computed, as if the machine did nothing else."""

    n_jobs: int = 1
    seconds: float = field(default=0.0, init=False)

    def __enter__(self) -> timed:
        self._start = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = (time.process_time() - self._start) / self.n_jobs
