"""Annif's backends beside Sylvan's: quality by `annif eval`, time and memory of `annif train` and of suggestions.

``python -m benchmarks.annif --data DATA --sets gutenberg,eurlex57k --annif-python ANNIF_PYTHON``

Annif's environment needs Annif alone: Sylvan is taken from this checkout's ``src``, built for the same Python. Backends
that aren't installed there are reported as missing. A row is written to ``results/annif-SET.json`` when it is
finished, and the same command again measures what is missing. With ``--documents N`` a part of each set is taken, and
the file is ``annif-SET-N.json``. Measure on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.annif.sets import ANALYZER, PROJECTS, corpus, projects_file
from benchmarks.common import records
from benchmarks.common.process import environment, say

N_ASKED = 300  # documents whose time is measured
PUNKT = """import pathlib, sys
from nltk.tokenize.punkt import PunktParameters, save_punkt_params
place = pathlib.Path(sys.argv[1], "tokenizers", "punkt_tab", "english")
place.mkdir(parents=True, exist_ok=True)
save_punkt_params(PunktParameters(), dir=str(place))
"""
VERSIONS = """import importlib.metadata as m, json, platform
names = "annif omikuji fasttext-numpy2 scikit-learn numpy".split()
found = {name: m.version(name) for name in names if list(m.distributions(name=name))}
print(json.dumps({"python": platform.python_version(), **found}))
"""


class Annif:
    """Annif's commands in a folder with its data."""

    def __init__(self, python: str, folder: Path, threads: int) -> None:
        self.python, self.folder = python, folder
        nltk = folder / "nltk"
        self.environment = environment(
            threads, PYTHONPATH=str(ROOT / "src"), NLTK_DATA=str(nltk), ANNIF_CONFIG="sylvan.annif.Config",
            ANNIF_DATADIR=str(folder / "data"), ANNIF_PROJECTS=str(projects_file(folder)), PYTHONHASHSEED="0",
        )  # fmt: skip
        self.run("-c", PUNKT, str(nltk))

    def run(self, *words: str, only: str | None = None) -> dict[str, Any]:
        """What a process of Annif's Python printed, its seconds and its peak memory; or its error.

        With ``only``, it knows this project and no other.
        """
        own = {} if only is None else {"ANNIF_PROJECTS": str(projects_file(self.folder, only))}
        out, log = self.folder / "out", self.folder / "log"
        with open(out, "wb") as output, open(log, "wb") as noise:
            began = time.perf_counter()
            child = subprocess.Popen(
                [self.python, *words], stdout=output, stderr=noise, env={**self.environment, **own}, cwd=self.folder
            )
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        seconds = round(time.perf_counter() - began, 2)
        lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
        if child.returncode:
            return {"error": f"exit {child.returncode}: {lines[-1][:300]}"}
        return {"seconds": seconds, "peak_mb": round(usage.ru_maxrss / 1024, 1), "printed": out.read_text()}

    def command(self, *words: str) -> dict[str, Any]:
        """One of Annif's commands."""
        return self.run("-m", "annif.cli", *words)


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
