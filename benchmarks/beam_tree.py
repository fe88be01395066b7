"""Beam Tree beside its rivals: accuracy by epoch, coverage, time of training and of ranking; JSON out (CANE, 7.1).

``python benchmarks/cane.py --part accuracy --data DATA --python VW_PYTHON``, which is this script

Parts: ``tuning`` tries each contender's rates on a tenth of the training rows, ``accuracy`` trains with the rates that
this chose (the paper's figure 2, tables 1 to 3), ``speed`` times a step and a query on made sets of 100 to 100,000
classes. A row is a process of its own; when it is finished it is written to ``results/beam_tree_PART.json``, and the
same command run again does what is missing. At the end the tables are printed and the figures drawn; ``--report`` does
only that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import beam_tree_contenders
import beam_tree_figures
import beam_tree_plan
import beam_tree_sets
import records
import report_beam_tree

HERE = records.HERE
Row = dict[str, Any]


def command_line(arguments: list[str] | None) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=beam_tree_plan.PARTS, required=True)
    parser.add_argument("--data", default="data", help="folder of cpv-tenders/ and clinc150/")
    parser.add_argument("--sets", type=_words, help=f"of {', '.join(beam_tree_sets.SETS)}; by default all")
    everyone = ", ".join((*beam_tree_contenders.CONTENDERS, *beam_tree_contenders.PEERS))
    parser.add_argument("--contenders", type=_words, help=f"of {everyone}; by default those of the set")
    where = "only rows of which this holds, such as optimizer=sgd; may be repeated"
    parser.add_argument("--where", type=_pair, action="append", default=[], metavar="NAME=VALUE", help=where)
    parser.add_argument("--seeds", type=_numbers, default=[0, 1, 2])
    parser.add_argument("--python", action="append", default=[], help="interpreter that has vowpalwabbit")
    parser.add_argument("--timeout", type=float, default=14400.0, help="seconds that a row may take")
    parser.add_argument("--time-limit", type=float, help="minutes after which no row is begun")
    parser.add_argument("--quick", action="store_true", help="few rows, two epochs, to see that it works; quick_*.json")
    parser.add_argument("--list", action="store_true", help="the rows, and which are there")
    parser.add_argument("--report", action="store_true", help="print and draw what there is")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--plots", type=Path, default=HERE.parent / "docs" / "figures")
    parser.add_argument("--cache", type=Path, default=HERE / "cache", help="prepared sets")
    return parser.parse_args(arguments)


def _words(text: str) -> list[str]:
    return text.split(",")


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if name not in beam_tree_plan.KEYS:
        raise argparse.ArgumentTypeError(f"rows have no {name!r}; they have {', '.join(beam_tree_plan.KEYS)}")
    return name, value


def run(python: str, step: str, row: Row, options: argparse.Namespace) -> Row:
    """One process of ``beam_tree_worker.py``; its figures, or ``{"error": ...}`` with the last line that it wrote."""
    told = beam_tree_plan.settings(row)
    if step == "tuning":
        told["rates"] = beam_tree_plan.rates(row)
    if options.quick and step != "version":
        told["epochs"] = min(told.get("epochs", 2), 2)  # 0.5 stays
        told["tested"] = 200
    job: Row = {"step": step, "row": told}
    if "set" in row:
        job["set"] = str(beam_tree_sets.prepare(row["set"], Path(options.data), options.cache))
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as scratch:
        job["out"], log = str(Path(scratch) / "out.json"), Path(scratch) / "log"
        with open(log, "wb") as noise:
            command = [python, str(HERE / "beam_tree_worker.py"), json.dumps(job)]
            try:
                done = subprocess.run(command, stdout=noise, stderr=noise, env=environment, timeout=options.timeout)
            except subprocess.TimeoutExpired:
                return {"error": f"took more than {options.timeout:g} seconds"}
        if done.returncode == 0:
            return dict(json.loads(Path(job["out"]).read_text()))
        lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
        return {"error": f"exit {done.returncode}: {lines[-1].strip()[:300]}"}


def there(row: Row, book: records.Book) -> bool:
    """Whether a row is finished."""
    return any(beam_tree_plan.same(row, record) for record in book.runs)


def measure_missing(options: argparse.Namespace, rows: list[Row], book: records.Book) -> int:
    """Does the rows that aren't in the book; how many failed."""
    missing = [row for row in rows if not there(row, book)]
    peer = next(
        (python for python in (*options.python, sys.executable)
         if "error" not in run(python, "version", {"contender": "VW-oaa"}, options)), None,
    )  # fmt: skip
    begun, failed = time.monotonic(), 0
    for at, row in enumerate(missing):
        spent = (time.monotonic() - begun) / 60
        if options.time_limit and spent > options.time_limit:
            print(f"{len(missing) - at} rows are left; the time is over", flush=True)
            break
        python = peer if row["contender"] in beam_tree_contenders.PEERS else sys.executable
        found = run(python, options.part, row, options) if python else {"error": "no interpreter has vowpalwabbit"}
        told = found.get("error") or report_beam_tree.main_figure({**row, **found})
        print(f"[{at + 1}/{len(missing)}] {beam_tree_plan.describe(row)}: {told} ({spent:.1f} min so far)", flush=True)
        if "error" in found:
            failed += 1
        else:
            book.add({**row, **found})
    return failed


def main(arguments: list[str] | None = None) -> None:
    """Runs what the command line asks for."""
    options = command_line(arguments)
    prefix = "quick_beam_tree" if options.quick else "beam_tree"
    books = {part: records.Book(options.results / f"{prefix}_{part}.json") for part in beam_tree_plan.PARTS}
    book, tuned = books[options.part], books["tuning"].runs
    rows = beam_tree_plan.planned(options.part, tuned, seeds=options.seeds, quick=options.quick)
    rows = [row for row in rows if options.sets is None or row.get("set") in options.sets]
    rows = [row for row in rows if options.contenders is None or row["contender"] in options.contenders]
    rows = [row for row in rows if all(str(row.get(name)) == value for name, value in options.where)]
    if options.list:
        for row in rows:
            print("done   " if there(row, book) else "missing", beam_tree_plan.describe(row))
        return
    failed = 0 if options.report else measure_missing(options, rows, book)
    runs = {part: one.runs for part, one in books.items()}
    if book.runs:
        print("\n".join(report_beam_tree.section(options.part, runs)))
        for path in beam_tree_figures.draw(options.part, runs, options.plots, prefix):
            print(path)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
