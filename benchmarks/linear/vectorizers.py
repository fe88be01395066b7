"""What a vectoriser's settings do to short and to long texts: precision, time and size; JSON out.

``python -m benchmarks.linear.vectorizers --data DIR --sets eurlex57k,gutenberg``. Each set is cut to several lengths of
text, so that one default can be chosen for all: the first words of a text, 20,000 rows of it, drawn with seed 0. A
model is trained from raw texts on one thread, vectoriser included, by the ``balanced`` preset, and ranks up to 6,000
test rows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, measure, process, records

Record = dict[str, Any]
ROWS, TEST_ROWS = 20_000, 6_000
LENGTHS: dict[str, tuple[int | None, ...]] = {"gutenberg": (6, None), "eurlex57k": (15, 60, 200)}  # in words
PAIRS = {"ngrams": (1, 2)}
SETTINGS: dict[str, Record] = {
    "words": {},
    "the default": {"ngrams": "auto"},
    "words, and pairs at half weight": {**PAIRS, "phrase_weight": 0.5, "phrase_min_df": 2},
    "words and pairs": PAIRS,
    "words, sublinear": {"sublinear_tf": True},
    "words of two texts": {"min_df": 2},
    "words and pairs of two texts, sublinear": {**PAIRS, "min_df": 2, "sublinear_tf": True},
}


def rows_of(job: Record, part: str, most: int) -> tuple[list[str], list[list[str]]]:
    """Texts and labels of a part, cut."""
    import numpy as np

    texts, labels = datasets.read_jsonl(Path(job["source"]) / f"{part}.jsonl.xz")
    chosen = np.sort(np.random.default_rng(0).permutation(len(texts))[:most])
    return [" ".join(texts[row].split()[: job["words"]]) for row in chosen], [labels[row] for row in chosen]


def one(job: Record) -> Record:
    """Train and rank with one setting in this process."""
    from sylvan import TextModel, TfidfVectorizer, XRLinear, metrics

    texts, labels = rows_of(job, "train", ROWS)
    test_texts, test_labels = rows_of(job, "test", TEST_ROWS)
    params = {name: tuple(value) if isinstance(value, list) else value for name, value in job["settings"].items()}
    model = TextModel(TfidfVectorizer(n_jobs=1, **params), XRLinear.preset("balanced", calibration=None, n_jobs=1))
    with measure.Clock() as fit:
        model.fit(texts, labels)
    truth = model.vocabulary_.encode(test_labels, unknown="ignore")
    with measure.Clock() as rank:
        top = model.rank(test_texts, k=5)
    model.save(Path(job["scratch"]) / "model")
    size = measure.folder_bytes(Path(job["scratch"]) / "model") / 1e6
    found = {f"P@{k}": 100 * value for k, value in metrics.precision(truth, top, at=(1, 3, 5)).items()}
    known = metrics.propensities(model.vocabulary_.encode(labels))
    found |= {f"PSP@{k}": 100 * value for k, value in metrics.psp(truth, top, known, (1, 3, 5)).items()}
    return {
        **found, "train_cpu_s": fit.cpu, "rank_cpu_ms": 1000 * rank.cpu / len(test_texts), "model_mb": size,
        "ngrams": list(model.vectorizer.ngrams_),
    }  # fmt: skip


def main() -> None:
    """Runs what the command line asks for; the JSON is written anew after each length of text."""
    if process.served(one):
        return
    options = records.command_line(__doc__, "eurlex57k,gutenberg", threads=None).parse_args()
    for set_name in options.sets.split(","):
        runs: list[Record] = []
        for words in LENGTHS[set_name]:
            for name, settings in SETTINGS.items():
                job = {"source": str(Path(options.data) / set_name), "words": words, "settings": settings}
                run = process.run(sys.executable, "benchmarks.linear.vectorizers", job)
                runs.append({"words": words, "settings": name, **run})
                process.say(f"{set_name} {runs[-1]}")
            records.write("vectorizers", set_name, options, runs=runs)


if __name__ == "__main__":
    main()
