"""Reruns the comparisons of the MIDX paper (arXiv 2501.08563) on the sets at hand; JSON out, a row at a time.

``python -m benchmarks.sampling.sampled_softmax --table 4 --data DATA --epochs 5 --seeds 0,1,2 --workers 2``

Every contender trains the same network from the same seed for the same number of steps. A row that is finished is
written to ``results/sampled_softmax_table4.json`` at once; the same command run again goes on with those that are
missing, and a row that was interrupted goes on from its last checkpoint. At the end the table is printed beside the
paper's, and the figures are drawn; ``--report`` does only that. Tables 4, 5, 7 and 9; ``words``, as table 4 on a text
of 50,000 words; and ``many``, on texts of 100,000 and a million phrases. Figures ``sampling-time``, ``samples``,
``codewords`` and ``distribution``. With ``--cpu-s 20,40`` rows have the same seconds of the processor, not steps.

With ``--tune-steps 400`` each contender's rate for the class table is chosen first, on the validation set after so
many steps (``results/sampled_softmax_tuning.json``): samplers differ in the rate that serves them best.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks import CACHE, FIGURES, RESULTS
from benchmarks.common import process, resuming
from benchmarks.common.records import Book
from benchmarks.sampling import distribution, figures, tables, trainings
from benchmarks.sampling.contenders import CHANGES, CONTENDERS, PLANS

DRAWN = ("sampling-time", "samples", "codewords", "distribution")
TIMED = ("uniform", "unigram", "lsh", "sphere", "rff", "midx-pq", "midx-rq", "softmax")
SHOWN = ("full", "uniform", "unigram", "lsh", "sphere", "rff", "midx-pq", "midx-rq", "midx-rq-weighted")
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def command_line() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--table", choices=("4", "5", "7", "9", "words", "many"))
    what.add_argument("--figure", choices=DRAWN)
    parser.add_argument("--data", default="data", help="folder of ptb/, sequences/, eurlex57k/ and gutenberg/")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--max-steps", type=int, help="stop each training after so many steps")
    seconds = "measure after each of these seconds of the processor, 20,40,80 for example, and end at the last"
    parser.add_argument("--cpu-s", type=resuming.numbers, help=seconds)
    parser.add_argument("--seeds", type=resuming.numbers, default=[0, 1, 2])
    everyone = f"of {', '.join(CONTENDERS)}; by default the table's"
    parser.add_argument("--samplers", type=resuming.choices(CONTENDERS), help=everyone)
    parser.add_argument("--models", type=resuming.words, help="lstm,transformer; sasrec,gru4rec")
    parser.add_argument("--sets", type=resuming.words)
    sizes = "classes, for --figure sampling-time"
    parser.add_argument("--sizes", type=resuming.numbers, default=list(SIZES), help=sizes)
    same = f"for all alike: {', '.join(CHANGES)}"
    parser.add_argument("--set", dest="changes", type=_change, action="append", default=[], metavar="NAME=V", help=same)
    tune = "choose every contender's table_learning_rate by trainings of so many steps"
    parser.add_argument("--tune-steps", type=int, help=tune)
    parser.add_argument("--time-limit", type=float, help="minutes; rows on their way are stopped at a checkpoint")
    parser.add_argument("--workers", type=int, default=1, help="rows at a time, a process each")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--report", action="store_true", help="print and draw what there is")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plots", type=Path, default=FIGURES)
    parser.add_argument("--scratch", type=Path, default=CACHE / "sampled_softmax", help="checkpoints")
    parser.add_argument("--cache", type=Path, default=CACHE, help="prepared sets")
    options = parser.parse_args()
    options.changes = dict(options.changes)
    options.what = f"table{options.table}" if options.table else options.figure
    return options


def _change(text: str) -> tuple[str, str | float]:
    name, _, value = text.partition("=")
    if name not in CHANGES:
        raise argparse.ArgumentTypeError(f"{name!r} can't be set")
    if name in ("optimizer", "device"):
        return name, value
    return name, int(value) if name == "batch_size" else float(value)


def book_of(what: str, folder: Path) -> Book:
    """The finished runs of a table or figure."""
    return Book(folder / f"sampled_softmax_{what.replace('-', '_')}.json")


def other_books(options: argparse.Namespace) -> list[Book]:
    """Those of the other tables and figures: their trainings count here too."""
    return [book_of(what, options.results) for what in PLANS if what != options.what]


class Pool:
    """Runs in processes of their own, a few at a time, until they are done or the time is over."""

    def __init__(self, options: argparse.Namespace, book: Book) -> None:
        self.options, self.book = options, book
        self.waiting: queue.Queue[tuple[int, dict[str, Any]]] = queue.Queue()
        self.total = self.failed = 0
        self.end = time.monotonic() + options.time_limit * 60 if options.time_limit else None
        self.begun = time.monotonic()

    def work(self, runs: list[dict[str, Any]]) -> None:
        """All ``runs``, in their order."""
        self.total = len(runs)
        for at, run in enumerate(runs):
            self.waiting.put((at + 1, run))
        workers = [threading.Thread(target=self._worker) for _ in range(self.options.workers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _worker(self) -> None:
        while not self._over():
            try:
                at, run = self.waiting.get_nowait()
            except queue.Empty:
                return
            self._one(at, run)

    def _over(self) -> bool:
        return self.end is not None and time.monotonic() >= self.end

    def _one(self, at: int, run: dict[str, Any]) -> None:
        options = self.options
        options.scratch.mkdir(parents=True, exist_ok=True)
        log = options.scratch / f"{trainings.folder_name(run)}.log"
        out = log.with_suffix(".json")
        out.unlink(missing_ok=True)
        job = {"run": run, "out": str(out), **{n: str(getattr(options, n)) for n in ("data", "cache", "scratch")}}
        command = process.command(sys.executable, "benchmarks.sampling.sampled_softmax", job)
        with open(log, "w", encoding="utf-8") as noise:
            child = subprocess.Popen(command, stdout=noise, stderr=noise, env=process.environment(options.threads))
            stopped = False
            while child.poll() is None:
                try:
                    child.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    if self._over() and not stopped:
                        child.terminate()
                        stopped = True
        words = f"[{at}/{self.total}] {describe(run)}"
        if stopped:
            print(f"{words}: stopped, the time is over", flush=True)
        elif not out.exists():
            self.failed += 1
            last = log.read_text(encoding="utf-8").strip().splitlines()[-1:]
            why = f"killed by signal {-child.returncode}" if child.returncode < 0 else " ".join(last)
            print(f"{words}: failed, see {log}: {why}", flush=True)
        else:
            record = json.loads(out.read_text())
            out.unlink()
            self.book.add(record)
            minutes = (time.monotonic() - self.begun) / 60
            print(f"{words}: {tables.main_figure(record)} ({minutes:.1f} min so far)", flush=True)


def describe(run: dict[str, Any]) -> str:
    """The run in a few words."""
    shown_elsewhere = ("task", "epochs", "max_steps", "kind")
    return ", ".join(f"{k} {v}" for k, v in run.items() if v is not None and k not in shown_elsewhere)


def wanted(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The runs of the table or figure that is asked for."""
    if options.what == "sampling-time":
        names = options.samplers or TIMED
        return [{"kind": "time", "contender": name, "n_classes": n} for n in options.sizes for name in names]
    if options.what == "distribution":
        return [
            {
                "kind": "distribution",
                "set": "ptb",
                "seed": options.seeds[0],
                "epochs": options.epochs,
                "max_steps": options.max_steps,
                "contenders": list(options.samplers or SHOWN),
            }
        ]
    return trainings.planned(options.what, options)


def one(job: dict[str, Any]) -> dict[str, Any]:
    """One run, in this process."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    run, data, cache, scratch = job["run"], Path(job["data"]), Path(job["cache"]), Path(job["scratch"])
    if run.get("kind") == "time":
        settings = {"dim": 128, "batch": 256, "n": 100, "codewords": 64}
        took = distribution.drawing_time(CONTENDERS[run["contender"]], run["n_classes"], **settings)
        return {**run, **settings, **took, "threads": torch.get_num_threads()}
    if run.get("kind") == "distribution":
        return both_stages(run, data, cache, scratch)
    if run.get("kind") == "tuning":
        return trainings.tuned(run, data, cache)
    return trainings.record_of(run, data, cache, scratch)


def both_stages(run: dict[str, Any], data: Path, cache: Path, scratch: Path) -> dict[str, Any]:
    """Every sampler on the vectors of a network before training and after it by the full softmax."""
    training = {"task": "language-model", "set": run["set"], "model": "lstm", "contender": "full", "seed": run["seed"],
                "epochs": run["epochs"], "max_steps": run["max_steps"]}  # fmt: skip
    contenders = {name: CONTENDERS[name] for name in run["contenders"]}
    found = {}
    for stage in ("before", "after"):
        if stage == "before":
            job = trainings.make_job(training, data, cache)
        else:
            job, _, _ = trainings.trained(training, data, cache, scratch)
        queries, table = distribution.validation_queries(job), job.table_.detach()
        found[stage] = distribution.curves(contenders, queries, table, job.corpus.counts(), 32)
    return {**run, **found}


def with_rates(runs: list[dict[str, Any]], options: argparse.Namespace) -> list[dict[str, Any]]:
    """The runs with the class table's rate that was found best for each; what isn't found yet is searched for now."""
    book = book_of("tuning", options.results)
    searches: list[dict[str, Any]] = []
    for run in runs:
        search = trainings.tuning_of(run, options.tune_steps)
        if search not in searches and book.find(search) is None:
            searches.append(search)
    Pool(options, book).work(searches)
    chosen = []
    for run in runs:
        record = book.find(trainings.tuning_of(run, options.tune_steps))
        if record is not None:
            chosen.append({**run, "table_learning_rate": record["best"], "tuned": options.tune_steps})
    return chosen


def train_missing(options: argparse.Namespace, book: Book) -> int:
    """Do what isn't in the book yet; how many runs failed."""
    runs = wanted(options)
    if options.tune_steps:
        runs = with_rates(runs, options)
    others, missing = other_books(options), []
    for run in runs:
        known = next((record for other in others if (record := other.find(run))), None)
        if book.find(run) is None and known is not None:
            book.add(known)
        elif book.find(run) is None:
            missing.append(run)
    pool = Pool(options, book)
    pool.work(missing)
    return pool.failed


def main() -> None:
    """Runs what the command line asks for."""
    if process.served(one):
        return
    options = command_line()
    book = book_of(options.what, options.results)
    failed = 0 if options.report else train_missing(options, book)
    if book.runs:
        print("\n".join(tables.section(options.what, book.runs)))
        for path in figures.draw(options.what, book.runs, options.plots):
            print(path)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
