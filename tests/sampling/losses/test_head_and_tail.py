"""A head scored exactly and a tail that is drawn: its variance, and what it says when wrong (its sums are compared in
tests/reference/test_softmax_losses.py)."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from sampling.scripted import Given
from torch import Tensor, nn

from sylvan.errors import DataError, ParameterError
from sylvan.sampling import FullSoftmaxLoss, HeadAndTailLoss, SampledSoftmaxLoss, Subset, Uniform, make_tail_sampler

CLASSES, DIM, IGNORED = 12, 5, -100
TAIL = [1, 2, 4, 5, 6, 9, 11]
HEAD = [0, 3, 7, 8, 10]


def problem(dtype: torch.dtype = torch.float64) -> tuple[Tensor, nn.Parameter, nn.Parameter, Tensor]:
    """Queries, table, bias, and probabilities of the tail's classes."""
    random = torch.Generator().manual_seed(0)
    queries = torch.randn(4, DIM, generator=random, dtype=dtype).requires_grad_()
    table = nn.Parameter(torch.randn(CLASSES, DIM, generator=random, dtype=dtype))
    bias = nn.Parameter(torch.randn(CLASSES, generator=random, dtype=dtype))
    return queries, table, bias, torch.randn(len(TAIL), generator=random, dtype=torch.float64).softmax(0)


def test_its_gradient_varies_less_than_without_a_head() -> None:
    """With the same number of draws from the same law, as the head's part of the sum is no longer drawn."""
    queries, table, _, _ = problem()
    with torch.no_grad():
        table[HEAD] *= 2.0
    uniform = Given(torch.full((CLASSES,), 1 / CLASSES, dtype=torch.float64))
    of_tail = Given(torch.full((len(TAIL),), 1 / len(TAIL), dtype=torch.float64))
    repeats, found = 4_000, []
    losses = (SampledSoftmaxLoss(uniform, 3), HeadAndTailLoss(Subset(CLASSES, of_tail, TAIL), 3))
    for loss in losses:
        torch.manual_seed(1)
        wide = queries.detach()[:1].repeat(repeats, 1).requires_grad_()
        loss.set_params(reduction="sum")(wide, table, torch.full((repeats,), 3)).backward()
        assert wide.grad is not None
        found.append(float(wide.grad.var(dim=0).sum()))
    assert found[1] < 0.5 * found[0], found


def test_a_head_of_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"of the head. Got a Subset that draws from all 4"):
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
    with pytest.raises(ParameterError, match=r"'n_rows' of \w+.check must be an int in \[1, inf\). Got 0 instead"):
        loss.check(queries, table, targets, n_rows=0)
    with pytest.raises(DataError, match="with the same dim"):
        loss.check(queries[:, :3], table, targets)


def test_check_warns_of_a_sampler_that_misses_the_largest_scores() -> None:
    """The target beats what is drawn, while a class that is hardly ever drawn beats the target by far."""
    from sylvan.sampling import SampledLossWarning

    table = torch.zeros(1000, 1)
    table[7], table[3] = 60.0, 20.0
    loss = SampledSoftmaxLoss(Given(torch.full((1000,), 1e-3)), 5)
    torch.manual_seed(0)
    with pytest.warns(
        SampledLossWarning, match=r"cross-entropy over all 1,000 classes is 40 \(8 rows\): its Given misse"
    ):
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
