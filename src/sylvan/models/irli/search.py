"""Searching vectors in buckets: the settings of a search, and what an index consists of once it is built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.errors import ParameterError
from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.buckets import Buckets, least_loaded_at_random
from sylvan.models.irli.candidates import ORDERS, Candidates, Order, find_candidates
from sylvan.models.irli.distances import METRICS, Metric, exact_neighbors, nearest_candidates
from sylvan.models.irli.settings import MOST_BUCKETS
from sylvan.models.irli.vectors import FARTHEST, Answers, Vectors

ALL = "all"  # of the candidates
_COUNTED = 1 << 24  # candidates of a block of queries, about

Ids = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SearchSettings:
    """What decides which vectors are compared with a query."""

    probes: int  # buckets looked into, a repetition
    min_votes: int  # repetitions, at least, in which a candidate stands in one of them
    order: Order  # by what candidates are ordered
    candidates: int | None  # the first so many are compared; None for all of them

    def replaced(
        self,
        owner: str,
        buckets: Buckets,
        *,
        probes: Any = None,
        min_votes: Any = None,
        order: Any = None,
        candidates: Any = None,
    ) -> SearchSettings:
        """These settings with what is not None in their place, and no more probes than there are buckets."""
        if order is not None and (not isinstance(order, str) or order not in ORDERS):
            words = ", ".join(map(repr, ORDERS))
            raise ParameterError(f"The 'order' parameter of {owner} must be one of {words}. Got {order!r} instead.")
        limit = self.candidates
        if candidates == ALL and isinstance(candidates, str):
            limit = None
        elif candidates is not None:
            limit = validate.count(candidates, "candidates", owner=owner)
        n_probes = self.probes if probes is None else validate.count(probes, "probes", owner=owner)
        votes = self.min_votes if min_votes is None else min_votes
        return SearchSettings(
            min(n_probes, buckets.n_buckets),
            validate.count(votes, "min_votes", owner=owner, high=buckets.n_repetitions),
            order or self.order,
            limit,
        )


def candidate_blocks(n_queries: int, buckets: Buckets, settings: SearchSettings) -> list[tuple[int, int]]:
    """Ranges of queries whose candidates fit into memory at once."""
    n_labels = max(1, buckets.n_labels)
    each = min(n_labels, buckets.n_repetitions * settings.probes * (1 + n_labels // buckets.n_buckets))
    if settings.candidates is not None:
        each = min(each, settings.candidates)
    step = max(1, _COUNTED // each)
    return [(start, min(start + step, n_queries)) for start in range(0, n_queries, step)]


@dataclass(frozen=True, eq=False)
class BucketedVectors:
    """What a search needs. Nothing here is ever changed: adding and removing make another one."""

    base: Vectors  # shape (n, d): of unit length under the angular metric; zeros where a vector was removed
    metric: Metric
    buckets: Buckets  # -1 where a vector was removed
    network: BucketNetwork

    @property
    def there(self) -> Ids:
        """Ids of the vectors that weren't removed."""
        return np.flatnonzero(self.buckets.assignment[0] >= 0).astype(np.int32)

    def search(self, queries: Vectors, k: int, settings: SearchSettings, n_jobs: int) -> Answers:
        """Ids and distances of the ``k`` nearest candidates, and how many candidates there were."""
        shape = (len(queries), k)
        ids, distances = np.full(shape, -1, np.int32), np.full(shape, FARTHEST[self.metric], np.float32)
        counts = np.zeros(len(queries), np.int64)
        for part, candidates in self._candidates(queries, settings, n_jobs):
            counts[part] = candidates.counts()
            ids[part], distances[part] = nearest_candidates(
                queries[part], self.base, candidates, k, self.metric, n_jobs=n_jobs
            )
        return ids, distances, counts

    def count(self, queries: Vectors, settings: SearchSettings, n_jobs: int) -> tuple[Counts, Counts]:
        """Candidates of each query, and counters raised for it."""
        compared, counted = np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64)
        for part, candidates in self._candidates(queries, settings, n_jobs):
            compared[part], counted[part] = candidates.counts(), candidates.touched
        return compared, counted

    def _candidates(
        self, queries: Vectors, settings: SearchSettings, n_jobs: int
    ) -> Iterator[tuple[slice, Candidates]]:
        for rows in candidate_blocks(len(queries), self.buckets, settings):
            part = slice(*rows)
            chosen, probabilities = self.network.top(queries[part], settings.probes, n_jobs=n_jobs)
            yield (
                part,
                find_candidates(
                    self.buckets,
                    chosen,
                    probabilities,
                    min_votes=settings.min_votes,
                    order=settings.order,
                    limit=settings.candidates,
                    best_first=False,
                    n_jobs=n_jobs,
                ),
            )

    def nearest(self, queries: Vectors, k: int, own: Ids | None, n_jobs: int) -> Ids:
        """Ids of the truly nearest vectors, each compared; ``own`` is the vector that a query itself is, no answer."""
        there = self.there
        k = min(k, len(there))
        if not k or not len(queries):
            return np.full((len(queries), 1), -1, np.int32)
        base = self.base if len(there) == len(self.base) else self.base[there]
        rows = None if own is None else np.searchsorted(there, own).astype(np.int32)
        places = exact_neighbors(queries, base, k, self.metric, excluded=rows, n_jobs=n_jobs)[0]
        return np.where(places >= 0, there[places], -1).astype(np.int32)

    def grown(self, vectors: Vectors, choices: int, seed: int, n_jobs: int) -> BucketedVectors:
        """With vectors added, in a random order, each to the least full of its ``choices`` best buckets."""
        n_buckets = self.buckets.n_buckets
        chosen, _ = self.network.top(vectors, min(choices, n_buckets), n_jobs=n_jobs)
        new = [
            least_loaded_at_random(chosen[:, repetition], n_buckets, (seed, 7, len(self.base), repetition), loads=loads)
            for repetition, loads in enumerate(self.buckets.loads())
        ]
        assignment = np.concatenate([self.buckets.assignment, np.stack(new)], axis=1)
        return replace(
            self,
            base=np.concatenate([self.base, vectors]),
            buckets=Buckets.from_assignment(assignment, n_buckets),
        )

    def removed(self, ids: Counts) -> Counts:
        """Those of ``ids`` that were removed."""
        removed: Counts = ids[self.buckets.assignment[0, ids] < 0]
        return removed

    def without(self, ids: Counts) -> BucketedVectors:
        """With vectors removed, and overwritten with zeros."""
        base = self.base.copy()
        base[ids] = 0
        return replace(self, base=base, buckets=self.buckets.without(ids))

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays to be saved, by name."""
        return {"base": self.base, **self.buckets.arrays(), **self.network.arrays()}

    def sizes(self) -> dict[str, Any]:
        """What the arrays' shapes follow from, and the metric."""
        return {
            "n_ids": len(self.base),
            "n_dimensions": int(self.base.shape[1]),
            "n_buckets": self.buckets.n_buckets,
            "n_repetitions": self.buckets.n_repetitions,
            "metric": self.metric,
        }

    @classmethod
    def from_state(cls, state: store.State) -> BucketedVectors:
        """From what :meth:`to_arrays` and :meth:`sizes` gave, verified."""
        n_ids = store.need_int(state, "n_ids", 1, validate.MAX_COLUMNS)
        n_dimensions = store.need_int(state, "n_dimensions", 1, validate.MAX_COLUMNS)
        n_buckets = store.need_int(state, "n_buckets", 1, MOST_BUCKETS)
        n_repetitions = store.need_int(state, "n_repetitions", 1, validate.MAX_COLUMNS)
        return cls(
            store.need_array(state, "base", np.float32, (n_ids, n_dimensions)),
            store.need_choice(state, "metric", METRICS),
            Buckets.from_arrays(state, n_buckets, n_repetitions, n_ids),
            BucketNetwork.from_arrays(state, n_dimensions, n_repetitions, n_buckets),
        )
