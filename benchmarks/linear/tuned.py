"""Tuning to a budget, from raw texts: ``sylvan.tune`` beside the default model and fastText's autotune; JSON out.

``python -m benchmarks.linear.tuned --data DIR --sets gutenberg,cpv-tenders,eurlex57k --budget 600 --seeds 0,1,2
--threads 2 --python PEER_PYTHON``. Each contender sees the training texts alone, in a process of its own, for the same
number of seconds; the test rows are ranked once, at the end. "tuned, a quarter of the size" may take a quarter of the
default model's bytes. fastText's autotune gets a tenth of the training rows as its validation file (drawn with the
seed), five predictions a row, and hierarchical softmax, without which it doesn't end with so many labels.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, measure, process, records

Record = dict[str, Any]
AT = (1, 3, 5)
SYLVAN = ("default", "tuned", "tuned, a quarter of the size")


def rows_of(job: Record) -> tuple[list[str], list[list[str]], list[str], list[list[str]]]:
    """Texts and labels, to train on and to test on; test rows without a known label are skipped."""
    source = Path(job["source"])
    texts, labels = datasets.read_jsonl(source / "train.jsonl.xz")
    known = {label for row in labels for label in row}
    test = [
        (text, [label for label in row if label in known])
        for text, row in zip(*datasets.read_jsonl(source / "test.jsonl.xz"), strict=True)
    ]
    test = [(text, row) for text, row in test if row]
    return texts, labels, [text for text, _ in test], [row for _, row in test]


def precision(truth: list[list[str]], answers: list[list[str]]) -> Record:
    """P@1, P@3 and P@5 in percent."""
    right = [[name in row for name in names] for row, names in zip(truth, answers, strict=True)]
    return {f"P@{k}": 100 * sum(sum(row[:k]) for row in right) / (k * len(right)) for k in AT}


def sylvan(job: Record) -> Record:
    """The default model, or what a tuning gives."""
    from sylvan import TextModel, tune

    texts, labels, test_texts, truth = rows_of(job)
    threads, seed = job["threads"], job["seed"]
    more: Record = {}
    with measure.Clock() as clock:
        if job["contender"] == "default":
            model: Any = TextModel().set_params(
                vectorizer__n_jobs=threads, model__n_jobs=threads, model__seed=seed
            )
            model.fit(texts, labels)
        else:
            result = tune(
                texts, labels, budget=float(job["budget"]), n_jobs=threads, seed=seed, max_size=job.get("max_size"),
                report=process.say,
            )  # fmt: skip
            model = result.model
            more = {
                "setting": result.best.words(), "toml": result.to_toml(), "trials": len(result.trials),
                "holdout_gain": [100 * end for end in result.interval or ()], "final_s": result.best.seconds,
            }  # fmt: skip
    with measure.Clock() as rank:
        top = model.rank(test_texts, k=max(AT))
    singles = measure.one_by_one(lambda text: model.rank([text], k=max(AT)), test_texts[:500])
    model.save(Path(job["scratch"]) / "model")
    size = measure.folder_bytes(Path(job["scratch"]) / "model")
    return {
        **precision(truth, top.names), "wall_s": clock.wall, "cpu_s": clock.cpu, "bytes": size,
        "rank_cpu_ms": 1000 * rank.cpu / len(truth), "p50_ms": singles["p50_ms"], **more,
    }  # fmt: skip


def fasttext(job: Record) -> Record:
    """fastText's autotune with the same seconds and rows."""
    import fasttext as library

    texts, labels, test_texts, truth = rows_of(job)
    ids = {label: str(at) for at, label in enumerate(sorted({label for row in labels for label in row}))}
    names = {f"__label__{at}": label for label, at in ids.items()}
    order = list(range(len(texts)))
    random.Random(job["seed"]).shuffle(order)
    scratch = Path(job["scratch"])
    cut = len(order) // 10
    for name, rows in (("valid", order[:cut]), ("train", order[cut:])):
        with open(scratch / name, "w", encoding="utf-8") as lines:
            for row in rows:
                marks = " ".join(f"__label__{ids[label]}" for label in labels[row])
                lines.write(f"{marks} {' '.join(texts[row].split())}\n")
    size = {"autotuneModelSize": f"{job['max_size'] // 1000}K"} if job.get("max_size") else {}
    with measure.Clock() as clock:
        model = library.train_supervised(
            str(scratch / "train"), autotuneValidationFile=str(scratch / "valid"), loss="hs", verbose=0,
            autotuneDuration=int(job["budget"]), autotunePredictions=max(AT), thread=job["threads"], **size,
        )  # fmt: skip
    found, _ = model.predict([" ".join(text.split()) for text in test_texts], max(AT))
    model.save_model(str(scratch / "model"))
    answers = [[names[name] for name in row if name in names] for row in found]
    size_now = (scratch / "model").stat().st_size
    return {**precision(truth, answers), "wall_s": clock.wall, "cpu_s": clock.cpu, "bytes": size_now}


def work(job: Record) -> Record:
    """One contender's figures, in this process."""
    return {"version": library_version()} if job.get("ask") else (fasttext if job["fasttext"] else sylvan)(job)


def library_version() -> str:
    """That of fastText, where it can be imported."""
    import importlib.metadata

    import fasttext as library

    assert library.train_supervised
    return importlib.metadata.version("fasttext")


def main() -> None:
    """Runs what the command line asks for; the JSON is written anew after each run."""
    if process.served(work):
        return
    parser = records.command_line(__doc__, "gutenberg,cpv-tenders,eurlex57k", threads=2)
    parser.add_argument("--budget", type=int, default=600, help="seconds of a tuning")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--python", action="append", default=[], help="an interpreter that has fastText")
    options = parser.parse_args()
    module = "benchmarks.linear.tuned"
    peer = process.first_with(options.python, lambda python: process.run(python, module, {"ask": True}))
    for set_name in options.sets.split(","):
        runs: list[Record] = []
        for seed in map(int, options.seeds.split(",")):
            quarter = 0
            for contender in (*SYLVAN, *(["fastText's autotune"] if peer else [])):
                job = {
                    "source": str(Path(options.data) / set_name), "contender": contender, "seed": seed,
                    "threads": options.threads, "budget": options.budget, "fasttext": contender not in SYLVAN,
                }  # fmt: skip
                if "quarter" in contender:
                    if not quarter:
                        continue
                    job["max_size"] = quarter
                python = str(peer) if job["fasttext"] else sys.executable
                found = process.run(python, module, job, threads=options.threads)
                quarter = quarter or int(found.get("bytes", 0)) // 4
                runs.append({"contender": contender, "seed": seed, "max_size": job.get("max_size"), **found})
                process.say(f"{set_name} {runs[-1]}")
                records.write("tuned", set_name, options, budget=options.budget, runs=runs)


if __name__ == "__main__":
    main()
