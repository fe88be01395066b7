"""Ensembles from raw text: what joining several models gives, and what it takes; JSON out.

``python -m benchmarks.linear.ensembles --data DIR --sets eurlex57k,gutenberg,cpv-tenders --python PEER_PYTHON``. Every
recipe is what a user can type: an :class:`~sylvan.Ensemble` of text models, the same on every set. Each is trained from
raw texts in a process of its own, on one thread, vectorisers included; the test rows are ranked once. libpecos's one
model is trained and ranked in the same run, from finished features, as in ``peers.py``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, measure, process, records
from benchmarks.linear import peers
from sylvan.models.presets import TEXT_PRESETS

Record = dict[str, Any]
# A member: parameters of XRLinear (or None for a NeighborRanker) and of the default vectoriser.
Member = tuple[Mapping[str, Any] | None, Mapping[str, Any]]
DEFAULT, PAIRS, CHARACTERS = ((member.parameters, member.text) for member in TEXT_PRESETS["accurate"].members)
RECIPES: dict[str, tuple[list[Member], list[float]]] = {  # and the members' weights
    "the default": ([DEFAULT], [1]),
    "the default, three trees": ([({"n_trees": 3}, {})], [1]),
    "frequent pairs of words": ([PAIRS], [1]),
    "characters": ([CHARACTERS], [1]),
    "the default and frequent pairs": ([DEFAULT, PAIRS], [1, 1]),
    "the default and characters": ([DEFAULT, CHARACTERS], [1, 1]),
    "the preset accurate: all three": ([DEFAULT, PAIRS, CHARACTERS], [1, 1, 1]),
    "all three and neighbours": ([DEFAULT, PAIRS, CHARACTERS, (None, CHARACTERS[1])], [1, 1, 1, 0.1]),
}  # fmt: skip


def build(recipe: str) -> Any:
    """The recipe as a model over texts."""
    from sylvan import Ensemble, NeighborRanker, TextModel, XRLinear
    from sylvan.models.text import usual_vectorizer

    members, weights = RECIPES[recipe]
    made = [
        TextModel(
            usual_vectorizer(n_jobs=1, **vectorizer),
            NeighborRanker(n_jobs=1) if params is None else XRLinear(n_jobs=1, **params),
        )
        for params, vectorizer in members
    ]
    return made[0] if len(made) == 1 else Ensemble(made, weights=weights, n_jobs=1)


def one(job: Record) -> Record:
    """Train and rank one recipe in this process."""
    from sylvan import metrics

    source, recipe = Path(job["source"]), job["recipe"]
    texts, labels = datasets.read_jsonl(source / "train.jsonl.xz")
    test_texts, test_labels = datasets.read_jsonl(source / "test.jsonl.xz")
    model = build(recipe)
    with measure.Clock() as fit:
        model.fit(texts, labels)
    truth = model.vocabulary_.encode(test_labels, unknown="ignore")
    known = truth.getnnz(axis=1) > 0
    known_texts = [text for text, keep in zip(test_texts, known, strict=True) if keep]
    with measure.Clock() as rank:
        top = model.rank(known_texts, k=5)
    model.save(Path(job["scratch"]) / "model")
    size = measure.folder_bytes(Path(job["scratch"]) / "model") / 1e6
    found = {f"P@{k}": 100 * value for k, value in metrics.precision(truth[known], top, at=(1, 3, 5)).items()}
    return {
        "recipe": recipe, **found, "train_cpu_s": fit.cpu, "train_wall_s": fit.wall,
        "rank_cpu_ms": 1000 * rank.cpu / len(known_texts), "model_mb": size,
    }  # fmt: skip


def peer(folder: Path, pythons: list[str]) -> Record | None:
    """libpecos's one model: seconds of training from finished features, and its precision."""
    found = peers.find("libpecos", pythons)
    if found is None:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        job = {"contender": "libpecos", "set": str(folder), "threads": 1, "model": str(Path(scratch) / "model")}
        trained = peers.run(found["python"], job | {"step": "train"})
        ranked = peers.run(found["python"], job | {"step": "rank", "rounds": 1})
    failed = trained.get("error") or ranked.get("error")
    if failed:
        sys.exit(f"libpecos could not be measured: {failed}")
    return {
        "recipe": f"libpecos {found['version']}, words, one tree, training from finished features",
        **{name: ranked[name] for name in ("P@1", "P@3", "P@5")},
        "train_cpu_s": trained["cpu_s"], "train_wall_s": trained["wall_s"], "model_mb": trained["model_mb"],
    }  # fmt: skip


def main() -> None:
    """Runs what the command line asks for; the JSON is written anew after each recipe."""
    if process.served(one):
        return
    parser = records.command_line(__doc__, "eurlex57k,gutenberg,cpv-tenders", threads=None)
    parser.add_argument("--recipes", default="", help="only those whose names hold one of these words (comma)")
    parser.add_argument("--python", action="append", default=[], help="an interpreter that has libpecos")
    options = parser.parse_args()
    for set_name, folder in records.prepared(options):
        wanted = [word for word in options.recipes.split(",") if word]
        names = [name for name in RECIPES if not wanted or any(word in name for word in wanted)]
        beside = peer(folder, options.python) if options.python else None
        recipes: list[Record] = [] if beside is None else [beside]
        for name in names:
            members, weights = RECIPES[name]
            job = {"source": str(Path(options.data) / set_name), "recipe": name}
            run = process.run(sys.executable, "benchmarks.linear.ensembles", job)
            recipes.append({"recipe": name, **run, "weights": weights if len(members) > 1 else None})
            process.say(f"{set_name} {recipes[-1]}")
            records.write("ensembles", set_name, options, recipes=recipes)


if __name__ == "__main__":
    main()
