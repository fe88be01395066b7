"""Words beside parts of words, with names of labels and without, in models that keep their rows, so that they can learn
each night; JSON out.

``python -m benchmarks.linear.word_parts --data DIR``. The default set, titles in Finnish, has codes whose names a
vocabulary gives. Precision is over the test rows that have a label which training knows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, measure, process, records
from benchmarks.linear import presets, rerankers

Record = dict[str, Any]
FEATURES: dict[str, Record] = {"words": {}, "parts of words": {"analyzer": "char_wb", "ngrams": (3, 5)}}


def one(job: Record) -> Record:
    """Train one model in this process, and rank the test rows."""
    from sylvan import TextModel, TfidfVectorizer, XRLinear, metrics

    folder = Path(job["source"])
    (texts, labels), (asked, truth) = (datasets.read_jsonl(folder / f"{part}.jsonl.xz") for part in ("train", "test"))
    names = presets.label_names(folder, labels) if job["named"] else None
    vectorizer = TfidfVectorizer(n_jobs=1, **FEATURES[job["features"]])
    model = TextModel(vectorizer, XRLinear(keep_rows=True, n_jobs=1, seed=0))
    with measure.Clock() as training:
        model.fit(texts, labels, label_texts=names)
    with measure.Clock() as ranking:
        top = model.rank(asked, k=5)
    right = metrics.precision(model.vocabulary_.encode(truth, unknown="ignore"), top)
    return {
        "features": job["features"], "named": job["named"], **{f"P@{k}": 100 * value for k, value in right.items()},
        "train_cpu_s": training.cpu, "rank_cpu_ms": 1000 * ranking.cpu / len(asked), "labels": model.n_labels_,
        "model_mb": rerankers.megabytes(model, job),
    }  # fmt: skip


def main() -> None:
    """Runs what the command line asks for; a JSON for each set."""
    if process.served(one):
        return
    options = records.command_line(__doc__, "yso-titles-fi", threads=None).parse_args()
    for name in options.sets.split(","):
        runs = []
        for features in FEATURES:
            for named in (False, True):
                job = {"source": str(Path(options.data) / name), "features": features, "named": named}
                runs.append(process.run(sys.executable, "benchmarks.linear.word_parts", job))
                process.say(f"{name} {runs[-1]}")
        records.write("word-parts", name, options, runs=runs)


if __name__ == "__main__":
    main()
