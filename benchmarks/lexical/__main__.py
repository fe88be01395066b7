"""LexicalMatcher beside Annif's MLLM, on the same documents and the same vocabulary.

``python -m benchmarks.lexical --data DATA --sets eurlex57k,gutenberg --annif-python ANNIF_PYTHON``

Writes a row to ``results/lexical-SET.json`` when it is finished; the same command again measures what is missing.
Annif's environment needs Annif and nanobind-backend; without ``--annif-python`` Sylvan's rows are measured alone. How
long it takes with 100,000 labels measures ``python -m benchmarks.lexical.scale``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.annif.commands import VERSIONS, Annif
from benchmarks.annif.sets import ANALYZER
from benchmarks.common import records
from benchmarks.common.process import say
from benchmarks.lexical.sets import LexicalSet, read_set, write_for_annif
from sylvan import LexicalMatcher

# What each row of Sylvan's sets; "untrained" has the labels' words alone.
SETTINGS: dict[str, dict[str, Any]] = {
    "sylvan": {"stem": "en"},
    "sylvan without stems": {},
    "sylvan untrained": {"stem": "en"},
}


def f1_at(names: list[list[str]], truth: list[list[str]], k: int = 5) -> float:
    """The mean over documents of F1 of the first k answers, as Annif's F1@5."""
    scores = []
    for answered, right in zip(names, truth, strict=True):
        own, wanted = set(answered[:k]), set(right)
        scores.append(2 * len(own & wanted) / max(len(own) + len(wanted), 1))
    return float(np.mean(scores))


def measured(name: str, chosen: LexicalSet, threads: int) -> dict[str, Any]:
    """One row of Sylvan's."""
    model = LexicalMatcher(**SETTINGS[name], n_jobs=threads)
    began = time.perf_counter()
    if name == "sylvan untrained":
        model.fit(label_texts=chosen.terms)
    else:
        model.fit(*chosen.train, label_texts=chosen.terms)
    trained = time.perf_counter()
    top = model.rank(chosen.test[0], k=5)
    ranked = time.perf_counter()
    alone = []
    for text in chosen.test[0][:300]:
        start = time.perf_counter()
        model.rank([text], k=5)
        alone.append(time.perf_counter() - start)
    seen = {label for row in chosen.train[1] for label in row}
    unseen = [[label for label in row if label not in seen] for row in chosen.test[1]]
    rows = [at for at, row in enumerate(unseen) if row]
    found = [len(set(top.names[at]) & set(unseen[at])) / len(unseen[at]) for at in rows]
    return {
        "F1@5": round(f1_at(top.names, chosen.test[1]), 4),
        "Precision@1": round(float(np.mean([row[:1] != [] and row[0] in right for row, right in
                                            zip(top.names, chosen.test[1], strict=True)])), 4),
        "unseen_recall@5": round(float(np.mean(found)), 4) if found else None,
        "train_s": round(trained - began, 2), "test_s": round(ranked - trained, 2),
        "document_ms": round(1000 * float(np.median(alone)), 3),
    }  # fmt: skip


def measured_by_annif(chosen: LexicalSet, python: str, threads: int) -> dict[str, Any]:
    """MLLM's row, by Annif's own commands."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_for_annif(chosen, folder)
        annif = Annif(python, folder, threads)
        loaded = annif.command("load-vocab", "-L", "en", "subjects", str(folder / "subjects.nt"))
        if "error" in loaded:
            raise SystemExit(f"annif load-vocab: {loaded['error']}")
        trained = annif.command("train", "-j", str(threads), "mllm", str(folder / "train.tsv"))
        if "error" in trained:
            raise SystemExit(f"annif train: {trained['error']}")
        scores = folder / "scores.json"
        tested = annif.command("eval", "-j", str(threads), "-M", str(scores), "mllm", str(folder / "test.tsv"))
        if "error" in tested:
            raise SystemExit(f"annif eval: {tested['error']}")
        found = json.loads(scores.read_text())
        versions = json.loads(annif.run("-c", VERSIONS)["printed"])
    return {
        "F1@5": round(found["F1@5"], 4), "Precision@1": round(found["Precision@1"], 4), "train_s": trained["seconds"],
        "test_s": tested["seconds"], "analyzer": ANALYZER, "versions": versions,
    }  # fmt: skip


def main() -> None:
    """Measures what is missing."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg")
    parser.add_argument("--annif-python", help="the Python of an environment with Annif")
    parser.add_argument("--train", type=int, default=2000, help="documents to train with: %(default)s")
    parser.add_argument("--test", type=int, default=1000, help="documents to test: %(default)s")
    options = parser.parse_args()
    for name in options.sets.split(","):
        measure_set(name, options)


def measure_set(name: str, options: argparse.Namespace) -> None:
    """All rows of one set."""
    book = records.Book(Path(options.results) / f"lexical-{name}.json")
    chosen = read_set(name, Path(options.data), options.train, options.test)
    sizes = {"n_train": len(chosen.train[0]), "n_test": len(chosen.test[0]), "n_labels": len(chosen.terms)}
    rows = [*SETTINGS, *(["annif mllm"] if options.annif_python else [])]
    for row in rows:
        key = {"model": row, "threads": options.threads, **sizes}
        if book.find(key) is not None:
            continue
        say(f"{name}: {row}")
        if row == "annif mllm":
            figures = measured_by_annif(chosen, options.annif_python, options.threads)
        else:
            figures = measured(row, chosen, options.threads)
            figures["snowballstemmer"] = importlib.metadata.version("snowballstemmer")
        book.add({**key, **figures})


if __name__ == "__main__":
    main()
