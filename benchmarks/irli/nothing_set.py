"""What ``irli.py`` measures of an index that nobody set anything of, beside brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

import sylvan
from benchmarks.common import measure
from benchmarks.irli import sets
from benchmarks.irli.ours import Point, Search, round_figures

__all__ = ["by_hand", "defaults"]

ALONE = 200  # queries asked one by one


def defaults(row: dict[str, Any], found: sets.VectorSet, folder: Path, n_jobs: int) -> dict[str, Any]:
    """``IRLIIndex()`` as it is, around centres or learned: what ``plan`` says, what ``fit`` takes, and how a search
    without settings answers."""
    index = sylvan.IRLIIndex(row["partition"], metric=found.metric, seed=row["seed"], n_jobs=n_jobs)
    plan = index.plan(found.base)
    with measure.Training() as training:
        index.fit(found.base)
    index.save(folder)
    index.n_jobs = 1
    threadpoolctl.threadpool_limits(1)  # from here to the end
    figures = {"version": sylvan.__version__, "build": training.figures(), "planned_s": plan.seconds}
    figures["vectors_mb"] = found.base.nbytes / 1e6
    figures["index_mb"] = measure.folder_bytes(folder) / 1e6 - figures["vectors_mb"]
    sizes = {"n_buckets": index.buckets_.n_buckets, "n_repetitions": index.buckets_.n_repetitions}
    tuning = index.tuning_.as_json() if index.tuning_ else None
    point = _asked(lambda queries: index.search(queries, sets.K)[0], found)
    report = index.report(found.queries)
    point["candidates"] = float(report.candidates.mean())
    figures["rounds_told"] = [round_figures(one) for one in report.rounds]
    return figures | {"sizes": sizes, "tuning": tuning, "points": [point]}


def by_hand(found: sets.VectorSet) -> dict[str, Any]:
    """Every vector compared, by the product of two matrices."""
    threadpoolctl.threadpool_limits(1)

    def search(queries: np.ndarray) -> np.ndarray:
        return sets.exact(found.base, queries, sets.K, found.metric)

    point = _asked(search, found) | {"candidates": float(len(found.base))}
    return {"version": np.__version__, "build": {"wall_s": 0.0, "cpu_s": 0.0}, "points": [point]}


def _asked(search: Search, found: sets.VectorSet) -> Point:
    """Recall, and milliseconds of a query in a batch and alone."""
    batch, ids = measure.batch(lambda: search(found.queries), len(found.queries))
    alone = measure.one_by_one(search, [found.queries[at : at + 1] for at in range(ALONE)])
    point = {"ms": batch["cpu_ms_per_row"], "recall": sets.recall(ids, found.truth)}
    return point | {name: alone[name] for name in ("p50_ms", "p99_ms")}
