"""Hashing is 2-universal and uniform; labels go where a slow reference puts them; lists match the assignment."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.chance import SIGMAS, assert_drawn_by
from kit.errors import raises

from sylvan import kernels, store
from sylvan.errors import DataError, ModelError
from sylvan.models.irli.buckets import Buckets, hash_partition, least_loaded


def placed_slowly(
    best: np.ndarray, n_buckets: int, current: np.ndarray | None, loads: np.ndarray | None, room: int = 0
) -> list[int]:
    """The rule of least_loaded, word by word."""
    counted = [0] * n_buckets if loads is None else loads.tolist()
    out = []
    for label, row in enumerate(best.tolist()):
        choices = [bucket for bucket in row if bucket >= 0]
        here = -1 if current is None else int(current[label])
        free = [bucket for bucket in choices if counted[bucket] < room]
        if not choices:
            to = here
        elif free:
            to = free[0]
        else:
            least = min(counted[bucket] for bucket in choices)
            emptiest = [bucket for bucket in choices if counted[bucket] == least]
            to = here if here in emptiest else emptiest[0]
        out.append(to)
        if to >= 0:
            counted[to] += 1
    return out


@settings(max_examples=80)
@given(
    st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 8), st.sampled_from([1, 2, 3, 9, 40]), st.booleans(),
    st.booleans(), st.sampled_from([0, 0, 2, 10]),
)  # fmt: skip
def test_labels_go_where_the_reference_puts_them(
    seed: int, n_labels: int, n_choices: int, n_buckets: int, placed: bool, loaded: bool, room: int
) -> None:
    random = np.random.default_rng(seed)
    best = random.integers(-1 if placed else 0, n_buckets, (n_labels, n_choices)).astype(np.int32)
    if placed:
        best[random.random(n_labels) < 0.2] = -1
    current = random.integers(-1, n_buckets, n_labels, np.int32) if placed else None
    loads = random.integers(0, 9, n_buckets) if loaded else None
    before = None if loads is None else loads.copy()
    found = least_loaded(best, n_buckets, current=current, loads=loads, room=room)
    assert found.dtype == np.int32
    assert found.tolist() == placed_slowly(best, n_buckets, current, loads, room)
    if before is not None:
        np.testing.assert_array_equal(loads, before)


def test_wishes_that_cannot_be_are_refused() -> None:
    for best, label in (([[0, 3]], 0), ([[0, -2]], 0), ([[0], [-1]], 1)):
        with raises(DataError, label, "best"):
            least_loaded(np.array(best, np.int32), 3)
    with raises(ValueError, "place"):
        kernels.least_loaded(np.zeros((2, 1), np.int32), None, 0, np.zeros(2, np.int64), np.zeros(1, np.int32))
    wild = np.array([[7]], np.int32)
    assert kernels.least_loaded(wild, None, 0, np.zeros(2, np.int64), np.zeros(1, np.int32)) == (1, 0)


def test_two_labels_rarely_share_a_bucket() -> None:
    n_buckets, n_functions = 16, 40_000
    buckets = hash_partition(40, n_buckets, n_functions, seed=3)
    for one, other in ((0, 1), (0, 39), (7, 8), (20, 36)):
        share = float((buckets[:, one] == buckets[:, other]).mean())
        deviation = np.sqrt((1 / n_buckets) * (1 - 1 / n_buckets) / n_functions)
        assert share <= 1 / n_buckets + SIGMAS * deviation, "2-universal: at most one in B"


def test_every_bucket_is_as_likely_as_the_others() -> None:
    n_buckets, n_functions = 64, 30_000
    buckets = hash_partition(100, n_buckets, n_functions, seed=1)
    for label in (0, 1, 99):  # over the functions
        assert_drawn_by(buckets[:, label], np.full(n_buckets, 1 / n_buckets), off_by=0.1)
    many = hash_partition(100_000, 50, 20, seed=2)  # over the labels: no worse than chance, mostly much better
    for row in many:
        assert_drawn_by(row, np.full(50, 1 / 50), off_by=0.05)


def test_repetitions_are_hashed_apart_and_again_alike() -> None:
    buckets = hash_partition(2000, 20, 8, seed=5)
    assert buckets.dtype == np.int32 and buckets.min() == 0 and buckets.max() == 19
    for r in range(1, 8):
        assert (buckets[0] == buckets[r]).mean() < 0.15
    np.testing.assert_array_equal(hash_partition(2000, 20, 3, seed=5), buckets[:3])
    np.testing.assert_array_equal(hash_partition(500, 20, 8, seed=5), buckets[:, :500])
    assert (hash_partition(2000, 20, 8, seed=6) != buckets).any()
    assert hash_partition(5, 1, 2).tolist() == [[0] * 5] * 2
    assert hash_partition(0, 4, 2).shape == (2, 0)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(0, 50), st.integers(1, 12), st.integers(1, 5))
def test_lists_say_what_the_assignment_says(seed: int, n_labels: int, n_buckets: int, n_repetitions: int) -> None:
    random = np.random.default_rng(seed)
    assignment = random.integers(0, n_buckets, (n_repetitions, n_labels))
    assignment[:, random.random(n_labels) < 0.2] = -1
    buckets = Buckets.from_assignment(assignment, n_buckets)
    assert (buckets.n_repetitions, buckets.n_labels) == (n_repetitions, n_labels)
    for r in range(n_repetitions):
        for b in range(n_buckets):
            expected = np.flatnonzero(assignment[r] == b)
            assert buckets.members[r, slice(*buckets.offsets[r, b : b + 2])].tolist() == expected.tolist()
            assert buckets.loads()[r, b] == len(expected)
    np.testing.assert_allclose(buckets.load_deviation(), buckets.loads().std(axis=1))


def test_an_assignment_must_be_one() -> None:
    for wrong in ([[0, -1], [0, 1]], [[0, 2]], [[0, 1], [0, 1], [-1, 0]]):
        with raises(DataError, "repetition", 0, 1):
            Buckets.from_assignment(wrong, 2)
    assert Buckets.from_assignment([[-1, -1]], 3).loads().tolist() == [[0, 0, 0]]


def state_of(buckets: Buckets) -> store.State:
    return store.State("test", 1, arrays=buckets.arrays())


def test_saved_buckets_come_back() -> None:
    buckets = Buckets.from_assignment([[0, 1, -1, 1], [1, 1, -1, 0]], 2)
    again = Buckets.from_arrays(state_of(buckets), 2, 2, 4)
    for name, array in buckets.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], array)
    copied = pickle.loads(pickle.dumps(buckets))
    np.testing.assert_array_equal(copied.members, buckets.members)
    assert copied.handle is not None


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("buckets", (0, 0), 1), ("buckets", (0, 0), 2), ("buckets", (1, 0), -1), ("bucket_offsets", (0, 1), 9),
        ("bucket_offsets", (0, 1), -1), ("bucket_offsets", (0, 0), 1), ("bucket_offsets", (1, 2), 2),
        ("bucket_members", (0, 0), 3), ("bucket_members", (0, 0), 4), ("bucket_members", (1, 2), -1),
        ("bucket_members", (1, 0), 2),
    ],
)  # fmt: skip
def test_damaged_buckets_are_refused(name: str, at: tuple[int, int], value: int) -> None:
    state = state_of(Buckets.from_assignment([[0, 1, -1, 1], [1, 1, -1, 0]], 2))
    state.arrays[name] = state.arrays[name].copy()
    state.arrays[name][at] = value
    with raises(ModelError, "damaged"):
        Buckets.from_arrays(state, 2, 2, 4)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 4))
def test_only_the_true_lists_pass(seed: int, n_labels: int, n_buckets: int) -> None:
    random = np.random.default_rng(seed)
    row = random.integers(-1, n_buckets, n_labels).astype(np.int32)
    buckets = Buckets.from_assignment(row[None], n_buckets)
    offsets = random.integers(0, n_labels + 1, n_buckets + 1) if random.random() < 0.5 else buckets.offsets[0]
    members = buckets.members[0].copy()
    if random.random() < 0.7:
        members = random.permutation(n_labels)[: len(members)].astype(np.int32)
    same = (offsets == buckets.offsets[0]).all() and (members == buckets.members[0]).all()
    assert kernels.same_members(row, np.ascontiguousarray(offsets, np.int64), members) == same


def test_lists_that_do_not_fit_are_refused() -> None:
    buckets = Buckets.from_assignment([[0, 1, 1]], 2)
    wrong: list[tuple[str, object]] = [
        ("member", replace(buckets, members=np.array([[0, 1, 3]], np.int32))),
        ("offsets", replace(buckets, offsets=np.array([[0, 4, 3]]))),
    ]
    for sentence, lists in wrong:
        with raises(ValueError, sentence):
            assert lists.handle  # type: ignore[attr-defined]
    assert not kernels.list_members(np.array([0, 5], np.int32), np.zeros(3, np.int64), np.zeros(2, np.int32))
    assert not kernels.list_members(np.array([0, 1], np.int32), np.zeros(3, np.int64), np.zeros(1, np.int32))
