"""Candidates: the labels of the buckets that queries look into, counted over the repetitions, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.errors import DataError
from sylvan.models.irli.buckets import Buckets, whole_numbers
from sylvan.parallel import map_parallel, split_ranges
from sylvan.params.fields import Choice, Number, check_values

Order = Literal["votes", "probability"]
ORDERS: tuple[Order, ...] = get_args(Order)
ROWS = 64  # queries that a thread takes at a time
_RANGES = {
    "min_votes": Number(int, 1, 2**31 - 1),
    "order": Choice(ORDERS),
    "limit": Number(int, 1, optional=True),
}
_DTYPES = (np.int64, np.int64, np.int32, np.int32, np.float32)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of queries; those of query i stand at ``offsets[i]:offsets[i + 1]``."""

    offsets: npt.NDArray[np.int64]  # shape (n + 1,)
    labels: npt.NDArray[np.int32]  # best first
    votes: npt.NDArray[np.int32]  # in how many repetitions a bucket of the query holds the label
    scores: npt.NDArray[np.float32]  # sum of the probabilities of these buckets
    # shape (n,): how often a counter was increased: the labels of all chosen buckets, one by one
    touched: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def counts(self) -> npt.NDArray[np.int64]:
        """How many candidates each query has, shape (n,)."""
        return np.diff(self.offsets)


def find_candidates(
    buckets: Buckets,
    chosen: Any,
    probabilities: Any,
    *,
    min_votes: int = 1,
    order: Order = "votes",
    limit: int | None = None,
    best_first: bool = True,
    n_jobs: int = 1,
) -> Candidates:
    """The labels of the chosen buckets of all repetitions, each once, with its votes and its summed probability (IRLI,
    section 3.3). The cost grows with the labels that stand in the chosen buckets, not with the number of labels.
    Probabilities are added up in float32, from the first repetition to the last."""
    # Shapes: chosen (n, R, m); probabilities (n, R, m)
    check_values(_RANGES, min_votes=min_votes, order=order, limit=limit)
    places, weights = _probes(buckets, chosen, probabilities)
    n = len(places)
    most = buckets.n_labels if limit is None else min(int(limit), buckets.n_labels)

    def count(part: tuple[int, int]) -> tuple[npt.NDArray[Any], ...]:
        with buckets.counters() as counters:
            fault, counts, touched, labels, votes, scores = kernels.bucket_candidates(
                buckets.handle, counters, places, weights, *part, int(min_votes), order == "votes", most, best_first
            )
        if fault >= 0:
            raise _fault(int(fault), places[fault], weights[fault], buckets.n_buckets)
        return counts, touched, labels, votes, scores

    return _joined([count((0, n))] if 0 < n <= ROWS else map_parallel(count, split_ranges(n, ROWS), n_jobs))


def _joined(blocks: Sequence[tuple[npt.NDArray[Any], ...]]) -> Candidates:
    """The candidates of all blocks of queries."""
    counts, touched, labels, votes, scores = (
        blocks[0][i] if len(blocks) == 1 else np.concatenate([np.empty(0, dtype), *(block[i] for block in blocks)])
        for i, dtype in enumerate(_DTYPES)
    )
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return Candidates(offsets, labels, votes, scores, touched)


def _probes(buckets: Buckets, chosen: Any, probabilities: Any) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Both arrays as the kernel takes them; it looks at every bucket and probability itself."""
    if isinstance(chosen, np.ndarray) and chosen.dtype == np.int32:
        places = np.ascontiguousarray(chosen)
    else:
        places = whole_numbers(chosen, "chosen", (None, None, None), -1, buckets.n_buckets - 1)
    if places.ndim != 3 or places.shape[1] != buckets.n_repetitions:
        raise DataError(
            f"'chosen' must have shape (n, {buckets.n_repetitions}, m): buckets of each repetition for each query. "
            f"Got {places.shape} instead."
        )
    weights = np.asarray(probabilities)
    if weights.shape != places.shape or weights.dtype.kind not in "fiu":
        raise DataError(
            f"'probabilities' must be numbers of the shape of 'chosen', {places.shape}. "
            f"Got {weights.dtype} of shape {weights.shape} instead."
        )
    return places, np.ascontiguousarray(weights, np.float32)


def _fault(query: int, places: npt.NDArray[np.int32], weights: npt.NDArray[np.float32], n_buckets: int) -> DataError:
    outside = (places < -1) | (places >= n_buckets)
    if outside.any():
        r, i = np.argwhere(outside)[0].tolist()
        return DataError(
            f"'chosen' must hold buckets in [-1, {n_buckets - 1}]. "
            f"Got {int(places[r, i])} for query {query} in repetition {r} instead."
        )
    r, i = np.argwhere(~(np.isfinite(weights) & (weights >= 0)))[0].tolist()
    return DataError(
        f"'probabilities' must be finite numbers from 0. "
        f"Got {float(weights[r, i])} for query {query} in repetition {r} instead."
    )
