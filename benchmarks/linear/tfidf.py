"""TF-IDF against scikit-learn and libpecos: seconds, peak memory, and one text at a time, on real sets.

``python -m benchmarks.linear.tfidf --data DATA --python PEER_PYTHON`` writes ``results/text.json`` and prints a
table. Every measurement runs in a process of its own, in the interpreter given by ``--python`` for the peers (by
default this one); a contender that can't be imported is reported as missing. Medians over the repeats, which stop
after ``--seconds`` of one measurement. libpecos splits at white space and keeps case and punctuation, so that its
matrix is another one; it does less work a document and has more columns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.common import datasets, measure, process, records

CASES: dict[str, dict[str, Any]] = {
    "words": {"analyzer": "word", "ngrams": (1, 1), "sets": ("eurlex57k", "gutenberg")},
    "words and pairs": {"analyzer": "word", "ngrams": (1, 2), "sets": ("eurlex57k", "gutenberg")},
    "characters in words, 3 and 4": {"analyzer": "char_wb", "ngrams": (3, 4), "sets": ("gutenberg",)},
}
CONTENDERS = {"sylvan": (1, 2), "scikit-learn": (1,), "libpecos": (1, 2)}
N_SINGLE = 1000


class Sylvan:
    """This package."""

    def __init__(self, case: dict[str, Any], threads: int) -> None:
        from sylvan.text import TfidfVectorizer

        self.vectorizer = TfidfVectorizer(
            ngrams=tuple(case["ngrams"]), analyzer=case["analyzer"], min_df=2, sublinear_tf=True, n_jobs=threads
        )

    def fit_transform(self, texts: list[str]) -> Any:
        return self.vectorizer.fit_transform(texts)

    def transform(self, texts: list[str]) -> Any:
        return self.vectorizer.transform(texts)


class ScikitLearn(Sylvan):
    """The reference."""

    def __init__(self, case: dict[str, Any], threads: int) -> None:
        import numpy as np
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.vectorizer = TfidfVectorizer(
            ngram_range=tuple(case["ngrams"]),
            analyzer=case["analyzer"],
            min_df=2,
            sublinear_tf=True,
            dtype=np.float32,
        )


class Libpecos:
    """text2text's own."""

    def __init__(self, case: dict[str, Any], threads: int) -> None:
        from pecos.utils.featurization.text.vectorizers import Tfidf

        self.kind, self.threads = Tfidf, threads
        self.settings = {
            "ngram_range": tuple(case["ngrams"]),
            "analyzer": case["analyzer"],
            "min_df_cnt": 2,
            "sublinear_tf": True,
            "threads": threads,
        }

    def fit_transform(self, texts: list[str]) -> Any:
        self.model = self.kind.train(texts, dict(self.settings))
        return self.transform(texts)

    def transform(self, texts: list[str]) -> Any:
        return self.model.predict(texts, threads=self.threads)


KINDS = {"sylvan": Sylvan, "scikit-learn": ScikitLearn, "libpecos": Libpecos}


def read(path: Path) -> list[str]:
    """The texts of a prepared JSON file."""
    return list(json.loads(path.read_text(encoding="utf-8")))


def repeated(work: Callable[[], Any], repeats: int, seconds: float) -> list[measure.Clock]:
    """Clocks of ``work`` done ``repeats`` times, or less often when that takes longer than ``seconds``."""
    clocks: list[measure.Clock] = []
    while len(clocks) < repeats and (not clocks or sum(c.wall for c in clocks) + clocks[-1].wall < seconds):
        with measure.Clock() as clock:
            work()
        clocks.append(clock)
    return clocks


def medians(name: str, clocks: list[measure.Clock]) -> dict[str, Any]:
    """Wall and CPU seconds, and all that they are the medians of."""
    walls, cpus = [clock.wall for clock in clocks], [clock.cpu for clock in clocks]
    return {
        f"{name}_s": statistics.median(walls),
        f"{name}_cpu_s": statistics.median(cpus),
        f"{name}_raw": {"wall_s": walls, "cpu_s": cpus},
    }


def run(job: dict[str, Any]) -> dict[str, Any]:
    """All figures of one contender, set, case and number of threads."""
    train, test = read(Path(job["folder"]) / "train.json"), read(Path(job["folder"]) / "test.json")
    try:
        contender = KINDS[job["contender"]](job["case"], job["threads"])
    except ImportError as error:
        return {"missing": str(error)}
    contender.fit_transform(train[:200])  # imports, tables
    before = measure.resident()
    measure.forget_peak()
    with measure.Clock() as first:
        X = contender.fit_transform(train)
    figures: dict[str, Any] = {
        "shape": list(X.shape),
        "nnz": int(X.nnz),
        "peak_mb": measure.peak_resident() - before,
        "matrix_mb": (X.indptr.nbytes + X.indices.nbytes + X.data.nbytes) / measure.MIB,
    }
    del X
    fits = [first, *repeated(lambda: contender.fit_transform(train), job["repeats"] - 1, job["seconds"] - first.wall)]
    figures |= medians("fit_transform", fits)
    figures |= medians("transform", repeated(lambda: contender.transform(test), job["repeats"], job["seconds"]))
    figures["one_text"] = measure.one_by_one(contender.transform, [[text] for text in test[:N_SINGLE]])
    return figures


def prepare(data: Path, name: str, folder: Path) -> None:
    """The texts of a set as JSON, so that no contender's process has to unpack them."""
    for split in ("train", "test"):
        texts, _ = datasets.read_jsonl(data / name / f"{split}.jsonl.xz")
        (folder / f"{split}.json").write_text(json.dumps(texts), encoding="utf-8")


def table(results: Iterable[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    lines = [
        "| set | counted | contender | threads | fit + transform, s (CPU) | transform of test, s (CPU) | one text, µs "
        "| peak, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in results:
        head = f"| {one['set']} | {one['case']} | {one['contender']} | {one['threads']} | "
        if "fit_transform_s" not in one:
            lines.append(head + ("missing" if "missing" in one else "failed") + " | | | |")
            continue
        single = 1e3 * one["one_text"]["p50_ms"]
        lines.append(
            head + f"{one['fit_transform_s']:.2f} ({one['fit_transform_cpu_s']:.2f}) | "
            f"{one['transform_s']:.3f} ({one['transform_cpu_s']:.3f}) | {single:.0f} | {one['peak_mb']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measures everything, or one job in this process."""
    if process.served(run):
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of eurlex57k/ and gutenberg/")
    parser.add_argument("--python", default=sys.executable, help="the Python that has libpecos and scikit-learn")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "text.json")
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in sorted({name for case in CASES.values() for name in case["sets"]}):
            if not (options.data / name).exists():
                print(f"{name} is not in {options.data}; skipped", file=sys.stderr)
                continue
            folder = Path(scratch) / name
            folder.mkdir()
            prepare(options.data, name, folder)
            for title, case in CASES.items():
                if name not in case["sets"]:
                    continue
                for contender, threads in ((c, t) for c, counts in CONTENDERS.items() for t in counts):
                    job = {"contender": contender, "threads": threads, "case": case, "folder": str(folder)}
                    job |= {"repeats": options.repeats, "seconds": options.seconds}
                    python = sys.executable if contender == "sylvan" else options.python
                    about = {"set": name, "case": title, "contender": contender, "threads": threads}
                    results.append(about | process.run(python, "benchmarks.linear.tfidf", job, threads=threads))
                    print(table(results[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    records.save(options.out, {"processor": measure.processor(), "results": results})
    print(table(results))


if __name__ == "__main__":
    main()
