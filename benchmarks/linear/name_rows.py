"""What labels are called as training rows: with and without such rows, and with other labels' names.

``python -m benchmarks.linear.name_rows --data DIR --sets gutenberg,eurlex57k,yso-titles-fi,clinc150``. A set whose
labels are codes has the names of its folder; the vocabulary of yso-titles-fi has them in three languages. Names of
other labels, in a random order, must be refused; what they would do is measured too.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import datasets, measure, records
from sylvan import TextModel, XRLinear, metrics

SIZES = (0, 10_000, 2_000)  # training rows; 0 is all of them
LANGUAGES = ("fi", "sv", "en")
Names = dict[str, list[str]]


def names_of(labels: list[str], folder: Path) -> Iterator[tuple[str, Names]]:
    """What a set's labels are called, by where that is from."""
    if (written := folder / "label_names.json.xz").exists():
        with lzma.open(written, "rt", encoding="utf-8") as file:
            terms = json.load(file)
        yield "names and synonyms", {label: [terms[label]["label"], *terms[label]["alt_labels"]] for label in labels}
        return
    files = [(language, folder / f"names-{language}.tsv.xz") for language in LANGUAGES]
    for language, path in files if files[0][1].exists() else ():
        with lzma.open(path, "rt", encoding="utf-8") as file:
            read = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            called = {uri.strip("<>"): [name] for uri, name, *_ in read}
        yield f"names ({language})", {label: called[label] for label in labels if label in called}
    if not files[0][1].exists():
        yield "names", {label: [label.replace("_", " ")] for label in labels}


def measured(rows: Any, test: Any, names: Names | None, refuses: bool) -> dict[str, Any]:
    """One training's figures; with names that are rows in any case unless it may refuse them."""
    model = TextModel(model=XRLinear(n_jobs=1), unlearned="skip" if refuses else "answer")
    model.set_params(vectorizer__n_jobs=1)
    with measure.Clock() as clock:
        model.fit(*rows, label_texts=names)
    top, truth = model.rank(test[0], 5), model.vocabulary_.encode(test[1], unknown="ignore")
    figures = {f"P@{k}": 100 * value for k, value in metrics.precision(truth, top).items()}
    figures |= {"macro recall@5": 100 * metrics.macro_recall(truth, top, at=5)[5], "cpu_s": clock.cpu}
    promise = metrics.expected_hits(truth, model.probabilities(top), k=5)
    figures |= {"promised": promise.expected, "right": promise.right}
    like, is_row = model.label_text_likeness_, model.label_texts_ is not None
    decided = {} if like is None else {"likeness": like.of_labels, "chance": like.by_chance}
    return figures | {"are_rows": is_row, **decided}


def runs_of(folder: Path, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """All runs of a set."""
    train, test = (datasets.read_jsonl(folder / f"{part}.jsonl.xz") for part in ("train", "test"))
    for size in SIZES:
        for seed in seeds if size else seeds[:1]:
            order = np.random.default_rng(seed).permutation(len(train[0]))[: size or None]
            rows = tuple([part[row] for row in np.sort(order)] for part in train)
            labels = sorted({label for row in rows[1] for label in row})
            about = {"n_rows": len(rows[0]), "labels": len(labels), "seed": seed}
            yield {**about, "names": "none", **measured(rows, test, None, True)}
            for what, names in names_of(labels, folder):
                yield {**about, "names": what, **measured(rows, test, names, True)}
                shuffled = np.random.default_rng(seed).permutation(np.array([*names], object)).tolist()
                others = dict(zip(names, (names[label] for label in shuffled), strict=True))
                yield {**about, "names": f"{what} of others", **measured(rows, test, others, True)}
                yield {**about, "names": f"{what} of others, in any case", **measured(rows, test, others, False)}


def main() -> None:
    """Runs what the command line asks for."""
    parser = records.command_line(__doc__, "gutenberg,eurlex57k,yso-titles-fi,clinc150", threads=None)
    parser.add_argument("--seeds", default="0,1,2", help="of the rows that are drawn")
    options: argparse.Namespace = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    for name in options.sets.split(","):
        runs = []
        for run in runs_of(Path(options.data) / name, seeds):
            runs.append(run)
            print(name, run, flush=True)
        records.write("name-rows", name, options, runs=runs)


if __name__ == "__main__":
    main()
