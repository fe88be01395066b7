"""Trains Sylvan's model of texts at its defaults; a worker of ``sets.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common import process


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Trains and saves."""
    import sylvan
    from benchmarks.serving.sets import read_lines

    rows = read_lines(Path(job["texts"]) / "train.jsonl")
    model = sylvan.TextModel(model=sylvan.XRLinear(n_jobs=2)).set_params(vectorizer__n_jobs=2)
    model.fit([row["text"] for row in rows], [row["labels"] for row in rows])
    model.set_params(model__n_jobs=1, vectorizer__n_jobs=1).save(job["model"])
    return {"version": sylvan.__version__, "labels": len(model.vocabulary_)}


if __name__ == "__main__":
    process.serve(work)
