"""Joining several rankings of the same rows into one, and weights for them fitted on a holdout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from sylvan import kernels
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Float32, Float64, Int32
from sylvan.arrays.validate import Csr
from sylvan.metrics.tallies import hits
from sylvan.parallel import map_parallel, split_ranges

Way = Literal["score", "count", "average_rank", "reciprocal_rank"]
WAYS: tuple[Way, ...] = get_args(Way)
ROWS = 512  # rows that a thread takes at a time
SAME = 9  # decimals of weights of votes: what differs beyond them differs by rounding
STEPS = (0.5, 0.25, 0.125, 0.0625, 0.03125)  # of the search for weights
PASSES = 10  # over the members, at most, for each of them
CUTOFFS = (1, 3, 5)  # whose mean precision weights make greatest


def combine_rankings(
    tops: Sequence[TopK], weights: Float64, k: int, *, how: Way = "score", votes: int = 10, places: int | None = None,
    n_jobs: int = 1,
) -> TopK:  # fmt: skip
    """The ``k`` best labels of several rankings together, best first, lower label first among equals."""
    # Returns shape (n, k)
    if how == "count":
        return _by_votes(tops, weights, k, votes, n_jobs)
    return _sums(np.concatenate([top.labels for top in tops], axis=1), _gains(tops, how, places), weights, k, n_jobs)


def mean_score(tops: Sequence[TopK], k: int, n_jobs: int = 1) -> TopK:
    """The ``k`` labels of highest mean score, best first, lower label first among equals. Scores lie in [0, 1]; a
    ranking that lacks a label gives it 0."""
    return combine_rankings(tops, np.full(len(tops), 1 / len(tops)), k, n_jobs=n_jobs)


def _gains(tops: Sequence[TopK], how: Way, places: int | None) -> list[Float32]:
    """What each label gains from its score or place in each ranking, before the weights."""
    if how == "score":
        return [np.where(top.labels >= 0, top.scores, np.float32(0)) for top in tops]
    place = np.arange(max(top.k for top in tops), dtype=np.float32)
    gains = 1 - place / np.float32(places or len(place)) if how == "average_rank" else 1 / (place + 1)
    return [np.broadcast_to(gains[: top.k], top.scores.shape) for top in tops]


def _by_votes(tops: Sequence[TopK], weights: Float64, k: int, votes: int, n_jobs: int) -> TopK:
    """The labels whose votes weigh most in each row, those of equal votes by their scores. A label's score is the
    weight of its votes and, within the least difference of two such weights, its mean score."""
    labels, scores = (np.concatenate([getattr(top, name) for top in tops], axis=1) for name in ("labels", "scores"))
    widths = [top.k for top in tops]
    weight = np.repeat(weights, widths)
    votes_of = weight * (np.concatenate([np.arange(width) for width in widths]) < votes)
    share = _least_difference(weights)
    joined = TopK(np.full((len(labels), k), -1, np.int32), np.full((len(labels), k), -np.inf, np.float32))

    def work(part: tuple[int, int]) -> None:
        rows = slice(*part)
        by_label = np.argsort(labels[rows], axis=1, kind="stable")
        names = np.take_along_axis(labels[rows], by_label, axis=1)
        first = np.diff(names, axis=1, prepend=-2) != 0  # of the answers of one label

        def sums(values: Float64) -> Float64:
            scores_of_row = np.full(names.shape, -np.inf)
            scores_of_row[first] = np.add.reduceat(values.ravel(), np.flatnonzero(first))
            return np.where(first & (names >= 0), scores_of_row, -np.inf)

        voted = np.round(sums(votes_of[by_label]), SAME)
        scored = sums(np.take_along_axis(scores[rows], by_label, axis=1) * weight[by_label]).astype(np.float32)
        best = np.lexsort((-scored, -voted), axis=-1)[:, :k]  # the lower label first among equals, as they are sorted
        mixed = np.take_along_axis((voted + share * scored) / (1 + share), best, axis=1)
        joined.scores[rows, : best.shape[1]] = np.minimum.accumulate(mixed, axis=1)
        joined.labels[rows, : best.shape[1]] = np.where(mixed >= 0, np.take_along_axis(names, best, axis=1), -1)

    map_parallel(work, split_ranges(len(labels), ROWS), n_jobs)
    return joined


def _least_difference(weights: Float64) -> float:
    """The least difference between what votes of some rankings and of others weigh, down to 2 ** -12."""
    sums = np.zeros(1)
    for weight in weights[weights > 0]:
        sums = np.sort(np.concatenate((sums, sums + weight)))
        sums = sums[np.append(True, np.diff(sums) > 10.0**-SAME)]
        if len(sums) > 2**12:  # two of so many lie nearer together
            return 2.0**-12
    return max(float(np.diff(sums).min()), 2.0**-12)


def _sums(labels: Int32, gains: Sequence[Float32], weights: Float64, k: int, n_jobs: int) -> TopK:
    """The labels of greatest sums of gains, times the weights of their rankings, in each row."""
    n, each = labels.shape[0], zip(gains, weights.tolist(), strict=True)
    weighed = np.concatenate([gain * np.float32(weight) for gain, weight in each], axis=1)
    top = TopK(np.empty((n, k), np.int32), np.empty((n, k), np.float32))

    def work(part: tuple[int, int]) -> None:
        kernels.merge_rankings(labels, weighed, *part, top.labels, top.scores)

    map_parallel(work, split_ranges(n, ROWS), n_jobs)
    return top


def fit_weights(
    tops: Sequence[TopK], truth: Csr, *, how: Way = "score", votes: int = 10, places: int | None = None,
    sample_weight: Float32 | None = None, n_jobs: int = 1,
) -> Float64:  # fmt: skip
    """Weights of rankings that make the mean of P@1, P@3 and P@5 of their join greatest. Precision has no slope to
    follow, so they are searched: from equal weights, each in turn is made larger or smaller by a step, all are divided
    by their sum, and what improves is kept, until nothing does; then with half the step, down to 1/32."""
    # Shapes: truth (n, L); sample_weight (n,)
    weights = np.full(len(tops), 1 / len(tops))
    if len(tops) == 1:
        return weights
    labels = np.concatenate([top.labels for top in tops], axis=1)
    gains = _gains(tops, "score" if how == "count" else how, places)
    voted = [(np.arange(top.k) < votes).astype(np.float32) for top in tops]

    def quality(tried: Float64) -> float:
        gains_of_members = gains
        if how == "count":  # in one sum, which is quicker; nearly equal scores count as equal
            share = np.float32(_least_difference(tried))
            gains_of_members = [vote + share * gain for vote, gain in zip(voted, gains, strict=True)]
        right = hits(_sums(labels, gains_of_members, tried, max(CUTOFFS), n_jobs), truth)
        row_weights = np.ones(len(right)) if sample_weight is None else sample_weight.astype(np.float64)
        return sum(float(right[:, :k].sum(axis=1) @ row_weights) / k for k in CUTOFFS)

    best = quality(weights)
    for step in STEPS:
        for _ in range(PASSES):
            before = best
            for change in [*np.eye(len(tops)), *-np.eye(len(tops))]:
                moved = np.maximum(weights + step * change, 0)
                if moved.sum() <= 0:
                    continue
                moved /= moved.sum()
                if (result := quality(moved)) > best + 1e-9:
                    best, weights = result, moved
            if best == before:
                break
    return weights
