"""The peers of ``irli.py`` that faiss has: IVF, IVF-PQ and IVF-RaBitQ with re-ranking, HNSW, an exhaustive search.

Each gives a curve: a point for each setting, with its recall, what the search looked at, and its time. The unit of all
costs is one true distance. Needs NumPy, SciPy and faiss-cpu; runs in an environment of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import faiss
import numpy as np

from benchmarks.common import measure
from benchmarks.irli import sets

__all__ = ["PROBES", "measured", "partitions"]

PROBES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 192, 256)
BREADTHS = (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256)  # efSearch
FACTORS = (1, 2, 4, 8, 16, 32, 64)  # candidates re-ranked for each answer, after compressed codes
BITS = 32  # of RaBitQ's codes, one a dimension, that are compared like a number
ENOUGH = 0.99  # a curve ends above this recall
ITERATIONS = 20
Point = dict[str, Any]
Search = Callable[[np.ndarray], np.ndarray]


def measured(row: dict[str, Any], found: sets.VectorSet) -> dict[str, Any]:
    """Builds the row's index with one thread, and follows its curve."""
    faiss.omp_set_num_threads(1)
    with measure.Training() as training:
        index = _BUILDERS[row["contender"]](row, found)
    figures: dict[str, Any] = {
        "version": faiss.__version__,
        "build": training.figures(),
        "index_mb": len(faiss.serialize_index(index)) / 1e6,
        "vectors_mb": found.base.nbytes / 1e6,
    }
    points = list(_CURVES[row["contender"]](index, row, found))
    for place in chosen(points).values():
        points[place] |= carefully(index, points[place], found.queries)
    return figures | {"points": points}


def chosen(points: list[Point], target: float = 0.9) -> dict[str, int]:
    """Of the points of enough recall the one with the fewest candidates, and the fastest."""
    good = [place for place, point in enumerate(points) if point["recall"] >= target]
    if not good:
        return {}
    keys = {"fewest": "work" if "work" in points[0] else "candidates", "fastest": "ms"}
    return {name: min(good, key=lambda place: points[place][key]) for name, key in keys.items()}


def carefully(index: Any, point: Point, queries: np.ndarray) -> Point:
    """Milliseconds of a query in a batch and alone, with a point's setting."""
    search = _with(index, point)
    batch, _ = measure.batch(lambda: search(queries), len(queries))
    alone = measure.one_by_one(search, [queries[at : at + 1] for at in range(len(queries))])
    return {"ms": batch["cpu_ms_per_row"], "p50_ms": alone["p50_ms"], "p99_ms": alone["p99_ms"]}


def partitions(row: dict[str, Any], found: sets.VectorSet) -> dict[str, Any]:
    """Independent partitions by their ``centres`` (R, B, D): ``assignment`` (R, L), ``seconds``.

    Centres are k-means's over the whole base, or over ``sample`` vectors a centre, drawn anew for each repetition; with
    a sample of 1 they are those vectors themselves.
    """
    faiss.omp_set_num_threads(1)
    base, n_buckets, n_repetitions = found.base, row["n_buckets"], row["n_repetitions"]
    centres = np.empty((n_repetitions, n_buckets, base.shape[1]), np.float32)
    assignment = np.empty((n_repetitions, len(base)), np.int32)
    options = {"niter": ITERATIONS, "spherical": found.metric == "angular", "max_points_per_centroid": 10**6}
    with measure.Clock() as clock:
        for repetition in range(n_repetitions):
            rng = np.random.default_rng([row["seed"], repetition])
            points = base
            if "sample" in row:
                points = base[np.sort(rng.choice(len(base), min(row["sample"] * n_buckets, len(base)), replace=False))]
            if len(points) == n_buckets:
                centres[repetition] = points
            else:
                seed = int(rng.integers(2**31))
                means = faiss.Kmeans(base.shape[1], n_buckets, seed=seed, min_points_per_centroid=1, **options)
                means.train(points)
                centres[repetition] = means.centroids
            nearest = _coarse(found)
            nearest.add(centres[repetition])
            assignment[repetition] = nearest.search(base, 1)[1][:, 0]
    return {"centres": centres, "assignment": assignment, "seconds": clock.wall}


def _kind(found: sets.VectorSet) -> int:
    """For vectors of length one the largest product is the least angle."""
    return int(faiss.METRIC_INNER_PRODUCT if found.metric == "angular" else faiss.METRIC_L2)


def _coarse(found: sets.VectorSet) -> Any:
    dim = found.base.shape[1]
    return faiss.IndexFlatIP(dim) if found.metric == "angular" else faiss.IndexFlatL2(dim)


def _flat(row: dict[str, Any], found: sets.VectorSet) -> Any:
    index = _coarse(found)
    index.add(found.base)
    return index


def _trained(index: Any, found: sets.VectorSet, seed: int) -> Any:
    index.cp.spherical = found.metric == "angular"
    index.cp.niter, index.cp.seed, index.cp.max_points_per_centroid = ITERATIONS, 1234 + seed, 10**6
    index.train(found.base)
    index.add(found.base)
    return index


def _ivf(row: dict[str, Any], found: sets.VectorSet) -> Any:
    index = faiss.IndexIVFFlat(_coarse(found), found.base.shape[1], row["n_buckets"], _kind(found))
    return _trained(index, found, row["seed"])


def _ivf_pq(row: dict[str, Any], found: sets.VectorSet) -> Any:
    dim = found.base.shape[1]
    codes = faiss.IndexIVFPQ(_coarse(found), dim, row["n_buckets"], dim // row["width"], 8, _kind(found))
    _trained(codes, found, row["seed"])
    return faiss.IndexRefineFlat(codes, faiss.swig_ptr(found.base))


def _ivf_rabitq(row: dict[str, Any], found: sets.VectorSet) -> Any:
    codes = faiss.IndexIVFRaBitQ(_coarse(found), found.base.shape[1], row["n_buckets"], _kind(found))
    _trained(codes, found, row["seed"])
    return faiss.IndexRefineFlat(codes, faiss.swig_ptr(found.base))


def _hnsw(row: dict[str, Any], found: sets.VectorSet) -> Any:
    index = faiss.IndexHNSWFlat(found.base.shape[1], row["links"])  # of length one, L2 orders as the angle does
    index.hnsw.efConstruction = row["breadth"]
    index.add(found.base)
    return index


def _with(index: Any, setting: Point) -> Search:
    """The search with a point's setting; ids (n, K)."""
    if "breadth" in setting:
        parameters = faiss.SearchParametersHNSW(efSearch=setting["breadth"])
    elif "factor" in setting:
        inner = faiss.SearchParametersIVF(nprobe=setting["probes"])
        parameters = faiss.IndexRefineSearchParameters(k_factor=setting["factor"], base_index_params=inner)
    elif "probes" in setting:
        parameters = faiss.SearchParametersIVF(nprobe=setting["probes"])
    else:
        parameters = None
    return lambda queries: np.asarray(index.search(queries, sets.K, params=parameters)[1])


def _timed(index: Any, setting: Point, found: sets.VectorSet) -> Point:
    search = _with(index, setting)
    search(found.queries[:10])
    spent = []
    for _ in range(3):
        for counts in (faiss.cvar.indexIVF_stats, faiss.cvar.hnsw_stats):
            counts.reset()
        begun = time.process_time()
        ids = search(found.queries)
        spent.append((time.process_time() - begun) * 1e3 / len(ids))
    return {**setting, "recall": sets.recall(ids, found.truth), "ms": min(spent)}


def _flat_curve(index: Any, row: dict[str, Any], found: sets.VectorSet) -> Iterator[Point]:
    yield _timed(index, {}, found) | {"candidates": float(len(found.base)), "scoring": 0.0}


def _ivf_curve(index: Any, row: dict[str, Any], found: sets.VectorSet) -> Iterator[Point]:
    for probes in PROBES:
        if probes > row["n_buckets"]:
            return
        point = _timed(index, {"probes": probes}, found)
        looked = faiss.cvar.indexIVF_stats.ndis / len(found.queries)
        yield point | {"candidates": looked, "scoring": float(row["n_buckets"])}
        if point["recall"] > ENOUGH:
            return


def _ivf_pq_curve(index: Any, row: dict[str, Any], found: sets.VectorSet) -> Iterator[Point]:
    for probes in PROBES:
        if probes > row["n_buckets"]:
            return
        best = 0.0
        for factor in FACTORS:
            point = _timed(index, {"probes": probes, "factor": factor}, found)
            codes = faiss.cvar.indexIVF_stats.ndis / len(found.queries)
            reranked = min(float(factor * sets.K), codes)
            work = reranked + codes / row.get("width", BITS)  # a look-up for each byte of a code, or bits in words
            yield point | {"candidates": reranked, "codes": codes, "work": work, "scoring": float(row["n_buckets"])}
            if point["recall"] < best + 0.002:
                break  # the codes of these lists have nothing more to give
            best = point["recall"]
        if best > ENOUGH:
            return


def _hnsw_curve(index: Any, row: dict[str, Any], found: sets.VectorSet) -> Iterator[Point]:
    for breadth in BREADTHS:
        point = _timed(index, {"breadth": breadth}, found)
        yield point | {"candidates": faiss.cvar.hnsw_stats.ndis / len(found.queries), "scoring": 0.0}
        if point["recall"] > ENOUGH:
            return


_BUILDERS = {"exact": _flat, "ivf": _ivf, "ivf-pq": _ivf_pq, "ivf-rabitq": _ivf_rabitq, "hnsw": _hnsw}
_CURVES = {
    "exact": _flat_curve, "ivf": _ivf_curve, "ivf-pq": _ivf_pq_curve, "ivf-rabitq": _ivf_pq_curve, "hnsw": _hnsw_curve
}  # fmt: skip
