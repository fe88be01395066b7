"""Searching vectors in buckets: the settings of a search, what an index consists of once it is built, and the choice of
settings for a wished recall, at least cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.types import Array, Int32, Int64
from sylvan.errors import DataError, ModelError
from sylvan.models.irli.bucket_centers import BucketCenters
from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.buckets import (
    MOST_BUCKETS,
    MOST_REPETITIONS,
    ORDERS,
    Buckets,
    Candidates,
    Order,
    find_candidates,
    least_loaded_at_random,
)
from sylvan.models.irli.vectors import FARTHEST, METRICS, Answers, Metric, Vectors, exact_neighbors, nearest_candidates

_COUNTED = 1 << 24  # candidates of a block of queries, about
# A counter that is raised costs about what so many multiplications of a distance do, which stand in a row: it lies
# somewhere else each time, and by probability a sum is raised with it.
_INCREMENT = {"votes": 12, "probability": 16}
# From an eighth of the vectors on they are counted block by block, in the nearest caches: a counter costs much less,
# but all of them are looked through.
_IN_BLOCKS, _LOOKED_THROUGH, _SPARSE = 3.0, 2.5, 8
_MEASURES = ("recall", "n_candidates", "n_counted")


@dataclass(frozen=True)
class SearchSettings:
    """What decides which vectors are compared with a query."""

    probes: int  # buckets looked into, a repetition
    min_votes: int  # repetitions, at least, in which a candidate stands in one of them
    order: Order  # by what candidates are ordered
    candidates: int | None  # the first so many are compared; None for all of them


UNTUNED = SearchSettings(8, 1, "probability", None)  # of an index that was too small to measure on


@dataclass(frozen=True)
class Tuning:
    """What a search was set to for a wished recall, and what was measured in doing so."""

    settings: SearchSettings
    recall: float  # share of the nearest vectors that are among the vectors compared, of the queries it was chosen for
    n_candidates: float  # vectors compared with a query, on average
    n_counted: float  # counters raised for a query, on average

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: store.State) -> Tuning:
        """From what :meth:`as_json` gave to a State under "tuning", verified."""
        stored: Any = state.meta.get("tuning")
        try:
            values = {**{name: stored[name] for name in _MEASURES}, **stored["settings"]}
            limit = values["candidates"]
        except (TypeError, KeyError, ValueError) as error:
            damaged = f"{state.where or 'The model'!r} is damaged"
            raise ModelError(f"{damaged}: 'tuning' of the {state.kind} is no record of settings.") from error
        tuned = replace(state, meta=values)
        settings = SearchSettings(
            store.need_int(tuned, "probes", 1, MOST_BUCKETS),
            store.need_int(tuned, "min_votes", 1, MOST_REPETITIONS),
            store.need_choice(tuned, "order", ORDERS),
            None if limit is None else store.need_int(tuned, "candidates", 1, validate.MAX_COLUMNS),
        )
        return cls(settings, *(store.need_float(tuned, name, 0) for name in _MEASURES))

    def text(self) -> str:
        """The same in words."""
        chosen = self.settings
        limit = "all" if chosen.candidates is None else f"{chosen.candidates:,}"
        return (
            f"probes={chosen.probes}, min_votes={chosen.min_votes}, candidates={limit} by {chosen.order}: recall "
            f"{self.recall:.3f} with {self.n_candidates:,.0f} candidates a query."
        )


def candidates_of(
    index: BucketedVectors, queries: Vectors, settings: SearchSettings, n_jobs: int, best_first: bool = False
) -> Iterator[tuple[slice, Candidates]]:
    """Some queries at a time, whose candidates fit into memory, and these."""
    buckets, n_labels = index.buckets, max(1, index.buckets.n_labels)
    each = min(n_labels, buckets.n_repetitions * settings.probes * (1 + n_labels // buckets.n_buckets))
    step = max(1, _COUNTED // (each if settings.candidates is None else min(each, settings.candidates)))
    for start in range(0, len(queries), step):
        part = slice(start, min(start + step, len(queries)))
        yield part, find_candidates(
            buckets, *index.network.top(queries[part], settings.probes, n_jobs=n_jobs), min_votes=settings.min_votes,
            order=settings.order, limit=settings.candidates, best_first=best_first, n_jobs=n_jobs,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class BucketedVectors:
    """What a search needs. Nothing here is ever changed: adding and removing make another one."""

    base: Vectors  # shape (n, d): of unit length under the angular metric; zeros where a vector was removed
    metric: Metric
    buckets: Buckets  # -1 where a vector was removed
    network: BucketNetwork | BucketCenters  # what says which buckets a query looks into

    @property
    def present(self) -> Int32:
        """Ids of the vectors that weren't removed."""
        return np.flatnonzero(self.buckets.assignment[0] >= 0).astype(np.int32)

    def search(
        self, queries: Vectors, k: int, settings: SearchSettings, n_jobs: int, open_ids: LabelFilter | None = None
    ) -> Answers:
        """Ids and distances of the ``k`` nearest candidates, and how many candidates there were: those that may be
        answered, of which the first count."""
        limit, shape = settings.candidates, (len(queries), k)
        settings = settings if open_ids is None else replace(settings, candidates=None)
        ids, distances = np.full(shape, -1, np.int32), np.full(shape, FARTHEST[self.metric], np.float32)
        counts = np.zeros(len(queries), np.int64)
        for part, candidates in candidates_of(self, queries, settings, n_jobs, best_first=open_ids is not None):
            if open_ids is not None:
                candidates = candidates.opened(open_ids, part, limit)
            counts[part] = candidates.counts()
            nearest = nearest_candidates(queries[part], self.base, candidates, k, self.metric, n_jobs=n_jobs)
            ids[part], distances[part] = nearest
        return ids, distances, counts

    def search_allowed(self, queries: Vectors, k: int, allowed: LabelFilter, n_jobs: int) -> Answers:
        """The ``k`` nearest of the vectors that are allowed, each compared."""
        ids, ends = allowed.shared, None if allowed.rows is None else allowed.rows.indptr
        if allowed.rows is not None:
            ids = allowed.rows.indices
        there = self.buckets.assignment[0, ids] >= 0
        counts = np.full(len(queries), np.count_nonzero(there), np.int64)
        if ends is None:
            places, distances = exact_neighbors(queries, self.base[ids[there]], k, self.metric, n_jobs=n_jobs)
            return np.where(places >= 0, np.append(ids[there], -1)[places], -1).astype(np.int32), distances, counts
        offsets = np.concatenate([[0], np.cumsum(there)]).astype(np.int64)[ends]
        unused = np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.int64)
        candidates = Candidates(offsets, ids[there].astype(np.int32), *unused)
        nearest = nearest_candidates(queries, self.base, candidates, k, self.metric, n_jobs=n_jobs)
        return *nearest, candidates.counts()

    def count(self, queries: Vectors, settings: SearchSettings, n_jobs: int) -> tuple[Int64, Int64]:
        """Candidates of each query, and counters raised for it."""
        totals = np.zeros((2, len(queries)), np.int64)
        for part, candidates in candidates_of(self, queries, settings, n_jobs):
            totals[:, part] = candidates.counts(), candidates.touched
        return totals[0], totals[1]

    def nearest(self, queries: Vectors, k: int, query_ids: Int32 | None, n_jobs: int) -> Int32:
        """Ids of the truly nearest vectors, each compared; ``query_ids`` are of vectors that queries are themselves, no
        answers."""
        present = self.present
        k = min(k, len(present))
        if not k or not len(queries):
            return np.full((len(queries), 1), -1, np.int32)
        base = self.base if len(present) == len(self.base) else self.base[present]
        rows = None if query_ids is None else np.searchsorted(present, query_ids).astype(np.int32)
        places = exact_neighbors(queries, base, k, self.metric, excluded=rows, n_jobs=n_jobs)[0]
        return np.where(places >= 0, present[places], -1).astype(np.int32)

    def grown(self, vectors: Vectors, choices: int, seed: int, n_jobs: int) -> BucketedVectors:
        """With vectors added: to the buckets of their nearest centres, or in a random order each to the least full of
        the ``choices`` that the networks like best for it."""
        n_buckets = self.buckets.n_buckets
        if isinstance(self.network, BucketCenters):
            new = self.network.assign(vectors, n_jobs)
        else:
            chosen, _ = self.network.top(vectors, min(choices, n_buckets), n_jobs=n_jobs)
            seeds = [(seed, 7, len(self.base), repetition) for repetition in range(self.buckets.n_repetitions)]
            new = np.stack([
                least_loaded_at_random(chosen[:, repetition], n_buckets, seeds[repetition], loads=loads)
                for repetition, loads in enumerate(self.buckets.loads())
            ])  # fmt: skip
        assignment = np.concatenate([self.buckets.assignment, new], axis=1)
        buckets = Buckets.from_assignment(assignment, n_buckets)
        return replace(self, base=np.concatenate([self.base, vectors]), buckets=buckets)

    def without(self, ids: Int64) -> BucketedVectors:
        """With vectors removed, and overwritten with zeros."""
        base = self.base.copy()
        base[ids] = 0
        return replace(self, base=base, buckets=self.buckets.without(ids))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Values and arrays for a saved index."""
        sizes: dict[str, Any] = {
            "n_ids": len(self.base), "n_dimensions": int(self.base.shape[1]), "n_buckets": self.buckets.n_buckets,
            "n_repetitions": self.buckets.n_repetitions, "metric": self.metric,
        }  # fmt: skip
        if isinstance(self.network, BucketCenters):
            sizes["spread"] = self.network.spread
        return sizes, {"base": self.base, **self.buckets.arrays(), **self.network.arrays()}

    @classmethod
    def from_state(cls, state: store.State) -> BucketedVectors:
        """From what :meth:`to_parts` gave, verified."""
        n_ids, n_dimensions = (store.need_int(state, n, 1, validate.MAX_COLUMNS) for n in ("n_ids", "n_dimensions"))
        n_buckets = store.need_int(state, "n_buckets", 1, MOST_BUCKETS)
        n_repetitions = store.need_int(state, "n_repetitions", 1, MOST_REPETITIONS)
        metric, sizes = store.need_choice(state, "metric", METRICS), (n_dimensions, n_repetitions, n_buckets)
        return cls(
            store.need_array(state, "base", np.float32, (n_ids, n_dimensions)),
            metric,
            Buckets.from_arrays(state, n_buckets, n_repetitions, n_ids),
            BucketCenters.from_arrays(state, *sizes, metric)
            if "centers" in state.arrays
            else BucketNetwork.from_arrays(state, *sizes),
        )


def choose_settings(
    index: BucketedVectors, queries: Vectors, nearest: Int32, recall: float, order: Order, n_jobs: int
) -> Tuning:
    """The cheapest settings with which a search answers with ``nearest``. Every number of probes is tried in turn, up
    to where counting alone costs more than the best so far. By probability, the first candidates count, as few as hold
    enough of ``nearest``; by votes, candidates need the most votes with which enough remain."""
    # Shapes: queries (n, d); nearest (n, k)
    if not (nearest >= 0).any():
        raise DataError("There is nothing to find: tune needs queries, and vectors beside them.")
    least, best = math.inf, None
    for probes in _ladder(index.buckets.n_buckets):
        n_counted, tuning = _measured(index, queries, nearest, probes, float(recall), order, n_jobs)
        counting = cost_of_counting(n_counted, index.buckets.n_labels, order)
        if counting > least:
            break
        if tuning is not None and (cost := counting + queries.shape[1] * tuning.n_candidates) < least:
            least, best = cost, tuning
    assert best is not None  # with every bucket looked into, every vector is a candidate
    return best


def cost_of_counting(n_counted: float, n_vectors: int, order: Order) -> float:
    """What a query's counters cost, in multiplications of a distance; more never cost less."""
    if n_counted * _SPARSE < n_vectors:
        return _INCREMENT[order] * n_counted
    return _IN_BLOCKS * n_counted + _LOOKED_THROUGH * n_vectors


def _ladder(n_buckets: int) -> Iterator[int]:
    """Numbers of probes to try: 1, 2, 3, 4, 6, 8, 12, 16, ..., and all buckets."""
    probes = 1
    while probes < n_buckets:
        yield probes
        if probes > 1 and probes & (probes - 1) == 0 and probes * 3 // 2 < n_buckets:
            yield probes * 3 // 2
        probes *= 2
    yield n_buckets


def _measured(
    index: BucketedVectors, queries: Vectors, nearest: Int32, probes: int, recall: float, order: Order, n_jobs: int
) -> tuple[float, Tuning | None]:
    """With one number of probes: the counters raised for a query, and the fewest candidates that hold enough of the
    nearest; None when all of them don't."""
    place_of = np.full(index.buckets.n_labels, -1, np.int64)
    places, votes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]  # where the nearest stand among the candidates
    sizes, n_counted, n_queries = np.zeros(len(queries), np.int64), 0, max(1, len(queries))
    with_votes = np.zeros(index.buckets.n_repetitions + 1, np.int64)  # candidates of all queries by their votes
    settings = SearchSettings(probes, 1, order, None)
    for part, candidates in candidates_of(index, queries, settings, n_jobs, best_first=True):
        sizes[part] = candidates.counts()
        n_counted += int(candidates.touched.sum())
        with_votes += np.bincount(candidates.votes, minlength=len(with_votes))
        for row, wanted in enumerate(nearest[part]):
            begin, end = int(candidates.offsets[row]), int(candidates.offsets[row + 1])
            labels = candidates.labels[begin:end]
            place_of[labels] = np.arange(end - begin)
            reached = place_of[wanted[wanted >= 0]]
            places.append(reached[reached >= 0])
            votes.append(candidates.votes[begin:end][places[-1]].astype(np.int64))
            place_of[labels] = -1
    counted, n_wanted = n_counted / n_queries, max(1, int(np.count_nonzero(nearest >= 0)))
    needed = max(1, math.ceil(recall * n_wanted - 1e-9))
    rising, falling = np.sort(np.concatenate(places)), -np.sort(-np.concatenate(votes))
    if len(rising) < needed:
        return counted, None
    if order == "votes":
        least = int(falling[needed - 1])
        settings = SearchSettings(probes, least, order, None)
        n_reached, n_compared = int(np.count_nonzero(falling >= least)), with_votes[least:].sum()
    else:
        limit = int(rising[needed - 1]) + 1
        settings = SearchSettings(probes, 1, order, limit)
        n_reached, n_compared = int(np.searchsorted(rising, limit)), np.minimum(sizes, limit).sum()
    return counted, Tuning(settings, n_reached / n_wanted, float(n_compared) / n_queries, counted)
