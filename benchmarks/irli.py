"""IRLI's tables and figures on the sets at hand, beside faiss's indexes, k-means partitions and XRLinear; JSON out.

``python benchmarks/irli.py --part neighbors --data DATA --fashion FOLDER --python FAISS_PYTHON``

Parts: ``neighbors`` (recall10@10 against candidates, the paper's figure 3), ``ablation`` (rounds, choices, repetitions
and hidden sizes: its tables 3 and 4 and figure 4), ``scaling`` (made vectors, 10,000 to a million), ``multilabel`` (its
tables 1 and 2). A row is a process of its own; when it is finished it is written to ``results/irli_PART.json``, and the
same command run again does what is missing. At the end the tables are printed and the figures drawn; ``--report`` does
only that.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import irli_figures
import irli_plan
import irli_worker
import records
import report_irli
import resumed_rows

HERE = records.HERE


def command_line() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=tuple(irli_plan.PLANS), required=True)
    parser.add_argument("--data", default="data", help="folder of title-vectors/, eurlex57k/ and gutenberg/")
    fashion = "folder of Fashion-MNIST's idx files, which Debian's dataset-fashion-mnist installs there"
    parser.add_argument("--fashion", default="/usr/share/datasets/fashion-mnist", help=fashion)
    parser.add_argument("--sets", type=resumed_rows.words, help="only these of the part's sets")
    parser.add_argument("--contenders", type=resumed_rows.words, help="only these of the part's contenders")
    parser.add_argument("--threads", type=int, default=1, help="for training; searches always have one")
    parser.add_argument("--queries", type=int, default=1000)
    resumed_rows.add_options(
        parser, (*irli_plan.KEYS, "seed"), example="hidden=128", peer="faiss", timeout=7200.0,
        cache="prepared sets, true neighbours, k-means",
    )  # fmt: skip
    return parser.parse_args()


def run(python: str, step: str, row: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """One process of ``irli_worker.py``; its figures, or ``{"error": ...}`` with the last line that it wrote."""
    job = {"step": step, "row": row, "queries": options.queries, "threads": options.threads}
    job |= {name: str(getattr(options, name)) for name in ("data", "fashion", "cache")}
    if "features" in row:
        import datasets

        job["set"] = str(datasets.prepare(row["set"], Path(options.data), Path(options.cache)))
    threads = options.threads if step == "rank" or row["contender"] in ("irli", "irli-rounds") else 1
    return resumed_rows.process(python, HERE / "irli_worker.py", job, timeout=options.timeout, threads=threads)


def done(row: dict[str, Any], faiss: str | None, options: argparse.Namespace) -> dict[str, Any]:
    """A row's figures."""
    if "features" in row:
        return run(sys.executable, "rank", row, options)
    if row["contender"] in (*irli_worker.FAISS, "kmeans") and faiss is None:
        return {"error": "no interpreter has faiss; name one by --python"}
    if row["contender"] in irli_worker.FAISS:
        return run(str(faiss), "search", row, options)
    if row["contender"] == "kmeans":
        made = run(str(faiss), "partitions", row, options)
        if "error" in made:
            return made
    return run(sys.executable, "search", row, options)


def measure_missing(options: argparse.Namespace, rows: list[dict[str, Any]], book: records.Book) -> int:
    """Does the rows that aren't in the book; how many failed."""
    asked = {"contender": "ivf"}
    faiss = resumed_rows.first_with(
        (sys.executable, *options.python), lambda python: run(python, "version", asked, options)
    )

    def measured(row: dict[str, Any]) -> dict[str, Any]:
        return {"queries": options.queries, "threads": options.threads, **done(row, faiss, options)}

    return resumed_rows.measure_missing(rows, irli_plan, book, measured, report_irli.main_figure, options.time_limit)


def main() -> None:
    """Runs what the command line asks for."""
    options = command_line()
    prefix = "quick_irli" if options.quick else "irli"
    book = records.Book(options.results / f"{prefix}_{options.part}.json")
    rows = irli_plan.planned(options.part, quick=options.quick)
    rows = resumed_rows.wanted(rows, options)
    if options.list:
        resumed_rows.listed(rows, irli_plan, book)
        return
    failed = 0 if options.report else measure_missing(options, rows, book)
    resumed_rows.finish(
        lambda: report_irli.section(options.part, book.runs),
        lambda: irli_figures.draw(options.part, book.runs, options.plots, prefix), book, failed,
    )  # fmt: skip


if __name__ == "__main__":
    main()
