"""Candidates: the labels of the buckets that queries look into, counted over the repetitions, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.errors import DataError
from sylvan.indexing.buckets import Buckets, whole_numbers
from sylvan.parallel import map_parallel, split_ranges
from sylvan.params import Choice, Number, check_values

__all__ = ["ORDERS", "Candidates", "find_candidates"]

ORDERS = ("votes", "probability")
ROWS = 64  # queries that a thread takes at a time
_RANGES = {
    "min_votes": Number(int, 1, 2**31 - 1),
    "order": Choice(ORDERS),
    "limit": Number(int, 1, optional=True),
}
_DTYPES = (np.int64, np.int64, np.int32, np.int32, np.float32)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of queries; those of query i stand at ``offsets[i]:offsets[i + 1]``.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n + 1,)
    labels : ndarray of int32
        Best first.
    votes : ndarray of int32
        In how many repetitions a bucket of the query holds the label.
    scores : ndarray of float32
        Sum of the probabilities of these buckets.
    touched : ndarray of int64, shape (n,)
        How often a counter was increased: the labels of all chosen buckets, one by one.
    """

    offsets: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    votes: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]
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
    order: str = "votes",
    limit: int | None = None,
    best_first: bool = True,
    n_jobs: int = 1,
) -> Candidates:
    """The labels of the chosen buckets of all repetitions, each once, with its votes and its summed probability.

    The cost grows with the labels that stand in the chosen buckets, not with the number of labels: counters are used
    again by the next call, and those that a query touched are set back to 0 after it.

    Parameters
    ----------
    buckets : Buckets
        Of R repetitions.
    chosen : array of int32, shape (n, R, m)
        The buckets that each query looks into in each repetition. -1 is none; a bucket that is named twice in a
        repetition counts once, with the probability that stands first.
    probabilities : array of float32, shape (n, R, m)
        Of each chosen bucket; finite and not negative, at -1 too.
    min_votes : int
        Labels of fewer votes are no candidates.
    order : {"votes", "probability"}
        ``"votes"`` as the paper counts: most votes first, then the greater sum of probabilities. ``"probability"``, an
        extension: the greatest sum of probabilities first. The lower label is first among equals.
    limit : int, optional
        The first so many in this order; all when None.
    best_first : bool
        False leaves each query's candidates in any order, always the same, which is cheaper where they are ranked
        anew anyway. Which ones they are doesn't change.
    n_jobs : int
        Number of threads; the answer doesn't depend on it.

    Returns
    -------
    Candidates

    Raises
    ------
    DataError
        When the arrays' shapes don't agree, a bucket is out of range, or a probability is no finite number from 0.
    ParameterError
        When a parameter is out of its range.

    Notes
    -----
    Probabilities are added up in float32, from the first repetition to the last.

    References
    ----------
    Gupta et al. (2021), "IRLI", section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan.indexing.buckets import Buckets
    >>> from sylvan.matching.candidates import find_candidates
    >>> buckets = Buckets.from_assignment([[0, 0, 1, 1], [1, 0, 1, 0]], 2)
    >>> chosen = np.array([[[1], [1]]], np.int32)
    >>> found = find_candidates(buckets, chosen, np.array([[[0.5], [0.25]]], np.float32))
    >>> found.labels.tolist(), found.votes.tolist(), found.scores.tolist()
    ([2, 3, 0], [2, 1, 1], [0.75, 0.5, 0.25])
    """
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
