"""Annif's backends beside Sylvan's: quality by `annif eval`, time and memory of `annif train` and of suggestions.

``python -m benchmarks.annif --data DATA --sets gutenberg,eurlex57k --annif-python ANNIF_PYTHON``

Annif's environment needs Annif and nanobind-backend; Sylvan is taken from this checkout's ``src``. Backends
that aren't installed there are reported as missing. A row is written to ``results/annif-SET.json`` when it is
finished, and the same command again measures what is missing. With ``--documents N`` a part of each set is taken, and
the file is ``annif-SET-N.json``. Measure on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.annif.commands import VERSIONS, Annif
from benchmarks.annif.sets import ANALYZER, PROJECTS, corpus
from benchmarks.common import records
from benchmarks.common.process import say

N_ASKED = 300  # documents whose time is measured


def measured(annif: Annif, name: str, files: Path, threads: int) -> dict[str, Any]:
    """One project, trained, evaluated, asked, and trained again with what Annif's analysis left."""
    figures: dict[str, Any] = {}
    if PROJECTS[name]["backend"] != "ensemble":  # which has nothing to train
        trained = annif.command("train", "-j", str(threads), name, str(files / "train.tsv"))
        if "error" in trained:
            return trained
        figures |= {"train_s": trained["seconds"], "train_peak_mb": trained["peak_mb"]}
    scores = annif.folder / "scores.json"
    evaluated = annif.command("eval", "-j", str(threads), "-M", str(scores), name, str(files / "test.tsv"))
    if "error" in evaluated:
        return evaluated
    found = json.loads(scores.read_text())
    figures |= {key: round(found[key], 4) for key in ("NDCG", "NDCG@5", "F1@5", "Precision@1", "Precision@5")}
    asked = annif.run(str(Path(__file__).with_name("asked.py")), name, str(files / "test.tsv"), str(N_ASKED), only=name)
    if "error" in asked:
        return asked
    figures |= json.loads(asked["printed"].splitlines()[-1])
    again = annif.command("train", "-j", str(threads), "--cached", name)
    if "error" not in again:  # some backends can't
        figures["train_cached_s"] = again["seconds"]
    folder = annif.folder / "data" / "projects" / name
    left = [path for path in folder.rglob("*") if path.is_file() and "-train" not in path.relative_to(folder).parts[0]]
    return {**figures, "model_mb": round(sum(path.stat().st_size for path in left) / 1e6, 2)}


def main() -> None:
    """Measures what is missing."""
    parser = records.command_line(__doc__, "gutenberg,eurlex57k", threads=2)
    parser.add_argument("--annif-python", required=True, help="the Python of an environment with Annif")
    parser.add_argument("--projects", default=",".join(PROJECTS), help="which of them: %(default)s")
    parser.add_argument("--documents", type=int, help="so many documents of each set, instead of all")
    options = parser.parse_args()
    for name in options.sets.split(","):
        measure_set(name, options)


def measure_set(name: str, options: argparse.Namespace) -> None:
    """All projects on one set."""
    files = corpus(name, Path(options.data), Path(options.cache), options.documents)
    whole = name if options.documents is None else f"{name}-{options.documents}"
    book = records.Book(Path(options.results) / f"annif-{whole}.json")
    work = files / "work"
    work.mkdir(exist_ok=True)
    annif = Annif(options.annif_python, work, options.threads)
    loaded = annif.command("load-vocab", "-L", "en", "subjects", str(files / "subjects.csv"))
    if "error" in loaded:
        raise SystemExit(f"annif load-vocab: {loaded['error']}")
    versions = json.loads(annif.run("-c", VERSIONS)["printed"])
    for project in options.projects.split(","):
        row = {"project": project, "threads": options.threads, "analyzer": ANALYZER}
        if book.find(row) is not None:
            continue
        say(f"{whole}: {project}")
        figures = measured(annif, project, files, options.threads)
        if "error" in figures:
            say(f"{whole}: {project} is missing: {figures['error']}")
            continue
        book.add({**row, **figures, "settings": dict(PROJECTS[project]), "versions": versions})


if __name__ == "__main__":
    main()
