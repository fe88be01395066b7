"""Candidates against plain counting, errors included; the same for any number of threads."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import kernels
from sylvan.errors import DataError
from sylvan.models.irli.buckets import Buckets, Candidates, find_candidates

Found = list[tuple[int, int, float]]


def counted_slowly(
    assignment: np.ndarray, chosen: np.ndarray, probabilities: np.ndarray, min_votes: int, order: str, limit: int | None
) -> tuple[Found, int]:
    """One query's candidates by the rule: label, votes, score."""
    votes: dict[int, int] = {}
    scores: dict[int, np.float32] = {}
    touched = 0
    for r, row in enumerate(chosen.tolist()):
        for bucket in dict.fromkeys(bucket for bucket in row if bucket >= 0):
            weight = probabilities[r, row.index(bucket)]
            for label in np.flatnonzero(assignment[r] == bucket).tolist():
                votes[label] = votes.get(label, 0) + 1
                scores[label] = np.float32(scores.get(label, np.float32(0)) + weight)
                touched += 1
    found = [(label, votes[label], float(scores[label])) for label in votes if votes[label] >= min_votes]
    if order == "votes":
        found.sort(key=lambda one: (-one[1], -one[2], one[0]))
    else:
        found.sort(key=lambda one: (-one[2], one[0]))
    return found[:limit], touched


def listed(found: Candidates, query: int) -> Found:
    part = slice(*found.offsets[query : query + 2].tolist())
    return list(zip(found.labels[part].tolist(), found.votes[part].tolist(), found.scores[part].tolist(), strict=True))


def made(
    seed: int, n_labels: int, n_buckets: int, n_repetitions: int, n: int, m: int, levels: int
) -> tuple[Buckets, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    assignment = random.integers(0, n_buckets, (n_repetitions, n_labels))
    assignment[:, random.random(n_labels) < 0.1] = -1
    chosen = random.integers(-1, n_buckets, (n, n_repetitions, m)).astype(np.int32)
    # Few different values make ties; many small ones make sums that depend on their order.
    probabilities = random.integers(0, levels + 1, (n, n_repetitions, m)).astype(np.float32) / levels
    return Buckets.from_assignment(assignment, n_buckets), chosen, probabilities


@settings(max_examples=100)
@given(
    st.integers(0, 2**32), st.integers(0, 80), st.sampled_from([1, 2, 5, 30]), st.sampled_from([1, 2, 7, 40]),
    st.integers(0, 4), st.integers(0, 4), st.sampled_from([1, 3, 1000003]), st.integers(1, 4),
    st.sampled_from(["votes", "probability"]), st.sampled_from([None, 1, 2, 5, 30]),
)  # fmt: skip
def test_candidates_are_exactly_the_counted(
    seed: int, n_labels: int, n_buckets: int, n_repetitions: int, n: int, m: int, levels: int, min_votes: int,
    order: str, limit: int | None,
) -> None:  # fmt: skip
    buckets, chosen, probabilities = made(seed, n_labels, n_buckets, n_repetitions, n, m, levels)
    settings_ = {"min_votes": min_votes, "order": order, "limit": limit}
    found = find_candidates(buckets, chosen, probabilities, **settings_)
    loose = find_candidates(buckets, chosen, probabilities, best_first=False, **settings_)
    assert len(found.counts()) == n and found.offsets[0] == 0 and found.offsets[-1] == len(found.labels)
    assert [a.dtype.name for a in (found.labels, found.votes, found.scores)] == ["int32", "int32", "float32"]
    np.testing.assert_array_equal(found.counts(), loose.counts())
    for query in range(n):
        expected, touched = counted_slowly(
            buckets.assignment, chosen[query], probabilities[query], min_votes, order, limit
        )
        assert listed(found, query) == expected
        assert sorted(listed(loose, query)) == sorted(expected)
        assert found.touched[query] == touched


@pytest.mark.parametrize(
    ("order", "limit"), [("votes", 1), ("probability", 200), ("votes", 3000), ("probability", None)]
)
@pytest.mark.parametrize("n_buckets", [40, 4000])  # counted in blocks of labels, and by a list of those touched
def test_many_candidates_are_cut_where_they_should_be(n_buckets: int, order: str, limit: int | None) -> None:
    random = np.random.default_rng(4)
    n_labels, n_repetitions, n, m = 20_000, 12, 3, 6
    assignment = random.integers(0, n_buckets, (n_repetitions, n_labels))
    buckets = Buckets.from_assignment(assignment, n_buckets)
    chosen = np.argsort(random.random((n, n_repetitions, n_buckets)), axis=2)[:, :, :m].astype(np.int32)
    probabilities = np.exp(-random.random((n, n_repetitions, m)) * 12).astype(np.float32)
    found = find_candidates(buckets, chosen, probabilities, order=order, limit=limit)
    for query in range(n):
        expected, _ = counted_slowly(assignment, chosen[query], probabilities[query], 1, order, limit)
        assert listed(found, query) == expected


def test_threads_change_no_bit_and_calls_leave_no_trace() -> None:
    buckets, chosen, probabilities = made(1, 5000, 50, 9, 700, 5, 999)
    first = find_candidates(buckets, chosen, probabilities, limit=50)
    for n_jobs in (1, 2, 5):
        again = find_candidates(buckets, chosen, probabilities, limit=50, n_jobs=n_jobs)
        for name in ("offsets", "labels", "votes", "scores", "touched"):
            np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
    alone = [find_candidates(buckets, chosen[i : i + 1], probabilities[i : i + 1], limit=50) for i in range(20)]
    np.testing.assert_array_equal(np.concatenate([one.labels for one in alone]), first.labels[: first.offsets[20]])


def test_counters_are_used_again_but_not_after_an_error() -> None:
    buckets, chosen, probabilities = made(2, 300, 5, 3, 4, 2, 10)
    with buckets.counters() as one:
        pass
    with buckets.counters() as again:
        assert again is one, "used by the next"
        with buckets.counters() as other:
            assert other is not one, "never in two hands"
    expected = find_candidates(buckets, chosen, probabilities)
    wild = chosen.copy()
    wild[3, 1, 1] = 5
    with raises(DataError, 3, "[-1, 4]"):
        find_candidates(buckets, wild, probabilities)
    np.testing.assert_array_equal(find_candidates(buckets, chosen, probabilities).labels, expected.labels)


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5])
def test_probabilities_must_be_finite_numbers_from_0(value: float) -> None:
    buckets, chosen, probabilities = made(3, 30, 5, 3, 4, 2, 10)
    probabilities[2, 1, 0] = value
    with raises(DataError, "finite", 2, 0):
        find_candidates(buckets, chosen, probabilities)


def test_lists_that_name_a_label_twice_do_no_harm() -> None:
    offsets, members = np.array([[0, 2, 4]]), np.array([[1, 1, 1, 1]], np.int32)
    wild = Buckets(np.zeros((1, 4), np.int32), 2, offsets, members)
    chosen, weights = np.array([[[0, 1]]], np.int32), np.ones((1, 1, 2), np.float32)
    assert find_candidates(wild, chosen, weights, limit=1).labels.tolist() == [1]


def test_lists_that_do_not_rise_are_counted_all_the_same() -> None:
    n = 20_000  # more than a block of labels
    falling = np.arange(n, dtype=np.int32)[::-1].reshape(1, n).copy()
    wild = Buckets(np.zeros((1, n), np.int32), 1, np.array([[0, n]]), falling)
    found = find_candidates(wild, np.zeros((1, 1, 1), np.int32), np.ones((1, 1, 1), np.float32))
    assert found.labels.tolist() == list(range(n))


def test_the_door_holds_the_sizes() -> None:
    buckets, chosen, probabilities = made(3, 30, 5, 3, 4, 2, 10)
    counters = kernels.BucketCounters(30, 5, 3)
    good = (buckets.handle, counters, chosen, probabilities, 0, 4, 1, True, 30, True)
    assert kernels.bucket_candidates(*good)[0] == -1
    for at, value in (
        (1, kernels.BucketCounters(29, 5, 3)), (1, kernels.BucketCounters(30, 4, 3)),
        (1, kernels.BucketCounters(30, 5, 4)), (2, chosen[:, :2].copy()), (3, probabilities[:, :, :1].copy()),
        (4, -1), (5, 5), (6, -1), (8, -1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"are|is|needed|disagree"):
            kernels.bucket_candidates(*good[:at], value, *good[at + 1 :])
    with raises(ValueError, "range"):
        kernels.BucketCounters(-1, 5, 3)


def test_counters_in_use_are_refused() -> None:
    buckets, chosen, probabilities = made(5, 40_000, 4, 30, 40, 4, 10)
    counters = kernels.BucketCounters(40_000, 4, 30)
    errors: list[str] = []

    def call() -> None:
        try:
            kernels.bucket_candidates(buckets.handle, counters, chosen, probabilities, 0, 40, 1, True, 10, True)
        except ValueError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(errors) <= {"the counters are in use"}
