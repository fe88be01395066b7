"""Draws within the batch: the streaming estimate against a plain loop, what it converges to, and its errors."""

from __future__ import annotations

import math

import pytest
import torch
from kit.errors import raises
from torch import Tensor

from sylvan.errors import DataError, NotFittedError, ParameterError
from sylvan.sampling import InBatch, SampledSoftmaxLoss

QUERIES = torch.zeros(1, 4)


def probabilities(sampler: InBatch) -> Tensor:
    return sampler.log_prob(QUERIES, torch.arange(sampler.n_classes))[0].exp()


def stream(n_batches: int, size: int, frequency: Tensor, seed: int = 0) -> list[Tensor]:
    g = torch.Generator().manual_seed(seed)
    return [torch.multinomial(frequency, size, replacement=True, generator=g) for _ in range(n_batches)]


def slow_estimate(batches: list[Tensor], n_classes: int, step_size: float) -> Tensor:
    """The estimate class by class, from the definition: a moving mean of the targets between occurrences."""
    interval, seen_at, occurrences = [math.inf] * n_classes, [0] * n_classes, [0] * n_classes
    position = 0
    for batch in batches:
        position += len(batch)
        for label in sorted(set(batch.tolist())):
            times = batch.tolist().count(label)
            occurrences[label] += times
            new = (position - seen_at[label]) / times
            weight = max(1 - (1 - step_size) ** times, times / occurrences[label])
            old = interval[label]
            interval[label] = new if weight == 1 or old == math.inf else old + weight * (new - old)
            seen_at[label] = position
    rate = torch.tensor([1 / value for value in interval], dtype=torch.float64)
    return (rate / rate.sum()).float()


@pytest.mark.parametrize("step_size", [0.01, 0.2, 1.0])
def test_the_estimate_is_that_of_a_plain_loop(step_size: float) -> None:
    frequency = 1 / torch.arange(1, 21.0)
    batches = stream(30, 7, frequency)
    sampler = InBatch(25, step_size=step_size)
    for batch in batches:
        sampler.observe(batch)
    torch.testing.assert_close(probabilities(sampler), slow_estimate(batches, 25, step_size), atol=1e-6, rtol=1e-5)
    assert probabilities(sampler)[20:].tolist() == [0.0] * 5


def test_the_estimate_comes_to_the_frequencies() -> None:
    frequency = 1 / torch.arange(1, 51.0)
    frequency = frequency / frequency.sum()
    sampler = InBatch(50, step_size=0.001)
    for batch in stream(400, 500, frequency):
        sampler.observe(batch)
    torch.testing.assert_close(probabilities(sampler), frequency, atol=0, rtol=0.1)


def test_a_drift_is_followed() -> None:
    sampler = InBatch(2, step_size=0.05)
    for batch in stream(50, 100, torch.tensor([0.9, 0.1])) + stream(50, 100, torch.tensor([0.1, 0.9])):
        sampler.observe(batch)
    assert float(probabilities(sampler)[1]) > 0.8


def test_evaluation_leaves_the_estimate_but_for_new_classes() -> None:
    sampler = InBatch(5)
    sampler.observe(torch.tensor([0, 0, 0, 1]))
    before = probabilities(sampler)
    sampler.eval()
    sampler.observe(torch.tensor([1, 1, 1, 1]))
    assert torch.equal(probabilities(sampler), before)
    sampler.observe(torch.tensor([4, 1]))
    assert bool(torch.isfinite(sampler.sample(QUERIES, 20).log_q).all())


def test_it_draws_among_the_batch_only() -> None:
    sampler = InBatch(100, torch.ones(100))
    sampler.observe(torch.tensor([[3, 7], [7, 90]]))
    draw = sampler.sample(torch.zeros(2, 4), 200)
    assert set(draw.ids.unique().tolist()) == {3, 7, 90}
    torch.testing.assert_close(draw.log_q, torch.full((2, 200), -math.log(100)))


def test_a_loss_tells_it_the_batch() -> None:
    torch.manual_seed(0)
    loss = SampledSoftmaxLoss(InBatch(50), 8)
    table = torch.randn(50, 4, requires_grad=True)
    value = loss(torch.randn(6, 4), table, torch.randint(50, (6,)))
    value.backward()
    assert math.isfinite(float(value.detach()))


def test_errors_are_sentences() -> None:
    with pytest.raises(NotFittedError):
        InBatch(5).sample(QUERIES, 3)
    with raises(DataError, "targets", "without"):
        InBatch(5).observe(torch.zeros(0, dtype=torch.int64))
    for wrong in (-1, 5):
        with raises(DataError, "[0, 5)", wrong):
            InBatch(5).observe(torch.tensor([0, wrong]))
    with raises(DataError, "target", 2):
        InBatch(3, [1, 1, 0]).observe(torch.tensor([0, 2]))
    with raises(ParameterError, "step_size", "InBatch", "(0, 1]"):
        InBatch(3, step_size=0.0)
