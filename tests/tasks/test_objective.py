"""What the tasks are trained towards: names that are checked, and codewords that learn from real queries alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from kit.errors import raises
from tasks.small_jobs import classifier, language_model, recommender

from sylvan.errors import ParameterError
from sylvan.neural import RefreshSchedule
from sylvan.sampling import Uniform
from sylvan.sampling.losses.sampled_softmax import CrossEntropyEstimate
from sylvan.tasks.base import ClassObjective, usual_loss


def objective(**given: Any) -> ClassObjective:
    defaults: dict[str, Any] = {"sampler": "uniform", "loss": "sampled-softmax", "n_samples": 5}
    return ClassObjective(30, 6, counts=np.ones(30, np.int64), **{**defaults, **given})


def test_a_wrong_sampler_is_told_of_where_none_is_used() -> None:
    for loss in ("full", "sampled-softmax"):
        with raises(ParameterError, "nope"):
            objective(loss=loss, sampler="nope")
    assert objective(loss="full", sampler="midx-rq").sampler is None


@pytest.mark.parametrize("n_positives", [None, 2])
def test_codewords_learn_from_queries_with_a_target_alone(n_positives: int | None) -> None:
    torch.manual_seed(0)
    queries, table = torch.randn(2, 4, 6), torch.randn(30, 6)
    targets = torch.randint(30, (2, 4) if n_positives is None else (2, 4, n_positives))
    targets[0, 3], targets[1, 1:] = -100, -100
    if n_positives is not None:
        targets[0, 0, 1] = -100  # one positive is left
    gradients = []
    for scale in (1.0, 5.0):  # of what no loss looks at
        torch.manual_seed(1)
        made = objective(
            sampler="midx-rq", codewords=4, sampler_parameters={"learnable": "joint"}, refresh=RefreshSchedule(every=9)
        )
        given = queries.clone()
        given[0, 3] *= scale
        given[1, 1:] *= scale
        made(given, table, targets, 0).backward()
        gradients.append([parameter.grad for parameter in made.inner_parameters()])
    assert gradients[0]
    for one, other in zip(*gradients, strict=True):
        assert one is not None and other is not None and one.any()
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("sampler", ["midx-joint-rq", "midx-gumbel-rq"])
def test_a_batch_without_any_target_teaches_codewords_nothing(sampler: str) -> None:
    made = objective(sampler=sampler, codewords=4)
    assert made.inner_parameters()
    table = torch.nn.Parameter(torch.randn(30, 6))
    assert float(made(torch.randn(4, 6), table, torch.full((4,), -100), 0).detach()) == 0.0
    assert float(made(torch.randn(4, 6), table, torch.full((4,), -100), 1).detach()) == 0.0
    made(torch.randn(4, 6), table, torch.arange(4), 2).backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in made.inner_parameters())


def test_few_classes_want_fewer_negatives() -> None:
    for made, n in ((language_model(), 10), (recommender(), 5), (classifier(), 5)):
        assert made._objective.loss.n_samples == made.settings()["n_samples"] == n
    assert classifier(n_samples=9).settings()["n_samples"] == 9
    with raises(ParameterError, "count", 11):
        classifier(n_samples=11)


def test_the_usual_loss_has_a_head_where_a_tail_can_be_drawn() -> None:
    assert usual_loss("unigram", 30) == "head-and-tail"
    assert usual_loss("in-batch", 30) == usual_loss("unigram", 3) == usual_loss(Uniform(30), 30) == "sampled-softmax"


def test_a_head_is_the_most_frequent_classes() -> None:
    counts = np.arange(30)
    made = ClassObjective(30, 6, sampler="unigram", loss="head-and-tail", n_samples=5, counts=counts)
    loss: Any = made.loss
    assert loss.head.tolist() == list(range(15, 30)) and made.sampler is loss.sampler
    more = {"loss_parameters": {"n_head": 4, "shared": True}}
    wide: Any = ClassObjective(30, 6, sampler="unigram", loss="head-and-tail", n_samples=29, counts=counts, **more).loss
    assert wide.head.tolist() == [26, 27, 28, 29] and wide.shared and wide.n_samples == 29
    with raises(ParameterError, "n_head", "make_tail_sampler", "[1, 29]"):
        ClassObjective(
            30, 6, sampler="unigram", loss="head-and-tail", n_samples=5, counts=counts, loss_parameters={"n_head": 30}
        )


def test_a_head_s_size_is_among_the_known_parameters() -> None:
    with raises(ParameterError, "n_heads", "n_head"):
        objective(loss="head-and-tail", sampler="unigram", loss_parameters={"n_heads": 5})


def test_the_true_loss_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    made, looked = objective(), []
    monkeypatch.setattr(CrossEntropyEstimate, "check", lambda self, *given: looked.append(step))
    table, targets = torch.nn.Parameter(torch.randn(30, 6)), torch.randint(30, (4,))
    for step in range(300):
        made(torch.randn(4, 6), table, targets, step)
    assert looked == [64, 128, 256]
