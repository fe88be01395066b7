"""Tables that are measured row by row: what the command line may ask, a process a row, and going on where it ended.

A row is a plain dict. A benchmark's plan says which there are, in what words (``describe``) and when a finished record
is that row (``same``); its worker is a script that is given a job as JSON and writes its figures to ``job["out"]``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import records

__all__ = [
    "Plan", "add_options", "finish", "first_with", "listed", "measure_missing", "numbers", "process", "wanted", "words",
]  # fmt: skip

Row = dict[str, Any]
HERE = records.HERE


class Plan(Protocol):
    """What is asked of a benchmark's plan."""

    def same(self, row: Row, record: Row) -> bool:
        """Whether a finished record is this row."""

    def describe(self, row: Row) -> str:
        """The row in a few words."""


def words(text: str) -> list[str]:
    """An option's words, parted by commas."""
    return text.split(",")


def numbers(text: str) -> list[int]:
    """An option's whole numbers, parted by commas."""
    return [int(word) for word in words(text)]


def add_options(
    parser: argparse.ArgumentParser, keys: Sequence[str], *, example: str, peer: str, timeout: float, cache: str
) -> None:
    """The options that all such benchmarks have.

    ``keys`` are what a row may be chosen by, ``example`` one of them, ``peer`` the package that an interpreter is named
    for, ``timeout`` the seconds that a row may take, and ``cache`` says what is kept in that folder.
    """

    def pair(text: str) -> tuple[str, str]:
        name, _, value = text.partition("=")
        if name not in keys:
            raise argparse.ArgumentTypeError(f"rows have no {name!r}; they have {', '.join(keys)}")
        return name, value

    where = f"only rows of which this holds, such as {example}; may be repeated"
    parser.add_argument("--where", type=pair, action="append", default=[], metavar="NAME=VALUE", help=where)
    parser.add_argument("--python", action="append", default=[], help=f"interpreter that has {peer}; may be repeated")
    parser.add_argument("--timeout", type=float, default=timeout, help="seconds that a row may take")
    parser.add_argument("--time-limit", type=float, help="minutes after which no row is begun")
    parser.add_argument("--quick", action="store_true", help="little of everything, to see that it works; quick_*.json")
    parser.add_argument("--list", action="store_true", help="the rows, and which are there")
    parser.add_argument("--report", action="store_true", help="print and draw what there is")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--plots", type=Path, default=HERE.parent / "docs" / "figures")
    parser.add_argument("--cache", type=Path, default=HERE / "cache", help=cache)


def wanted(rows: Iterable[Row], options: argparse.Namespace) -> list[Row]:
    """The rows that the command line asks for."""
    return [
        row for row in rows
        if (options.sets is None or row.get("set") in options.sets)
        and (options.contenders is None or row["contender"] in options.contenders)
        and all(str(row.get(name)) == value for name, value in options.where)
    ]  # fmt: skip


def process(
    python: str, worker: Path, job: Row, *, timeout: float, threads: int | str = 1,
    environment: Mapping[str, str] | None = None,
) -> Row:  # fmt: skip
    """One process of a worker: its figures, or ``{"error": ...}`` with the last line that it wrote.

    The job is given a file to write to, as "out", and a folder of its own, as "scratch".
    """
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
    around = os.environ | dict.fromkeys(limits, str(threads)) | dict(environment or {})
    with tempfile.TemporaryDirectory() as scratch:
        out, log = Path(scratch) / "out.json", Path(scratch) / "log"
        command = [python, str(worker), json.dumps({**job, "out": str(out), "scratch": scratch})]
        with open(log, "wb") as noise:
            try:
                done = subprocess.run(command, stdout=noise, stderr=noise, env=around, timeout=timeout)
            except subprocess.TimeoutExpired:
                return {"error": f"took more than {timeout:g} seconds"}
        if done.returncode == 0:
            return dict(json.loads(out.read_text()))
        lines = log.read_text(errors="replace").replace("\r", "\n").strip().splitlines() or ["no message"]
        return {"error": f"exit {done.returncode}: {lines[-1].strip()[:300]}"}


def first_with(pythons: Iterable[str], ask: Callable[[str], Row]) -> str | None:
    """The first interpreter whose answer is no error."""
    return next((python for python in pythons if "error" not in ask(python)), None)


def missing(rows: Iterable[Row], plan: Plan, book: records.Book) -> list[Row]:
    """The rows that aren't in the book."""
    return [row for row in rows if not any(plan.same(row, record) for record in book.runs)]


def listed(rows: Iterable[Row], plan: Plan, book: records.Book) -> None:
    """Print the rows, and which are there."""
    for row in rows:
        print("missing" if missing([row], plan, book) else "done   ", plan.describe(row))


def measure_missing(
    rows: Iterable[Row], plan: Plan, book: records.Book, measured: Callable[[Row], Row],
    main_figure: Callable[[Row], str], time_limit: float | None,
) -> int:  # fmt: skip
    """Does the rows that aren't in the book, writing each down at once; how many failed."""
    left = missing(rows, plan, book)
    begun, failed = time.monotonic(), 0
    for at, row in enumerate(left):
        spent = (time.monotonic() - begun) / 60
        if time_limit and spent > time_limit:
            print(f"{len(left) - at} rows are left; the time is over", flush=True)
            break
        found = measured(row)
        told = found.get("error") or main_figure({**row, **found})
        print(f"[{at + 1}/{len(left)}] {plan.describe(row)}: {told} ({spent:.1f} min so far)", flush=True)
        if "error" in found:
            failed += 1
        else:
            book.add({**row, **found})
    return failed


def finish(
    tables: Callable[[], list[str]], figures: Callable[[], Iterable[Path]], book: records.Book, failed: int
) -> None:
    """Print the tables, draw the figures, and end with whether a row failed."""
    if book.runs:
        print("\n".join(tables()))
        for path in figures():
            print(path)
    sys.exit(1 if failed else 0)
