"""One measurement of one contender in a process of its own; ``peers.py`` starts it and reads the JSON it writes.

``python worker.py '{"contender": "sylvan", "step": "train", "set": "folder", "model": "folder", "threads": 1,
"out": "file.json", ...}'``; the steps are ``version``, ``train``, ``rank`` and ``text``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import contenders
import contenders_other
import measure

CONTENDERS = {
    "sylvan": contenders.Sylvan,
    "libpecos": contenders.Libpecos,
    "omikuji": contenders_other.Omikuji,
    "napkinxc": contenders_other.NapkinXC,
    "fasttext": contenders_other.FastText,
}


def train(contender: contenders.Contender, job: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Time and memory of training, bytes of the model."""
    contender.prepare(Path(job["set"]), scratch)
    before, clock = contender.train_measured(job["threads"])
    peak = measure.peak_resident()
    contender.save(Path(job["model"]))
    return {
        "wall_s": clock.wall,
        "cpu_s": clock.cpu,
        "before_mb": before,
        "peak_mb": peak,
        "model_mb": measure.folder_bytes(Path(job["model"])) / 1e6,
    }


def rank(contender: contenders.Contender, job: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Time of loading, of a batch and of single queries; precision of the batch."""
    X, Y, Y_train = (contenders.read(Path(job["set"]), name) for name in ("X.tst", "Y.tst", "Y.trn"))
    before = measure.resident()
    with measure.Clock() as clock:
        contender.open(Path(job["model"]), job["threads"])
    figures: dict[str, Any] = {"load_s": clock.wall, "load_mb": measure.resident() - before}
    queries = contender.queries(X)
    spent, answer = measure.batch(lambda: contender.rank_all(queries), X.shape[0], job.get("rounds", 3))
    figures |= spent
    figures |= measure.precision(contender.top(answer), Y, Y_train)
    if job.get("single", 0):
        figures |= measure.one_by_one(contender.rank_one, contender.rows(X[: job["single"]]))
    return figures


def text(contender: contenders.Contender, job: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Time and memory from raw text to a trained model."""
    contender.prepare_text(Path(job["set"]), scratch)
    before = measure.resident()
    measure.forget_peak()
    with measure.Clock() as clock:
        contender.train_text(Path(job["set"]), scratch, job["threads"])
    figures = {"wall_s": clock.wall, "cpu_s": clock.cpu, "before_mb": before, "peak_mb": measure.peak_resident()}
    texts = (Path(job["set"]) / "test.txt").read_text(encoding="utf-8").splitlines()
    Y, Y_train = (contenders.read(Path(job["set"]), name) for name in ("Y.tst", "Y.trn"))
    return figures | measure.precision(contender.rank_text(texts), Y, Y_train)


def main() -> None:
    """Runs the job given on the command line."""
    job = json.loads(sys.argv[1])
    contender = CONTENDERS[job["contender"]](**job.get("settings", {}))
    contender.seed = job.get("seed", 0)
    figures: dict[str, Any] = {"version": contender.version()}
    if job["step"] != "version":
        contender.load_imports()
        with tempfile.TemporaryDirectory() as scratch:
            step = {"train": train, "rank": rank, "text": text}[job["step"]]
            figures |= step(contender, job, Path(scratch))
    elif job.get("imports"):
        contender.load_imports()
    Path(job["out"]).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
