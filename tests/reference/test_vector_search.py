"""Searching vectors in buckets equals what plain loops find, whatever the settings, after adding and removing too."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.buckets import Buckets, hash_partition
from sylvan.models.irli.search import BucketedVectors, SearchSettings, choose_settings
from sylvan.models.irli.vectors import METRICS, comparable

HIDDEN = 4


def made(n: int, width: int, n_buckets: int, n_repetitions: int, metric: str, seed: int) -> BucketedVectors:
    """Vectors in buckets by hashing, and networks that nobody has trained."""
    rng = np.random.default_rng(seed)

    def random(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    network = BucketNetwork(
        random(width, n_repetitions * HIDDEN),
        random(n_repetitions * HIDDEN),
        random(n_repetitions, HIDDEN, n_buckets),
        random(n_repetitions, n_buckets),
    )
    buckets = Buckets.from_assignment(hash_partition(n, n_buckets, n_repetitions, seed), n_buckets)
    return BucketedVectors(comparable(random(n, width), metric), metric, buckets, network)


def slowly(index: BucketedVectors, query: np.ndarray, k: int, wanted: SearchSettings) -> tuple[list[int], int]:
    """The ids that a search should give, and how many candidates there are, by plain loops."""
    chosen, probabilities = index.network.top(query[None], wanted.probes)
    votes: dict[int, int] = {}
    sums: dict[int, np.float32] = {}
    for repetition in range(index.buckets.n_repetitions):
        opened = dict(zip(chosen[0, repetition].tolist(), probabilities[0, repetition], strict=True))
        for label, bucket in enumerate(index.buckets.assignment[repetition].tolist()):
            if bucket in opened:
                votes[label] = votes.get(label, 0) + 1
                sums[label] = np.float32(sums.get(label, np.float32(0)) + opened[bucket])
    found = [label for label in votes if votes[label] >= wanted.min_votes]
    by_votes = wanted.order == "votes"
    found.sort(key=lambda label: (-votes[label] if by_votes else 0, -float(sums[label]), label))
    candidates = found[: wanted.candidates]
    nearness = [distance(index, query, label) for label in candidates]
    order = sorted(range(len(candidates)), key=lambda i: (nearness[i], candidates[i]))
    return [candidates[i] for i in order[:k]], len(candidates)


def distance(index: BucketedVectors, query: np.ndarray, label: int) -> float:
    one, other = query.astype(np.float64), index.base[label].astype(np.float64)
    return float(((one - other) ** 2).sum()) if index.metric == "euclidean" else -float(one @ other)


shapes = st.tuples(
    st.integers(1, 60), st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.sampled_from(METRICS),
    st.integers(0, 2**20),
)  # fmt: skip
wishes = st.builds(
    lambda probes, votes, order, n: SearchSettings(probes, votes, order, n),
    st.integers(1, 6), st.integers(1, 4), st.sampled_from(["votes", "probability"]),
    st.one_of(st.none(), st.integers(1, 30)),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(shapes, wishes, st.integers(1, 8), st.sampled_from([1, 3]))
def test_search(shape: tuple[int, int, int, int, str, int], wanted: SearchSettings, k: int, n_jobs: int) -> None:
    index = made(*shape)
    n, width, n_buckets, n_repetitions, metric, seed = shape
    rng = np.random.default_rng(seed + 1)
    index = index.without(np.flatnonzero(rng.random(n) < 0.2))
    index = index.grown(comparable(rng.normal(size=(5, width)), metric), 2, 0, 1)
    queries = comparable(rng.normal(size=(9, width)), metric)
    wanted = SearchSettings(
        min(wanted.probes, n_buckets), min(wanted.min_votes, n_repetitions), wanted.order, wanted.candidates
    )
    ids, distances, counts = index.search(queries, k, wanted, n_jobs)
    for row, query in enumerate(queries):
        expected, n_candidates = slowly(index, query, k, wanted)
        assert counts[row] == n_candidates
        got = [label for label in ids[row].tolist() if label >= 0]
        assert len(got) == len(expected) and ids[row].tolist() == got + [-1] * (k - len(got))
        near = [distance(index, query, label) for label in got]
        # Distances that float32 can't tell apart may change places.
        np.testing.assert_allclose(near, [distance(index, query, label) for label in expected], rtol=1e-4, atol=1e-5)
        near = np.array(near) if metric == "euclidean" else -np.array(near)
        shown = np.sqrt(near) if metric == "euclidean" else np.maximum(1 - near, 0) if metric == "angular" else near
        np.testing.assert_allclose(distances[row, : len(got)], shown, rtol=1e-4, atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(shapes, st.sampled_from(["votes", "probability"]), st.floats(0.05, 1), st.integers(1, 5))
def test_chosen_settings(shape: tuple[int, int, int, int, str, int], order: str, recall: float, k: int) -> None:
    """They find what they promise, and no cheaper number of candidates does with as many probes."""
    index = made(*shape)
    queries = comparable(np.random.default_rng(shape[-1] + 2).normal(size=(12, shape[1])), shape[4])
    nearest = index.nearest(queries, k, None, 1)
    tuning = choose_settings(index, queries, nearest, recall=recall, order=order, n_jobs=1)

    def reached(wanted: SearchSettings) -> float:
        ids = index.search(queries, shape[0], wanted, 1)[0]
        hits = sum(len(set(a) & set(b) - {-1}) for a, b in zip(ids.tolist(), nearest.tolist(), strict=True))
        return hits / int((nearest >= 0).sum())

    found = tuning.settings
    assert abs(reached(found) - tuning.recall) < 1e-9 and tuning.recall >= recall - 1e-9
    counts, raised = index.count(queries, found, 1)
    assert counts.mean() == tuning.n_candidates and raised.mean() == tuning.n_counted
    if order == "votes" and found.min_votes < index.buckets.n_repetitions:
        assert reached(SearchSettings(found.probes, found.min_votes + 1, order, None)) < recall
    if found.candidates is not None and found.candidates > 1:
        assert reached(SearchSettings(found.probes, 1, order, found.candidates - 1)) < recall
