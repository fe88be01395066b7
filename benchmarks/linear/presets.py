"""The four presets of texts, from raw texts on one thread: precision, time of training, time of one text; JSON out.

``python -m benchmarks.linear.presets --data DIR --sets gutenberg,eurlex57k,yso-titles-fi``. Where
a set's labels are codes, each preset is given their names (yso-titles-fi: in Finnish). Precision is over the test rows
that have a label which training knows. The time of one text is the processor's, of a call with one text, a median over
500.
"""

from __future__ import annotations

import csv
import lzma
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from benchmarks.common import datasets, measure, process, records
from benchmarks.linear import rerankers

Record = dict[str, Any]
_TEXTS = 500  # that are ranked one by one


def label_names(folder: Path, labels: list[list[str]]) -> Mapping[str, Any] | None:
    """What a set's labels are called, where they are codes and a file says that."""
    if (folder / "label_names.json.xz").exists():
        return dict(rerankers.read(folder)[-1])
    if not (finnish := folder / "names-fi.tsv.xz").exists():
        return None
    with lzma.open(finnish, "rt", encoding="utf-8") as file:
        read = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        called = {uri.strip("<>"): name for uri, name, *_ in read}
    used = {label for row in labels for label in row}
    return {label: name for label, name in called.items() if label in used}


def one(job: Record) -> Record:
    """Train one preset in this process, and rank the test rows."""
    from sylvan import metrics, preset

    folder = Path(job["source"])
    (texts, labels), (asked, truth) = (datasets.read_jsonl(folder / f"{part}.jsonl.xz") for part in ("train", "test"))
    names = label_names(folder, labels)
    rerankers.import_libraries()
    with measure.Clock() as training:
        model = preset(job["preset"], n_jobs=1).fit(texts, labels, label_texts="auto" if names is None else names)
    with measure.Clock() as ranking:
        top = model.rank(asked, k=5)
    right = metrics.precision(model.vocabulary_.encode(truth, unknown="ignore"), top)
    spent = []
    for text in asked[:_TEXTS]:
        start = time.thread_time()
        model.rank([text], k=10)
        spent.append(1000 * (time.thread_time() - start))
    return {
        "preset": job["preset"], **{f"P@{k}": 100 * value for k, value in right.items()},
        "train_cpu_s": training.cpu, "rank_cpu_ms": 1000 * ranking.cpu / len(asked),
        "one_text_cpu_ms": float(np.median(spent)), "labels": model.n_labels_,
        "model_mb": rerankers.megabytes(model, job),
    }  # fmt: skip


def main() -> None:
    """Runs what the command line asks for; a JSON for each set."""
    if process.served(one):
        return
    from sylvan.models.presets import TextPreset

    options = records.command_line(__doc__, "gutenberg,eurlex57k,yso-titles-fi", threads=None).parse_args()
    for name in options.sets.split(","):
        runs = []
        for word in get_args(TextPreset):
            job = {"source": str(Path(options.data) / name), "set": name, "preset": word}
            runs.append(process.run(sys.executable, "benchmarks.linear.presets", job))
            process.say(f"{name} {runs[-1]}")
        records.write("presets", name, options, runs=runs)


if __name__ == "__main__":
    main()
