"""IRLI's tables and figures on the sets at hand, beside faiss's indexes, k-means partitions and XRLinear; JSON out.

``python -m benchmarks.irli --part neighbors --data DATA --fashion FOLDER --python FAISS_PYTHON``

Parts: ``neighbors`` (recall10@10 against candidates, the paper's figure 3), ``defaults`` (an index that nobody set
anything of), ``ablation`` (rounds, choices, repetitions and hidden sizes: its tables 3 and 4 and figure 4), ``scaling``
(made vectors, 10,000 to a million), ``multilabel`` (its tables 1 and 2). A row is a process of its own; when it is
finished it is written to ``results/irli_PART.json``, and the same command run again does what is missing. At the end
the tables are printed and the figures drawn; ``--report`` does only that.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, process, records, resuming
from benchmarks.irli import figures, plan, tables
from benchmarks.irli.worker import PARTITIONED, PEERS

Row = dict[str, Any]


def command_line() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=tuple(plan.PLANS), required=True)
    parser.add_argument("--data", default="data", help="folder of title-vectors/, eurlex57k/ and gutenberg/")
    fashion = "folder of Fashion-MNIST's idx files, which Debian's dataset-fashion-mnist installs there"
    parser.add_argument("--fashion", default="/usr/share/datasets/fashion-mnist", help=fashion)
    parser.add_argument("--sets", type=resuming.words, help="only these of the part's sets")
    parser.add_argument("--contenders", type=resuming.words, help="only these of the part's contenders")
    parser.add_argument("--threads", type=int, default=1, help="for training; searches always have one")
    parser.add_argument("--queries", type=int, default=1000)
    resuming.add_options(
        parser, (*plan.KEYS, "seed"), example="hidden=128", peer="faiss", timeout=7200.0,
        cache="prepared sets, true neighbours, k-means",
    )  # fmt: skip
    return parser.parse_args()


def run(python: str, step: str, row: Row, options: argparse.Namespace) -> Row:
    """One worker's figures, or ``{"error": ...}`` with the last line that it wrote."""
    job = {"step": step, "row": row, "queries": options.queries, "threads": options.threads}
    job |= {name: str(getattr(options, name)) for name in ("data", "fashion", "cache")}
    if "features" in row:
        job["set"] = str(datasets.prepare(row["set"], Path(options.data), Path(options.cache)))
    threads = options.threads if step == "rank" or row["contender"].startswith("irli") else 1
    return process.run(python, "benchmarks.irli.worker", job, timeout=options.timeout, threads=threads)


def figures_of(row: Row, faiss: str | None, options: argparse.Namespace) -> Row:
    """A row's figures."""
    if "features" in row:
        return run(sys.executable, "rank", row, options)
    if row["contender"] in (*PEERS, *PARTITIONED) and faiss is None:
        return {"error": "no interpreter has faiss and hnswlib; name one by --python"}
    if row["contender"] in PEERS:
        return run(str(faiss), "search", row, options)
    if row["contender"] in PARTITIONED:
        made = run(str(faiss), "partitions", row, options)
        if "error" in made:
            return made
    return run(sys.executable, "search", row, options)


def measurer(options: argparse.Namespace) -> resuming.Measured:
    """What measures a row of the part."""
    asked = {"contender": "ivf"}
    faiss = process.first_with(
        (sys.executable, *options.python), lambda python: run(python, "version", asked, options)
    )
    about = {"queries": options.queries, "threads": options.threads, "date": records.about()["date"]}
    return lambda row: {**about, **figures_of(row, faiss, options)}


def main() -> None:
    """Runs what the command line asks for."""
    options = command_line()
    prefix = "quick_irli" if options.quick else "irli"
    book = records.Book(options.results / f"{prefix}_{options.part}.json")
    resuming.conduct(
        options, plan.planned(options.part, quick=options.quick), plan, book,
        measurer=lambda: measurer(options), main_figure=tables.main_figure,
        tables=lambda: tables.section(options.part, book.runs),
        figures=lambda: figures.draw(options.part, book.runs, options.plots, prefix),
    )  # fmt: skip


if __name__ == "__main__":
    main()
