"""What a threshold or a number of answers gives: as counted row by row, pair by pair."""

import numpy as np
import pytest

from sylvan.arrays.topk import TopK
from sylvan.metrics.pairs import GRID, Pairs, threshold_for


def ranking(n: int = 60, n_labels: int = 12, k: int = 5, seed: int = 0) -> tuple[list[list[int]], TopK]:
    """Rows with one to three labels and up to k answers with probabilities, many of them equal."""
    rng = np.random.default_rng(seed)
    truth = [sorted(rng.choice(n_labels, int(rng.integers(1, 4)), replace=False).tolist()) for _ in range(n)]
    labels = np.stack([rng.permutation(n_labels)[:k] for _ in range(n)]).astype(np.int32)
    scores = np.sort(rng.choice([0.05, 0.3, 0.5, 0.7, 0.95], (n, k)), axis=1)[:, ::-1].astype(np.float32)
    missing = np.arange(k) >= rng.integers(0, k + 1, n)[:, None]
    return truth, TopK(np.where(missing, np.int32(-1), labels), np.where(missing, np.float32(-np.inf), scores))


def by_hand(truth: list[list[int]], top: TopK, chosen: object, members: set[int]) -> dict[str, float]:
    """The same, a row after another."""
    named = right = true = none = all_right = 0
    for row, labels in enumerate(truth):
        listed = [(int(label), float(score)) for label, score in zip(top.labels[row], top.scores[row], strict=True)]
        answers = [label for place, (label, score) in enumerate(listed) if label in members and chosen(place, score)]
        hits = [label for label in answers if label in labels]
        named, right = named + len(answers), right + len(hits)
        true += len(members.intersection(labels))
        none, all_right = none + (not answers), all_right + (len(answers) == len(hits) > 0)
    return {
        "precision": right / named if named else np.nan, "recall": right / true if true else np.nan,
        "f1": 2 * right / (named + true), "labels": named / len(truth), "none": none / len(truth),
        "all_right": all_right / len(truth),
    }  # fmt: skip


@pytest.mark.parametrize("members", [set(range(12)), {0, 3, 7}], ids=["all", "some"])
def test_rates_are_those_of_a_loop(members: set[int]) -> None:
    truth, top = ranking()
    pairs, mask = Pairs.of(truth, top), np.isin(np.arange(12), list(members))
    for threshold in (0.0, 0.3, 0.5, 0.7, 0.96):
        found = pairs.rates(pairs.from_threshold(threshold), None if len(members) == 12 else mask)
        least = np.float32(threshold)
        wanted = by_hand(truth, top, lambda place, score, least=least: score >= least, members)
        assert found == pytest.approx(wanted, nan_ok=True)
    for k in (1, 2, 5):
        wanted = by_hand(truth, top, lambda place, score, k=k: place < k, members)
        assert pairs.rates(pairs.first(k), mask) == pytest.approx(wanted, nan_ok=True)


def test_precisions_at_all_thresholds() -> None:
    truth, top = ranking(seed=2)
    pairs, mask = Pairs.of(truth, top), np.arange(12) < 4
    for members in (None, mask):
        one_by_one = [pairs.rates(pairs.from_threshold(threshold), members)["precision"] for threshold in GRID]
        assert pairs.precisions(members) == pytest.approx(one_by_one, nan_ok=True)
    chosen = pairs.from_threshold(GRID[40])
    of_labels = [pairs.right[chosen & (pairs.labels == label)] for label in range(12)]
    macro = np.mean([right.mean() for right in of_labels if len(right)])
    assert pairs.macro_precisions()[40] == pytest.approx(macro)


def test_the_lowest_threshold_for_a_precision() -> None:
    precisions = np.full(99, np.nan)
    precisions[10:20], precisions[20:40], precisions[50] = 0.4, 0.8, 0.95
    assert threshold_for(precisions, 0.7) == GRID[20]
    assert threshold_for(precisions, 0.9) == GRID[50]
    assert threshold_for(precisions, 0.99) is None


def test_intervals_are_around_their_rates() -> None:
    truth, top = ranking(400, seed=4)
    pairs = Pairs.of(truth, top)
    chosen = pairs.from_threshold(0.3)
    rates = pairs.rates(chosen)
    for name, (low, high) in pairs.intervals(chosen).items():
        assert low < rates[name] < high
    named, right, true = pairs.counts(chosen).T
    draws = np.random.default_rng(1).integers(0, 400, (2000, 400))
    f1 = [2 * right[rows].sum() / (named[rows].sum() + true[rows].sum()) for rows in draws]
    assert pairs.intervals(chosen)["f1"] == pytest.approx(tuple(np.quantile(f1, [0.025, 0.975])), abs=0.004)
