"""hnswlib, the authors' own HNSW, as a peer of ``irli.py``.

It doesn't tell how many distances it computes, so that only its times stand beside the others'. Needs NumPy and
hnswlib; runs in an environment of its own.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import Any

import hnswlib
import numpy as np

from benchmarks.common import measure
from benchmarks.irli import sets

__all__ = ["BREADTHS", "measured"]

BREADTHS = (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256)  # ef
ENOUGH = 0.99  # the curve ends above this recall
TARGET = 0.9
Point = dict[str, Any]


def measured(row: Point, found: sets.VectorSet) -> Point:
    """Builds the row's index with one thread, and follows its curve."""
    with measure.Training() as training:
        index = hnswlib.Index("ip" if found.metric == "angular" else "l2", found.base.shape[1])
        index.init_index(len(found.base), M=row["links"], ef_construction=row["breadth"], random_seed=100 + row["seed"])
        index.set_num_threads(1)
        index.add_items(found.base)
    figures = {"version": version("hnswlib"), "build": training.figures(), "vectors_mb": found.base.nbytes / 1e6}
    points: list[Point] = []
    for breadth in BREADTHS:
        points.append(_timed(index, breadth, found))
        if points[-1]["recall"] > ENOUGH:
            break
    good = [point for point in points if point["recall"] >= TARGET]
    if good:
        best = min(good, key=lambda point: point["ms"])
        index.set_ef(best["breadth"])
        batch, _ = measure.batch(lambda: _search(index, found.queries), len(found.queries))
        single = [found.queries[at : at + 1] for at in range(len(found.queries))]
        alone = measure.one_by_one(lambda query: _search(index, query), single)
        best |= {"ms": batch["cpu_ms_per_row"], "p50_ms": alone["p50_ms"], "p99_ms": alone["p99_ms"]}
    return figures | {"index_mb": index.index_file_size() / 1e6, "points": points}


def _search(index: Any, queries: np.ndarray) -> np.ndarray:
    return np.asarray(index.knn_query(queries, sets.K, num_threads=1)[0], dtype=np.int64)


def _timed(index: Any, breadth: int, found: sets.VectorSet) -> Point:
    index.set_ef(breadth)
    _search(index, found.queries[:10])
    spent = []
    for _ in range(3):
        begun = time.process_time()
        ids = _search(index, found.queries)
        spent.append((time.process_time() - begun) * 1e3 / len(ids))
    return {"breadth": breadth, "recall": sets.recall(ids, found.truth), "ms": min(spent), "scoring": 0.0}
