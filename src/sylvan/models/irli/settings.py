"""How an index of vectors is searched: the settings of a search, and choosing them for a wished recall."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import validate
from sylvan.errors import ParameterError
from sylvan.indexing.buckets import Buckets
from sylvan.matching.bucket_network import BucketNetwork
from sylvan.matching.candidates import ORDERS, find_candidates

__all__ = ["ALL", "MOST_BUCKETS", "SearchSettings", "Tuning", "candidate_blocks", "choose_settings"]

MOST_BUCKETS = 1 << 20
ALL = "all"  # of the candidates
# A counter that is raised costs about what so many multiplications of a distance do, which stand in a row: it lies
# somewhere else each time, and by probability a sum is raised with it.
_INCREMENT = {"votes": 12, "probability": 16}
_COUNTED = 1 << 24  # candidates of a block of queries, about


@dataclass(frozen=True)
class SearchSettings:
    """What decides which vectors are compared with a query.

    Attributes
    ----------
    probes : int
        Buckets looked into, a repetition.
    min_votes : int
        Repetitions, at least, in which a candidate stands in one of them.
    order : {"votes", "probability"}
        By what candidates are ordered before the first are kept.
    candidates : int or None
        How many are kept; None for all of them.
    """

    probes: int
    min_votes: int
    order: str
    candidates: int | None

    def but(
        self,
        owner: str,
        buckets: Buckets,
        *,
        probes: Any = None,
        min_votes: Any = None,
        order: Any = None,
        candidates: Any = None,
    ) -> SearchSettings:
        """The same with what is not None instead, and no more probes than there are buckets.

        Raises
        ------
        ParameterError
            For what is out of range.
        """
        if order is not None and (not isinstance(order, str) or order not in ORDERS):
            words = ", ".join(map(repr, ORDERS))
            raise ParameterError(f"The 'order' parameter of {owner} must be one of {words}. Got {order!r} instead.")
        kept = self.candidates
        if candidates == ALL and isinstance(candidates, str):
            kept = None
        elif candidates is not None:
            kept = validate.count(candidates, "candidates", owner=owner)
        looked = self.probes if probes is None else validate.count(probes, "probes", owner=owner)
        votes = self.min_votes if min_votes is None else min_votes
        return SearchSettings(
            min(looked, buckets.n_buckets),
            validate.count(votes, "min_votes", owner=owner, high=buckets.n_repetitions),
            order or self.order,
            kept,
        )


@dataclass(frozen=True)
class Tuning:
    """What a search was set to for a wished recall, and what was measured in doing so.

    Attributes
    ----------
    settings : SearchSettings
    recall : float
        Share of the nearest vectors that are among the vectors compared, of the queries it was chosen for.
    n_candidates : float
        Vectors compared with a query, on average.
    n_counted : float
        Counters raised for a query, on average.
    """

    settings: SearchSettings
    recall: float
    n_candidates: float
    n_counted: float

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)

    def text(self) -> str:
        """The same in words."""
        found = self.settings
        kept = "all" if found.candidates is None else f"{found.candidates:,}"
        return (
            f"probes={found.probes}, min_votes={found.min_votes}, candidates={kept} by {found.order}: recall "
            f"{self.recall:.3f} with {self.n_candidates:,.0f} candidates a query."
        )


def candidate_blocks(n_queries: int, buckets: Buckets, settings: SearchSettings) -> list[tuple[int, int]]:
    """Ranges of queries whose candidates fit into memory at once."""
    n_labels = max(1, buckets.n_labels)
    each = min(n_labels, buckets.n_repetitions * settings.probes * (1 + n_labels // buckets.n_buckets))
    if settings.candidates is not None:
        each = min(each, settings.candidates)
    step = max(1, _COUNTED // each)
    return [(start, min(start + step, n_queries)) for start in range(0, n_queries, step)]


def choose_settings(
    network: BucketNetwork,
    buckets: Buckets,
    inputs: npt.NDArray[np.float32],
    nearest: npt.NDArray[np.integer[Any]],
    *,
    recall: float,
    order: str,
    n_jobs: int,
) -> Tuning:
    """The cheapest settings with which ``nearest`` are found.

    Every number of probes is tried in turn, up to where counting alone costs more than the best so far. By
    probability, the fewest candidates are kept that hold enough of ``nearest``; by votes, candidates need the most
    votes with which enough remain.

    Parameters
    ----------
    network, buckets
    inputs : ndarray of float32, shape (n, d)
        Queries as the network takes them.
    nearest : ndarray of int, shape (n, k)
        The vectors to be found; -1 for none.
    recall : float
        Share of them, at least.
    order : {"votes", "probability"}
    n_jobs : int
    """
    best: tuple[float, Tuning] | None = None
    for probes in _ladder(buckets.n_buckets):
        found = _measure(network, buckets, inputs, nearest, probes, order, n_jobs)
        counting = _INCREMENT[order] * found.n_counted
        if best is not None and counting > best[0]:
            break
        tuning = found.cheapest(recall)
        if tuning is not None:
            cost = counting + inputs.shape[1] * tuning.n_candidates
            if best is None or cost < best[0]:
                best = cost, tuning
    assert best is not None  # with every bucket looked into, every vector is a candidate
    return best[1]


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
class _Found:
    """With one number of probes: where the nearest vectors stood among the candidates, and how many there were."""

    probes: int
    order: str
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
            kept = int(self.places[needed - 1]) + 1
            settings = SearchSettings(self.probes, 1, self.order, kept)
            reached = int(np.searchsorted(self.places, kept))
            n_candidates = float(np.minimum(self.sizes, kept).sum()) / n_queries
        return Tuning(settings, reached / self.n_wanted, n_candidates, self.n_counted)


def _measure(
    network: BucketNetwork,
    buckets: Buckets,
    inputs: npt.NDArray[np.float32],
    nearest: npt.NDArray[np.integer[Any]],
    probes: int,
    order: str,
    n_jobs: int,
) -> _Found:
    settings = SearchSettings(probes, 1, order, None)
    place_of = np.full(buckets.n_labels, -1, np.int64)
    places, votes, sizes, counted = [], [], [], []
    with_votes = np.zeros(buckets.n_repetitions + 1, np.int64)
    for first, last in candidate_blocks(len(inputs), buckets, settings):
        chosen, probabilities = network.top(inputs[first:last], probes, n_jobs=n_jobs)
        found = find_candidates(buckets, chosen, probabilities, order=order, n_jobs=n_jobs)
        sizes.append(np.diff(found.offsets))
        counted.append(found.touched)
        with_votes += np.bincount(found.votes, minlength=len(with_votes))
        for row in range(last - first):
            begin, end = int(found.offsets[row]), int(found.offsets[row + 1])
            labels = found.labels[begin:end]
            place_of[labels] = np.arange(end - begin)
            wanted = nearest[first + row]
            at = place_of[wanted[wanted >= 0]]
            places.append(at[at >= 0])
            votes.append(found.votes[begin:end][at[at >= 0]].astype(np.int64))
            place_of[labels] = -1
    empty = [np.empty(0, np.int64)]
    return _Found(
        probes,
        order,
        max(1, int(np.count_nonzero(nearest >= 0))),
        np.sort(np.concatenate(places or empty)),
        -np.sort(-np.concatenate(votes or empty)),
        np.concatenate(sizes or empty),
        with_votes,
        float(np.concatenate(counted or empty).sum()) / max(1, len(inputs)),
    )
