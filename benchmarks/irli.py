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
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import irli_figures
import irli_plan
import irli_worker
import records
import report_irli

HERE = records.HERE


def command_line() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=tuple(irli_plan.PLANS), required=True)
    parser.add_argument("--data", default="data", help="folder of title-vectors/, eurlex57k/ and gutenberg/")
    fashion = "folder of Fashion-MNIST's idx files, which Debian's dataset-fashion-mnist installs there"
    parser.add_argument("--fashion", default="/usr/share/datasets/fashion-mnist", help=fashion)
    parser.add_argument("--sets", type=_words, help="only these of the part's sets")
    parser.add_argument("--contenders", type=_words, help="only these of the part's contenders")
    where = "only rows of which this holds, such as hidden=128; may be repeated"
    parser.add_argument("--where", type=_pair, action="append", default=[], metavar="NAME=VALUE", help=where)
    parser.add_argument("--python", action="append", default=[], help="interpreter that has faiss; may be repeated")
    parser.add_argument("--threads", type=int, default=1, help="for training; searches always have one")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--timeout", type=float, default=7200.0, help="seconds that a row may take")
    parser.add_argument("--time-limit", type=float, help="minutes after which no row is begun")
    parser.add_argument("--quick", action="store_true", help="few vectors and rows, to see that it works; quick_irli_*")
    parser.add_argument("--list", action="store_true", help="the rows, and which are there")
    parser.add_argument("--report", action="store_true", help="print and draw what there is")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--plots", type=Path, default=HERE.parent / "docs" / "figures")
    parser.add_argument("--cache", type=Path, default=HERE / "cache", help="prepared sets, true neighbours, k-means")
    return parser.parse_args()


def _words(text: str) -> list[str]:
    return text.split(",")


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if name not in (*irli_plan.KEYS, "seed"):
        raise argparse.ArgumentTypeError(f"rows have no {name!r}; they have {', '.join(irli_plan.KEYS)} and seed")
    return name, value


def run(python: str, step: str, row: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """One process of ``irli_worker.py``; its figures, or ``{"error": ...}`` with the last line that it wrote."""
    job = {"step": step, "row": row, "queries": options.queries, "threads": options.threads}
    job |= {name: str(getattr(options, name)) for name in ("data", "fashion", "cache")}
    if "features" in row:
        import datasets

        job["set"] = str(datasets.prepare(row["set"], Path(options.data), Path(options.cache)))
    threads = str(options.threads if step == "rank" or row["contender"] in ("irli", "irli-rounds") else 1)
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
    with tempfile.TemporaryDirectory() as scratch:
        job["out"], log = str(Path(scratch) / "out.json"), Path(scratch) / "log"
        with open(log, "wb") as noise:
            command = [python, str(HERE / "irli_worker.py"), json.dumps(job)]
            try:
                done = subprocess.run(command, stdout=noise, stderr=noise, env=environment, timeout=options.timeout)
            except subprocess.TimeoutExpired:
                return {"error": f"took more than {options.timeout:g} seconds"}
        if done.returncode == 0:
            return dict(json.loads(Path(job["out"]).read_text()))
        lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
        return {"error": f"exit {done.returncode}: {lines[-1].strip()[:300]}"}


def there(row: dict[str, Any], book: records.Book) -> bool:
    """Whether a row is finished."""
    return any(irli_plan.same(row, record) for record in book.runs)


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
    missing = [row for row in rows if not there(row, book)]
    faiss = next(
        (python for python in (sys.executable, *options.python)
         if "error" not in run(python, "version", {"contender": "ivf"}, options)), None,
    )  # fmt: skip
    begun, failed = time.monotonic(), 0
    for at, row in enumerate(missing):
        spent = (time.monotonic() - begun) / 60
        if options.time_limit and spent > options.time_limit:
            print(f"{len(missing) - at} rows are left; the time is over", flush=True)
            break
        found = done(row, faiss, options)
        told = found.get("error") or report_irli.main_figure({**row, **found})
        print(f"[{at + 1}/{len(missing)}] {irli_plan.describe(row)}: {told} ({spent:.1f} min so far)", flush=True)
        if "error" in found:
            failed += 1
        else:
            book.add({**row, "queries": options.queries, "threads": options.threads, **found})
    return failed


def main() -> None:
    """Runs what the command line asks for."""
    options = command_line()
    prefix = "quick_irli" if options.quick else "irli"
    book = records.Book(options.results / f"{prefix}_{options.part}.json")
    rows = irli_plan.planned(options.part, quick=options.quick)
    rows = [row for row in rows if options.sets is None or row["set"] in options.sets]
    rows = [row for row in rows if options.contenders is None or row["contender"] in options.contenders]
    rows = [row for row in rows if all(str(row.get(name)) == value for name, value in options.where)]
    if options.list:
        for row in rows:
            print("done   " if there(row, book) else "missing", irli_plan.describe(row))
        return
    failed = 0 if options.report else measure_missing(options, rows, book)
    if book.runs:
        print("\n".join(report_irli.section(options.part, book.runs)))
        for path in irli_figures.draw(options.part, book.runs, options.plots, prefix):
            print(path)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
