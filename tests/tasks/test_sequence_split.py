"""Splits, questions and training windows against loops over users."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan.data import SequenceData, build_sequences
from sylvan.errors import DataError, ParameterError
from sylvan.tasks.sequential_recommendation import Questions, SequenceSplit, split_sequences, windows


def made(lengths: list[int], seed: int = 0) -> SequenceData:
    rng = np.random.default_rng(seed)
    users = [f"u{u}" for u, length in enumerate(lengths) for _ in range(length)]
    return build_sequences(users, rng.integers(7, size=len(users)), min_interactions=1)


def places(data: SequenceData, questions: Questions) -> list[tuple[int, int]]:
    """User and place within their sequence of each question."""
    return [(u, int(p - data.offsets[u])) for u, p in zip(questions.users.tolist(), questions.places, strict=True)]


LENGTHS = st.lists(st.integers(1, 25), min_size=10, max_size=20)


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.sampled_from(["interactions", "last"]))
def test_every_user_split_in_order(lengths: list[int], split: Any) -> None:
    lengths[0] = 20  # so that no part is empty
    data = made(lengths)
    parts = split_sequences(data, split)
    for user, n in enumerate(lengths):
        if split == "last":
            a, b = (n - 2, n - 1) if n >= 3 else (n, n)
        else:
            a, b = max(1, int(0.8 * n + 1e-9)), max(1, int(0.9 * n + 1e-9))
        assert parts.train_ends[user] == a
        assert [p for u, p in places(data, parts.validation) if u == user] == list(range(a, b))
        assert [p for u, p in places(data, parts.test) if u == user] == list(range(b, n))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(2, 9), min_size=10, max_size=40), st.integers(0, 5))
def test_users_divided_eight_to_one_to_one(lengths: list[int], seed: int) -> None:
    data = made(lengths)
    parts = split_sequences(data, "users", seed)
    trained = set(np.flatnonzero(parts.train_ends).tolist())
    validated, tested = places(data, parts.validation), places(data, parts.test)
    groups = trained, {u for u, _ in validated}, {u for u, _ in tested}
    assert sorted(user for group in groups for user in group) == list(range(len(lengths)))  # each in one part
    assert abs(len(trained) - 0.8 * len(lengths)) <= 1 and abs(len(tested) - 0.1 * len(lengths)) <= 1
    assert all(parts.train_ends[user] == lengths[user] for user in trained)
    assert all(place == lengths[user] - 1 for user, place in [*validated, *tested])
    again = split_sequences(data, "users", seed)
    assert again.train_ends.tolist() == parts.train_ends.tolist()


def test_another_seed_divides_users_otherwise() -> None:
    data = made([5] * 40)
    assert (split_sequences(data, seed=0).train_ends != split_sequences(data, seed=1).train_ends).any()


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.integers(1, 6))
def test_windows_hold_every_target_once_with_what_stands_before_it(lengths: list[int], most: int) -> None:
    data = made(lengths)
    ends = np.array([max(1, n - 1) for n in lengths])
    items, targets = windows(data, ends, most)
    assert items.shape == targets.shape and items.shape[1] == most
    assert ((items == -1) == (targets == -1)).all() and (items[:, -1] != -1).all()
    found = [tuple(pair) for row in np.stack([items, targets], 2).tolist() for pair in row if pair[1] != -1]
    expected = [
        (int(sequence[i]), int(sequence[i + 1]))
        for sequence, end in zip(data, ends, strict=True)
        for i in range(end - 1)
    ]
    assert sorted(found) == sorted(expected)
    # Within a window, what follows an item is the next input.
    for row, wanted in zip(items.tolist(), targets.tolist(), strict=True):
        items = [i for i in row if i != -1]
        assert items[1:] == [t for t in wanted if t != -1][:-1]


def test_only_a_user_s_oldest_window_is_padded() -> None:
    data = build_sequences("u" * 8, range(8), min_interactions=1)
    items, targets = windows(data, np.array([8]), 3)
    names = sorted([[data.items[i] if i >= 0 else "" for i in row] for row in items.tolist()])
    assert names == [["", "", "0"], ["1", "2", "3"], ["4", "5", "6"]]
    assert sorted(data.items[i] for i in targets[targets >= 0]) == [str(i) for i in range(1, 8)]


def test_questions_know_history_targets_and_what_was_seen() -> None:
    data = build_sequences("aaaab", "wxyzw", min_interactions=1)
    name = data.items
    questions = Questions(np.array([0, 0, 1]), np.array([1, 3, 4]))
    history = [[name[i] if i >= 0 else "" for i in row] for row in questions.history(data, 2).tolist()]
    assert history == [["", "w"], ["x", "y"], ["", ""]]
    assert [name[i] for i in questions.targets(data)] == ["x", "z", "w"]
    rows, items = questions.seen(data)
    assert rows.tolist() == [0, 1, 1, 1] and [name[i] for i in items] == ["w", "w", "x", "y"]


def test_training_counts_are_of_targets() -> None:
    data = build_sequences("aaabbb", "xyzxxz", min_interactions=1)
    nothing = Questions(np.zeros(0, np.int64), np.zeros(0, np.int64))
    counts = SequenceSplit(np.array([3, 2]), nothing, nothing).train_counts(data)
    assert {data.items[i]: int(n) for i, n in enumerate(counts)} == {"x": 1, "y": 1, "z": 1}


def test_a_part_that_would_be_empty_and_an_unknown_split() -> None:
    with raises(DataError, "validation"):
        split_sequences(made([2, 2]), "last")
    with raises(DataError, "'interactions'"):
        split_sequences(made([1] * 5 + [2] * 2, 1), "interactions")
    with raises(ParameterError, "split", "split_sequences", "users"):
        split_sequences(made([5]), "random")  # type: ignore[arg-type]
