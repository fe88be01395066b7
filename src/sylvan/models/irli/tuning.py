"""Choosing the settings of a search for a wished recall, at least cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays import validate
from sylvan.errors import DataError, ModelError
from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.buckets import MOST_REPETITIONS, Buckets
from sylvan.models.irli.candidates import ORDERS, Order, find_candidates
from sylvan.models.irli.search import SearchSettings, candidate_blocks
from sylvan.models.irli.settings import MOST_BUCKETS

UNTUNED = SearchSettings(8, 1, "probability", None)  # of an index that was too small to measure on

# A counter that is raised costs about what so many multiplications of a distance do, which stand in a row: it lies
# somewhere else each time, and by probability a sum is raised with it.
_INCREMENT = {"votes": 12, "probability": 16}
# From an eighth of the vectors on they are counted block by block, in the nearest caches: a counter costs much less,
# but all of them are looked through.
_IN_BLOCKS, _LOOKED_THROUGH, _SPARSE = 3.0, 2.5, 8
_MEASURES = ("recall", "n_candidates", "n_counted")


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
            settings = dict(stored["settings"])
            limit = settings.pop("candidates")
            own = replace(state, meta={**{name: stored[name] for name in _MEASURES}, **settings, "candidates": limit})
        except (TypeError, KeyError, ValueError) as error:
            where = f"{state.where or 'The model'!r} is damaged"
            raise ModelError(f"{where}: 'tuning' of the {state.kind} is no record of settings.") from error
        return cls(
            SearchSettings(
                store.need_int(own, "probes", 1, MOST_BUCKETS),
                store.need_int(own, "min_votes", 1, MOST_REPETITIONS),
                store.need_choice(own, "order", ORDERS),
                None if limit is None else store.need_int(own, "candidates", 1, validate.MAX_COLUMNS),
            ),
            *(store.need_float(own, name, 0) for name in _MEASURES),
        )

    def text(self) -> str:
        """The same in words."""
        chosen = self.settings
        limit = "all" if chosen.candidates is None else f"{chosen.candidates:,}"
        return (
            f"probes={chosen.probes}, min_votes={chosen.min_votes}, candidates={limit} by {chosen.order}: recall "
            f"{self.recall:.3f} with {self.n_candidates:,.0f} candidates a query."
        )


def choose_settings(
    network: BucketNetwork,
    buckets: Buckets,
    inputs: npt.NDArray[np.float32],
    nearest: npt.NDArray[np.integer[Any]],
    *,
    recall: float,
    order: Order,
    n_jobs: int,
) -> Tuning:
    """The cheapest settings with which a search answers with ``nearest``. Every number of probes is tried in turn, up
    to where counting alone costs more than the best so far. By probability, the first candidates count, as few as hold
    enough of ``nearest``; by votes, candidates need the most votes with which enough remain."""
    # Shapes: inputs (n, d); nearest (n, k)
    if not (nearest >= 0).any():
        raise DataError("There is nothing to find: tune needs queries, and vectors beside them.")
    best: tuple[float, Tuning] | None = None
    for probes in _ladder(buckets.n_buckets):
        measured = _measure(network, buckets, inputs, nearest, probes, order, n_jobs)
        counting = cost_of_counting(measured.n_counted, buckets.n_labels, order)
        if best is not None and counting > best[0]:
            break
        tuning = measured.cheapest(recall)
        if tuning is not None:
            cost = counting + inputs.shape[1] * tuning.n_candidates
            if best is None or cost < best[0]:
                best = cost, tuning
    assert best is not None  # with every bucket looked into, every vector is a candidate
    return best[1]


def cost_of_counting(n_counted: float, n_vectors: int, order: Order) -> float:
    """What a query's counters cost, in multiplications of a distance; more never cost less."""
    if n_counted * _SPARSE < n_vectors:
        return _INCREMENT[order] * n_counted
    return _IN_BLOCKS * n_counted + _LOOKED_THROUGH * n_vectors


def nearest_of(truths: sp.csr_matrix) -> npt.NDArray[np.int32]:
    """The columns of each row's stored values side by side, and -1 where a row has fewer than others."""
    counts = np.diff(truths.indptr)
    nearest = np.full((len(counts), int(counts.max(initial=1))), -1, np.int32)
    nearest[np.arange(nearest.shape[1]) < counts[:, None]] = truths.indices
    return nearest


def _ladder(n_buckets: int) -> Iterator[int]:
    """Numbers of probes to try: 1, 2, 3, 4, 6, 8, 12, 16, ..., and all buckets."""
    probes = 1
    while probes < n_buckets:
        yield probes
        if probes > 1 and probes & (probes - 1) == 0 and probes * 3 // 2 < n_buckets:
            yield probes * 3 // 2
        probes *= 2
    yield n_buckets


@dataclass(frozen=True)
class _Measured:
    """With one number of probes: where the nearest vectors stood among the candidates, and how many there were."""

    probes: int
    order: Order
    n_wanted: int
    places: npt.NDArray[np.int64]  # rising
    votes: npt.NDArray[np.int64]  # falling
    sizes: npt.NDArray[np.int64]  # candidates of each query
    with_votes: npt.NDArray[np.int64]  # candidates of all queries by their votes
    n_counted: float

    def cheapest(self, recall: float) -> Tuning | None:
        """The fewest candidates that hold enough; None when all of them don't."""
        needed = max(1, math.ceil(recall * self.n_wanted - 1e-9))
        if len(self.places) < needed:
            return None
        n_queries = max(1, len(self.sizes))
        if self.order == "votes":
            votes = int(self.votes[needed - 1])
            settings = SearchSettings(self.probes, votes, self.order, None)
            reached = int(np.count_nonzero(self.votes >= votes))
            n_candidates = float(self.with_votes[votes:].sum()) / n_queries
        else:
            limit = int(self.places[needed - 1]) + 1
            settings = SearchSettings(self.probes, 1, self.order, limit)
            reached = int(np.searchsorted(self.places, limit))
            n_candidates = float(np.minimum(self.sizes, limit).sum()) / n_queries
        return Tuning(settings, reached / self.n_wanted, n_candidates, self.n_counted)


def _measure(
    network: BucketNetwork,
    buckets: Buckets,
    inputs: npt.NDArray[np.float32],
    nearest: npt.NDArray[np.integer[Any]],
    probes: int,
    order: Order,
    n_jobs: int,
) -> _Measured:
    settings = SearchSettings(probes, 1, order, None)
    place_of = np.full(buckets.n_labels, -1, np.int64)
    places, votes, sizes, counted = [], [], [], []
    with_votes = np.zeros(buckets.n_repetitions + 1, np.int64)
    for first, last in candidate_blocks(len(inputs), buckets, settings):
        chosen, probabilities = network.top(inputs[first:last], probes, n_jobs=n_jobs)
        candidates = find_candidates(buckets, chosen, probabilities, order=order, n_jobs=n_jobs)
        sizes.append(candidates.counts())
        counted.append(candidates.touched)
        with_votes += np.bincount(candidates.votes, minlength=len(with_votes))
        for row in range(last - first):
            begin, end = int(candidates.offsets[row]), int(candidates.offsets[row + 1])
            labels = candidates.labels[begin:end]
            place_of[labels] = np.arange(end - begin)
            wanted = nearest[first + row]
            at = place_of[wanted[wanted >= 0]]
            places.append(at[at >= 0])
            votes.append(candidates.votes[begin:end][at[at >= 0]].astype(np.int64))
            place_of[labels] = -1
    empty = [np.empty(0, np.int64)]
    return _Measured(
        probes,
        order,
        max(1, int(np.count_nonzero(nearest >= 0))),
        np.sort(np.concatenate(places or empty)),
        -np.sort(-np.concatenate(votes or empty)),
        np.concatenate(sizes or empty),
        with_votes,
        float(np.concatenate(counted or empty).sum()) / max(1, len(inputs)),
    )
