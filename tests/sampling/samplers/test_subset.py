"""A sampler of some classes: the inner one's distribution on them, nothing on the others."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from kit.errors import raises
from sampling.suite import chi_square, normal

from sylvan.errors import DataError, ParameterError
from sylvan.sampling import InBatch, Sampler, Softmax, Subset, Uniform, Unigram, make_tail_sampler

SOME = [7, 2, 9, 4]


def softmax() -> tuple[Subset, torch.Tensor]:
    table = normal(10, 6)
    sampler = Subset(10, Softmax(4, 6), SOME)
    sampler.refresh(table)
    return sampler, table


def test_it_has_the_inner_samplers_distribution_on_its_classes() -> None:
    sampler, table = softmax()
    assert sampler.adaptive and sampler.dim == 6
    queries = normal(5, 6, seed=3)
    expected = torch.full((5, 10), -torch.inf)
    expected[:, SOME] = (queries @ table[SOME].T).log_softmax(dim=1)
    torch.testing.assert_close(sampler.log_prob(queries, torch.arange(10)), expected, atol=1e-5, rtol=1e-5)
    mean = expected.exp().mean(dim=0)
    torch.testing.assert_close(sampler.shared_log_prob(queries, torch.arange(10)).exp(), mean, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_draws_follow_it(shared: bool) -> None:
    sampler, _ = softmax()
    queries = normal(1, 6, seed=3)
    torch.manual_seed(0)
    draw = sampler.sample(queries, 20_000, shared=shared)
    torch.testing.assert_close(draw.log_q.reshape(-1), sampler.log_prob(queries, draw.ids.reshape(1, -1))[0])
    assert chi_square(draw.ids, sampler.log_prob(queries, torch.arange(10))[0]) > 1e-4


def test_what_is_no_sampler_of_queries_needs_no_refresh() -> None:
    sampler = Subset(5, Unigram(2, [3, 1]), torch.tensor([4, 0]))
    assert not sampler.adaptive and sampler.dim is None
    assert sampler.log_prob(torch.zeros(1, 3), torch.arange(5)).exp()[0].tolist() == [0.25, 0, 0, 0, 0.75]


def test_the_inner_sampler_sees_those_targets_that_it_draws() -> None:
    sampler = Subset(10, InBatch(4), SOME)
    sampler.observe(torch.tensor([0, 9, 2, 9, 1]))
    found = sampler.log_prob(torch.zeros(1, 3), torch.tensor(SOME)).exp()[0]
    assert found[2] > found[1] > 0 and found[0] == found[3]


def test_copies_and_states_carry_it_over() -> None:
    sampler, _ = softmax()
    fresh = Subset(10, Softmax(4, 6), [0, 1, 2, 3])
    fresh.load_state_dict(sampler.state_dict())
    queries = normal(5, 6, seed=3)
    for other in (fresh, copy.deepcopy(sampler)):
        assert torch.equal(other.log_prob(queries, torch.arange(10)), sampler.log_prob(queries, torch.arange(10)))


def test_a_tail_of_midx_learns_from_its_own_classes() -> None:
    torch.manual_seed(0)
    sampler: Any = make_tail_sampler("midx-joint-pq", 60, 8, counts=range(60), n_head=20, n_codewords=4)
    table = normal(60, 8)
    sampler.refresh(table)
    assert sampler.learnable == "joint"
    queries = normal(16, 8, seed=3)
    assert torch.equal(sampler.learning_loss(queries, table), sampler.sampler.learning_loss(queries, table[:40]))
    assert set(sampler.sample(queries, 50).ids.flatten().tolist()) <= set(range(40))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([0, 1, 2], (4, 3)),
        ([0, 1, 2, 10], ("[0, 10)", 10)),
        ([0, 1, 2, -1], ("[0, 10)", -1)),
        ([0, 1, 2, 2], "distinct"),
        ([0.0, 1.0, 2.0, 3.0], ("torch.float64", "class")),
        ([[0, 1], [2, 3]], "(2, 2)"),
    ],
)
def test_wrong_classes_are_told(classes: Any, message: object) -> None:
    with raises(DataError, message):
        Subset(10, Uniform(4), classes)


def test_a_sampler_is_needed() -> None:
    with raises(ParameterError, "'sampler'", "None"):
        Subset(10, None, [1])  # type: ignore[arg-type]
    assert isinstance(Subset(3, Uniform(1), [1]), Sampler)
