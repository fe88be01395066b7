"""Ensembles from raw text: what joining several models gives, and what it takes; JSON out.

``python benchmarks/ensembles.py --data DIR --sets eurlex57k,gutenberg --python PEER_PYTHON``. Every recipe is what a
user can type: an :class:`~sylvan.Ensemble` of text models whose weights were chosen beforehand on rows that are not
test rows (the development part of eurlex57k; a tenth of gutenberg's training rows, drawn with seed 0). Each is trained
from raw texts in a process of its own, on one thread, vectorisers included; the test rows are ranked once. libpecos's
one model is trained and ranked in the same run, from finished features, as in ``peers.py``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import datasets
import measure
import peers

Record = dict[str, Any]
HERE = Path(__file__).resolve().parent
PAPER = {"negatives": "paper", "combine": "paper"}
WORDS = {"min_df": 2, "sublinear_tf": True}
PAIRS = {**WORDS, "ngrams": (1, 2)}
FREQUENT = {**PAIRS, "max_features": 120_000}
CHARACTERS = {**WORDS, "analyzer": "char_wb", "ngrams": (4, 4)}
LOOSE = {"tolerance": 0.4, "max_iterations": 5}  # of several trees, each may be solved less exactly
# A member: parameters of its vectoriser, and of XRLinear (or None for a NeighborRanker); then the weights.
Member = tuple[dict[str, Any], dict[str, Any] | None]
RECIPES: dict[str, dict[str, tuple[list[Member], list[float]]]] = {
    "eurlex57k": {
        "words": ([(WORDS, {})], [1]),
        "words, three trees": ([(WORDS, {"n_trees": 3})], [1]),
        "words, as in the paper": ([(WORDS, PAPER)], [1]),
        "frequent pairs, as in the paper": ([(FREQUENT, PAPER)], [1]),
        "two trees of words, one of frequent pairs, as in the paper, loosely solved": (
            [(WORDS, {"n_trees": 2, **PAPER, **LOOSE}), (FREQUENT, {**PAPER, **LOOSE})], [0.5, 0.5],
        ),
        "words and frequent pairs, as in the paper": ([(WORDS, PAPER), (FREQUENT, PAPER)], [0.5, 0.5]),
        "the same with neighbours": ([(WORDS, PAPER), (FREQUENT, PAPER), (WORDS, None)], [0.47, 0.47, 0.06]),
    },
    "gutenberg": {
        "words": ([(WORDS, {})], [1]),
        "words, three trees": ([(WORDS, {"n_trees": 3})], [1]),
        "words and pairs": ([(PAIRS, {})], [1]),
        "characters": ([(CHARACTERS, {})], [1]),
        "words and pairs, characters, neighbours": (
            [(PAIRS, {}), (CHARACTERS, {}), (CHARACTERS, None)], [0.78, 0.20, 0.03],
        ),
        "two trees each of words and pairs and of characters, loosely solved; neighbours": (
            [(PAIRS, {"n_trees": 2, **LOOSE}), (CHARACTERS, {"n_trees": 2, **LOOSE}), (CHARACTERS, None)],
            [0.53, 0.45, 0.03],
        ),
        "three trees of words and pairs, two of characters, loosely solved; neighbours": (
            [(PAIRS, {"n_trees": 3, **LOOSE}), (CHARACTERS, {"n_trees": 2, **LOOSE}), (CHARACTERS, None)],
            [0.63, 0.34, 0.03],
        ),
    },
}  # fmt: skip


def build(members: list[Member], weights: list[float]) -> Any:
    """The recipe as a model over texts."""
    from sylvan import Ensemble, NeighborRanker, TextModel, TfidfVectorizer, XRLinear

    made = [
        TextModel(
            TfidfVectorizer(n_jobs=1, **vectorizer),
            NeighborRanker(n_jobs=1) if params is None else XRLinear(n_jobs=1, **params),
        )
        for vectorizer, params in members
    ]
    return made[0] if len(made) == 1 else Ensemble(made, weights=weights, n_jobs=1)


def one(source: Path, set_name: str, recipe: str) -> Record:
    """Train and rank one recipe in this process."""
    from sylvan import metrics

    texts, labels = datasets.read_jsonl(source / "train.jsonl.xz")
    test_texts, test_labels = datasets.read_jsonl(source / "test.jsonl.xz")
    model = build(*RECIPES[set_name][recipe])
    with measure.Clock() as fit:
        model.fit(texts, labels)
    truth = model.vocabulary_.encode(test_labels, unknown="ignore")
    known = truth.getnnz(axis=1) > 0
    kept = [text for text, keep in zip(test_texts, known, strict=True) if keep]
    with measure.Clock() as rank:
        top = model.rank(kept, k=5)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        size = measure.folder_bytes(Path(folder) / "model") / 1e6
    found = {f"P@{k}": 100 * value for k, value in metrics.precision(truth[known], top, at=(1, 3, 5)).items()}
    return {
        "recipe": recipe, **found, "train_cpu_s": fit.cpu, "train_wall_s": fit.wall,
        "rank_cpu_ms": 1000 * rank.cpu / len(kept), "model_mb": size,
    }  # fmt: skip


def apart(source: Path, set_name: str, recipe: str) -> Record:
    """``one`` in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--one", json.dumps([str(source), set_name, recipe])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        return {"recipe": recipe, "error": done.stderr.strip().splitlines()[-1][:200]}
    found: Record = json.loads(done.stdout)
    return found


def peer(folder: Path, pythons: list[str]) -> Record | None:
    """libpecos's one model: seconds of training from finished features, and its precision."""
    found = peers.find("libpecos", pythons)
    if found is None:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        job = {"contender": "libpecos", "set": str(folder), "threads": 1, "model": str(Path(scratch) / "model")}
        trained = peers.run(found["python"], job | {"step": "train"})
        ranked = peers.run(found["python"], job | {"step": "rank", "rounds": 1})
    keys = {"P@1": "P@1", "P@3": "P@3", "P@5": "P@5"}
    return {
        "recipe": f"libpecos {found['version']}, words, one tree, training from finished features",
        **{name: ranked[key] for name, key in keys.items() if key in ranked},
        "train_cpu_s": trained.get("cpu_s"), "train_wall_s": trained.get("wall_s"), "model_mb": trained.get("model_mb"),
    }  # fmt: skip


def main() -> None:
    """Runs what the command line asks for; the JSON is written anew after each recipe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--cache", default=str(HERE / "cache"))
    parser.add_argument("--sets", default="eurlex57k,gutenberg")
    parser.add_argument("--recipes", default="", help="only those whose names hold one of these words (comma)")
    parser.add_argument("--python", action="append", default=[], help="an interpreter that has libpecos")
    parser.add_argument("--results", default=str(HERE / "results"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        source, set_name, recipe = json.loads(options.one)
        print(json.dumps(one(Path(source), set_name, recipe)))
        return
    for set_name in options.sets.split(","):
        folder = datasets.prepare(set_name, Path(options.data), Path(options.cache))
        record: Record = {"set": set_name, "date": datetime.date.today().isoformat(), "machine": measure.processor()}
        record["recipes"] = []
        wanted = [word for word in options.recipes.split(",") if word]
        names = [name for name in RECIPES[set_name] if not wanted or any(word in name for word in wanted)]
        found = peer(folder, options.python) if options.python else None
        record["recipes"] += [] if found is None else [found]
        for name in names:
            members, weights = RECIPES[set_name][name]
            run = apart(Path(options.data) / set_name, set_name, name)
            record["recipes"].append(run | {"weights": weights if len(members) > 1 else None})
            peers.say(f"{set_name} {run}")
            target = Path(options.results) / f"ensembles-{set_name}.json"
            target.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
