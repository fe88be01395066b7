"""One row of ``irli.py`` in a process of its own, by the interpreter that has what it needs.

``python irli_worker.py '{"step": "search", "row": {...}, "data": ..., "out": "file.json"}'``; the steps are
``version``, ``partitions`` (k-means by faiss, for ``search`` to read), ``search`` and ``rank``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import irli_sets
import numpy as np

FAISS = ("exact", "ivf", "ivf-pq", "hnsw")


def partitions_path(job: dict[str, Any]) -> Path:
    """Where the k-means partitions of a row lie."""
    row = job["row"]
    words = [row["set"], *(row.get(name, 0) for name in ("base", "n_buckets", "n_repetitions", "sample", "seed"))]
    return Path(job["cache"]) / f"irli-kmeans-{'-'.join(map(str, words))}.npz"


def vectors(job: dict[str, Any]) -> irli_sets.VectorSet:
    """The row's set."""
    row = job["row"]
    folders = {name: Path(job[name]) for name in ("data", "fashion", "cache")}
    return irli_sets.load(row["set"], n_base=row.get("base", 0), n_queries=job["queries"], **folders)


def version(job: dict[str, Any]) -> dict[str, Any]:
    """What the interpreter has."""
    if job["row"]["contender"] in (*FAISS, "kmeans"):
        import faiss

        return {"version": faiss.__version__}
    import sylvan

    return {"version": sylvan.__version__}


def partitions(job: dict[str, Any]) -> dict[str, Any]:
    """Makes the k-means partitions, unless they are there."""
    import irli_faiss

    target = partitions_path(job)
    if not target.exists():
        made = irli_faiss.partitions(job["row"], vectors(job))
        beside = target.with_suffix(f".{os.getpid()}.npz")
        np.savez(beside, **made)
        os.replace(beside, target)
    return {}


def search(job: dict[str, Any]) -> dict[str, Any]:
    """Builds and follows the curve."""
    row, found = job["row"], vectors(job)
    shape = dict(zip(("vectors", "dimensions"), found.base.shape, strict=True))
    if row["contender"] in FAISS:
        import irli_faiss

        return shape | irli_faiss.measured(row, found)
    import irli_ours

    if row["contender"] == "kmeans":
        return shape | irli_ours.kmeans(row, found, partitions_path(job))
    if row["contender"] == "irli-rounds":
        return shape | irli_ours.watched(row, found, job["threads"])
    with tempfile.TemporaryDirectory() as scratch:
        return shape | irli_ours.irli(row, found, Path(scratch) / "index", job["threads"])


def rank(job: dict[str, Any]) -> dict[str, Any]:
    """Trains and ranks a multilabel set."""
    import irli_labels

    with tempfile.TemporaryDirectory() as scratch:
        return irli_labels.measured(job["row"], Path(job["set"]), Path(scratch), job["threads"])


def main() -> None:
    """Does the job of the command line."""
    job = json.loads(sys.argv[1])
    step = {"version": version, "partitions": partitions, "search": search, "rank": rank}[job["step"]]
    Path(job["out"]).write_text(json.dumps(step(job)))


if __name__ == "__main__":
    main()
