"""Where labels stand among the candidates of rows, beside loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan.ranking.candidate_places import CandidatePlaces, entries_of

N_LABELS = 7
NONE = -1
CANDIDATES = st.permutations([*range(N_LABELS), NONE, NONE, NONE])
ASKED = st.lists(st.tuples(st.integers(0, 4), st.integers(NONE, N_LABELS - 1)), max_size=30)


def places_of(labels: np.ndarray, asked: list[tuple[int, int]]) -> tuple[list[bool], list[int]]:
    """Whether each label asked for is a candidate of its row, and the flat places of those that are."""
    there, places = [], []
    for row, label in asked:
        listed = labels[row].tolist()
        there.append(label != NONE and label in listed)
        if there[-1]:
            places.append(row * labels.shape[1] + listed.index(label))
    return there, places


def agree(labels: np.ndarray, n_labels: int, asked: list[tuple[int, int]]) -> None:
    before, known = labels.copy(), CandidatePlaces.of(labels, n_labels)
    assert (labels == before).all(), "what is given stays as it is"
    rows, wanted = np.array([row for row, _ in asked], np.int64), np.array([label for _, label in asked], np.int32)
    for kind in (np.int64, np.int32, np.intp):
        there, places = known.find(rows.astype(kind), wanted)
        assert there.dtype == np.bool_ and places.dtype == np.int64
        assert (there.tolist(), places.tolist()) == places_of(labels, asked)


@settings(max_examples=300)
@given(st.lists(CANDIDATES, max_size=5), st.integers(0, N_LABELS + 3), ASKED)
def test_labels_are_found_where_they_are(rows: list[list[int]], k: int, asked: list[tuple[int, int]]) -> None:
    """Asked for in any order, also more than once, and some that are no candidates there or none at all."""
    labels = np.array([row[:k] for row in rows], np.int32).reshape(len(rows), k)
    asked = [(row, label) for row, label in asked if row < len(rows)]
    agree(labels, N_LABELS, asked)
    agree(np.asfortranarray(labels), N_LABELS, asked)


@settings(max_examples=50)
@given(st.lists(CANDIDATES, max_size=5), st.integers(0, N_LABELS + 3))
def test_keys_rise_and_their_order_is_that_of_the_places(rows: list[list[int]], k: int) -> None:
    labels = np.array([row[:k] for row in rows], np.int32).reshape(len(rows), k)
    known = CandidatePlaces.of(labels, N_LABELS)
    assert known.n_labels == N_LABELS
    assert known.keys.dtype == known.order.dtype == np.int64
    assert known.keys.shape == known.order.shape == (labels.size,)
    assert (np.diff(known.keys) >= 0).all() and sorted(known.order.tolist()) == list(range(labels.size))
    there = labels.ravel()[known.order] != NONE
    assert len(set(known.keys[there].tolist())) == there.sum(), "each candidate has a number of its own"


def test_labels_and_rows_beyond_32_bits() -> None:
    far, n = 2**24, 600
    rng = np.random.default_rng(0)
    labels = np.array([rng.permutation([0, 1, far - 2, far - 1, NONE]) for _ in range(n)], np.int32)
    asked = [(row, label) for row in range(n) for label in (NONE, 0, 2, far - 1, far - 2)]
    agree(labels, far, asked)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_no_candidates(shape: tuple[int, int]) -> None:
    agree(np.zeros(shape, np.int32), 4, [(row, label) for row in range(shape[0]) for label in range(NONE, 4)])
    agree(np.full((2, 3), NONE, np.int32), 4, [(1, NONE), (0, 0), (1, 3)])
    agree(np.full((2, 3), NONE, np.int32), 4, [])


@settings(max_examples=200)
@given(st.lists(st.integers(0, 4), max_size=8), st.data())
def test_entries_are_those_of_each_list(sizes: list[int], data: st.DataObject) -> None:
    """Some lists hold nothing, and some are asked for more than once or not at all."""
    ids = data.draw(st.lists(st.integers(NONE, len(sizes) - 1), max_size=12))
    offsets = np.cumsum([0, *sizes]).astype(np.int64)
    expected = []
    for whose, number in enumerate(ids):
        if number != NONE:
            start = sum(sizes[:number])
            expected += [(whose, start + at) for at in range(sizes[number])]
    whose, entry = entries_of(np.array(ids, np.int32), offsets)
    assert whose.dtype == entry.dtype == np.int64
    assert list(zip(whose.tolist(), entry.tolist(), strict=True)) == expected
