"""Annif's backends beside Sylvan's: quality by `annif eval`, time and memory of `annif train` and of suggestions.

``python -m benchmarks.annif --data DATA --sets gutenberg,eurlex57k --annif-python ANNIF_PYTHON``

Annif's environment needs Annif and nanobind-backend; Sylvan is taken from this checkout's ``src``. Backends
that aren't installed there are reported as missing. A row is written to ``results/annif-SET.json`` when it is
finished, and the same command again measures what is missing. With ``--documents N`` a part of each set is taken, and
the file is ``annif-SET-N.json``. ``nn_ensemble`` is trained on documents that its sources weren't trained on:
``--keep 10`` keeps every tenth for it, and the file is ``annif-SET-kept-10.json``.

Measure on an otherwise idle machine. ``--busy`` is for one that does other things meanwhile: times are left out, and
the rows are in ``annif-SET-busy.json``, beside those that have times.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.annif.commands import VERSIONS, Annif
from benchmarks.annif.sets import ANALYZER, PROJECTS, corpus, folder_name, sources
from benchmarks.common import records
from benchmarks.common.process import say

N_ASKED = 300  # documents whose time is measured
TIMES = ("train_s", "train_cached_s", "document_ms", "analysis_ms")


def trained(annif: Annif, name: str, files: Path, threads: int) -> dict[str, Any]:
    """One project, trained, and before it those of its sources that aren't: their rows may be from another day."""
    for source in sources(name):
        shown = annif.command("show-project", source)
        if "error" not in shown and not re.search("^Trained: +True$", shown["printed"], re.MULTILINE):
            shown = trained(annif, source, files, threads)
        if "error" in shown:
            return shown
    if PROJECTS[name]["backend"] == "ensemble":  # which has nothing to train
        return {}
    documents = "kept.tsv" if PROJECTS[name]["backend"] == "nn_ensemble" else "train.tsv"
    done = annif.command("train", "-j", str(threads), name, str(files / documents))
    return done if "error" in done else {"train_s": done["seconds"], "train_peak_mb": done["peak_mb"]}


def measured(annif: Annif, name: str, files: Path, threads: int, busy: bool = False) -> dict[str, Any]:
    """One project, trained, evaluated, asked, and trained again with what Annif's analysis left."""
    figures = trained(annif, name, files, threads)
    if "error" in figures:
        return figures
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
    if not busy:
        again = annif.command("train", "-j", str(threads), "--cached", name)
        if "error" not in again:  # some backends can't
            figures["train_cached_s"] = again["seconds"]
    folder = annif.folder / "data" / "projects" / name
    left = [path for path in folder.rglob("*") if path.is_file() and "-train" not in path.relative_to(folder).parts[0]]
    figures["model_mb"] = round(sum(path.stat().st_size for path in left) / 1e6, 2)
    return {key: value for key, value in figures.items() if not (busy and key in TIMES)}


def main() -> None:
    """Measures what is missing."""
    parser = records.command_line(__doc__, "gutenberg,eurlex57k", threads=2)
    parser.add_argument("--annif-python", required=True, help="the Python of an environment with Annif")
    parser.add_argument("--projects", default=",".join(PROJECTS), help="which of them: %(default)s")
    parser.add_argument("--documents", type=int, help="so many documents of each set, instead of all")
    parser.add_argument("--keep", type=int, metavar="N", help="keep every N-th document to train nn_ensemble with")
    parser.add_argument("--busy", action="store_true", help="leave out times; annif-SET-busy.json")
    options = parser.parse_args()
    for name in options.sets.split(","):
        measure_set(name, options)


def measure_set(name: str, options: argparse.Namespace) -> None:
    """All projects on one set."""
    files = corpus(name, Path(options.data), Path(options.cache), options.documents, options.keep)
    whole = folder_name(name, options.documents, options.keep)
    timed, untimed = (records.Book(Path(options.results) / f"annif-{whole}{end}.json") for end in ("", "-busy"))
    work = files / "work"
    work.mkdir(exist_ok=True)
    annif = Annif(options.annif_python, work, options.threads)
    loaded = annif.command("load-vocab", "-L", "en", "subjects", str(files / "subjects.csv"))
    if "error" in loaded:
        raise SystemExit(f"annif load-vocab: {loaded['error']}")
    versions = json.loads(annif.run("-c", VERSIONS)["printed"])
    for project in options.projects.split(","):
        row = {"project": project, "threads": options.threads, "analyzer": ANALYZER}
        if timed.find(row) is not None or (options.busy and untimed.find(row) is not None):
            continue
        say(f"{whole}: {project}")
        if PROJECTS[project]["backend"] == "nn_ensemble" and options.keep is None:
            say(f"{whole}: {project} is missing: --keep keeps no documents for it")
            continue
        figures = measured(annif, project, files, options.threads, options.busy)
        if "error" in figures:
            say(f"{whole}: {project} is missing: {figures['error']}")
            continue
        n_documents = {part.stem: _lines(part) for part in (files / "train.tsv", files / "kept.tsv") if part.exists()}
        about = {"documents": n_documents, "settings": dict(PROJECTS[project]), "versions": versions}
        (untimed if options.busy else timed).add({**row, **figures, **about})


def _lines(path: Path) -> int:
    with open(path, encoding="utf-8") as lines:
        return sum(1 for _ in lines)


if __name__ == "__main__":
    main()
