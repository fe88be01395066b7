"""The comparisons by chance that other tests rely on: they fail as often as they say."""

import numpy as np
import pytest
from kit import chance
from scipy import stats

SHARES = 1 / np.arange(1, 41) / (1 / np.arange(1, 41)).sum()  # Zipf's law


def test_what_is_right_has_p_values_of_every_size() -> None:
    """Down to where they can be counted: of 10,000 samples, with rare classes pooled."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(400, SHARES, 10_000)
    found = np.array([chance.p_value(np.repeat(np.arange(40), row), SHARES) for row in counts])
    for share in (0.1, 0.01, 0.001):
        assert (found < share).mean() == pytest.approx(share, abs=chance.SIGMAS * np.sqrt(share / 10_000))


@pytest.mark.parametrize("off_by", [0.05, 0.2])
def test_what_is_off_is_noticed(off_by: float) -> None:
    rng, n = np.random.default_rng(1), chance.draws_needed(40, off_by)
    signs = np.where(np.arange(40) % 2, 1.0, -1.0)
    wrong = SHARES * (1 + off_by * (signs - signs @ SHARES))
    noticed = [chance.p_value(rng.choice(40, n, p=wrong / wrong.sum()), SHARES) < chance.FALSE_ALARM for _ in range(40)]
    assert sum(noticed) >= stats.binom.isf(1 - 1e-3, 40, 0.97)
    with pytest.raises(AssertionError, match="too few"):
        chance.assert_drawn_by(rng.choice(40, n - 1, p=SHARES), SHARES, off_by)
    chance.assert_drawn_by(rng.choice(40, n, p=SHARES), SHARES, off_by)


def test_what_cannot_be_drawn_is_noticed() -> None:
    assert chance.p_value([0] * 999 + [2], [0.5, 0.5, 0.0]) == 0
    assert chance.p_value([0] * 1000, [1.0]) == 1


def test_a_mean_that_is_off_is_noticed() -> None:
    values = np.random.default_rng(2).exponential(size=20_000)
    chance.assert_mean(values, 1.0, off_by=0.06)
    with pytest.raises(AssertionError, match="is not"):
        chance.assert_mean(values, 1.06, off_by=0.06)
    with pytest.raises(AssertionError, match="too few"):
        chance.assert_mean(values[:10_000], 1.0, off_by=0.06)
