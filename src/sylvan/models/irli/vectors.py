"""Vectors as an index takes them, the nearest of them by true distance, and the queries that an index is trained on."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays import validate
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.types import Array, Float32, Float64, Int32, Int64
from sylvan.errors import DataError
from sylvan.models.base import MOST_ANSWERS
from sylvan.models.irli.buckets import ROWS, Candidates, Order
from sylvan.parallel import map_parallel, one_at_a_time, split_ranges
from sylvan.params.fields import Choice, check_value
from sylvan.remote.fitted import Fitted

Metric = Literal["euclidean", "angular", "inner_product"]
METRICS: tuple[Metric, ...] = get_args(Metric)
_ROWS = 1 << 14  # converted at once
FARTHEST = {"euclidean": np.inf, "angular": np.inf, "inner_product": -np.inf}  # the distance of no vector at all
_HOLDOUT_NEIGHBORS = 10  # what recall10@10 asks for
_SHARE, _MOST = 10, 1000  # one query in so many is a holdout query, and no more than so many of them
ROUGH_WIDTH = 64  # directions by which the nearest are found first,
_ROUGHLY = 8  # so many times as are wished

Vectors = Float32
Ids = npt.NDArray[np.integer[Any]]
Nearest = tuple[Int32, Float32]  # ids, distances
Answers = tuple[Int32, Float32, Int64]  # ids, distances, counts


def nearest_candidates(
    queries: Vectors, base: Vectors, candidates: Candidates, k: int, metric: Metric, n_jobs: int = 1
) -> Nearest:
    """The ``k`` candidates of each query that are truly nearest."""
    # Shapes: queries (n, dim); base (L, dim); returns ids (n, k), distances (n, k)
    kind, rows, vectors, ids, distances = _prepared(queries, base, k, metric)

    def search(part: tuple[int, int]) -> None:
        kernels.nearest_candidates(rows, vectors, candidates.offsets, candidates.labels, *part, kind, ids, distances)

    map_parallel(search, split_ranges(len(rows), ROWS), n_jobs)
    return ids, distances


def exact_neighbors(
    queries: Vectors, base: Vectors, k: int, metric: Metric, *, excluded: Int32 | None = None, n_jobs: int = 1,
    description: str | None = None,
) -> Nearest:  # fmt: skip
    """The ``k`` rows of ``base`` nearest to each query, each of which is compared. Blocks of queries meet blocks of
    rows that fit the processor's cache; only the k best distances are stored. A distance has the same bits here and in
    :func:`nearest_candidates`."""
    # Shapes: queries (n, dim); base (L, dim); excluded (n,); returns ids (n, k), distances (n, k)
    kind, rows, vectors, ids, distances = _prepared(queries, base, k, metric)

    def search(part: tuple[int, int]) -> None:
        kernels.nearest_vectors(rows, vectors, excluded, *part, kind, ids, distances)

    map_parallel(search, split_ranges(len(rows), ROWS), n_jobs, description=description)
    return ids, distances


def _prepared(
    queries: Vectors, base: Vectors, k: int, metric: Metric
) -> tuple[int, Vectors, Vectors, Int32, Float32]:
    """The kernel's number of a metric, queries and base as contiguous matrices, and what takes ids and distances."""
    rows, vectors, shape = np.ascontiguousarray(queries), np.ascontiguousarray(base), (len(queries), k)
    return METRICS.index(metric), rows, vectors, np.empty(shape, np.int32), np.empty(shape, np.float32)


def comparable(vectors: Any, metric: Metric, **checks: Any) -> Vectors:
    """What a user gave as vectors, verified, and scaled to length one where only their angles count."""
    rows = validate.vectors(vectors, **checks)
    if metric != "angular":
        return rows
    unit = np.empty_like(rows)
    for part, lengths in _lengths(rows, checks.get("name", "vectors")):
        unit[part] = rows[part] / lengths[:, None]
    return unit


def check_metric(metric: Any) -> Metric:
    """``metric``, if there is one of that name."""
    check_value("metric", metric, Choice(METRICS, optional=True), "fit")
    return METRICS[METRICS.index(metric)]


def need_directions(rows: Vectors, metric: Metric, name: str) -> None:
    """Refuse, under the angular metric, what :func:`comparable` would refuse."""
    if metric == "angular":
        for _ in _lengths(rows, name):
            pass


def _lengths(rows: Vectors, name: str) -> Iterator[tuple[slice, Float64]]:
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


def owned(rows: Vectors, source: Any) -> Vectors:
    """``rows`` for an index: a copy where they are a user's, who may change them, unless mapped for reading."""
    plain: Vectors = rows.view(np.ndarray)  # not NumPy's own class of mapped arrays, whose every slice is another such
    memory: Any = rows
    while isinstance(memory, np.ndarray) and memory.base is not None:  # a tensor's, or of a view that can't be written
        memory = memory.base
    mapped = isinstance(memory, mmap.mmap) and not rows.flags.writeable
    return plain if mapped or (memory is rows and rows is not source) else plain.copy()


def checked_neighbors(queries: Any, neighbors: Any, n_base: int, n_used: int | None = None) -> Ids | None:
    """The neighbours that a user gave beside queries, of which the first ``n_used`` (or all) are used, or None."""
    if neighbors is None:
        return None
    if queries is None:
        raise DataError("neighbors were given without the queries that they are the neighbours of.")
    ids = validate.row_numbers(neighbors, n_base, name="neighbors", least=-1, noun="rows of the base")
    if ids.ndim != 2 or len(ids) != len(queries) or not ids.shape[1]:
        raise DataError(
            f"neighbors must have a row for each of the {len(queries)} queries. Got shape {ids.shape} instead."
        )
    if (ids[:, :n_used] < 0).all():
        raise DataError("neighbors names no row of the base: there is nothing to learn from.")
    return ids


class VectorIndex(Fitted):
    """What an index of vectors and one in shards have in common: what they are asked, and how it is checked."""

    def _space(self) -> tuple[Metric, int, int]:
        """The metric, the width of a vector, and the number of ids."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no vectors.")

    def _comparable(self, vectors: Any, action: str, name: str) -> Vectors:
        self._need_fit(action)
        metric, n_dimensions, _ = self._space()
        return comparable(vectors, metric, n_dimensions=n_dimensions, name=name)

    def _numbered(self, vectors: Any) -> tuple[Vectors, Int64]:
        """Vectors to be added, and their ids."""
        new, n_before = self._comparable(vectors, "add", "vectors"), self._space()[2]
        if n_before + len(new) > validate.MAX_COLUMNS:
            raise DataError(f"An index can't hold more than {validate.MAX_COLUMNS} vectors.")
        return new, np.arange(n_before, n_before + len(new), dtype=np.int64)

    @one_at_a_time
    def remove(self, ids: Any) -> None:
        """Remove vectors: no search finds them any more, and they are overwritten with zeros.

        The ids of all others stay as they are, and removed ids aren't given to new vectors. Searches that run at the
        same time go on with the index as it was. The arrays are copied: many at once are better than one by one.

        Parameters
        ----------
        ids : array of int
            Each once.

        Raises
        ------
        DataError
            For an id that the index hasn't got, or hasn't got any more; nothing is removed then.
        NotFittedError
        """
        self._need_fit("remove")
        wanted = validate.row_numbers(ids, self._space()[2], name="ids", noun="the index's vectors").ravel()
        if wanted.size:
            if len(removed := self.removed(wanted)):
                raise DataError(f"ids holds {int(removed[0])}, but that vector was removed before.")
            numbers, times = np.unique(wanted, return_counts=True)
            if (times > 1).any():
                raise DataError(f"ids holds {int(numbers[times.argmax()])} more than once.")
            self._remove(wanted)

    def removed(self, ids: Int64) -> Int64:
        """Those of ``ids``, each below the number of ids there are, that were removed."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no vectors.")

    def _remove(self, ids: Int64) -> None:
        raise TypeError(f"{type(self).__name__} is abstract: it has no vectors.")

    def search(
        self, queries: Any, k: int = 10, probes: int | None = None, min_votes: int | None = None,
        order: Order | None = None, candidates: int | str | None = None, return_counts: bool = False, *,
        allowed: Any = None, denied: Any = None,
    ) -> tuple[Array, ...]:  # fmt: skip
        """The ``k`` nearest vectors to each query among its candidates.

        Parameters
        ----------
        queries : array of shape (n, n_dimensions_)
        k : int
            Vectors a query. While ``probes``, ``min_votes`` and ``candidates`` are all "auto", a search looks into
            more buckets until it has them; else a row with fewer candidates ends in id -1, as it does where there are
            fewer vectors.
        probes, min_votes, order, candidates
            Instead of the index's own parameters, in shards of each shard's; ``candidates="all"`` compares all
            candidates of the buckets that are looked into: all vectors with as many ``probes`` as there are buckets.
        return_counts : bool
            Also give how many vectors were compared with each query, in all shards together.
        allowed, denied : ids, or a mask of shape (n, number of ids), optional
            The only vectors to answer with, for every query or query by query, and vectors not to answer with; see
            :class:`~sylvan.arrays.label_filter.LabelFilter` for the forms. Candidates are those that may be answered;
            where few are allowed, or some for each query, all of these are compared. Not in shards.

        Returns
        -------
        ids : ndarray of int32, shape (n, k)
        distances : ndarray of float32, shape (n, k)
            Nearest first, lower id first among equals: Euclidean distances, 1 - cosines, or inner products, of which
            the largest come first. Infinite where the id is -1 (-inf for inner products).
        counts : ndarray of int64, shape (n,)
            Only with ``return_counts``.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        vectors = self._comparable(queries, "search", "queries")
        k = validate.count(k, "k", owner="search", high=max(self._space()[2], MOST_ANSWERS))
        options = {"probes": probes, "min_votes": min_votes, "order": order, "candidates": candidates}
        open_ids = LabelFilter.of(allowed, denied, n_rows=len(vectors), n_labels=self._space()[2], shorter=False)
        answers = self._search(vectors, k, options, open_ids)
        return answers if return_counts else answers[:2]

    def _search(self, queries: Vectors, k: int, options: dict[str, Any], open_ids: LabelFilter | None) -> Answers:
        raise TypeError(f"{type(self).__name__} is abstract: it has no search.")


@dataclass(frozen=True)
class TrainingQueries:
    """Queries with their nearest base vectors as an indicator, and the same of holdout queries."""

    queries: Vectors  # shape (n, d)
    truths: sp.csr_matrix  # shape (n, n_base)
    holdout: tuple[Vectors, sp.csr_matrix] | None  # None where there are too few queries


def training_queries(
    base: Vectors, queries: Any = None, neighbors: Any = None, *, metric: Metric, n_queries: int, n_neighbors: int,
    seed: int, n_jobs: int, projection: Vectors | None = None,
) -> TrainingQueries:  # fmt: skip
    """Queries that a user has, with their neighbours computed where they aren't given; without any, rows of the base:
    in training each is its own nearest neighbour, in the holdout it isn't. With a ``projection``, the neighbours of
    queries to learn from are the nearest among those that are near by its first directions; those of holdout queries
    are exact."""
    ids, random = checked_neighbors(queries, neighbors, len(base), n_neighbors), np.random.default_rng(seed)
    k, excluded = min(n_neighbors, len(base)), None
    if queries is None:
        rows = random.permutation(len(base))[: n_queries + _n_holdout(min(n_queries, len(base)))]
        n_holdout = _n_holdout(min(len(rows), n_queries))
        apart, rows = np.sort(rows[:n_holdout]), np.sort(rows[n_holdout:])
        training, holdout, excluded = base[rows], base[apart], apart.astype(np.int32)
    else:
        vectors = comparable(queries, metric, n_dimensions=base.shape[1], name="queries", min_rows=1, owner="the base")
        judging = np.zeros(len(vectors), np.bool_)
        judging[random.permutation(len(vectors))[: _n_holdout(len(vectors))]] = True
        training, holdout = vectors[~judging], vectors[judging]
    if ids is None:
        n_others = k if excluded is None else min(_HOLDOUT_NEIGHBORS, len(base) - 1)
        nearest: Ids = np.empty((0, 1), np.int32)
        learned: Ids = _near(training, base, k, metric, n_jobs, projection)
        if len(holdout):
            nearest = exact_neighbors(holdout, base, n_others, metric, excluded=excluded, n_jobs=n_jobs)[0]
    else:
        ids = ids[:, :n_neighbors]
        learned, nearest = ids[~judging], ids[judging]
    nearest = nearest[:, :_HOLDOUT_NEIGHBORS]
    used = (nearest >= 0).any(axis=1)
    judged = (holdout[used], _indicator(nearest[used], len(base))) if used.any() else None
    return TrainingQueries(training, _indicator(learned, len(base)), judged)


def _near(queries: Vectors, base: Vectors, k: int, metric: Metric, n_jobs: int, projection: Vectors | None) -> Int32:
    """The ``k`` nearest; with a projection to be learned from, so that a few may be others that are about as near."""
    words = "Finding the nearest"
    if projection is None or _ROUGHLY * k >= len(base):
        return exact_neighbors(queries, base, k, metric, n_jobs=n_jobs, description=words)[0]
    few = np.ascontiguousarray(projection[:, :ROUGH_WIDTH])
    # Projected, lengths are no longer one.
    rough_metric: Metric = "euclidean" if metric == "euclidean" else "inner_product"
    rough, _ = exact_neighbors(queries @ few, base @ few, _ROUGHLY * k, rough_metric, n_jobs=n_jobs, description=words)
    offsets = np.arange(len(queries) + 1, dtype=np.int64) * rough.shape[1]
    unused = np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.int64)
    candidates = Candidates(offsets, np.sort(rough, axis=1).ravel(), *unused)
    return nearest_candidates(queries, base, candidates, k, metric, n_jobs=n_jobs)[0]


def _n_holdout(n_queries: int) -> int:
    return min(_MOST, n_queries // _SHARE)


def _indicator(ids: Ids, n_columns: int) -> sp.csr_matrix:
    """Rows of ids, -1 where there is none, as a matrix of ones; an id named twice in a row counts once."""
    rows, places = np.nonzero(ids >= 0)
    keys = np.unique(rows * np.int64(n_columns) + ids[rows, places])
    indptr = np.concatenate(([0], np.cumsum(np.bincount(keys // n_columns, minlength=len(ids))))).astype(np.int64)
    columns = (keys % n_columns).astype(np.int32)
    return sp.csr_matrix((np.ones(len(keys), np.float32), columns, indptr), shape=(len(ids), n_columns))


def nearest_of(truths: sp.csr_matrix) -> Int32:
    """:func:`_indicator` undone: the columns of each row's ones, and -1 where a row has fewer than others."""
    counts = np.diff(truths.indptr)
    nearest = np.full((len(counts), int(counts.max(initial=1))), -1, np.int32)
    nearest[np.arange(nearest.shape[1]) < counts[:, None]] = truths.indices
    return nearest
