"""Vectors of an index, verified, of unit length where only angles count; and the queries that it is trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import validate
from sylvan.errors import DataError, ParameterError
from sylvan.ranking.vectors import METRICS, exact_neighbors

__all__ = [
    "FARTHEST",
    "TrainingQueries",
    "Vectors",
    "check_metric",
    "comparable",
    "need_directions",
    "owned",
    "training_queries",
]

_ROWS = 1 << 14  # converted at once
FARTHEST = {"euclidean": np.inf, "angular": np.inf, "inner_product": -np.inf}  # the distance of no vector at all
_HOLDOUT_NEIGHBORS = 10  # what recall10@10 asks for
_SHARE, _MOST = 10, 1000  # one query in so many is held out, and no more than so many of them

Vectors = npt.NDArray[np.float32]
Ids = npt.NDArray[np.integer[Any]]


def comparable(vectors: Any, metric: str, **checks: Any) -> Vectors:
    """What a user gave as vectors, verified, and scaled to length one where only their angles count.

    Raises
    ------
    DataError
        As :func:`sylvan.validate.vectors`, and for a vector of zeros under the angular metric.
    """
    rows = validate.vectors(vectors, **checks)
    if metric != "angular":
        return rows
    unit = np.empty_like(rows)
    for part, lengths in _lengths(rows, checks.get("name", "vectors")):
        unit[part] = rows[part] / lengths[:, None]
    return unit


def check_metric(metric: Any) -> str:
    """``metric``, if there is one of that name.

    Raises
    ------
    ParameterError
    """
    if not isinstance(metric, str) or metric not in METRICS:
        words = ", ".join(map(repr, METRICS))
        raise ParameterError(f"The 'metric' parameter of fit must be one of {words} or None. Got {metric!r} instead.")
    return metric


def need_directions(rows: Vectors, metric: str, name: str) -> None:
    """Refuse, under the angular metric, what :func:`comparable` would refuse.

    Raises
    ------
    DataError
        For a vector of zeros.
    """
    if metric == "angular":
        for _ in _lengths(rows, name):
            pass


def _lengths(rows: Vectors, name: str) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
    """The vectors' lengths, some rows at a time."""
    for start in range(0, len(rows), _ROWS):
        block = rows[start : start + _ROWS].astype(np.float64)  # squares of small values vanish in float32
        lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
        if not lengths.all():
            raise DataError(
                f"{name} holds only zeros in row {start + int(np.argmin(lengths))}: such a vector has no direction, "
                "and metric='angular' compares directions."
            )
        yield slice(start, start + len(block)), lengths


def owned(rows: Vectors, given: Any) -> Vectors:
    """``rows`` for an index: a copy where they are a user's, who may change them, unless mapped for reading."""
    plain: Vectors = rows.view(np.ndarray)  # not NumPy's own class of mapped arrays, whose every slice is another such
    theirs = isinstance(given, np.ndarray) and np.may_share_memory(plain, given)
    if theirs and plain.flags.writeable:
        plain = plain.copy()
    return plain


@dataclass(frozen=True)
class TrainingQueries:
    """Queries with their nearest base vectors as an indicator, and the same of queries that are held out.

    Attributes
    ----------
    queries : ndarray of float32, shape (n, d)
    truths : csr_matrix of shape (n, n_base)
    holdout : tuple of ndarray and csr_matrix, or None
        Where there are too few queries to hold any out.
    """

    queries: Vectors
    truths: sp.csr_matrix
    holdout: tuple[Vectors, sp.csr_matrix] | None


def training_queries(
    base: Vectors,
    queries: Any = None,
    neighbors: Any = None,
    *,
    metric: str,
    n_queries: int,
    n_neighbors: int,
    seed: int,
    n_jobs: int,
) -> TrainingQueries:
    """Queries that a user has, with their neighbours computed where they aren't given; without any, rows of the base.

    Raises
    ------
    DataError
        When an array is malformed, the two differ in length, or a neighbour isn't a row of the base.
    """
    if queries is None:
        if neighbors is not None:
            raise DataError("neighbors were given without the queries that they are the neighbours of.")
        return _sampled_queries(base, metric, n_queries, n_neighbors, seed, n_jobs)
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
    apart = np.zeros(len(vectors), np.bool_)
    apart[np.random.default_rng(seed).permutation(len(vectors))[: _n_holdout(len(vectors))]] = True
    return _training_queries(vectors[~apart], ids[~apart], vectors[apart], ids[apart], len(base))


def _sampled_queries(
    base: Vectors, metric: str, n_queries: int, n_neighbors: int, seed: int, n_jobs: int
) -> TrainingQueries:
    """Base vectors as queries: in training each is its own nearest neighbour, where held out it isn't."""
    rows = np.random.default_rng(seed).permutation(len(base))[: n_queries + _n_holdout(min(n_queries, len(base)))]
    n_holdout = _n_holdout(min(len(rows), n_queries))
    apart, rows = np.sort(rows[:n_holdout]), np.sort(rows[n_holdout:])
    queries, holdout = base[rows], base[apart]
    ids = _nearest(queries, base, min(n_neighbors, len(base)), metric, n_jobs)
    others = np.empty((0, 1), np.int32)
    if n_holdout:
        n_others = min(_HOLDOUT_NEIGHBORS, len(base) - 1)
        others = exact_neighbors(holdout, base, n_others, metric, leave_out=apart.astype(np.int32), n_jobs=n_jobs)[0]
    return _training_queries(queries, ids, holdout, others, len(base))


def _nearest(queries: Vectors, base: Vectors, k: int, metric: str, n_jobs: int) -> Ids:
    return exact_neighbors(queries, base, k, metric, n_jobs=n_jobs, description="Finding the nearest")[0]


def _n_holdout(n_queries: int) -> int:
    return min(_MOST, n_queries // _SHARE)


def _training_queries(queries: Vectors, ids: Ids, holdout: Vectors, others: Ids, n_base: int) -> TrainingQueries:
    others = others[:, :_HOLDOUT_NEIGHBORS]
    used = (others >= 0).any(axis=1)
    judged = (holdout[used], _indicator(others[used], n_base)) if used.any() else None
    return TrainingQueries(queries, _indicator(ids, n_base), judged)


def _indicator(ids: Ids, n_columns: int) -> sp.csr_matrix:
    """Rows of ids, -1 where there is none, as a matrix of ones; an id named twice in a row counts once."""
    rows, at = np.nonzero(ids >= 0)
    keys = np.unique(rows * np.int64(n_columns) + ids[rows, at])
    indptr = np.concatenate(([0], np.cumsum(np.bincount(keys // n_columns, minlength=len(ids))))).astype(np.int64)
    columns = (keys % n_columns).astype(np.int32)
    return sp.csr_matrix((np.ones(len(keys), np.float32), columns, indptr), shape=(len(ids), n_columns))
