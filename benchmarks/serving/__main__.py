"""Answers over HTTP, one text a request: Sylvan's server beside FastAPI around libpecos, and beside Annif; JSON out.

``python -m benchmarks.serving --data DATA --pecos-python PEERS/bin/python --annif-python ANNIF/bin/python``

Parts: ``answers`` (precision over HTTP, and whether answers are those of the model in a process), ``load`` (requests a
second and latencies at 1 to 512 connections), ``memory`` (of 1, 2 and 4 workers), ``overload`` (more connections than
may wait, with the memory and the event loop's lag). wrk is the client. Texts and models are prepared once, in
``CACHE/serving``. A row is written to ``results/serving-SET.json`` as soon as it is measured; the same command again
measures what is missing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks import CACHE, RESULTS
from benchmarks.common import process, records, resuming
from benchmarks.serving import children, plan, sets
from benchmarks.serving.parts import Bench
from benchmarks.serving.servers import CONTENDERS


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = (*CONTENDERS, plan.IN_PROCESS)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of eurlex57k/ and gutenberg/")
    parser.add_argument("--sets", type=resuming.words, default=["gutenberg", "eurlex57k"])
    parser.add_argument("--pecos-python", help="interpreter that has libpecos, FastAPI and uvicorn")
    parser.add_argument("--annif-python", help="interpreter that has Annif with omikuji, and gunicorn beside it")
    parser.add_argument("--parts", type=resuming.choices(plan.PARTS), default=list(plan.PARTS))
    parser.add_argument("--contenders", type=resuming.choices(names), default=list(names))
    parser.add_argument("--connections", type=resuming.numbers, default=list(plan.CONNECTIONS))
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load")
    parser.add_argument("--overload-seconds", type=float, default=60.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--wrk", default="wrk", help="the client's program")
    parser.add_argument("--list", action="store_true", help="the rows that are missing")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=CACHE, help="texts and models, in serving/")
    return parser.parse_args()


def main() -> None:
    """Measures what the command line asks for, one set after the other."""
    options = arguments()
    children.end_on_signals()
    if shutil.which(options.wrk) is None:
        sys.exit(f"There is no {options.wrk}: install wrk (apt-get install wrk), or name it by --wrk.")
    pythons = {"sylvan": sys.executable, "libpecos": options.pecos_python, "annif": options.annif_python}
    asked = [name for name in options.contenders if pythons[kind(name)]]
    for name in options.contenders:
        if name not in asked:
            process.say(f"{name} is left out: no interpreter was named for it")
    failed = 0
    for name in options.sets:
        book = records.Book(options.results / f"serving-{name}.json")
        texts, models = sets.texts(name, options.data, options.cache), {}
        for one in sorted(set(map(kind, asked))) if not options.list else ():
            models[one] = sets.train(one, str(pythons[one]), texts, options.cache, name)
        with tempfile.TemporaryDirectory() as scratch:
            bench = Bench(name, texts, models, pythons, options, book, Path(scratch))
            failed += bench.run(asked)
    sys.exit(1 if failed else 0)


def kind(name: str) -> str:
    """Whose model a contender serves."""
    return CONTENDERS[name].kind if name in CONTENDERS else "sylvan"


if __name__ == "__main__":
    main()
