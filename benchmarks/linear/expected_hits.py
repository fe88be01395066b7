"""What calibrated probabilities add up to, beside the right answers, where labels are rare; JSON out.

``python -m benchmarks.linear.expected_hits --data DIR``. Of each set some numbers of rows, drawn at random, train the
models with their defaults, from raw titles; the test rows are answered with five labels each. ``ratio`` is the sum of
these probabilities over the number of right answers, ``first`` the mean probability of the first less its precision.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import measure, process, records
from sylvan import TextModel, XRLinear, metrics, preset

SETS = {  # the fields of the text, and how many rows train
    "yso-titles-fi": (("text",), (5_000, 10_000, 60_000)),
    "gutenberg": (("title", "author"), (5_000, 10_000, 70_746)),
    "cpv-tenders": (("text",), (5_000, 10_000)),
    "eurlex57k": (("title",), (5_000, 10_000, 45_000)),
}
MODELS: dict[str, Callable[[], Any]] = {
    "TextModel": lambda: TextModel(model=XRLinear(n_jobs=1)),
    "Ensemble": lambda: preset("accurate", n_jobs=1),
    "Reranker": lambda: preset("best", n_jobs=1),
}


def read(path: Path, fields: tuple[str, ...]) -> tuple[list[str], list[list[str]]]:
    """Texts and label names of one ``.jsonl.xz``."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    texts = [" ".join(row[field] for field in fields if row.get(field)) for row in rows]
    return texts, [[str(label) for label in row.get("labels") or [row["label"]]] for row in rows]


def measured(model: Any, test: tuple[list[str], list[list[str]]]) -> dict[str, Any]:
    """What the probabilities of the first five answers add up to."""
    texts, labels = test
    truth = model.vocabulary_.encode(labels, unknown="ignore")
    top = model.probabilities(model.rank(texts, k=5))
    five, first = (metrics.expected_hits(truth, top, k) for k in (5, 1))
    return {
        "rows": len(texts), "labels": model.n_labels_, "expected": five.expected, "right": five.right,
        "ratio": five.ratio, "error": five.error / max(1, five.right),
        "first": (first.expected - first.right) / len(texts),
    }  # fmt: skip


def main() -> None:
    """Runs what the command line asks for; the JSON is written anew after each model."""
    parser = records.command_line(__doc__, ",".join(SETS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--sizes", default="", help="only these numbers of rows (comma)")
    parser.add_argument("--seeds", type=int, default=1, help="samples of the rows")
    options = parser.parse_args()
    sizes = {int(size) for size in options.sizes.split(",") if size}
    for name in options.sets.split(","):
        fields, numbers = SETS[name]
        texts, labels = read(Path(options.data) / name / "train.jsonl.xz", fields)
        test = read(Path(options.data) / name / "test.jsonl.xz", fields)
        book = records.Book(Path(options.results) / f"expected-hits-{name}.json")
        for n_rows in (number for number in numbers if not sizes or number in sizes):
            for model in options.models.split(","):
                for seed in range(options.seeds):
                    run = {"model": model, "trained_on": n_rows, "seed": seed}
                    if book.find(run) is not None:
                        continue
                    drawn = np.random.default_rng(seed).permutation(len(texts))[:n_rows]
                    with measure.Clock() as clock:
                        made = MODELS[model]().fit([texts[at] for at in drawn], [labels[at] for at in drawn])
                    record = {**run, **measured(made, test), "train_cpu_s": clock.cpu}
                    if model == "TextModel":
                        with measure.Clock() as clock:
                            plain = TextModel(model=XRLinear(n_jobs=1, calibration=None))
                            plain.fit([texts[at] for at in drawn], [labels[at] for at in drawn])
                        record["uncalibrated_cpu_s"] = clock.cpu
                    book.add(record)
                    process.say(f"{name} {record}")


if __name__ == "__main__":
    main()
