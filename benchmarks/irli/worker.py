"""One row in a process of its own, by the interpreter that has what it needs.

The job: ``{"step": "search", "row": {...}, "data": FOLDER, ...}``; the steps are ``version``, ``partitions`` (by
k-means or of a graph, for ``search`` to read), ``search`` and ``rank`` (a multilabel set: ``IRLIClassifier`` beside
``XRLinear``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import datasets, measure, process
from benchmarks.irli import sets

FAISS = ("exact", "ivf", "ivf-pq", "ivf-rabitq", "hnsw")
PARTITIONED = ("kmeans", "neural-lsh")  # whose partitions are made there
PEERS = (*FAISS, "hnswlib")  # that are in the other environment
TOP = 10  # labels of an answer
ALONE = 1000  # rows ranked one at a time
# What every linear contender has (benchmarks/README.md).
LINEAR: dict[str, Any] = {"branching": 16, "max_leaf": 100, "beam": 10, "negatives": "tfn"}


def partitions_path(job: dict[str, Any]) -> Path:
    """Where the partitions of a row lie."""
    row = job["row"]
    words = [row["set"], *(row.get(name, 0) for name in ("base", "n_buckets", "n_repetitions", "sample", "seed"))]
    return Path(job["cache"]) / f"irli-{row['contender']}-{'-'.join(map(str, words))}.npz"


def vectors(job: dict[str, Any]) -> sets.VectorSet:
    """The row's set."""
    row = job["row"]
    folders = {name: Path(job[name]) for name in ("data", "fashion", "cache")}
    return sets.load(row["set"], n_base=row.get("base", 0), n_queries=job["queries"], **folders)


def version(job: dict[str, Any]) -> dict[str, Any]:
    """What the interpreter has."""
    if job["row"]["contender"] in (*FAISS, *PARTITIONED):
        import faiss

        return {"version": faiss.__version__}
    import sylvan

    return {"version": sylvan.__version__}


def partitions(job: dict[str, Any]) -> dict[str, Any]:
    """Makes the partitions, unless they are there."""
    from benchmarks.irli import faiss_indexes, neural_lsh

    target, make = partitions_path(job), faiss_indexes.partitions
    if job["row"]["contender"] == "neural-lsh":
        make = neural_lsh.partition
    if not target.exists():
        made = make(job["row"], vectors(job))
        beside = target.with_suffix(f".{os.getpid()}.npz")
        np.savez(beside, **made)
        os.replace(beside, target)
    return {}


def search(job: dict[str, Any]) -> dict[str, Any]:
    """Builds and follows the curve."""
    row, found = job["row"], vectors(job)
    shape = dict(zip(("vectors", "dimensions"), found.base.shape, strict=True))
    if row["contender"] in FAISS:
        from benchmarks.irli import faiss_indexes

        return shape | faiss_indexes.measured(row, found)
    if row["contender"] == "hnswlib":
        from benchmarks.irli import hnswlib_index

        return shape | hnswlib_index.measured(row, found)
    from benchmarks.irli import neural_lsh, nothing_set, ours

    if row["contender"] == "kmeans":
        return shape | ours.kmeans(row, found, partitions_path(job))
    if row["contender"] == "neural-lsh":
        return shape | neural_lsh.measured(row, found, partitions_path(job))
    if row["contender"] == "numpy":
        return shape | nothing_set.by_hand(found)
    if row["contender"] == "irli-defaults":
        return shape | nothing_set.defaults(row, found, Path(job["scratch"]) / "index", job["threads"])
    if row["contender"] == "irli-rounds":
        return shape | ours.watched(row, found, job["threads"])
    return shape | ours.irli(row, found, Path(job["scratch"]) / "index", job["threads"])


def rank(job: dict[str, Any]) -> dict[str, Any]:
    """Trains once; ranks by one thread, with every setting that the row asks for."""
    import threadpoolctl

    import sylvan

    row, folder = job["row"], Path(job["set"])
    X, Y_train = datasets.load(folder, "X.trn", "Y.trn")
    X, Y = X[: row.get("rows")], Y_train[: row.get("rows")]
    settings = (LINEAR if row["contender"] == "XRLinear" else {}) | row.get("settings", {})
    model = getattr(sylvan, row["contender"])(**settings, seed=row["seed"], n_jobs=job["threads"])
    with measure.Training() as training:
        model.fit(X, Y)
    saved = Path(job["scratch"]) / "model"
    model.save(saved)
    model = sylvan.load(saved)
    model.n_jobs = 1
    threadpoolctl.threadpool_limits(1)  # from here to the end
    X_test, Y_test = datasets.load(folder, "X.tst", "Y.tst")
    if "rows" in row:
        X_test, Y_test = X_test[: row["rows"] // 4], Y_test[: row["rows"] // 4]
    own, single, points = model.get_params(deep=False), [X_test[at] for at in range(min(ALONE, X_test.shape[0]))], []
    for setting in row.get("rankings", [{}]):
        model.set_params(**{**own, **setting})
        spent, answer = measure.batch(lambda: model.rank(X_test, TOP), X_test.shape[0])
        alone = measure.one_by_one(lambda query: model.rank(query, TOP), single)
        points.append({**setting, **spent, **alone, **measure.precision(answer.labels, Y_test, Y_train)})
    size = measure.folder_bytes(saved) / 1e6
    return {"version": sylvan.__version__, "build": training.figures(), "model_mb": size, "points": points}


STEPS = {"version": version, "partitions": partitions, "search": search, "rank": rank}

if __name__ == "__main__":
    process.serve(lambda job: STEPS[job["step"]](job))
