"""What stems and lemmas do to a text model: precision, time, terms and size; JSON out.

``python -m benchmarks.linear.word_forms --data DIR --sets eurlex57k,gutenberg``. Each setting in a process of its own,
on one thread: the vectoriser alone, then a model from raw texts, vectoriser included. Precision beside that of words as
they are has the half width of a 95% interval, of paired rows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, measure, process, records

Record = dict[str, Any]
SETTINGS: dict[str, Record] = {"words": {}, "stems": {"stem": "en"}, "lemmas": {"lemmatize": "en"}}
AT = (1, 3, 5)


def one(job: Record) -> Record:
    """Vectorise, train and rank with one setting in this process."""
    from sylvan import TextModel, TfidfVectorizer, XRLinear, metrics
    from sylvan.arrays import validate
    from sylvan.metrics.tallies import hits

    (texts, labels), (test_texts, test_labels) = (
        datasets.read_jsonl(Path(job["source"]) / f"{part}.jsonl.xz") for part in ("train", "test")
    )
    characters = sum(map(len, texts))
    settings = {"ngrams": "auto", "n_jobs": 1, **job["settings"]}
    with measure.Clock() as library:
        TfidfVectorizer(**settings).fit(["whale"])  # the library, and its dictionary, are read
    vectorizer = TfidfVectorizer(**settings)
    with measure.Clock() as first:
        vectorizer.fit_transform(texts)
    with measure.Clock() as again:  # every word has been looked up
        vectorizer.fit_transform(texts)
    with measure.Clock() as transform:
        vectorizer.transform(test_texts)
    with measure.Clock() as alone:
        for text in test_texts[:1000]:
            vectorizer.transform_rows([text])
    model = TextModel(TfidfVectorizer(**settings), XRLinear(n_jobs=1, seed=0))
    with measure.Clock() as fit:
        model.fit(texts, labels)
    truth = model.vocabulary_.encode(test_labels, unknown="ignore")
    top = model.rank(test_texts, k=max(AT))
    model.save(Path(job["scratch"]) / "model")
    found = {f"P@{k}": 100 * value for k, value in metrics.precision(truth, top, at=AT).items()}
    known = metrics.propensities(model.vocabulary_.encode(labels))
    found |= {f"PSP@{k}": 100 * value for k, value in metrics.psp(truth, top, known, AT).items()}
    return {
        **found, "hits": hits(top, validate.labels(truth)).sum(axis=1).astype(int).tolist(),
        "library": model.vectorizer.library_, "library_cpu_s": library.cpu, "terms": model.vectorizer.n_terms_,
        "first_mb_s": characters / 1e6 / first.cpu, "again_mb_s": characters / 1e6 / again.cpu,
        "transform_cpu_ms": 1000 * transform.cpu / len(test_texts), "alone_cpu_ms": alone.cpu, "train_cpu_s": fit.cpu,
        "model_mb": measure.folder_bytes(Path(job["scratch"]) / "model") / 1e6,
    }  # fmt: skip


def compared(run: Record, words: Record) -> Record:
    """P@5 less that of words as they are, and the half width of its interval."""
    import numpy as np

    less = 100 * (np.array(run["hits"]) - np.array(words["hits"])) / max(AT)
    return {"P@5_more": float(less.mean()), "P@5_half_width": float(1.96 * less.std(ddof=1) / len(less) ** 0.5)}


def main() -> None:
    """Runs what the command line asks for."""
    if process.served(one):
        return
    options = records.command_line(__doc__, "eurlex57k,gutenberg", threads=None).parse_args()
    for set_name in options.sets.split(","):
        runs: list[Record] = []
        for name, settings in SETTINGS.items():
            job = {"source": str(Path(options.data) / set_name), "settings": settings}
            run = process.run(sys.executable, "benchmarks.linear.word_forms", job)
            runs.append({"settings": name, **run})
        for run in runs[1:]:
            run |= compared(run, runs[0])
        for run in runs:
            del run["hits"]
            process.say(f"{set_name} {run}")
        records.write("word-forms", set_name, options, runs=runs)


if __name__ == "__main__":
    main()
