"""Sylvan beside its peers: training, memory, model size, ranking, precision; JSON out.

``python -m benchmarks.linear.peers --data DIR --sets eurlex57k,gutenberg,synthetic --threads 1,2 --repeats 3
--python PEER_PYTHON``: every measurement is a process of its own, contenders take turns within each repeat, medians are
quoted, every raw value is stored. A contender is run by the first of ``--python`` (and this interpreter, tried first)
that can import it; one that none can import is reported as missing.

``--busy`` is for a machine that does other things meanwhile: what the wall clock shows is left out, and the JSON is
``more-peers-SET.json``. ``--add`` leaves the other contenders of an earlier JSON in it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, measure, records
from benchmarks.common.process import run as run_worker
from benchmarks.common.process import say
from benchmarks.linear.file_contenders import CONTENDERS

Record = dict[str, Any]
WALL = ("wall_s", "load_s", "ms_per_row", "raw_ms", "p50_ms", "p99_ms", "mean_ms")  # figures of the wall clock


def main() -> None:
    """Measures what the command line asks for and writes one JSON a set."""
    options = arguments()
    names = options.contenders.split(",")
    interpreters = {name: find(name, [sys.executable, *options.python]) for name in names}
    for name, interpreter in interpreters.items():
        say(f"{name}: {'missing' if interpreter is None else interpreter['version']}")
    for set_name, folder in records.prepared(options):
        earlier(path_of(set_name, options), options)  # that it can be added to, before anything is measured
        measure_set(set_name, folder, interpreters, options)


def arguments() -> argparse.Namespace:
    """The command line."""
    usual = [name for name, contender in CONTENDERS.items() if not contender.only_named]
    parser = records.command_line(__doc__, "eurlex57k,gutenberg,synthetic", threads=None)
    parser.add_argument("--threads", default="1,2", help="thread counts, separated by commas")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--python", action="append", default=[], help="interpreter with peers; may be repeated")
    parser.add_argument("--contenders", default=",".join(usual))
    parser.add_argument("--steps", default="train,rank,text")
    parser.add_argument("--single", type=int, default=1000, help="queries ranked one at a time")
    parser.add_argument("--rounds", type=int, default=3, help="how often all test rows are ranked")
    parser.add_argument("--busy", action="store_true", help="leave out the wall clock's figures; more-peers-SET.json")
    parser.add_argument("--add", action="store_true", help="to the contenders of an earlier JSON of this processor")
    parser.add_argument("--timeout", type=float, default=7200.0, help="seconds that one measurement may take")
    return parser.parse_args()


def run(interpreter: str, job: Record, timeout: float = 7200.0) -> Record:
    """The figures of ``worker.py``, or ``{"error": ...}`` with the last line that it wrote."""
    # Thread counts are set per call; those of the environment keep a library's hidden pools from adding to them.
    return run_worker(
        interpreter, "benchmarks.linear.worker", job, timeout=timeout, threads=job.get("threads", 1)
    )


def find(name: str, pythons: list[str]) -> Record | None:
    """The first interpreter that imports the contender, and the version there."""
    for python in pythons:
        figures = run(python, {"contender": name, "step": "version", "imports": True}, timeout=120)
        if "error" not in figures:
            return {"python": python, "version": figures["version"]}
    return None


def measure_set(
    set_name: str, folder: Path, interpreters: dict[str, Record | None], options: argparse.Namespace
) -> None:
    """All repeats of one set; the JSON is written anew after each, so that a stop loses little."""
    raw: dict[str, dict[str, list[Record]]] = {name: {} for name in interpreters}
    steps = options.steps.split(",")
    for repeat in range(options.repeats):
        shift = repeat % len(interpreters)
        order = [*list(interpreters)[shift:], *list(interpreters)[:shift]]
        for threads in map(int, options.threads.split(",")):
            for name in order:
                found = interpreters[name]
                if found is not None:
                    job = {"contender": name, "set": str(folder), "threads": threads, "seed": repeat}
                    one_turn(job, found["python"], steps, raw[name], options)
        write(set_name, folder, interpreters, raw, options, repeat + 1)


def one_turn(
    job: Record, python: str, steps: list[str], raw: dict[str, list[Record]], options: argparse.Namespace
) -> None:
    """One contender at one thread count: trains, ranks with what it trained, goes from raw text to a model."""
    contender, folder = CONTENDERS[job["contender"]], Path(job["set"])
    scratch = Path(tempfile.mkdtemp())
    wanted = [step for step in ("train", "rank") if step in steps and contender.matrices]
    if "text" in steps and contender.text and (folder / "train.txt").exists():
        wanted.append("text")
    try:
        for step in wanted:
            single = options.single if step == "rank" and job["threads"] == 1 else 0
            more = {"step": step, "single": single, "model": str(scratch / "model"), "rounds": options.rounds}
            figures = run(python, job | more, options.timeout)
            if options.busy:
                figures = {key: value for key, value in figures.items() if key not in WALL}
            raw.setdefault(f"{step} {job['threads']}", []).append(figures)
            shown = {key: round(value, 4) for key, value in figures.items() if isinstance(value, float)}
            say(f"{folder.name} {job['contender']} {step} x{job['threads']}: {figures.get('error') or shown}")
            if "error" in figures:
                break
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def median(records: list[Record]) -> Record:
    """Medians of every figure over the repeats; an error where all repeats failed."""
    good = [record for record in records if "error" not in record]
    if not good:
        return {"error": records[0]["error"]}
    keys = [key for key, value in good[0].items() if isinstance(value, (int, float))]
    return {key: statistics.median(record[key] for record in good) for key in keys}


def write(
    set_name: str,
    folder: Path,
    interpreters: dict[str, Record | None],
    raw: dict[str, dict[str, list[Record]]],
    options: argparse.Namespace,
    repeats: int,
) -> None:
    """Writes ``results/peers-SET.json``, or ``more-peers-SET.json``; it names no machine and no folder."""
    path = path_of(set_name, options)
    parts = zip(datasets.NAMES, datasets.load(folder, *datasets.NAMES), strict=True)
    shapes = {name: matrix.shape for name, matrix in parts}
    record = {
        "set": set_name,
        "rows": shapes["X.trn"][0],
        "test_rows": shapes["X.tst"][0],
        "features": shapes["X.trn"][1],
        "labels": shapes["Y.trn"][1],
        "settings": {"branching": 16, "max_leaf": 100, "beam": 10, "top": 10, "seeds": repeats},
        **records.about(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "repeats": repeats,
        "threads": [int(count) for count in options.threads.split(",")],
        "contenders": earlier(path, options)
        | {
            name: {"missing": True}
            if found is None
            else {
                "version": found["version"],
                "median": {step: median(records) for step, records in raw[name].items()},
                "raw": raw[name],
            }
            for name, found in interpreters.items()
        },
    }
    records.save(path, record)


def path_of(set_name: str, options: argparse.Namespace) -> Path:
    """The JSON of a set."""
    return Path(options.results) / f"{'more-peers' if options.busy else 'peers'}-{set_name}.json"


def earlier(path: Path, options: argparse.Namespace) -> Record:
    """The contenders of an earlier JSON, with ``--add``; those of another processor can't be compared."""
    if not options.add or not path.exists():
        return {}
    record = json.loads(path.read_text())
    then, now = record["machine"]["cpu"], measure.processor()["cpu"]
    if then != now:
        sys.exit(f"{path.name} was measured on {then}, this is {now}: times can't be compared. Leave --add out.")
    return dict(record["contenders"])


if __name__ == "__main__":
    main()
