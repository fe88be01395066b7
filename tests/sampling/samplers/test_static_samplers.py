"""Closed forms of the samplers that look at neither query nor embedding, and the ends of their ranges."""

from __future__ import annotations

import math

import pytest
import torch
from kit.errors import raises

from sylvan.errors import DataError, ParameterError
from sylvan.sampling import LogUniform, Softmax, Uniform, Unigram

QUERIES = torch.zeros(1, 4)


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_log_uniform_is_its_closed_form(n: int) -> None:
    found = LogUniform(n).log_prob(QUERIES, torch.arange(n))[0].double().exp()
    wanted = [math.log((k + 2) / (k + 1)) / math.log(n + 1) for k in range(n)]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000, 12_345_678])
def test_log_uniform_stays_in_range_at_both_ends(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = torch.tensor([[0.0, math.nextafter(0, 1), math.nextafter(1, 0), 0.5]], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: ends)
    ids = LogUniform(n).sample(QUERIES, 4).ids[0].tolist()
    assert ids[0] == ids[1] == 0
    assert ids[2] == n - 1
    assert 0 <= ids[3] < n


@pytest.mark.parametrize("power", [0.0, 0.5, 0.75, 1.0, 3.0])
def test_unigram_is_its_closed_form(power: float) -> None:
    counts = [7.0, 0.0, 1.0, 4.0, 1e6]
    weights = [count**power if count else 0.0 for count in counts]
    found = Unigram(5, counts, power).log_prob(QUERIES, torch.arange(5))[0].exp().tolist()
    assert found == pytest.approx([weight / sum(weights) for weight in weights], rel=1e-5)
    assert Unigram(5, counts, power).log_prob(QUERIES, torch.tensor([1]))[0].item() == -math.inf


def test_unigram_takes_counts_whose_powers_leave_every_float() -> None:
    found = Unigram(3, [1e300, 1e300, 1e200], power=4.0).log_prob(QUERIES, torch.arange(3)).exp()
    assert found[0].tolist() == [0.5, 0.5, 0.0]


def test_unigram_refuses_a_negative_power() -> None:
    with raises(ParameterError, "power", "-1.0"):
        Unigram(2, [1, 1], power=-1.0)


def test_softmax_is_torchs_own_in_chunks_too() -> None:
    g = torch.Generator().manual_seed(0)
    table, queries = torch.randn(300, 8, generator=g), torch.randn(50, 8, generator=g)
    wanted = torch.log_softmax(queries.double() @ table.double().t(), 1).float()
    for chunk_size in (1, 700, 1 << 22):
        sampler = Softmax(300, 8, chunk_size=chunk_size)
        sampler.refresh(table)
        torch.testing.assert_close(sampler.log_prob(queries, torch.arange(300)), wanted, atol=1e-5, rtol=0)


def test_softmax_keeps_what_it_saw() -> None:
    table = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    sampler = Softmax(20, 4)
    sampler.refresh(table)
    before = sampler.log_prob(torch.ones(1, 4), torch.arange(20))
    table.mul_(-3)
    assert torch.equal(before, sampler.log_prob(torch.ones(1, 4), torch.arange(20)))


def test_log_prob_takes_no_number_alone() -> None:
    with raises(DataError, "Uniform.log_prob", "ids"):
        Uniform(7).log_prob(torch.zeros(2, 3), torch.tensor(3))
