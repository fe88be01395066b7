"""How near a row's neighbours are that have a candidate, beside the slow and obvious reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.neighbor_columns_reference import Neighbors, columns, neighbors_of
from sylvan.models.reranker.candidate_columns import OF_NEIGHBORS, neighbor_columns
from sylvan.ranking.votes import LabelRows

N_LABELS = 9
HOLE = -1  # a place of a row without a candidate
ROWS = st.lists(st.lists(st.integers(0, N_LABELS - 1), max_size=5, unique=True), max_size=8)
CANDIDATES = st.permutations([*range(N_LABELS), HOLE, HOLE, HOLE])
SIMILARITY = st.integers(1, 4).map(lambda quarters: quarters / 4) | st.floats(2**-20, 1, width=32)  # with many ties


@st.composite
def some_neighbors(draw: st.DrawFn, n_rows: int) -> Neighbors:
    """Each training row once at most, in any order."""
    numbers = draw(st.permutations(range(n_rows)))
    values = draw(st.lists(SIMILARITY, max_size=n_rows))
    return list(zip(numbers, sorted(values, reverse=True), strict=False))


def arrays_of(listed: list[Neighbors], width: int) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.full((len(listed), width), -1, np.int32)
    similarities = np.full((len(listed), width), -np.inf, np.float32)
    for row, neighbors in enumerate(listed):
        for place, (number, value) in enumerate(neighbors[:width]):
            numbers[row, place], similarities[row, place] = number, value
    return numbers, similarities


def voters_of(rows: list[list[int]], n_labels: int = N_LABELS, **weighing: np.ndarray) -> LabelRows:
    labels = np.array([label for row in rows for label in row], np.int32)
    return LabelRows(np.cumsum([0, *map(len, rows)]).astype(np.int64), labels, n_labels, **weighing)


def agree(labels: np.ndarray, nearest: tuple[np.ndarray, np.ndarray], rows: list[list[int]], voters: LabelRows) -> None:
    given = [labels, *nearest, voters.offsets, voters.labels]
    before = [array.copy() for array in given]
    found = neighbor_columns(labels, nearest, voters)
    assert all((one == other).all() for one, other in zip(given, before, strict=True)), "what is given stays as it is"
    assert found.dtype == np.float32 and found.shape == (*labels.shape, 3)
    np.testing.assert_array_equal(found, columns(labels, neighbors_of(*nearest), [set(row) for row in rows]))


@settings(max_examples=80)
@given(st.data(), ROWS, st.integers(0, N_LABELS + 3), st.integers(0, 10))
def test_columns_are_the_slow_ones(data: st.DataObject, rows: list[list[int]], k: int, m: int) -> None:
    asked = data.draw(st.lists(st.tuples(CANDIDATES, some_neighbors(len(rows))), max_size=5))
    labels = np.array([row[:k] for row, _ in asked], np.int32).reshape(len(asked), k)
    agree(labels, arrays_of([neighbors for _, neighbors in asked], m), rows, voters_of(rows))


@settings(max_examples=20)
@given(st.data(), ROWS)
def test_neither_the_layout_of_arrays_nor_what_votes_weigh_matters(data: st.DataObject, rows: list[list[int]]) -> None:
    asked = data.draw(st.lists(st.tuples(CANDIDATES, some_neighbors(len(rows))), min_size=1, max_size=4))
    labels = np.array([row for row, _ in asked], np.int32)
    numbers, similarities = (np.asfortranarray(part) for part in arrays_of([one for _, one in asked], 8))
    relevance = np.linspace(0.1, 1, sum(map(len, rows)), dtype=np.float32)
    voters = voters_of(rows, relevance=relevance, row_weights=np.arange(len(rows), dtype=np.float32))
    agree(np.asfortranarray(labels), (numbers, similarities), rows, voters)
    agree(labels[:, ::2], (numbers[:, ::-1][:, ::-1], similarities), rows, voters)


def test_by_hand() -> None:
    assert OF_NEIGHBORS == ("similarity", "place", "votes")
    rows = [[3, 0], [], [0], [1, 0]]
    nearest = arrays_of([[(1, 0.875), (2, 0.75), (0, 0.75), (3, 0.25)], []], 5)
    labels = np.array([[0, HOLE, 3, 1, 2], [0, 1, 2, 3, HOLE]], np.int32)
    found = neighbor_columns(labels, nearest, voters_of(rows, 4))
    third = float(np.float32(1 / 3))
    assert found[0].tolist() == [[0.75, 0.5, 3], [0, 0, 0], [0.75, third, 1], [0.25, 0.25, 1], [0, 0, 0]]
    assert not found[1].any(), "nobody is near"


@pytest.mark.parametrize(("n", "k", "m"), [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0), (2, 2, 2)])
def test_nothing_to_count(n: int, k: int, m: int) -> None:
    labels = np.tile(np.arange(k, dtype=np.int32), (n, 1))
    for rows in ([], [[]], [[], []]):  # without training rows, or without labels of these
        nearest = arrays_of([[(0, 1.0)] if rows else []] * n, m)
        agree(labels, nearest, rows, voters_of(rows, 2))


def test_many_rows_and_a_label_beyond_any_table() -> None:
    """Labels and rows of which a number for both takes more than 32 bits."""
    rng = np.random.default_rng(0)
    far = 2**24
    rows = [[int(label) for label in rng.choice([0, 1, 2, far - 2, far - 1], 2, replace=False)] for _ in range(20)]
    listed = [[(int(row), 0.5) for row in rng.permutation(20)[: rng.integers(0, 7)]] for _ in range(600)]
    labels = np.array([rng.permutation([0, 1, far - 2, far - 1, HOLE]) for _ in range(600)], np.int32)
    agree(labels, arrays_of(listed, 6), rows, voters_of(rows, far))
