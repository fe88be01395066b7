"""Tables that are measured row by row: what the command line may ask, a process a row, and going on where it ended.

A row is a plain dict. A benchmark's plan says which there are, in what words (``describe``) and when a finished record
is that row (``same``); its worker (``process.py``) measures one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchmarks import CACHE, FIGURES, RESULTS
from benchmarks.common.records import Book

__all__ = ["Plan", "add_options", "choices", "conduct", "numbers", "words"]

Row = dict[str, Any]
Measured = Callable[[Row], Row]  # a row's figures, or why there are none


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


def choices(known: Iterable[str]) -> Callable[[str], list[str]]:
    """What parses an option's words, of which each must be known."""

    def parse(text: str) -> list[str]:
        unknown = [word for word in words(text) if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return words(text)

    return parse


def add_options(
    parser: argparse.ArgumentParser, keys: Sequence[str], *, example: str, peer: str, timeout: float, cache: str
) -> None:
    """The options that all such benchmarks have.

    ``keys`` are what a row may be chosen by, ``example`` one of them, ``peer`` the package that an interpreter is named
    for, ``timeout`` the seconds that a row may take, and ``cache`` says what lies in that folder.
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
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plots", type=Path, default=FIGURES)
    parser.add_argument("--cache", type=Path, default=CACHE, help=cache)


def wanted(rows: Iterable[Row], options: argparse.Namespace) -> list[Row]:
    """The rows that the command line asks for."""
    return [
        row for row in rows
        if (options.sets is None or row.get("set") in options.sets)
        and (options.contenders is None or row["contender"] in options.contenders)
        and all(str(row.get(name)) == value for name, value in options.where)
    ]  # fmt: skip


def missing(rows: Iterable[Row], plan: Plan, book: Book) -> list[Row]:
    """The rows that aren't in the book."""
    return [row for row in rows if not any(plan.same(row, record) for record in book.runs)]


def listed(rows: Iterable[Row], plan: Plan, book: Book) -> None:
    """Print the rows, and which are there."""
    for row in rows:
        print("missing" if missing([row], plan, book) else "done   ", plan.describe(row))


def measure_missing(
    rows: Iterable[Row], plan: Plan, book: Book, measured: Measured,
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
        shown = found.get("error") or main_figure({**row, **found})
        print(f"[{at + 1}/{len(left)}] {plan.describe(row)}: {shown} ({spent:.1f} min so far)", flush=True)
        if "error" in found:
            failed += 1
        else:
            book.add({**row, **found})
    return failed


def conduct(
    options: argparse.Namespace, rows: Iterable[Row], plan: Plan, book: Book, *, measurer: Callable[[], Measured],
    main_figure: Callable[[Row], str], tables: Callable[[], list[str]], figures: Callable[[], Iterable[Path]],
) -> None:  # fmt: skip
    """Do what the command line asks: list the rows, or measure those that are missing and show what there is.

    ``measurer`` makes what measures a row, and is asked only where one is to be measured. Exits with 1 where a row
    failed.
    """
    asked = wanted(rows, options)
    if options.list:
        listed(asked, plan, book)
        return
    failed = 0
    if not options.report:
        failed = measure_missing(asked, plan, book, measurer(), main_figure, options.time_limit)
    if book.runs:
        print("\n".join(tables()))
        for path in figures():
            print(path)
    sys.exit(1 if failed else 0)
