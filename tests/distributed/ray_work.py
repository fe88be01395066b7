"""Work for jobs: functions that workers can import."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sylvan import data
from sylvan.errors import DataError


def squared(base: Any, at: int) -> Any:
    return (base[at] ** 2, os.getpid())


def dies_once(mark: str) -> int:
    if not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 7


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wrong(what: str) -> None:
    raise DataError(f"{what} is wrong") if what == "row 7" else ValueError(what)


def slow(at: int) -> int:
    time.sleep(0.3)
    return at


def dying_once(fit: Any, folder: str, death: int) -> Any:
    """A training whose second process is killed at a step, if that is its first life; each step is noted in a file."""

    def work(settings: dict[str, Any]) -> None:
        from sylvan.models.transformer.layer_job import LayerJob
        from sylvan.runtime import checkpointed

        checkpointed.SECONDS = 0.0  # store what so short a training has reached
        rank = os.environ["RANK"]
        prepare, notes = LayerJob.prepare, Path(folder, f"steps{rank}")
        dies = rank == "1" and not notes.exists()
        done = 0

        def noted(job: Any, step: int) -> None:
            nonlocal done
            if dies and done == death:
                os.kill(os.getpid(), signal.SIGKILL)
            prepare(job, step)
            done += 1
            with notes.open("a") as stream:
                print(step, file=stream)

        LayerJob.prepare = noted  # type: ignore[method-assign]
        fit(settings)

    return work


def lacking(driver: int) -> Any:
    """What asks for versions and finds no Sylvan, in any process but the driver."""

    def versions() -> dict[str, str]:
        if os.getpid() != driver:
            raise ModuleNotFoundError("No module named 'sylvan'")
        return {}

    return versions


def gone() -> None:
    from ray.exceptions import ObjectLostError

    raise ObjectLostError("00" * 28, None, "")


def lingers(folder: str, at: int) -> int:
    if at:
        for _ in range(10_000):
            time.sleep(0.05)
        Path(folder, f"{at}").touch()
    return at


@dataclass(frozen=True)
class DyingFile:
    """Texts of a file whose reader is killed the first time, in the middle of the file."""

    path: str
    mark: str

    is_text = True

    @property
    def name(self) -> str:
        return self.path

    def blocks(self, with_labels: bool = False) -> Iterator[tuple[list[str], Any]]:
        for number, block in enumerate(data.stream_jsonl(self.path, labels_field=None, rows=20)):
            if number == 1 and not os.path.exists(self.mark):
                Path(self.mark).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield block.texts, None


@dataclass(frozen=True)
class OddFile(DyingFile):
    """Texts of a file whose reader fails in a way that nobody has thought of."""

    def blocks(self, with_labels: bool = False) -> Iterator[tuple[list[str], Any]]:
        raise KeyError("gone")


@dataclass(frozen=True)
class ChangingFile(DyingFile):
    """Texts of a file that is written to while it is read."""

    def blocks(self, with_labels: bool = False) -> Iterator[tuple[list[str], Any]]:
        with open(self.path, "a") as file:
            file.write('{"text": "one more"}\n')
        for block in data.stream_jsonl(self.path, labels_field=None):
            yield block.texts, None


def wait_for(mark: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row, which from the 50th on comes when a file is there."""
    end = time.monotonic() + 600  # nobody waits here if the test has failed
    while row["number"] >= 50 and not os.path.exists(mark) and time.monotonic() < end:
        time.sleep(0.05)
    return row
