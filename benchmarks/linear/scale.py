"""Sylvan at ever larger numbers of rows and labels, phase by phase, and omikuji where it fits; JSON out.

``python -m benchmarks.linear.scale --sizes 300000x700000,1200000x2800000 --settings fast,balanced,omikuji --python
PEER_PYTHON``: synthetic sets of so many training rows x labels, with 300,000 features. Each training is a process of
its own, which may take no more than ``--memory`` and ``--timeout``: one that would take more becomes a row that says
so. Rows are written to ``results/scale.json`` as soon as they are there, each in place of an earlier one of the same
size, setting and memory limit: sizes can be measured one at a time.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import CACHE, RESULTS
from benchmarks.common import process, records
from benchmarks.common.process import say
from benchmarks.linear import peers

Record = dict[str, Any]
WORKER = "benchmarks.linear.scale_worker"
SIZES = "120000x280000,300000x700000,600000x1400000,1200000x2800000"
SETTINGS: dict[str, Record] = {"fast": {"negatives": "tfn"}, "balanced": {}}  # of Sylvan; others are peers
KEYS = ("rows", "labels", "setting", "memory_limit")


def main() -> None:
    """Measures what the command line asks for, size by size."""
    options = arguments()
    for size in options.sizes.split(","):
        name = f"synthetic-{size}"
        job = {"step": "prepare", "name": name, "cache": options.cache}
        prepared = process.run(sys.executable, WORKER, job)
        if "error" in prepared:
            sys.exit(f"{name} could not be made: {prepared['error']}")
        for setting in options.settings.split(","):
            record = measure_setting(Path(options.cache) / name, setting, options)
            n_rows, n_labels = map(int, size.split("x"))
            record |= {"rows": n_rows, "labels": n_labels, "setting": setting, **records.about()}
            merge(Path(options.results) / "scale.json", record)
            say(json.dumps({key: value for key, value in record.items() if key != "raw_ms"}, indent=1))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES, help="ROWSxLABELS, separated by commas")
    parser.add_argument("--settings", default="fast,balanced", help=f"{', '.join(SETTINGS)}, and peers such as omikuji")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", type=float, default=16.0, help="gigabytes that a process may take")
    parser.add_argument("--timeout", type=float, default=7200.0, help="seconds that a training may take")
    parser.add_argument("--memory-limit", help="what Sylvan's trainings are told to keep, such as 6GB")
    parser.add_argument("--single", type=int, default=1000, help="queries ranked one at a time")
    parser.add_argument("--python", action="append", default=[], help="interpreter with peers; may be repeated")
    parser.add_argument("--cache", default=str(CACHE), help="folder of prepared sets")
    parser.add_argument("--results", default=str(RESULTS), help="folder of the JSON file")
    return parser.parse_args()


def measure_setting(folder: Path, setting: str, options: argparse.Namespace) -> Record:
    """Training and ranking with one setting, or the error that it ended with."""
    own = setting in SETTINGS
    contender = "sylvan" if own else setting
    memory = int(options.memory * 1e9)
    job: Record = {"set": str(folder), "contender": contender, "threads": options.threads, "memory": memory}
    known: Record = {"threads": options.threads, "memory_gb": options.memory}
    if own and options.memory_limit:
        job["memory_limit"] = known["memory_limit"] = options.memory_limit
    python = sys.executable if own else process.first_with([sys.executable, *options.python], lambda it: asks(it, job))
    if python is None:
        return known | {"error": f"no interpreter can import {setting}"}
    scratch = Path(tempfile.mkdtemp(dir=options.cache))
    try:
        job |= {"model": str(scratch / "model"), "settings": SETTINGS.get(setting, {})}
        figures = process.run(
            python, WORKER, job | {"step": "train"}, timeout=options.timeout, threads=options.threads,
            TMPDIR=str(scratch),
        )  # fmt: skip
        if "error" in figures:
            return known | {"error": in_words(figures["error"])}
        rank = {"step": "rank", "single": options.single, "rounds": 1}
        return known | figures | peers.run(python, job | rank, options.timeout)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def in_words(error: str) -> str:
    """Why a training ended, where a signal ended it: libraries abort when they get no more memory."""
    ended = re.match(r"exit -(\d+):", error)
    return f"ended by signal {ended[1]}, as a process is that gets no more memory" if ended else error


def asks(python: str, job: Record) -> Record:
    """Whether an interpreter has the job's contender."""
    return process.run(python, WORKER, {**job, "step": "version"}, timeout=120)


def merge(path: Path, record: Record) -> None:
    """Writes a row, in place of an earlier one of the same size, setting and memory limit."""
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    left = [run for run in runs if any(run.get(key) != record.get(key) for key in KEYS)]
    order = sorted([*left, record], key=lambda run: (run["rows"], run["labels"]))
    records.save(path, {"runs": order})


if __name__ == "__main__":
    main()
