"""Beam Tree beside its rivals: accuracy by epoch, coverage, time of training and of ranking; JSON out (CANE, 7.1).

``python -m benchmarks.beam_tree --part accuracy --data DATA --python VW_PYTHON``

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

from benchmarks.beam_tree import contenders, figures, plan, sets, tables
from benchmarks.common import process, records, resuming

Row = dict[str, Any]


def command_line(arguments: list[str] | None = None) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=plan.PARTS, required=True)
    parser.add_argument("--data", default="data", help="folder of cpv-tenders/ and clinc150/")
    parser.add_argument("--sets", type=resuming.words, help=f"of {', '.join(sets.SETS)}; by default all")
    everyone = ", ".join((*contenders.CONTENDERS, *contenders.PEERS))
    parser.add_argument("--contenders", type=resuming.words, help=f"of {everyone}; by default those of the set")
    parser.add_argument("--seeds", type=resuming.numbers, default=[0, 1, 2])
    resuming.add_options(
        parser, plan.KEYS, example="optimizer=sgd", peer="vowpalwabbit", timeout=14400.0, cache="prepared sets"
    )
    return parser.parse_args(arguments)


def run(python: str, step: str, row: Row, options: argparse.Namespace) -> Row:
    """One worker's figures, or ``{"error": ...}`` with the last line that it wrote."""
    settings = plan.settings(row)
    if step == "tuning":
        settings["rates"] = plan.rates(row)
    if options.quick and step != "version":
        settings["epochs"] = min(settings.get("epochs", 2), 2)  # 0.5 stays
        settings["tested"] = 200
    job: Row = {"step": step, "row": settings}
    if "set" in row:
        job["set"] = str(sets.prepare(row["set"], Path(options.data), options.cache))
    return process.run(python, "benchmarks.beam_tree.worker", job, timeout=options.timeout)


def measurer(options: argparse.Namespace) -> resuming.Measured:
    """What measures a row of the part."""
    asked: Row = {"contender": "VW-oaa"}
    peer = process.first_with(
        (*options.python, sys.executable), lambda python: run(python, "version", asked, options)
    )

    def measured(row: Row) -> Row:
        python = peer if row["contender"] in contenders.PEERS else sys.executable
        return run(python, options.part, row, options) if python else {"error": "no interpreter has vowpalwabbit"}

    return measured


def main() -> None:
    """Runs what the command line asks for."""
    options = command_line()
    prefix = "quick_beam_tree" if options.quick else "beam_tree"
    books = {part: records.Book(options.results / f"{prefix}_{part}.json") for part in plan.PARTS}
    tuned = books["tuning"].runs

    def runs() -> tables.Runs:
        return {part: one.runs for part, one in books.items()}

    resuming.conduct(
        options, plan.planned(options.part, tuned, seeds=options.seeds, quick=options.quick), plan,
        books[options.part], measurer=lambda: measurer(options), main_figure=tables.main_figure,
        tables=lambda: tables.section(options.part, runs()),
        figures=lambda: figures.draw(options.part, runs(), options.plots, prefix),
    )  # fmt: skip


if __name__ == "__main__":
    main()
