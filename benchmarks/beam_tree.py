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
import sys
from pathlib import Path
from typing import Any

import beam_tree_contenders
import beam_tree_figures
import beam_tree_plan
import beam_tree_sets
import records
import report_beam_tree
import resumed_rows

HERE = records.HERE
Row = dict[str, Any]


def command_line(arguments: list[str] | None) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=beam_tree_plan.PARTS, required=True)
    parser.add_argument("--data", default="data", help="folder of cpv-tenders/ and clinc150/")
    parser.add_argument("--sets", type=resumed_rows.words, help=f"of {', '.join(beam_tree_sets.SETS)}; by default all")
    everyone = ", ".join((*beam_tree_contenders.CONTENDERS, *beam_tree_contenders.PEERS))
    parser.add_argument("--contenders", type=resumed_rows.words, help=f"of {everyone}; by default those of the set")
    parser.add_argument("--seeds", type=resumed_rows.numbers, default=[0, 1, 2])
    resumed_rows.add_options(
        parser, beam_tree_plan.KEYS, example="optimizer=sgd", peer="vowpalwabbit", timeout=14400.0,
        cache="prepared sets",
    )  # fmt: skip
    return parser.parse_args(arguments)


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
    return resumed_rows.process(python, HERE / "beam_tree_worker.py", job, timeout=options.timeout)


def measure_missing(options: argparse.Namespace, rows: list[Row], book: records.Book) -> int:
    """Does the rows that aren't in the book; how many failed."""
    asked: Row = {"contender": "VW-oaa"}
    peer = resumed_rows.first_with(
        (*options.python, sys.executable), lambda python: run(python, "version", asked, options)
    )

    def measured(row: Row) -> Row:
        python = peer if row["contender"] in beam_tree_contenders.PEERS else sys.executable
        return run(python, options.part, row, options) if python else {"error": "no interpreter has vowpalwabbit"}

    return resumed_rows.measure_missing(
        rows, beam_tree_plan, book, measured, report_beam_tree.main_figure, options.time_limit
    )


def main(arguments: list[str] | None = None) -> None:
    """Runs what the command line asks for."""
    options = command_line(arguments)
    prefix = "quick_beam_tree" if options.quick else "beam_tree"
    books = {part: records.Book(options.results / f"{prefix}_{part}.json") for part in beam_tree_plan.PARTS}
    book, tuned = books[options.part], books["tuning"].runs
    rows = beam_tree_plan.planned(options.part, tuned, seeds=options.seeds, quick=options.quick)
    rows = resumed_rows.wanted(rows, options)
    if options.list:
        resumed_rows.listed(rows, beam_tree_plan, book)
        return
    failed = 0 if options.report else measure_missing(options, rows, book)
    runs = {part: one.runs for part, one in books.items()}
    resumed_rows.finish(
        lambda: report_beam_tree.section(options.part, runs),
        lambda: beam_tree_figures.draw(options.part, runs, options.plots, prefix), book, failed,
    )  # fmt: skip


if __name__ == "__main__":
    main()
