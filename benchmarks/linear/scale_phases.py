"""What each phase of a training takes: a runner that reads the clocks and the memory where one phase ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.common import measure
from sylvan.runtime import Job, Once, Runner
from sylvan.runtime.jobs import Deliver, Results, Wrapper

__all__ = ["Phased", "Phases"]

KINDS = {"tree": "clustering", "positives": "rows", "rows": "rows", "beam": "searching"}  # by the end of a job's name


class Phases:
    """Wall and CPU seconds of phases that follow each other, by name, and the peak of resident memory in each."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self._name: str | None = None
        self._clock = measure.Training()

    def begin(self, name: str) -> None:
        """The phase before ends here; one that begins again goes on."""
        if name == self._name:
            return
        self.end()
        self._name, self._clock = name, measure.Training()
        self._clock.__enter__()

    def end(self) -> None:
        """The last phase ends."""
        if self._name is None:
            return
        self._clock.__exit__()
        spent, last = self._clock.figures(), self.found.get(self._name, {})
        figures = {key: spent[key] + last.get(key, 0.0) for key in ("wall_s", "cpu_s")}
        self.found[self._name] = figures | {"peak_mb": max(spent["peak_mb"], last.get("peak_mb", 0.0))}
        self._name = None


class Phased(Wrapper):
    """Runs a training's jobs on another runner, and says which phase it is in."""

    def __init__(self, inner: Runner, phases: Phases) -> None:
        super().__init__(inner)
        self._phases = phases

    def one(self, job: Job[Any], agree: Callable[[bool], bool] = bool) -> Any:
        name = KINDS.get(job.name.rpartition(".")[2], "other")
        inputs = {key: self._timed(each, name) if isinstance(each, Once) else each for key, each in job.inputs.items()}
        self._phases.begin(name)
        result = self.inner.one(dataclasses.replace(job, inputs=inputs), agree)
        self._phases.begin("other")
        return result

    def _timed(self, once: Once, name: str) -> Once:
        """The same, as a phase of its own within the phase ``name``."""

        def work() -> Any:
            self._phases.begin("embeddings")
            result = once()
            self._phases.begin(name)
            return result

        return Once(Job("embeddings", work, {}))

    def run(self, jobs: Sequence[Job[Any]], description: str | None = None) -> Results[Any]:
        self._phases.begin("solving")
        results = self.inner.run(jobs, description)
        self._phases.begin("layout")
        return results

    def stream(self, jobs: Sequence[Job[Any]], deliver: Deliver, description: str | None = None) -> None:
        self._phases.begin("solving")
        self.inner.stream(jobs, deliver, description)
        self._phases.begin("layout")
