"""Intervals and tests by resampling: equal to slow loops over rows, and right as often as they say."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sylvan.metrics.resampling import difference, interval, patterns, resampled_sums, share_interval


def looped(values: np.ndarray, n_resamples: int, seed: int) -> np.ndarray:
    """The bootstrap as it is written in books: rows drawn one by one."""
    rng = np.random.default_rng(seed)
    return np.array([values[rng.integers(0, len(values), len(values))].sum(axis=0) for _ in range(n_resamples)])


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.1, 1 / 3])), min_size=1, max_size=40))
def test_patterns_are_the_distinct_rows(rows: list[tuple[int, float]]) -> None:
    distinct, counts = patterns(np.array(rows, float))
    result = {tuple(row): n for row, n in zip(distinct.tolist(), counts.tolist(), strict=True)}
    assert result == {tuple(map(float, row)): rows.count(row) for row in rows}


def test_sums_are_drawn_as_by_a_loop_over_rows() -> None:
    """The same means, spreads and correlation, and quantiles, within what chance allows."""
    rng = np.random.default_rng(3)
    values = np.stack([rng.integers(0, 4, 150), rng.random(150)], axis=1)
    values[:, 1] += values[:, 0]
    quick, slow = resampled_sums(values, 20_000), looped(values, 20_000, 1)
    assert quick.mean(axis=0) == pytest.approx(values.sum(axis=0), rel=0.01)
    assert np.cov(quick.T) == pytest.approx(np.cov(slow.T), rel=0.06)
    for share in (0.025, 0.5, 0.975):
        assert np.quantile(quick, share, axis=0) == pytest.approx(np.quantile(slow, share, axis=0), rel=0.01)


def test_the_same_seed_draws_the_same() -> None:
    values = np.random.default_rng(0).random((50, 2))
    assert np.array_equal(resampled_sums(values, 100, 7), resampled_sums(values, 100, 7))
    assert not np.array_equal(resampled_sums(values, 100, 7), resampled_sums(values, 100, 8))
    assert len(resampled_sums(np.arange(5.0)[:, None], 3)) == 3


@pytest.mark.parametrize(("n_rows", "share", "least"), [(50, 0.7, 0.90), (300, 0.9, 0.92), (1000, 0.5, 0.93)])
def test_intervals_hold_the_true_precision_as_often_as_they_say(n_rows: int, share: float, least: float) -> None:
    """Over many files of rows with one to four suggestions, those of a row being alike. Few rows hold it less often, as
    is known of percentiles; 400 files tell a coverage to about 1.1 points."""
    rng, held = np.random.default_rng(n_rows), 0
    for file in range(400):
        named = rng.integers(1, 5, n_rows)
        easy = rng.beta(4 * share, 4 * (1 - share), n_rows)  # of mean ``share``, whatever the number of suggestions
        low, high = share_interval(rng.binomial(named, easy), named, seed=file)
        held += low <= share <= high
    assert least <= held / 400 <= 0.98


def test_all_right_is_not_certainly_right() -> None:
    """Clopper and Pearson's bound for as many rows: 30 of 30 may be 88.4%."""
    some, none = np.ones(30), np.zeros(30)
    assert share_interval(some, some) == (pytest.approx(0.025 ** (1 / 30)), 1.0)
    assert share_interval(none, some) == (0.0, pytest.approx(1 - 0.025 ** (1 / 30)))
    assert all(np.isnan(share_interval(none, none)))


def test_other_confidences_and_figures() -> None:
    values = np.random.default_rng(5).random((400, 1))
    wide, narrow = (interval(values, lambda sums: sums[0] / 400, confidence) for confidence in (0.95, 0.5))
    error = values.std() / 20
    assert wide[1] - wide[0] == pytest.approx(2 * 1.96 * error, rel=0.08)
    assert narrow[1] - narrow[0] == pytest.approx(2 * 0.6745 * error, rel=0.08)


def exact_p(gaps: list[float]) -> float:
    """Of all ways in which rows' two values may change places, the share with as large a difference."""
    sums = [abs(sum(sign * gap for sign, gap in zip(signs, gaps, strict=True)))
            for signs in product((1, -1), repeat=len(gaps))]  # fmt: skip
    return sum(value >= abs(sum(gaps)) - 1e-9 for value in sums) / len(sums)


@given(st.lists(st.sampled_from([0.0, 0.2, -0.2, 0.5, -1 / 3, 1.0]), min_size=1, max_size=9))
def test_p_is_that_of_all_exchanges(gaps: list[float]) -> None:
    found = difference(np.zeros(len(gaps)), gaps)
    assert found.p == pytest.approx(exact_p(gaps), abs=0.015)
    assert found.mean == pytest.approx(np.mean(gaps))
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9


def test_p_is_even_where_there_is_no_difference() -> None:
    """Of files by equal models, 5% are below 0.05; and a clear difference is one."""
    rng, low = np.random.default_rng(0), 0
    for _ in range(300):
        first, second = rng.binomial(5, 0.4, (2, 80)) / 5
        low += difference(first, second).p <= 0.05
    assert 0.02 <= low / 300 <= 0.08
    clear = difference(first, first + 0.1)
    assert clear.p < 0.001 and clear.low == pytest.approx(clear.high) == pytest.approx(0.1)
