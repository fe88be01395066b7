"""One measurement of one contender in a process of its own.

The job: ``{"contender": "sylvan", "step": "train", "set": FOLDER, "model": FOLDER, "threads": 1, ...}``; the steps are
``version``, ``train``, ``rank`` and ``text``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common import measure, process
from benchmarks.linear.contenders import Contender, read
from benchmarks.linear.file_contenders import CONTENDERS

Job = dict[str, Any]


def train(contender: Contender, job: Job, scratch: Path) -> Job:
    """Time and memory of training, bytes of the model."""
    contender.prepare(Path(job["set"]), scratch)
    figures = contender.train_measured(job["threads"]).figures()
    contender.save(Path(job["model"]))
    return figures | {"model_mb": measure.folder_bytes(Path(job["model"])) / 1e6}


def rank(contender: Contender, job: Job, scratch: Path) -> Job:
    """Time of loading, of a batch and of single queries; precision of the batch."""
    X, Y, Y_train = (read(Path(job["set"]), name) for name in ("X.tst", "Y.tst", "Y.trn"))
    before = measure.resident()
    with measure.Clock() as clock:
        contender.open(Path(job["model"]), job["threads"])
    figures: Job = {"load_s": clock.wall, "load_mb": measure.resident() - before}
    queries = contender.queries(X)
    spent, answer = measure.batch(lambda: contender.rank_all(queries), X.shape[0], job.get("rounds", 3))
    figures |= spent
    figures |= measure.precision(contender.top(answer), Y, Y_train)
    if job.get("single", 0):
        figures |= measure.one_by_one(contender.rank_one, contender.rows(X[: job["single"]]))
    return figures


def text(contender: Contender, job: Job, scratch: Path) -> Job:
    """Time and memory from raw text to a trained model."""
    contender.prepare_text(Path(job["set"]), scratch)
    with measure.Training() as training:
        contender.train_text(Path(job["set"]), scratch, job["threads"])
    texts = (Path(job["set"]) / "test.txt").read_text(encoding="utf-8").splitlines()
    Y, Y_train = (read(Path(job["set"]), name) for name in ("Y.tst", "Y.trn"))
    return training.figures() | measure.precision(contender.rank_text(texts), Y, Y_train)


def measured(job: Job) -> Job:
    """The job's figures, and the version of the library."""
    contender = CONTENDERS[job["contender"]](**job.get("settings", {}))
    contender.seed = job.get("seed", 0)
    figures: Job = {"version": contender.version()}
    if job["step"] != "version" or job.get("imports"):
        contender.load_imports()
    if job["step"] != "version":
        step = {"train": train, "rank": rank, "text": text}[job["step"]]
        figures |= step(contender, job, Path(job["scratch"]))
    return figures


if __name__ == "__main__":
    process.serve(measured)
