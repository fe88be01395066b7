"""What a training step of the output layer takes: full softmax, plain and chunked, against sampled softmax; JSON out.

``python -m benchmarks.sampling.output_layer`` (``--quick`` for a smoke run, ``--contenders "uniform;head-unigram"`` for
some): forward and backward passes over made queries and classes, the optimiser's step beside them, drawing alone,
refreshing, and peak memory, each contender and number of classes in a process of its own; with a GPU at hand all of it
there too. Contenders take turns within each repeat.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.common import process, records

FULL = ("full softmax", "full softmax, chunked")
SAMPLERS = ("uniform", "unigram", "lsh", "sphere", "rff", "midx-pq", "midx-rq", "midx-aware-rq", "midx-rq-torch")
HEADS = ("head-unigram", "head-midx-rq", "head-midx-aware-rq")
SETTINGS = {"dim": 128, "batch": 256, "n_samples": 100, "n_shared": 1000, "codewords": 64, "n_head": 1000}
QUICK = {"dim": 16, "batch": 8, "n_samples": 5, "n_shared": 20, "codewords": 4, "n_head": 20}
CLASSES = (10_000, 100_000, 1_000_000)
SLOW = 500_000  # from this many classes on every repeat but the first leaves the slow contenders out
TIMEOUT = 600  # seconds; a contender that needs more at a number of classes is reported as too slow there


def run(job: dict[str, Any]) -> dict[str, Any]:
    """One worker's figures, or why there are none."""
    return process.run(
        sys.executable, "benchmarks.sampling.output_layer_worker", job, timeout=TIMEOUT, threads=job["threads"]
    )


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians of what several processes measured, figure by figure; lists of times are joined first."""
    found: dict[str, Any] = {}
    for key, value in runs[0].items():
        values = [run[key] for run in runs]
        if isinstance(value, dict):
            found[key] = medians(values)
        elif isinstance(value, list):
            found[key] = statistics.median(statistics.median(times) for times in values)
        elif isinstance(value, float):
            found[key] = statistics.median(values)
    return found


def measure_all(options: argparse.Namespace, device: str) -> list[dict[str, Any]]:
    """Every contender at every number of classes, in an order that rotates from repeat to repeat."""
    settings = QUICK if options.quick else SETTINGS
    contenders = [name for name in (*FULL, *SAMPLERS, *HEADS) if name in (options.contenders or name)]
    raw: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for repeat in range(options.repeats):
        order = contenders[repeat % len(contenders) :] + contenders[: repeat % len(contenders)]
        for n_classes in options.classes:
            for contender in order:
                earlier = raw.setdefault((contender, n_classes), [])
                failed = bool(earlier) and "error" in earlier[0]
                slow = bool(earlier) and n_classes >= SLOW and earlier[0].get("process_s", 0) > options.slow
                if failed or slow:
                    continue
                job = settings | {
                    "contender": contender, "n_classes": n_classes, "device": device, "threads": options.threads,
                    "seed": repeat, "seconds": options.seconds,
                }  # fmt: skip
                start = time.perf_counter()
                found = run(job)
                found["process_s"] = time.perf_counter() - start
                earlier.append(found)
                shown = found.get("error") or f"{found['process_s']:.1f} s"
                print(f"{device}, {n_classes:,} classes, {contender}, repeat {repeat}: {shown}", flush=True)
    rows = []
    for (contender, n_classes), runs in raw.items():
        good = [run for run in runs if "error" not in run]
        figures = {"median": medians(good)} if good else {"error": runs[0]["error"]}
        rows.append({"contender": contender, "n_classes": n_classes, "device": device, **figures, "raw": runs})
    return rows


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=lambda text: [int(part) for part in text.split(",")], default=list(CLASSES))
    these = "only these, between semicolons; the others' rows in the file stay"
    parser.add_argument("--contenders", type=lambda text: text.split(";"), help=these)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3, help="spent on each figure in each process")
    parser.add_argument("--slow", type=float, default=20, help="seconds of a process that isn't repeated at a million")
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat: a smoke run")
    parser.add_argument("--out", type=Path, default=RESULTS / "output_layer.json")
    options = parser.parse_args()
    if options.quick:
        options.classes, options.repeats, options.seconds = [200, 2000], 1, 0.01
    import torch

    runs = measure_all(options, "cpu")
    record: dict[str, Any] = records.about()
    record |= {"torch": torch.__version__, "threads": options.threads, "repeats": options.repeats}
    record |= {"settings": QUICK if options.quick else SETTINGS}
    if torch.cuda.is_available():
        record["gpu"] = torch.cuda.get_device_name()
        runs += measure_all(options, "cuda")
    if options.contenders and options.out.exists():
        measured = {(row["contender"], row["n_classes"], row["device"]) for row in runs}
        earlier = json.loads(options.out.read_text())
        kept = [row for row in earlier["runs"] if (row["contender"], row["n_classes"], row["device"]) not in measured]
        record, runs = {**earlier, "settings": record["settings"]}, kept + [{**row, **records.about()} for row in runs]
    record["runs"] = runs
    records.save(options.out, record)


if __name__ == "__main__":
    main()
