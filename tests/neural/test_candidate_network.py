"""The small network that orders candidates: the same bits, an easy order, rows that teach nothing, scores by a loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan.ranking.layered_scorer import LayeredScorer
from sylvan.ranking.tree_libraries import Growing, Rows
from sylvan.store import State

torch = pytest.importorskip("torch")

from sylvan.neural.candidate_network import train_network  # noqa: E402

GROWING = Growing("right", n_trees=1, depth=1, learning_rate=0.1, seed=0, n_jobs=1)
OBJECTIVES = ["right", "rank"]


def drawn(n_rows: int = 120, seed: int = 0) -> Rows:
    """Rows of one to nine candidates; right is the greatest sum of the first two columns. One says nothing, one varies
    by no more than a millionth, one is huge."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(1, 10, n_rows)
    n = int(groups.sum())
    columns = np.stack(
        [rng.normal(0, 1, n), rng.normal(0, 1, n), np.full(n, 3.0), 5 + rng.normal(0, 1e-6, n), rng.normal(0, 1e6, n)],
        axis=1,
    ).astype(np.float32)
    worth, ends = columns[:, 0] + columns[:, 1], np.cumsum(groups)
    right = np.zeros(n, bool)
    for first, last in zip(ends - groups, ends, strict=True):
        right[first + np.argmax(worth[first:last])] = True
    return Rows(columns, right, np.ones(n, np.float32), groups.astype(np.int64))


def hits(rows: Rows, scores: np.ndarray) -> float:
    """The share of rows whose best candidate is right."""
    ends = np.cumsum(rows.groups)
    best = [first + int(np.argmax(scores[first:last])) for first, last in zip(ends - rows.groups, ends, strict=True)]
    return float(rows.right[best].mean())


def same(one: LayeredScorer, other: LayeredScorer) -> bool:
    pairs = zip(one.to_arrays().values(), other.to_arrays().values(), strict=True)
    return all(first.tobytes() == second.tobytes() for first, second in pairs)


def many(seed: int = 0) -> Rows:
    """Rows of 60 candidates: sums over a batch are large enough that threads would share them."""
    columns = np.random.default_rng(seed).normal(0, 1, (70 * 60, 5)).astype(np.float32)
    right = columns[:, 0] > 1
    return Rows(columns, right, np.ones(len(right), np.float32), np.full(70, 60, np.int64))


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_same_bits_whatever_the_threads(objective: str, threads: None) -> None:
    made = []
    for n_threads in (1, 1, 4):
        torch.set_num_threads(n_threads)
        torch.rand(3)  # what else is drawn doesn't matter
        made.append(train_network(many(), GROWING._replace(objective=objective)))
        assert torch.get_num_threads() == n_threads, "and they are as before"
    assert same(made[0], made[1]) and same(made[0], made[2])
    assert not same(made[0], train_network(many(), GROWING._replace(objective=objective, seed=1)))


def test_what_others_draw_stays() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    train_network(drawn(20), GROWING)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_easy_order_is_learned(objective: str) -> None:
    scorer = train_network(drawn(1500), GROWING._replace(objective=objective))
    test = drawn(200, seed=1)
    assert hits(test, test.columns[:, 0]) < 0.75
    assert hits(test, scorer.scores(test.columns)) > 0.9


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_rows_without_a_right_candidate(objective: str) -> None:
    """They teach no order; with the other objective they say what is wrong."""
    rows = drawn(300)
    ends = np.cumsum(rows.groups)
    right = rows.right.copy()
    right[: ends[149]] = False
    scorer = train_network(rows._replace(right=right), GROWING._replace(objective=objective))
    scores = scorer.scores(rows.columns)
    assert np.isfinite(scores).all()
    later = Rows(*(part[ends[149] :] for part in rows[:3]), groups=rows.groups[150:])
    if objective == "rank":
        assert hits(later, scorer.scores(later.columns)) > 0.9
        other = rows.columns.copy()
        other[: ends[149], :2] = other[: ends[149], :2][::-1]
        assert same(
            scorer, train_network(rows._replace(columns=other, right=right), GROWING._replace(objective="rank"))
        )


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_right_candidate_at_all_and_columns_that_say_nothing(objective: str) -> None:
    rows = drawn(30)
    for odd in (
        rows._replace(right=np.zeros_like(rows.right)),
        rows._replace(right=np.ones_like(rows.right)),
        rows._replace(columns=np.ones_like(rows.columns)),
        rows._replace(columns=rows.columns * np.float32(1e30)),
    ):
        scorer = train_network(odd, GROWING._replace(objective=objective))
        assert np.isfinite(scorer.scores(odd.columns)).all()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_rows_of_no_weight_teach_nothing(objective: str) -> None:
    rows = drawn(100)
    ends = np.cumsum(rows.groups)
    weight = rows.weight.copy()
    weight[ends[49] :] = 0
    wrong = rows.right.copy()
    wrong[ends[49] :] = False
    wrong[ends[49:-1]] = True  # the first of each row
    one = train_network(rows._replace(weight=weight), GROWING._replace(objective=objective))
    assert same(one, train_network(rows._replace(weight=weight, right=wrong), GROWING._replace(objective=objective)))


def slow_scores(scorer: LayeredScorer, columns: np.ndarray) -> list[float]:
    results = []
    for row in columns:
        parts = zip(row.tolist(), scorer.mean.tolist(), scorer.scale.tolist(), strict=True)
        standard = [min(max((value - mean) * scale, -8), 8) for value, mean, scale in parts]
        total = float(scorer.second_bias)
        for unit in range(scorer.first.shape[1]):
            inner = float(scorer.first_bias[unit])
            for column, value in enumerate(standard):
                inner += value * float(scorer.first[column, unit])
            total += max(inner, 0.0) * float(scorer.second[unit])
        results.append(total)
    return results


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 20), st.integers(1, 6), st.integers(1, 9))
def test_scores_are_those_of_a_loop(seed: int, n: int, n_features: int, n_units: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = (n_features, n_features, (n_features, n_units), n_units, n_units)
    scorer = LayeredScorer(*(rng.normal(0, 1.5, size).astype(np.float32) for size in sizes), float(rng.normal()))
    columns = (rng.normal(0, 3, (n, n_features)) * 10 ** rng.uniform(-1, 2, (n, 1))).astype(np.float32)
    found = scorer.scores(columns)
    assert found.dtype == np.float32 and found.shape == (n,)
    np.testing.assert_allclose(found, slow_scores(scorer, columns), rtol=1e-4, atol=1e-4)


def test_a_row_has_the_same_bits_alone_and_among_others() -> None:
    rng = np.random.default_rng(0)
    vectors = [rng.normal(0, 1, size).astype(np.float32) for size in (33, 33, (33, 32), 32, 32)]
    scorer = LayeredScorer(*vectors, 0.5)
    columns = rng.normal(0, 3, (257, 33)).astype(np.float32)
    together = scorer.scores(columns)
    assert together.tobytes() == b"".join(scorer.scores(columns[[row]]).tobytes() for row in range(len(columns)))


def test_a_column_that_never_varied_says_nothing() -> None:
    rows = drawn(60)
    scorer = train_network(rows, GROWING)
    other = rows.columns.copy()
    other[:, 2] = 1e6
    assert scorer.scores(other).tobytes() == scorer.scores(rows.columns).tobytes()


def test_what_is_unlike_anything_in_training_does_not_outweigh_all_else() -> None:
    """Nor does it overflow."""
    rows = drawn(200)
    scorer = train_network(rows, GROWING)
    far, farther = rows.columns[:40].copy(), rows.columns[:40].copy()
    far[:, 4], farther[:, 4] = 1e8, 3e38
    assert scorer.scores(far).tobytes() == scorer.scores(farther).tobytes()
    greatest = np.abs(scorer.scores(rows.columns)).max()
    assert np.abs(scorer.scores(farther)).max() < 10 * greatest


def test_columns_of_great_numbers_are_loaded_again() -> None:
    """Such as seconds since 1970."""
    rows = drawn(100)
    rows.columns[:, 4] += 1.7e9
    scorer = train_network(rows, GROWING)
    again = LayeredScorer.from_state(State("reranker", 1, arrays=scorer.to_arrays()), 5)
    assert same(again, scorer)
