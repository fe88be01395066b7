"""Confidence intervals: against the bootstrap, against the plain formula, over batches, and their errors."""

from typing import Any

import numpy as np
import pytest
from kit.errors import raises

from sylvan import metrics
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError, ParameterError


def ranking(n: int, n_labels: int = 30, seed: int = 0) -> tuple[list[list[int]], TopK]:
    """Rows with one to four labels, and answers that are right about half of the time."""
    rng = np.random.default_rng(seed)
    truth = [rng.choice(n_labels, size=int(rng.integers(1, 5)), replace=False).tolist() for _ in range(n)]
    answers = np.stack([rng.permutation(n_labels)[:5] for _ in range(n)])
    for row, labels in enumerate(truth):
        if rng.random() < 0.6 and labels[0] not in answers[row]:
            answers[row, int(rng.integers(0, 3))] = labels[0]
    return truth, TopK(answers.astype(np.int32), np.tile(np.linspace(1, 0.2, 5, dtype=np.float32), (n, 1)))


def chosen(truth: list[list[int]], top: TopK, rows: Any) -> tuple[list[list[int]], TopK]:
    return [truth[row] for row in rows], TopK(top.labels[rows], top.scores[rows])


def test_widths_are_those_of_the_bootstrap() -> None:
    truth, top = ranking(400)
    likely = np.linspace(0.1, 0.9, 30)
    found = metrics.intervals(truth, top, at=(1, 3, 5), propensities=likely)
    rng = np.random.default_rng(1)
    draws = [
        metrics.evaluate(*chosen(truth, top, rng.integers(0, 400, 400)), at=(1, 3, 5), propensities=likely)
        for _ in range(400)
    ]
    for name, (low, high) in found.items():
        drawn = 2 * 1.96 * np.std([draw[name] for draw in draws])
        assert high - low == pytest.approx(drawn, rel=0.15), name
        assert low < metrics.evaluate(truth, top, at=(1, 3, 5), propensities=likely)[name] < high
    assert set(found) == {f"{name}@{k}" for name in ("P", "R", "nDCG", "F1", "PSP", "PSnDCG") for k in (1, 3, 5)}


def test_the_interval_of_a_mean_is_the_textbook_one() -> None:
    truth, top = ranking(50, seed=3)
    right = np.array([top.labels[row, 0] in labels for row, labels in enumerate(truth)], float)
    low, high = metrics.intervals(truth, top, at=1, confidence=0.9)["P@1"]
    error = right.std(ddof=1) / np.sqrt(50)
    assert (low + high) / 2 == pytest.approx(right.mean())
    assert high - low == pytest.approx(2 * 1.6448536 * error)


def test_batches_and_more_confidence() -> None:
    truth, top = ranking(90, seed=5)
    evaluator = metrics.Evaluator(at=3)
    for rows in (slice(0, 10), slice(10, 60), slice(60, 90)):
        evaluator.add(truth[rows], TopK(top.labels[rows], top.scores[rows]))
    assert evaluator.intervals()["R@3"] == pytest.approx(metrics.intervals(truth, top, at=3)["R@3"])
    wide, narrow = evaluator.intervals(0.99)["R@3"], evaluator.intervals(0.5)["R@3"]
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_one_row_says_nothing() -> None:
    top = TopK(np.array([[1]], np.int32), np.ones((1, 1), np.float32))
    assert metrics.intervals([[1]], top, at=1)["P@1"] == (0.0, 1.0)


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, "95%", None, float("nan")])
def test_confidence_out_of_range(confidence: Any) -> None:
    truth, top = ranking(5)
    with raises(ParameterError, "confidence", "(0, 1)"):
        metrics.intervals(truth, top, at=1, confidence=confidence)


def test_no_rows_to_measure() -> None:
    with raises(DataError, "Y", "true"):
        metrics.intervals([[]], TopK(np.array([[0]], np.int32), np.ones((1, 1), np.float32)), at=1)
