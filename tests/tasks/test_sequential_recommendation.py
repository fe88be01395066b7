"""The recommendation task: what it learns, its splits, windows, ranks and measures against loops, options, errors."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan.data import SequenceData, build_sequences
from sylvan.errors import DataError, ParameterError
from sylvan.neural import SASRec, train
from sylvan.sampling import FullSoftmaxLoss, SampledSoftmaxLoss, Uniform
from sylvan.sampling.tensors import slices
from sylvan.tasks import SequentialRecommendation
from sylvan.tasks.base import target_ranks
from sylvan.tasks.sequential_recommendation import Questions, SequenceSplit, split_sequences, windows

SMALL: dict[str, Any] = {"dim": 16, "hidden": 16, "max_length": 5, "dropout": 0.0}


def chain(n_users: int = 60, n_items: int = 30, length: int = 7, seed: int = 0) -> SequenceData:
    """Each item is followed by the next one around a circle, nine times in ten."""
    rng = np.random.default_rng(seed)
    users, items = [], []
    for user in range(n_users):
        at = int(rng.integers(n_items))
        for _ in range(length):
            users.append(user)
            items.append(at)
            at = (at + 1) % n_items if rng.random() < 0.9 else int(rng.integers(n_items))
    return build_sequences(users, items, min_interactions=1)


DATA = chain()
ADAGRAD: dict[str, Any] = {"optimizer": "adagrad", "table_learning_rate": 0.1}


def job(**given: Any) -> SequentialRecommendation:
    defaults = {"sampler": "uniform", "n_samples": 8, "batch_size": 16, **ADAGRAD, **SMALL}
    return SequentialRecommendation(DATA, **{**defaults, **given})


@pytest.mark.parametrize(("encoder", "loss"), [("sasrec", "sampled-softmax"), ("gru4rec", "full")])
def test_it_learns_what_follows_what(encoder: str, loss: str) -> None:
    found = train(job(encoder=encoder, loss=loss, learning_rate=0.01, split="last"), epochs=15, patience=10)
    assert found.test["recall@10"] > 0.8 and found.test["ndcg@10"] > 0.6
    assert found.epochs[-1]["loss"] < found.epochs[0]["loss"]


@pytest.mark.parametrize(("split", "exclude_seen"), [("users", True), ("interactions", False), ("last", True)])
def test_measures_agree_with_a_naive_reference(split: Any, exclude_seen: bool) -> None:
    made = job(split=split, exclude_seen=exclude_seen)
    made.module.eval()
    found = made.evaluate("test")
    table = made.encoder_.class_embeddings
    ranks = []
    for user, place in zip(made.split_.test.users.tolist(), made.split_.test.places.tolist(), strict=True):
        history = DATA.ids[DATA.offsets[user] : place].tolist()
        target = int(DATA.ids[place])
        with torch.no_grad():
            scores = (table @ made.encoder_(torch.tensor([history[-5:]]))[0, -1]).tolist()
        left = [i for i in range(DATA.n_items) if i == target or not (exclude_seen and i in history)]
        ranks.append(sorted(left, key=lambda i: -scores[i]).index(target) + 1)
    for k in (10, 20, 50):
        assert found[f"recall@{k}"] == pytest.approx(np.mean([rank <= k for rank in ranks]))
        gains = [1 / math.log2(rank + 1) if rank <= k else 0.0 for rank in ranks]
        assert found[f"ndcg@{k}"] == pytest.approx(np.mean(gains))
    assert made.ranks("test").tolist() == ranks
    for other in ("train", "valid"):
        with raises(ParameterError, "split", other, "validation"):
            made.ranks(other)


def test_nothing_held_out_is_trained_on() -> None:
    made = job(split="users")
    trained = set(np.flatnonzero(made.split_.train_ends).tolist())
    assert not trained & set(made.split_.test.users.tolist()) and not trained & set(
        made.split_.validation.users.tolist()
    )
    n_targets = int((made._targets != -100).sum())
    assert n_targets == sum(len(DATA[user]) - 1 for user in trained)
    assert n_targets == int(made.split_.train_counts(DATA).sum())


def test_batches_are_the_same_for_the_same_seed_and_epoch_and_cover_everything() -> None:
    first, again, other = job(), job(), job(seed=1)
    batches = list(first.batches(3))
    assert len(batches) == first.steps_per_epoch()
    for (items, targets), (items_again, targets_again) in zip(batches, again.batches(3), strict=True):
        assert torch.equal(items, items_again) and torch.equal(targets, targets_again)
    whole = torch.cat([items for items, _ in batches])
    assert sorted(map(tuple, whole.tolist())) == sorted(map(tuple, first._items.tolist()))
    assert not torch.equal(whole, torch.cat([items for items, _ in first.batches(4)]))
    assert not torch.equal(first.encoder_.items, other.encoder_.items)
    assert torch.equal(first.encoder_.items, again.encoder_.items)


def test_objects_instead_of_names() -> None:
    encoder = SASRec(DATA.n_items, 16, hidden=16, max_length=5)
    made = job(encoder=encoder, loss=SampledSoftmaxLoss(Uniform(DATA.n_items), 4))
    assert made.encoder_ is encoder
    assert torch.isfinite(made.step(next(made.batches(0)), 0))
    assert torch.isfinite(job(loss=FullSoftmaxLoss()).step(batch := next(made.batches(0)), 0)) and batch


def test_recommendations_have_names_and_leave_out_what_was_seen() -> None:
    made = job(loss="full", learning_rate=0.01, split="last")
    train(made, epochs=15)
    best = made.recommend([["2", "3", "4"], [6, 7]], k=5)
    assert best[0][0] == "5" and "8" in best[1][:2]
    assert len(best[0]) == 5 and not {"2", "3", "4"} & set(best[0]) and "7" not in best[1]
    many = made.recommend([[str(i) for i in range(28)]], k=5)
    assert sorted(many[0]) == ["28", "29"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"encoder": "lstm"}, ("encoder", "SequentialRecommendation", "sasrec", "gru4rec")),
        ({"split": "half"}, ("split", "SequentialRecommendation")),
        ({"n_samples": 0}, ("n_samples", "SequentialRecommendation", "[1, inf)")),
        ({"sampler": "guess"}, "guess"),
        ({"loss": "guess"}, "guess"),
        ({"table_learning_rate": 0.0}, ("(0, inf)", "0.0")),
    ],
)
def test_parameters_are_checked(given: dict[str, Any], sentence: object) -> None:
    with raises(ParameterError, sentence):
        job(**given)


@pytest.mark.parametrize(
    ("optimizer", "loss"),
    [
        ("rowwise-adagrad", "full"),
        ("sgd", "full"),
        ("rowwise-adagrad", "sampled-softmax"),
        ("adagrad", "sampled-softmax"),
    ],
)
def test_every_optimizer_of_the_tables_moves_them(optimizer: str, loss: str) -> None:
    made = job(optimizer=optimizer, loss=loss, tied=False)
    before = [table.detach().clone() for table in made.encoder_.tables()]
    train(made, epochs=1, max_steps=1)
    moved = [(table - old).abs().sum(dim=1) > 0 for table, old in zip(made.encoder_.tables(), before, strict=True)]
    assert all(rows.any() for rows in moved)
    if loss != "full":  # only items that were there
        assert moved[0].sum() <= 16 * 5


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


def naive_rank(scores: list[float], target: int, seen: set[int]) -> int:
    allowed = [c for c in range(len(scores)) if c == target or c not in seen]
    return sorted(allowed, key=lambda c: (-scores[c], c)).index(target) + 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 12), st.booleans(), st.sampled_from([None, 1, 20]))
def test_ranks_agree_with_sorting(seed: int, n: int, n_classes: int, with_seen: bool, most: int | None) -> None:
    rng = np.random.default_rng(seed)
    # Small ints: exact scores, many of them equal.
    queries = torch.from_numpy(rng.integers(-2, 3, (n, 3))).float()
    table = torch.from_numpy(rng.integers(-2, 3, (n_classes, 3))).float()
    targets = rng.integers(n_classes, size=n)
    seen = [set(rng.integers(n_classes, size=4).tolist()) if with_seen else set() for _ in range(n)]
    pairs = [(row, item) for row, items in enumerate(seen) for item in sorted(items)]
    given_seen = None
    if with_seen:
        given_seen = torch.tensor([row for row, _ in pairs]), torch.tensor([item for _, item in pairs])
    ranks = target_ranks(queries, table, torch.from_numpy(targets), given_seen, most)
    scores = (queries @ table.T).tolist()
    assert ranks.tolist() == [naive_rank(scores[i], targets[i], seen[i]) for i in range(n)]


def test_scores_that_are_no_numbers_rank_last() -> None:
    table = torch.randn(8, 2)
    queries = torch.tensor([[float("nan"), 0.0], [float("inf"), 0.0]])
    assert target_ranks(queries, table, torch.tensor([0, 0])).tolist() == [8, 8]


def test_chunks_hold_few_scores() -> None:
    assert list(slices(5, 10, 25)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(slices(3, 100, 25)) == [slice(0, 1), slice(1, 2), slice(2, 3)]
    assert list(slices(0, 100)) == []
