"""A head scored exactly and a tail that is drawn: what its check says. Its sums: reference/test_softmax_losses.py."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from kit.errors import raises, warns
from sampling.scripted import Given

from sylvan.errors import DataError, ParameterError
from sylvan.sampling import FullSoftmaxLoss, HeadAndTailLoss, SampledSoftmaxLoss, Subset, Uniform, make_tail_sampler

IGNORED = -100


def test_a_head_of_nothing_is_refused() -> None:
    with raises(ParameterError, "head", 4):
        HeadAndTailLoss(Subset(4, Uniform(4), [0, 1, 2, 3]), 2)


@pytest.mark.parametrize("kind", ["softmax", "head and tail"])
def test_check_tells_the_cross_entropy_of_some_rows(kind: str) -> None:
    torch.manual_seed(0)
    queries, table = torch.randn(500, 8), torch.randn(60, 8)
    targets = torch.randint(60, (500,))
    targets[::3] = IGNORED
    if kind == "softmax":
        loss: Any = SampledSoftmaxLoss(Uniform(60), 50)
    else:
        loss = HeadAndTailLoss(make_tail_sampler("uniform", 60, counts=range(60), n_head=20), 40)
    rows = (targets != IGNORED).nonzero().squeeze(1)
    chosen = rows[torch.linspace(0, len(rows) - 1, 64).round().long()]
    full = FullSoftmaxLoss()(queries[chosen], table, targets[chosen])
    found = loss.check(queries, table, targets)
    assert found.n_rows == 64 and found.full == pytest.approx(float(full), rel=1e-5)
    assert abs(found.sampled - found.full) < 0.3
    assert loss.check(queries, table, targets, n_rows=7).n_rows == 7
    assert math.isnan(loss.check(queries, table, torch.full((500,), IGNORED)).full)
    with raises(ParameterError, "n_rows", "[1, inf)"):
        loss.check(queries, table, targets, n_rows=0)
    with raises(DataError, "dim"):
        loss.check(queries[:, :3], table, targets)


def test_check_warns_of_a_sampler_that_misses_the_largest_scores() -> None:
    """The target beats what is drawn, while a class that is hardly ever drawn beats the target by far."""
    from sylvan.sampling import SampledLossWarning

    table = torch.zeros(1000, 1)
    table[7], table[3] = 60.0, 20.0
    loss = SampledSoftmaxLoss(Given(torch.full((1000,), 1e-3)), 5)
    torch.manual_seed(0)
    with warns(SampledLossWarning, "1,000", 40, 8):
        found = loss.check(torch.ones(8, 1), table, torch.full((8,), 3))
    assert found.full == pytest.approx(40) and found.sampled < 10


def test_check_warns_of_a_sampler_that_never_thinks_of_the_targets() -> None:
    from sylvan.sampling import SampledLossWarning

    table, targets = torch.zeros(1000, 1), torch.full((8,), 3)
    q = torch.ones(1000, dtype=torch.float64)
    q[3] = 1e-13
    for share, warned in ((1.0, False), (1e-13, True)):
        q[3] = share
        loss = SampledSoftmaxLoss(Given((q / q.sum()).float()), 5)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = loss.check(torch.ones(8, 1), table, targets)
        assert found.full == pytest.approx(math.log(1000), abs=1e-4)
        assert [warning.category for warning in caught] == [SampledLossWarning] * warned
    assert "its Given gives the targets less probability than uniform draws would" in str(caught[0].message)
