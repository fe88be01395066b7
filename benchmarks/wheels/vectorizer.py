"""The vectoriser with kernels of the stable ABI beside those of one version of Python, in turn; JSON out.

``python -m benchmarks.wheels.vectorizer --before OTHER/src --data DIR``

OTHER is a checkout with the kernels to compare with. The stable ABI doesn't show where the characters of a text lie,
unless all are ASCII; others are copied. Sets are real texts, and those of one once more with a Cyrillic letter for each
Latin one. CPU seconds of one thread: the least of several calls in a process; ratios (after / before) pair by pair, and
their median over the rounds.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.common import datasets, process, records

Record = dict[str, Any]
SETS = ("eurlex57k", "gutenberg", "cpv-tenders", "eurlex57k, in Cyrillic")
ROWS, CALLS = 12_000, 5
SETTINGS: dict[str, Record] = {
    "words": {},
    "words and pairs": {"ngrams": [1, 2]},
    "characters in words, 3 and 4": {"analyzer": "char_wb", "ngrams": [3, 4]},
}
LETTERS = ("abcdefghijklmnopqrstuvwxyz", "абцдефгхийклмнопярстувшхыз")
CYRILLIC = str.maketrans(LETTERS[0] + LETTERS[0].upper(), LETTERS[1] + LETTERS[1].upper())


def texts_of(job: Record) -> list[str]:
    """The first texts of a set, as strings of their own."""
    name, _, script = job["set"].partition(", ")
    texts, _ = datasets.read_jsonl(Path(job["data"]) / name / "train.jsonl.xz")
    return [text.translate(CYRILLIC) if script else text for text in texts[:ROWS]]


def cpu_seconds(work: Callable[[], object], calls: int = CALLS) -> float:
    """The least of several calls."""
    least = float("inf")
    for _ in range(calls):
        start = time.process_time()
        work()
        least = min(least, time.process_time() - start)
    return least


def one(job: Record) -> Record:
    """Fits and transforms with the Sylvan of this process."""
    from sylvan import TfidfVectorizer

    texts = texts_of(job)
    params = {name: tuple(value) if isinstance(value, list) else value for name, value in job["settings"].items()}
    vectorizer = TfidfVectorizer(n_jobs=1, **{"ngrams": (1, 1), **params})
    few = [[text] for text in texts[:500]]
    found = {"fit_s": cpu_seconds(lambda: vectorizer.fit_transform(texts), 3)}
    found["transform_s"] = cpu_seconds(lambda: vectorizer.transform(texts))
    found["single_us"] = 1e6 / len(few) * cpu_seconds(lambda: [vectorizer.transform(text) for text in few])
    return found | {"n_texts": len(texts), "n_ascii": sum(map(str.isascii, texts)), "characters": sum(map(len, texts))}


def pair(job: Record, before: Path, after: Path, rounds: int) -> Record:
    """Both kernels in turn, and the medians of the ratios."""
    runs: list[list[Record]] = []
    for _ in range(rounds):
        paths = (os.pathsep.join((str(ROOT), str(source.resolve()))) for source in (before, after))
        worker = (sys.executable, "benchmarks.wheels.vectorizer", job)
        runs.append([process.run(*worker, PYTHONPATH=path) for path in paths])
    wrong = next((found["error"] for both in runs for found in both if "error" in found), None)
    if wrong is not None:
        return {"error": wrong}
    record: Record = {name: runs[0][1][name] for name in ("n_texts", "n_ascii", "characters")}
    for name in ("fit_s", "transform_s", "single_us"):
        record[name] = {
            "before": statistics.median(old[name] for old, _ in runs),
            "after": statistics.median(new[name] for _, new in runs),
            "ratio": statistics.median(new[name] / old[name] for old, new in runs),
        }
    return record


def main() -> None:
    """Measures every setting on every set; the JSON is written anew after each."""
    if process.served(one):
        return
    parser = records.command_line(__doc__, ";".join(SETS))
    parser.add_argument("--before", required=True, type=Path, help="sources to compare with: a checkout's src/")
    parser.add_argument("--after", default=ROOT / "src", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    runs: list[Record] = []
    for set_name in options.sets.split(";"):
        for name, settings in SETTINGS.items():
            job = {"set": set_name, "data": options.data, "settings": settings}
            found = pair(job, options.before, options.after, options.rounds)
            runs.append({"set": set_name, "setting": name, "rounds": options.rounds, **found})
            process.say(str(runs[-1]))
            records.save(Path(options.results) / "wheels-vectorizer.json", {**records.about(), "runs": runs})


if __name__ == "__main__":
    main()
