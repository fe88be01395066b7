"""Buckets: several partitions of the labels at once, and the labels of those that queries look into, best first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sylvan import kernels, store
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.types import Array, Float32, Float64, Int32, Int64
from sylvan.errors import DataError, ModelError
from sylvan.parallel import map_parallel, split_ranges

MOST_REPETITIONS, MOST_BUCKETS = 65535, 1 << 24
Order = Literal["votes", "probability"]
ORDERS: tuple[Order, ...] = get_args(Order)
ROWS = 64  # queries that a thread takes at a time
_DTYPES = (np.int64, np.int64, np.int32, np.int32, np.float32)  # of what the kernel counts
_PRIME = 2**31 - 1  # above every label id; products of two numbers below it fit 64 bits


def hash_partition(n_labels: int, n_buckets: int, n_repetitions: int, seed: int = 0) -> Int32:
    """Labels hashed into buckets, with a different function for each repetition: it draws a from 1 to p - 1 and b from
    0 to p - 1, where p is the prime 2^31 - 1, and puts label x into bucket ((a x + b) mod p) mod B (IRLI, section 3.1;
    Carter and Wegman 1979), so that two labels share a bucket with a probability of at most about 1 / B."""
    # Returns shape (n_repetitions, n_labels)
    factors = np.random.default_rng(seed).integers((1, 0), _PRIME, (n_repetitions, 2), dtype=np.uint64)
    labels = np.arange(n_labels, dtype=np.uint64)
    partition = np.empty((n_repetitions, n_labels), np.int32)
    for row, (a, b) in zip(partition, factors, strict=True):
        row[:] = (a * labels + b) % np.uint64(_PRIME) % np.uint64(n_buckets)
    return partition


def least_loaded(
    best: Int32, n_buckets: int, *, current: Int32 | None = None, loads: Int64 | None = None, room: int = 0
) -> Int32:
    """Place each label in turn into the least loaded of its ``best`` buckets (IRLI, section 3.2); -1 is no bucket.
    Loads are counted while labels are placed. Among buckets with equal loads, a label stays where it is if that is one
    of them, and otherwise goes to the best of them; a bucket with a load below ``room`` takes the labels that prefer it
    at once."""
    # Shapes: best (L, K); current (L,); loads (B,); returns (L,)
    counted, placed = np.zeros(n_buckets, np.int64), np.empty(len(best), np.int32)
    if loads is not None:
        counted[:] = loads
    fault, label = kernels.least_loaded(np.ascontiguousarray(best, np.int32), current, int(room), counted, placed)
    if fault:
        raise DataError(
            f"Row {label} of 'best' names no bucket, so its label stays where it is: 'current' must say where. "
            "Got None instead."
        )
    return placed


def least_loaded_at_random(best: Any, n_buckets: int, seed: Sequence[int], **options: Any) -> Int32:
    """:func:`least_loaded`, placing the labels in a random order. In the order of their ids, labels that are alike and
    stand beside each other, as in sorted data, would be dealt out in the same way in every repetition, and what one
    repetition misses, the others would miss too."""
    # Returns shape (L,)
    order = np.random.default_rng(seed).permutation(len(best))
    if options.get("current") is not None:
        options["current"] = options["current"][order]
    placed = np.empty(len(best), np.int32)
    placed[order] = least_loaded(best[order], n_buckets, **options)
    return placed


@dataclass(frozen=True, eq=False)
class Buckets:
    """R partitions of the labels into B buckets each, and the labels of every bucket."""

    # shape (R, L): bucket of each label; -1 for a label that was removed, in all repetitions at once
    assignment: Int32
    n_buckets: int  # B
    # shape (R, B + 1): where each bucket's labels are in the repetition's row of `members`
    offsets: Int64
    # shape (R, L'): the L' labels that are not removed, bucket by bucket, rising within a bucket
    members: Int32

    @property
    def n_repetitions(self) -> int:
        """R."""
        return len(self.assignment)

    @property
    def n_labels(self) -> int:
        """L, with the labels that were removed."""
        return int(self.assignment.shape[1])

    @cached_property
    def handle(self) -> kernels.BucketLists:
        """The lists as the kernel sees them."""
        return kernels.BucketLists(self.offsets, self.members, self.n_labels)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_assignment(cls, assignment: Any, n_buckets: int) -> Buckets:
        """From the bucket of each label."""
        # Shape: assignment (R, L)
        places = np.ascontiguousarray(assignment, np.int32)
        removed = places[0] < 0
        offsets = np.empty((len(places), n_buckets + 1), np.int64)
        members = np.empty((len(places), places.shape[1] - int(removed.sum())), np.int32)
        for row, *lists in zip(places, offsets, members, strict=True):
            if not (np.array_equal(row < 0, removed) and kernels.list_members(row, *lists)):
                raise DataError(
                    f"A label must be in one of the buckets 0 to {n_buckets - 1} in each repetition, or in none in all."
                )
        return cls(places, int(n_buckets), offsets, members)

    def without(self, labels: npt.NDArray[np.integer[Any]]) -> Buckets:
        """Without some labels, which keep their ids and stand in no bucket."""
        assignment = self.assignment.copy()
        assignment[:, labels] = -1
        return Buckets.from_assignment(assignment, self.n_buckets)

    def loads(self) -> Int64:
        """Number of labels in each bucket, shape (R, B)."""
        return np.diff(self.offsets, axis=1)

    def load_deviation(self) -> Float64:
        """Standard deviation of each repetition's loads, shape (R,): Table 3's measure of balance."""
        return np.asarray(self.loads().std(axis=1))

    @contextmanager
    def counters(self) -> Iterator[Any]:
        """A workspace for counting, which no other thread uses while the block runs; it is used again."""
        free: deque[Any] = self.__dict__.setdefault("_free", deque())  # those that no thread uses now
        try:
            counters = free.pop()
        except IndexError:
            counters = kernels.BucketCounters(self.n_labels, self.n_buckets, self.n_repetitions)
        yield counters
        free.append(counters)  # not after an error

    def arrays(self) -> dict[str, Array]:
        """The arrays to be saved, by name."""
        return {"buckets": self.assignment, "bucket_offsets": self.offsets, "bucket_members": self.members}

    @classmethod
    def from_arrays(cls, state: store.State, n_buckets: int, n_repetitions: int, n_labels: int) -> Buckets:
        """From arrays that :meth:`arrays` gave and a model was saved with, verified wholly."""
        assignment = store.need_range(state, "buckets", -1, n_buckets - 1, np.int32, (n_repetitions, n_labels))
        offsets = store.need_array(state, "bucket_offsets", np.int64, (n_repetitions, n_buckets + 1))
        members = store.need_array(state, "bucket_members", np.int32, (n_repetitions, None))
        removed = assignment[0] < 0
        for repetition, row in enumerate(assignment):
            if not np.array_equal(row < 0, removed) or not kernels.same_members(
                row, offsets[repetition], members[repetition]
            ):
                file = state.array_files.get("bucket_members", "bucket_members")
                raise ModelError(
                    f"{file!r} is damaged: the labels of repetition {repetition}'s buckets aren't those that array "
                    "'buckets' puts there."
                )
        return cls(assignment, n_buckets, offsets, members)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of queries; those of query i stand at ``offsets[i]:offsets[i + 1]``."""

    offsets: Int64  # shape (n + 1,)
    labels: Int32  # best first
    votes: Int32  # in how many repetitions a bucket of the query holds the label
    scores: Float32  # sum of the probabilities of these buckets
    # shape (n,): how often a counter was increased: the labels of all chosen buckets, one by one
    touched: Int64

    def counts(self) -> Int64:
        """How many candidates each query has, shape (n,)."""
        return np.diff(self.offsets)

    def opened(self, open_ids: LabelFilter, part: slice, limit: int | None) -> Candidates:
        """The first ``limit`` of each query that may be answered; the queries are this part of the filter's rows."""
        counts = self.counts()
        of_row = np.repeat(np.arange(len(counts)), counts)
        taken = open_ids.opens(self.labels, of_row, (part.start, part.stop))
        if limit is not None:
            before: Int64 = np.concatenate([[0], np.cumsum(taken)])  # how many of all are open
            taken &= before[:-1] - before[self.offsets[:-1]][of_row] < limit
        kept = np.concatenate([[0], np.cumsum(np.bincount(of_row[taken], minlength=len(counts)))]).astype(np.int64)
        return Candidates(kept, self.labels[taken], self.votes[taken], self.scores[taken], self.touched)


def find_candidates(
    buckets: Buckets, chosen: Int32, probabilities: Float32, *, min_votes: int = 1, order: Order = "votes",
    limit: int | None = None, best_first: bool = True, n_jobs: int = 1,
) -> Candidates:  # fmt: skip
    """The labels of the chosen buckets of all repetitions, each once, with its votes and its summed probability (IRLI,
    section 3.3). The cost grows with the labels that stand in the chosen buckets, not with the number of labels.
    Probabilities are added up in float32, from the first repetition to the last."""
    # Shapes: chosen (n, R, m); probabilities (n, R, m)
    places, weights = np.ascontiguousarray(chosen), np.ascontiguousarray(probabilities)
    n, most = len(places), buckets.n_labels if limit is None else min(int(limit), buckets.n_labels)

    def count(part: tuple[int, int]) -> tuple[Array, ...]:
        counted: list[Any]
        with buckets.counters() as counters:
            fault, *counted = kernels.bucket_candidates(
                buckets.handle, counters, places, weights, *part, int(min_votes), order == "votes", most, best_first
            )
        if fault >= 0:
            raise DataError(
                f"Query {int(fault)} has a bucket outside of [-1, {buckets.n_buckets - 1}], or a probability that is "
                "no finite number from 0."
            )
        return tuple(counted)

    blocks = [count((0, n))] if 0 < n <= ROWS else map_parallel(count, split_ranges(n, ROWS), n_jobs)
    counts, touched, labels, votes, scores = (
        blocks[0][i] if len(blocks) == 1 else np.concatenate([np.empty(0, dtype), *(block[i] for block in blocks)])
        for i, dtype in enumerate(_DTYPES)
    )
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return Candidates(offsets, labels, votes, scores, touched)
