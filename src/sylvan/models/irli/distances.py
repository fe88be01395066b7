"""The nearest vectors by true distance: of each query's candidates, or of all."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.errors import DataError
from sylvan.models.irli.buckets import whole_numbers
from sylvan.models.irli.candidates import Candidates
from sylvan.parallel import map_parallel, split_ranges
from sylvan.params.fields import Choice, Number, check_values

Metric = Literal["euclidean", "angular", "inner_product"]
METRICS: tuple[Metric, ...] = get_args(Metric)
ROWS = 64  # queries that a thread takes at a time
_RANGES = {"k": Number(int, 1, 2**31 - 1), "metric": Choice(METRICS)}

Nearest = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]


def nearest_candidates(
    queries: Any, base: Any, candidates: Candidates, k: int, metric: str, n_jobs: int = 1
) -> Nearest:
    """The ``k`` candidates of each query that are truly nearest."""
    # Shapes: queries (n, dim); base (L, dim); returns ids (n, k), distances (n, k)
    kind, (rows, vectors) = _checked(k, metric), _pair(queries, base)
    if len(candidates) != len(rows):
        raise DataError(f"The candidates of {len(rows)} queries are needed. Got those of {len(candidates)} instead.")
    labels = candidates.labels
    if len(labels) and not (labels.min() >= 0 and labels.max() < len(vectors)):
        worst = int(labels.min() if labels.min() < 0 else labels.max())
        raise DataError(f"The candidates must be rows of the base, in [0, {len(vectors) - 1}]. Got {worst} instead.")
    ids, distances = np.empty((len(rows), int(k)), np.int32), np.empty((len(rows), int(k)), np.float32)

    def search(part: tuple[int, int]) -> None:
        kernels.nearest_candidates(rows, vectors, candidates.offsets, labels, *part, kind, ids, distances)

    map_parallel(search, split_ranges(len(rows), ROWS), n_jobs)
    return ids, distances


def exact_neighbors(
    queries: Any,
    base: Any,
    k: int,
    metric: str,
    *,
    excluded: Any = None,
    n_jobs: int = 1,
    description: str | None = None,
) -> Nearest:
    """The ``k`` rows of ``base`` nearest to each query, each of which is compared. Blocks of queries meet blocks of
    rows that fit the processor's cache; only the k best distances are stored. A distance has the same bits here and in
    :func:`nearest_candidates`."""
    # Shapes: queries (n, dim); base (L, dim); excluded (n,); returns ids (n, k), distances (n, k)
    kind, (rows, vectors) = _checked(k, metric), _pair(queries, base)
    own = None
    if excluded is not None:
        own = whole_numbers(excluded, "excluded", (len(rows),), -1, len(vectors) - 1)
    ids, distances = np.empty((len(rows), int(k)), np.int32), np.empty((len(rows), int(k)), np.float32)

    def search(part: tuple[int, int]) -> None:
        kernels.nearest_vectors(rows, vectors, own, *part, kind, ids, distances)

    map_parallel(search, split_ranges(len(rows), ROWS), n_jobs, description=description)
    return ids, distances


def _checked(k: int, metric: str) -> int:
    """The kernel's number of a metric, after both parameters were looked at."""
    check_values(_RANGES, k=k, metric=metric)
    return METRICS.index(metric)


def _pair(queries: Any, base: Any) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Queries and base as contiguous matrices of float32 of one width; no copy where they are."""
    matrices = []
    for name, values in (("queries", queries), ("base", base)):
        array = np.asarray(values)
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            raise DataError(
                f"'{name}' must be a matrix of numbers, a vector a row. "
                f"Got {array.dtype} of shape {array.shape} instead."
            )
        matrices.append(np.ascontiguousarray(array, np.float32))
    rows, vectors = matrices
    if rows.shape[1] != vectors.shape[1]:
        raise DataError(
            f"'queries' must have {vectors.shape[1]} dimensions as 'base' has. Got {rows.shape[1]} instead."
        )
    return rows, vectors
