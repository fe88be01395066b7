"""What an index of vectors is trained on: queries, their nearest base vectors, and some of both held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import validate
from sylvan.errors import DataError
from sylvan.models.irli.vector_space import Vectors, comparable, indicator
from sylvan.ranking.vectors import exact_neighbors
from sylvan.validate import Csr

__all__ = ["HELD_OUT_NEIGHBORS", "TrainingQueries", "given_queries", "sampled_queries"]

HELD_OUT_NEIGHBORS = 10  # what recall10@10 asks for
_SHARE, _MOST = 10, 1000  # one query in so many is held out, and no more than so many of them

Ids = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class TrainingQueries:
    """Queries with their nearest base vectors as an indicator, and the same of queries that are held out.

    Attributes
    ----------
    queries : ndarray of float32, shape (n, d)
    truths : Csr, shape (n, n_base)
    held_out : tuple of ndarray and Csr, or None
        Where there are too few queries to hold any out.
    """

    queries: Vectors
    truths: Csr
    held_out: tuple[Vectors, Csr] | None


def given_queries(
    queries: Any, neighbors: Any, base: Vectors, *, metric: str, n_neighbors: int, seed: int, n_jobs: int
) -> TrainingQueries:
    """Queries that a user has, with their neighbours computed where they aren't given.

    Raises
    ------
    DataError
        When an array is malformed, the two differ in length, or a neighbour isn't a row of the base.
    """
    vectors = comparable(queries, metric, n_dimensions=base.shape[1], name="queries", min_rows=1, owner="the base")
    if neighbors is None:
        ids: Ids = _nearest(vectors, base, min(n_neighbors, len(base)), metric, n_jobs)
    else:
        ids = validate.row_numbers(neighbors, len(base), name="neighbors", least=-1, what="rows of the base")
        if ids.ndim != 2 or len(ids) != len(vectors) or not ids.shape[1]:
            raise DataError(
                f"neighbors must have a row for each of the {len(vectors)} queries. Got shape {ids.shape} instead."
            )
        ids = ids[:, :n_neighbors]
    if (ids < 0).all():
        raise DataError("neighbors names no row of the base: there is nothing to learn from.")
    held = np.zeros(len(vectors), np.bool_)
    held[np.random.default_rng(seed).permutation(len(vectors))[: _n_held_out(len(vectors))]] = True
    return _parted(vectors[~held], ids[~held], vectors[held], ids[held], len(base))


def sampled_queries(
    base: Vectors, *, metric: str, n_queries: int, n_neighbors: int, seed: int, n_jobs: int
) -> TrainingQueries:
    """Base vectors as queries: in training each is its own nearest neighbour, where held out it isn't."""
    rows = np.random.default_rng(seed).permutation(len(base))[: n_queries + _n_held_out(min(n_queries, len(base)))]
    n_held_out = _n_held_out(min(len(rows), n_queries))
    held, rows = np.sort(rows[:n_held_out]), np.sort(rows[n_held_out:])
    queries, held_out = base[rows], base[held]
    ids = _nearest(queries, base, min(n_neighbors, len(base)), metric, n_jobs)
    others = np.empty((0, 1), np.int32)
    if n_held_out:
        n_others = min(HELD_OUT_NEIGHBORS, len(base) - 1)
        left_out = held.astype(np.int32)
        others = exact_neighbors(held_out, base, n_others, metric, leave_out=left_out, n_jobs=n_jobs)[0]
    return _parted(queries, ids, held_out, others, len(base))


def _nearest(queries: Vectors, base: Vectors, k: int, metric: str, n_jobs: int) -> Ids:
    return exact_neighbors(queries, base, k, metric, n_jobs=n_jobs, description="Finding the nearest")[0]


def _n_held_out(n_queries: int) -> int:
    return min(_MOST, n_queries // _SHARE)


def _parted(queries: Vectors, ids: Ids, held_out: Vectors, others: Ids, n_base: int) -> TrainingQueries:
    others = others[:, :HELD_OUT_NEIGHBORS]
    used = (others >= 0).any(axis=1)
    kept = (held_out[used], indicator(others[used], n_base)) if used.any() else None
    return TrainingQueries(queries, indicator(ids, n_base), kept)
