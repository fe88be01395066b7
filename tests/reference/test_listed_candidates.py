"""Which candidates a reranker learns from, and how much each weighs, beside loops over rows and places."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan import TopK
from sylvan.models.reranker.learning import Candidates
from sylvan.ranking.boosted_trees import GROWERS, Growing, Rows

K = 24
ROW = st.tuples(st.lists(st.booleans(), max_size=K), st.integers(1, 12).map(lambda quarters: quarters / 4))
N_DRAWS = 300


def candidates_of(rows: list[tuple[list[bool], float]], k: int = K) -> Candidates:
    """A row of one candidate for each of its truths; each tells its row and its place, from 1, in its columns."""
    labels = np.full((len(rows), k), -1, np.int32)
    scores = np.full((len(rows), k), -np.inf, np.float32)
    right = np.zeros((len(rows), k), bool)
    columns = np.zeros((len(rows), k, 2), np.float32)
    for row, (truths, _) in enumerate(rows):
        for place, truth in enumerate(truths[:k]):
            labels[row, place], scores[row, place], right[row, place] = place, 1 - place / (k + 1), truth
            columns[row, place] = row, place + 1
    return Candidates(TopK(labels, scores), columns, right, np.array([weight for _, weight in rows], np.float32))


def check(found: Rows, rows: list[tuple[list[bool], float]], drawn: bool) -> None:
    """Everything but which of the wrong ones are drawn."""
    listed = [(int(row), int(place)) for row, place in found.columns]
    assert listed == sorted(set(listed)), "row by row, each by place and once"
    assert found.columns.dtype == found.weight.dtype == np.float32
    assert len(found.right) == len(found.weight) == len(listed)
    for (row, place), right, weight in zip(listed, found.right.tolist(), found.weight.tolist(), strict=True):
        truths, own = rows[row]
        assert right == truths[place - 1]
        times = max(1, place / 5) if drawn and not right else 1
        assert weight == pytest.approx(own * times, rel=1e-6)
    there = set(listed)
    for row, (truths, _) in enumerate(rows):
        for place, truth in enumerate(truths, 1):
            assert (row, place) in there or (drawn and not truth and place > 5)
    sizes = [sum(one == row for one, _ in listed) for row in range(len(rows))]
    assert found.groups.dtype == np.int64
    assert found.groups.tolist() == [size for size in sizes if size], "none has none"


@settings(max_examples=40, deadline=None)
@given(st.lists(ROW, max_size=6), st.integers(0, 2**32 - 1))
def test_what_is_listed(rows: list[tuple[list[bool], float]], seed: int) -> None:
    candidates = candidates_of(rows)
    check(candidates.listed(None), rows, drawn=False)
    found = candidates.listed(seed)
    check(found, rows, drawn=True)
    for one, other in zip(found, candidates.listed(seed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_rows_no_candidates_and_a_single_one() -> None:
    for seed in (None, 3):
        for rows, k in (([], 4), ([], 0), ([([], 1.0)] * 2, 0), ([([], 1.0)] * 2, 3)):
            found = candidates_of(rows, k).listed(seed)
            assert found.columns.shape == (0, 2) and found.groups.tolist() == []
        check(candidates_of([([], 1.0), ([False], 2.0)], 1).listed(seed), [([], 1.0), ([False], 2.0)], True)


def drawn_often(n_rows: int) -> np.ndarray:
    """Which wrong candidates are kept in each of many draws, of rows whose third and twentieth are right."""
    truths = [place in (3, 20) for place in range(1, K + 1)]
    rows = [(truths, 2.0)] * n_rows
    kept = np.zeros((N_DRAWS, n_rows, K))
    for seed in range(N_DRAWS):
        found = candidates_of(rows).listed(seed)
        check(found, rows, drawn=True)
        at = found.columns.astype(int)
        kept[seed, at[:, 0], at[:, 1] - 1] = found.weight
    return kept


def test_the_weights_of_wrong_candidates_are_unbiased_at_each_place() -> None:
    """Five times the standard deviation of a mean of independent draws is what none of the places may be off."""
    n_rows = 6
    weights = drawn_often(n_rows)
    shares = np.array([1.0 if place in (3, 20) else min(1.0, 5 / place) for place in range(1, K + 1)])
    off = 5 * np.sqrt((shares * (1 - shares)).sum() * N_DRAWS * n_rows)
    assert (weights > 0).sum() == pytest.approx(shares.sum() * N_DRAWS * n_rows, abs=off)
    for place in range(1, K + 1):
        at = weights[:, :, place - 1]
        share = float(shares[place - 1])
        off = 5 * np.sqrt((1 - share) * share / at.size)
        assert (at > 0).mean() == pytest.approx(share, abs=off + 1e-9), place
        assert at.mean() == pytest.approx(2.0, abs=2.0 * off / share + 1e-6), place
        by_row = (at > 0).mean(axis=0)
        assert by_row == pytest.approx(np.full(n_rows, share), abs=off * np.sqrt(n_rows) + 1e-9), place


def test_rows_and_places_are_drawn_apart_from_each_other() -> None:
    kept = drawn_often(2)[:, :, [9, 14, 22]] > 0  # of 3 places of 2 rows
    together = np.corrcoef(kept.reshape(N_DRAWS, -1).T)
    assert np.abs(together - np.eye(6)).max() < 5 / np.sqrt(N_DRAWS)


def test_rows_without_candidates_change_no_order() -> None:
    pytest.importorskip("lightgbm")
    random = np.random.default_rng(4)
    rows = [((random.random(12) < 0.3).tolist(), 1 + row % 3) for row in range(200)]
    growing = Growing("rank", n_trees=2, depth=2, learning_rate=0.3, seed=0, n_jobs=1)
    listed = candidates_of(rows).listed(None)
    wanted = GROWERS["lightgbm"](listed, growing)
    for at in (0, 7, 200):
        more = candidates_of([*rows[:at], ([], 9.0), ([], 0.0), *rows[at:]]).listed(None)
        found = GROWERS["lightgbm"](more._replace(columns=listed.columns), growing)  # which tell rows' numbers
        for one, other in zip(found.to_arrays().values(), wanted.to_arrays().values(), strict=True):
            np.testing.assert_array_equal(one, other)
