"""The stopping rules against enumeration of every outcome, and of every length."""

import itertools

import numpy as np
import pytest
from kit.errors import raises

from sylvan import TopK
from sylvan.errors import DataError, ParameterError
from sylvan.ranking import stopping
from sylvan.ranking.stopping import StoppingRule


def rows(seed: int, n: int, k: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    p = -np.sort(-(random.random((n, k)) ** random.choice([0.3, 1.0, 4.0], (n, 1))))
    p[: n // 3, k // 2 :] = 0
    return p


def slow_expected_f1(p: np.ndarray) -> np.ndarray:
    """Every outcome, its chance and its F1."""
    found = np.zeros(len(p))
    for truth in itertools.product([0, 1], repeat=len(p)):
        true = np.array(truth)
        chance = np.where(true, p, 1 - p).prod()
        for m in range(1, len(p) + 1):
            found[m - 1] += chance * 2 * true[:m].sum() / (m + true.sum())
    return found


@pytest.mark.parametrize("k", [1, 2, 5, 7])
def test_expected_f1_is_the_mean_over_all_outcomes(k: int) -> None:
    p = rows(k, 7, k)
    found = stopping.expected_f1(p)
    for row, fast in zip(p, found, strict=True):
        np.testing.assert_allclose(fast, slow_expected_f1(row), atol=1e-12)
    for most in (None, 1, 3):
        best = [int(slow[:most].argmax()) + 1 for slow in map(slow_expected_f1, p)]
        assert stopping.lengths_for_f1(p, most).tolist() == np.minimum(best, (p > 0).sum(axis=1)).tolist()


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    p = rows(0, 40, 30)
    whole = stopping.expected_f1(p)
    monkeypatch.setattr(stopping, "_BLOCK_VALUES", 3 * 30 * 31)
    assert (stopping.expected_f1(p) == whole).all()


def test_rows_without_answers_stay_empty() -> None:
    empty = np.zeros((2, 4))
    assert stopping.lengths_for_f1(empty).tolist() == [0, 0]
    assert stopping.lengths_for_f1(empty[:, :0]).tolist() == [0, 0]
    assert stopping.lengths_for_precision(empty, 0.5).tolist() == [0, 0]
    assert stopping.lengths_for_precision(empty[:, :0], 0.5).tolist() == [0, 0]


@pytest.mark.parametrize("precision", [0.1, 0.5, 0.75, 0.9, 1.0])
def test_the_longest_list_of_a_precision(precision: float) -> None:
    p = np.concatenate([rows(3, 50, 8), [[1, 1, 0.25, 0, 0, 0, 0, 0]]])
    for row, fast in zip(p, stopping.lengths_for_precision(p, precision), strict=True):
        lengths = [m for m in range(1, 9) if row[m - 1] > 0 and row[:m].mean() >= precision - 1e-12]
        assert fast == max(lengths, default=0)


TOP = TopK(
    np.array([[3, 1, 0, 2], [2, 0, 3, -1]], np.int32),
    np.array([[0.9, 0.6, 0.3, 0.1], [0.45, 0.4, 0.05, -np.inf]], np.float32),
)


def chosen(**rule: object) -> list[list[int]]:
    given = {"k": None, "threshold": None, "expected": None, "precision": None, **rule}
    found = StoppingRule.of(*given.values(), 4)(TOP)
    assert np.isneginf(found.scores[found.labels < 0]).all()
    return [[label for label in row if label >= 0] for row in found.labels.tolist()]


def test_what_each_rule_picks() -> None:
    assert chosen() == [[3, 1], []]
    assert chosen(threshold=0.4) == [[3, 1], [2, 0]]
    assert chosen(threshold=0.0) == [[3, 1, 0, 2], [2, 0, 3]]
    assert chosen(threshold=[0.3, 1.0, 0.1, 1.0]) == [[0, 2], [2, 0]]
    assert chosen(threshold=[0.3, 1.0, 0.1, 1.0], k=1) == [[0], [2]]
    assert chosen(k=2) == [[3, 1], [2, 0]]
    assert chosen(k=9) == [[3, 1, 0, 2], [2, 0, 3]]
    assert chosen(precision=0.7) == [[3, 1], []]
    assert chosen(precision=0.4, k=3) == [[3, 1, 0], [2, 0]]
    assert chosen(expected="f1") == [[3, 1], [2, 0]]
    assert chosen(expected="f1", k=1) == [[3], [2]]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"threshold": 0.5, "precision": 0.9}, ("precision", "stop")),
        ({"expected": "f1", "threshold": 0.5}, ("expected", "threshold")),
        ({"expected": "F2"}, ("expected", "f1", "None", "F2")), ({"precision": 0}, ("precision", "(0, 1]", 0)),
        ({"precision": 1.5}, "1.5"), ({"threshold": -0.1}, ("threshold", "[0, 1]", "-0.1")),
        ({"threshold": "high"}, "high"), ({"k": 0}, ("'k'", 0)),
    ],
)  # fmt: skip
def test_rules_that_make_no_sense(rule: dict[str, object], words: object) -> None:
    with raises(ParameterError, words):
        chosen(**rule)


def test_thresholds_of_another_shape_or_range() -> None:
    with raises(DataError, "threshold holds text, but must hold numbers."):
        StoppingRule.of(None, ["0.5", "a"], None, None, 2)
    with raises(DataError, "(3,)", 4):
        chosen(threshold=[0.1, 0.2, 0.3])
    with raises(DataError, "[0, 1]", "nan", "label 2"):
        chosen(threshold=[0.1, 0.2, np.nan, 2.0])
