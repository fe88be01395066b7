"""Joining rankings, beside a slow and obvious reference implementation; and weights beside trying many."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan import TopK, kernels
from sylvan.arrays import validate
from sylvan.ranking.ensemble import WAYS, combine_rankings, fit_weights, mean_score


def slow_combine(
    tops: list[TopK], weights: list[float], k: int, how: str, votes: int
) -> tuple[list[list[int]], list[list[float]]]:
    """The same with dicts."""
    labels, scores = [], []
    for row in range(len(tops[0])):
        sums: dict[int, float] = {}
        for top, weight in zip(tops, weights, strict=True):
            for place, (label, score) in enumerate(zip(top.labels[row], top.scores[row], strict=True)):
                if label < 0:
                    continue
                if how == "score":
                    gain = float(score)
                elif how == "average_rank":
                    continue
                elif how == "reciprocal_rank":
                    gain = 1 / (place + 1)
                else:
                    continue
                sums[int(label)] = sums.get(int(label), 0.0) + weight * gain
        if how == "average_rank":
            sums = average_ranks(row, tops, weights)
        if how == "count":
            best = by_votes(row, tops, weights, votes)[:k]
            labels.append(best + [-1] * (k - len(best)))
            scores.append([])
            continue
        best = sorted(sums, key=lambda label: (-np.float32(sums[label]), label))[:k]
        labels.append(best + [-1] * (k - len(best)))
        scores.append([sums[label] for label in best] + [-np.inf] * (k - len(best)))
    return labels, scores


def by_votes(row: int, tops: list[TopK], weights: list[float], votes: int) -> list[int]:
    """Labels by the weight of the members that have them among their first, then by mean scores, then by number."""
    voted: dict[int, Fraction] = {}
    scores: dict[int, float] = {}
    for top, weight in zip(tops, weights, strict=True):
        for place, (label, score) in enumerate(zip(top.labels[row].tolist(), top.scores[row].tolist(), strict=True)):
            if label >= 0:
                exact = Fraction(weight).limit_denominator(10_000)
                voted[label] = voted.get(label, Fraction(0)) + exact * (place < votes)
                scores[label] = scores.get(label, 0.0) + weight * score
    return sorted(voted, key=lambda label: (-voted[label], -np.float32(scores[label]), label))


def average_ranks(row: int, tops: list[TopK], weights: list[float]) -> dict[int, float]:
    """How far each label's mean place is above the one after all places, as a share of the places."""
    places = max(top.k for top in tops)
    answers = [[int(label) for label in top.labels[row] if label >= 0] for top in tops]
    means = {
        label: sum(
            weight * (answer.index(label) if label in answer else places)
            for answer, weight in zip(answers, weights, strict=True)
        )
        for answer in answers for label in answer
    }  # fmt: skip
    return {label: (places - mean) / places for label, mean in means.items()}


def ranking(random: np.random.Generator, n: int, width: int, n_labels: int) -> TopK:
    """Scores in quarters, so that there are ties and sums are exact; some rows are short."""
    labels = np.full((n, width), -1, np.int32)
    scores = np.full((n, width), -np.inf, np.float32)
    for row in range(n):
        found = random.choice(n_labels, random.integers(0, width + 1), replace=False)
        labels[row, : len(found)] = found
        scores[row, : len(found)] = np.sort(random.integers(0, 5, len(found)) / 4)[::-1]
    return TopK(labels, scores)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9), st.sampled_from(WAYS), st.integers(1, 12))
def test_combine_rankings_equals_its_reference(seed: int, n_tops: int, width: int, how: str, k: int) -> None:
    random = np.random.default_rng(seed)
    n_labels = int(random.integers(width, 40))
    tops = [ranking(random, 5, width, n_labels) for _ in range(n_tops)]
    weights = (2.0 ** -np.arange(1, n_tops + 1)).tolist()
    weights[-1] = 1 - sum(weights[:-1])  # of sum 1, and exact
    found = combine_rankings(tops, np.array(weights), k, how=how, votes=3)
    labels, scores = slow_combine(tops, weights, k, how, 3)
    if how != "count":
        np.testing.assert_allclose(found.scores, np.array(scores, np.float32), rtol=1e-6)
    if how in ("score", "count"):  # sums of the other ways are rounded, and ties need not stay ties
        assert found.labels.tolist() == labels


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_many_rows_and_labels_beyond_any_table(n_jobs: int) -> None:
    random = np.random.default_rng(5)
    tops = [ranking(random, 1300, 6, 2**20) for _ in range(3)]
    tops[0].labels[0, :2], tops[0].scores[0, :2] = (2**31 - 1, 0), (1, 1)
    found = mean_score(tops, 7, n_jobs)
    alone = [mean_score([TopK(top.labels[[i]], top.scores[[i]]) for top in tops], 7) for i in range(1300)]
    assert found.labels.tobytes() == b"".join(top.labels.tobytes() for top in alone)
    assert found.scores.tobytes() == b"".join(top.scores.tobytes() for top in alone)
    labels, _ = slow_combine(tops, [1 / 3] * 3, 7, "score", 1)
    assert found.labels[0].tolist() == labels[0]


def test_a_vote_outweighs_scores_and_scores_decide_between_equal_votes() -> None:
    one = TopK(np.array([[0, 1, 2]], np.int32), np.array([[1.0, 0.2, 0.1]], np.float32))
    two = TopK(np.array([[1, 3, 2]], np.int32), np.array([[0.3, 0.3, 0.1]], np.float32))
    found = combine_rankings([one, two], np.array([0.5, 0.5]), 4, how="count", votes=2)
    assert found.labels.tolist() == [[1, 0, 3, 2]]


@pytest.mark.parametrize(
    "weights",
    [[0.5, 0.3, 0.2], [0.34, 0.33, 0.33], [1 / 3, 1 / 3, 1 / 3], [0.45, 0.449, 0.101], [0.7, 0.2, 0.1],
     [0.4, 0.3, 0.2, 0.1], [1 / 3, 1 / 6, 1 / 4, 1 / 4], [1 / 13] * 13, [1.0]],
)  # fmt: skip
def test_votes_decide_whatever_the_weights_and_scores_only_between_equal_votes(weights: list[float]) -> None:
    random = np.random.default_rng(7)
    tops = []
    for _ in weights:
        labels = np.array([random.permutation(30)[:20] for _ in range(60)], np.int32)
        scores = np.sort(random.random((60, 20)) ** random.integers(1, 9, (60, 1)))[:, ::-1].astype(np.float32)
        tops.append(TopK(labels, np.ascontiguousarray(scores)))
    found = combine_rankings(tops, np.array(weights), 12, how="count", votes=5, n_jobs=2)
    assert found.labels.tolist() == [by_votes(row, tops, weights, 5)[:12] for row in range(60)]
    assert (np.diff(found.scores, axis=1) <= 0).all() and found.scores.min() >= 0 and found.scores.max() <= 1
    row = [top.of_rows(slice(7, 8)) for top in tops]
    part = combine_rankings(row, np.array(weights), 12, how="count", votes=5)
    assert part.scores.tobytes() == found.scores[7:8].tobytes()


def precision(tops: list[TopK], truth: validate.Csr, weights: np.ndarray) -> float:
    labels = combine_rankings(tops, weights, 5).labels
    rows = [set(truth.indices[a:b].tolist()) for a, b in itertools.pairwise(truth.indptr)]
    hits = np.array([[label in row for label in found] for found, row in zip(labels.tolist(), rows, strict=True)])
    return float(sum(hits[:, :k].mean() for k in (1, 3, 5)))


def test_fitted_weights_are_no_worse_than_equal_ones_or_a_single_member() -> None:
    random = np.random.default_rng(3)
    truth = validate.labels([sorted(random.permutation(30)[:4].tolist()) for _ in range(200)], n_labels=30)
    tops = []
    for noise in (0.3, 1.0, 30.0):  # the last one knows nothing
        scores = np.clip(truth.to_scipy().toarray() * 0.5 + random.random((200, 30)) * noise, 0, 60) / 60
        order = np.argsort(-scores, axis=1)[:, :20].astype(np.int32)
        tops.append(TopK(order, np.take_along_axis(scores, order, 1).astype(np.float32)))
    weights = fit_weights(tops, truth)
    assert weights.sum() == pytest.approx(1) and weights.min() >= 0
    assert weights[2] < 0.05
    others = [np.full(3, 1 / 3), *np.maximum(np.eye(3), 1e-12)]
    assert all(precision(tops, truth, weights) >= precision(tops, truth, other) for other in others)
    assert fit_weights(tops, truth, n_jobs=2).tobytes() == weights.tobytes()
    assert fit_weights(tops[:1], truth).tolist() == [1.0]


def test_weights_are_fitted_to_the_first_five_places() -> None:
    """What is right is fifth in one ranking and in the other nowhere; the first step, half more, is enough."""
    scores = np.array([[0.9, 0.8, 0.7, 0.6, 0.5]], np.float32)
    tops = [TopK(np.array([labels], np.int32), scores) for labels in ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9])]
    for right, better in ((4, 0), (9, 1)):
        weights = fit_weights(tops, validate.labels([[right]], n_labels=10))
        assert weights[[better, 1 - better]] == pytest.approx([2 / 3, 1 / 3])


TIMES = st.lists(st.integers(0, 3), min_size=2, max_size=30)


def members_of(random: np.random.Generator, n: int) -> tuple[list[TopK], validate.Csr]:
    """Two members, each of which knows other rows and labels, and one that knows little; and the truth."""
    truth = validate.labels([sorted(random.permutation(15)[:3].tolist()) for _ in range(n)], n_labels=15)
    right = truth.to_scipy().toarray()
    noises = [np.where(np.arange(15) % 2 == odd, 0.5, 2.0) + random.random((n, 1)) for odd in (0, 1)]
    tops = []
    for noise in (*noises, np.full((n, 1), 3.0)):
        scores = (right + random.random((n, 15)) * noise) / 4
        order = np.argsort(-scores, axis=1)[:, :8].astype(np.int32)
        tops.append(TopK(order, np.take_along_axis(scores, order, 1).astype(np.float32)))
    return tops, truth


def taken(tops: list[TopK], truth: validate.Csr, rows: np.ndarray) -> tuple[list[TopK], validate.Csr]:
    return [TopK(top.labels[rows], top.scores[rows]) for top in tops], truth.take(rows)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), TIMES.filter(any), st.sampled_from(WAYS))
def test_a_row_s_weight_is_how_often_it_stands_there(seed: int, times: list[int], how: str) -> None:
    """Rows of weight 0 are as good as left out."""
    tops, truth = members_of(np.random.default_rng(seed), len(times))
    weight = np.array(times, np.float32)
    found = fit_weights(tops, truth, how=how, sample_weight=weight)
    used = np.flatnonzero(weight)
    assert fit_weights(*taken(tops, truth, used), how=how, sample_weight=weight[used]).tolist() == found.tolist()
    repeated = np.repeat(np.arange(len(times)), times)
    assert fit_weights(*taken(tops, truth, repeated), how=how).tolist() == found.tolist()
    ones = np.ones(len(times), np.float32)
    plain = fit_weights(tops, truth, how=how)
    assert fit_weights(tops, truth, how=how, sample_weight=ones).tolist() == plain.tolist()
    for alike in (4 * weight, weight / 4):  # by powers of two, so that sums stay exact
        assert fit_weights(tops, truth, how=how, sample_weight=alike).tolist() == found.tolist()


def weighed_precision(tops: list[TopK], truth: validate.Csr, weights: np.ndarray, of_rows: np.ndarray) -> float:
    """Row by row."""
    alone = [precision(*taken(tops, truth, np.array([row])), weights) for row in range(len(of_rows))]
    return float(np.average(alone, weights=of_rows))


def test_fitted_weights_are_those_of_the_rows_that_weigh_more() -> None:
    tops, truth = members_of(np.random.default_rng(8), 120)
    known = [np.arange(120) < 60, np.arange(120) >= 60]  # by each of the first two
    for top, rows in zip(tops, known, strict=False):
        top.labels[~rows] = (top.labels[~rows] + 1) % 15
    for best in (0, 1):
        of_rows = np.where(known[best], 1, 1 / 64).astype(np.float32)
        found = fit_weights(tops[:2], truth, sample_weight=of_rows)
        assert found[best] > 0.7
        for other in ([0.5, 0.5], [1, 1e-12], [1e-12, 1]):
            theirs, own = (weighed_precision(tops[:2], truth, tried, of_rows) for tried in (np.array(other), found))
            assert own >= theirs - 1e-9


def test_the_door_refuses_arrays_that_disagree() -> None:
    labels, values = np.zeros((2, 3), np.int32), np.zeros((2, 3), np.float32)
    out = np.zeros((2, 1), np.int32), np.zeros((2, 1), np.float32)
    for bad in (
        (labels, values[:1], 0, 1, *out),
        (labels, values, 0, 3, *out),
        (labels, values, -1, 1, *out),
        (labels, values, 0, 2, out[0], np.zeros((2, 2), np.float32)),
        (labels, values, 0, 2, out[0][:1], out[1][:1]),
        (labels[:, :0], values[:, :0], 0, 2, *out),
    ):
        with pytest.raises(ValueError):
            kernels.merge_rankings(*bad)
