"""The command line that the benchmarks share, and the JSON that they leave."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import CACHE, RESULTS
from benchmarks.common import datasets, measure

__all__ = ["Book", "about", "command_line", "prepared", "save", "write"]

BETWEEN = " and "  # the processors of rows that were measured on several


def command_line(what: str | None, sets: str, *, threads: int | None = 1) -> argparse.ArgumentParser:
    """A parser with the options for sets, folders and threads (None: without that); ``sets`` are the default ones."""
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", help="folder of eurlex57k/ and gutenberg/")
    parser.add_argument("--sets", default=sets)
    if threads is not None:
        parser.add_argument("--threads", type=int, default=threads)
    parser.add_argument("--cache", default=str(CACHE), help="folder of prepared sets")
    parser.add_argument("--results", default=str(RESULTS), help="folder of the JSON files")
    return parser


def prepared(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Each set that the command line asks for, and the folder of its matrices."""
    for name in options.sets.split(","):
        yield name, datasets.prepare(name, Path(options.data), Path(options.cache))


def about() -> dict[str, Any]:
    """When and on what machine."""
    return {"date": datetime.date.today().isoformat(), "machine": measure.processor()}


def save(path: Path, record: dict[str, Any]) -> None:
    """Writes a JSON file; it appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(beside, path)


def write(kind: str, set_name: str, options: argparse.Namespace, **figures: Any) -> None:
    """Writes ``results/KIND-SET.json``: the figures, of what set, when and on what machine."""
    record = {"set": set_name, **about(), "threads": getattr(options, "threads", 1), **figures}
    save(Path(options.results) / f"{kind}-{set_name}.json", record)


class Book:
    """The JSON of one table or figure: its finished rows, written anew after each; a row that is there stays."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.runs: list[dict[str, Any]] = []
        if self.path.exists():
            self.runs = json.loads(self.path.read_text())["runs"]

    def find(self, run: dict[str, Any]) -> dict[str, Any] | None:
        """The record of such a row, if it was done."""
        return next((record for record in self.runs if all(record.get(name) == run[name] for name in run)), None)

    def add(self, record: dict[str, Any]) -> None:
        """Take a record in, and write everything; what another process wrote meanwhile stays.

        The record says on what processor it was measured, as times of another one can't be compared with its own.
        """
        with self.lock:
            here, cpus = about(), []
            if self.path.exists():
                earlier = json.loads(self.path.read_text())
                self.runs, cpus = earlier["runs"], earlier["machine"]["cpu"].split(BETWEEN)
            own = here["machine"]["cpu"]
            self.runs.append({**record, "cpu": own})
            here["machine"]["cpu"] = BETWEEN.join(dict.fromkeys([*cpus, own]))
            save(self.path, {**here, "runs": self.runs})
