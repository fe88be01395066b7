"""The recommendation task: what it learns, its measures against a naive reference, splits, options, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from kit.errors import raises, warns

from sylvan.data import SequenceData, build_sequences
from sylvan.errors import DataError, ParameterError
from sylvan.neural import SASRec, train
from sylvan.sampling import FullSoftmaxLoss, SampledSoftmaxLoss, Uniform
from sylvan.tasks import SequentialRecommendation

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


def test_a_sampler_of_the_item_table_is_refreshed_and_the_table_s_gradient_is_sparse() -> None:
    made = job(sampler="softmax")
    batch = next(made.batches(0))
    made.step(batch, 0).backward()
    gradient = made.encoder_.items.grad
    assert gradient is not None and gradient.is_sparse


def test_objects_instead_of_names() -> None:
    encoder = SASRec(DATA.n_items, 16, hidden=16, max_length=5)
    made = job(encoder=encoder, loss=SampledSoftmaxLoss(Uniform(DATA.n_items), 4))
    assert made.encoder_ is encoder
    assert torch.isfinite(made.step(next(made.batches(0)), 0))
    assert torch.isfinite(job(loss=FullSoftmaxLoss()).step(batch := next(made.batches(0)), 0)) and batch


def test_seeds_decide_the_whole_training() -> None:
    runs = [train(job(seed=seed), epochs=2, seed=seed) for seed in (0, 0, 1)]
    assert runs[0].test == runs[1].test
    assert [e["loss"] for e in runs[0].epochs] == [e["loss"] for e in runs[1].epochs]
    assert [e["loss"] for e in runs[0].epochs] != [e["loss"] for e in runs[2].epochs]


def test_a_training_goes_on_where_it_stopped(tmp_path: Any) -> None:
    whole = train(job(), epochs=3)
    train(job(), epochs=3, folder=tmp_path, max_steps=5)
    rest = train(job(), epochs=3, folder=tmp_path, resume=True)
    assert rest.test == whole.test
    assert rest.epochs[-1]["loss"] == pytest.approx(whole.epochs[-1]["loss"])


def test_recommendations_have_names_and_leave_out_what_was_seen() -> None:
    made = job(loss="full", learning_rate=0.01, split="last")
    train(made, epochs=15)
    best = made.recommend([["2", "3", "4"], [6, 7]], k=5)
    assert best[0][0] == "5" and "8" in best[1][:2]
    assert len(best[0]) == 5 and not {"2", "3", "4"} & set(best[0]) and "7" not in best[1]
    many = made.recommend([[str(i) for i in range(28)]], k=5)
    assert sorted(many[0]) == ["28", "29"]
    with raises(DataError, "tea"):
        made.recommend([["tea"]])
    with raises(DataError, "row 1"):
        made.recommend([["3"], []])


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


def test_adam_on_the_item_table_of_a_sampled_loss_is_warned_of() -> None:
    with warns(UserWarning, "sylvan.sampling.RowwiseAdagrad"):
        job(optimizer="adam")
