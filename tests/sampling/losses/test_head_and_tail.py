"""A head scored exactly and a tail that is drawn: each loss term by term, its variance, and what it says when wrong."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from sampling.scripted import Given, Scripted
from torch import Tensor, nn

from sylvan.errors import DataError, ParameterError
from sylvan.sampling import FullSoftmaxLoss, HeadAndTailLoss, SampledSoftmaxLoss, Subset, Uniform, make_tail_sampler

CLASSES, DIM, IGNORED = 12, 5, -100
TAIL = [1, 2, 4, 5, 6, 9, 11]
HEAD = [0, 3, 7, 8, 10]
TARGETS = {
    "one": torch.tensor([3, 4, 9, 0]),
    "several": torch.tensor([[3, 1, IGNORED], [IGNORED, 0, IGNORED], [7, 9, 2], [5, IGNORED, 3]]),
}
PLACES = torch.tensor([[0, 1, 6], [3, 3, 2], [5, 5, 5], [4, 0, 6]])  # in the tail


def problem(dtype: torch.dtype = torch.float64) -> tuple[Tensor, nn.Parameter, nn.Parameter, Tensor]:
    """Queries, table, bias, and probabilities of the tail's classes."""
    random = torch.Generator().manual_seed(0)
    queries = torch.randn(4, DIM, generator=random, dtype=dtype).requires_grad_()
    table = nn.Parameter(torch.randn(CLASSES, DIM, generator=random, dtype=dtype))
    bias = nn.Parameter(torch.randn(CLASSES, generator=random, dtype=dtype))
    return queries, table, bias, torch.randn(len(TAIL), generator=random, dtype=torch.float64).softmax(0)


def naive(scores: Tensor, labels: list[int], drawn: list[int], q: dict[int, float]) -> Tensor:
    """One query's loss as the two formulas have it."""
    losses = []
    for label in sorted(set(labels)):
        total = torch.stack([scores[j].exp() for j in HEAD]).sum()
        noises = drawn if label in HEAD else [label, *drawn[:-1]]
        for k in noises:
            total = total + scores[k].exp() / q[k] / len(drawn)
        losses.append(total.log() - scores[label])
    return torch.stack(losses).mean()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("n_samples", [1, 3])
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("with_bias", [False, True])
def test_equals_the_formulas(shared: bool, n_samples: int, kind: str, with_bias: bool) -> None:
    queries, table, bias, q = problem()
    places = PLACES[0, :n_samples] if shared else PLACES[:, :n_samples]
    sampler = Subset(CLASSES, Scripted(q, places), TAIL)
    loss = HeadAndTailLoss(sampler, n_samples, shared=shared, reduction="none")
    assert loss.head.tolist() == HEAD
    scores = queries @ table.t() + (bias if with_bias else 0)
    drawn = torch.tensor(TAIL)[places.expand(4, -1)].tolist()
    of = {k: float(share) for k, share in zip(TAIL, q, strict=True)}
    lists = [[label for label in row if label != IGNORED] for row in TARGETS[kind].reshape(4, -1).tolist()]
    expected = torch.stack([naive(scores[i], lists[i], drawn[i], of) for i in range(4)])
    got = loss(queries, table, TARGETS[kind], bias if with_bias else None)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)
    wrt = [queries, table, *([bias] if with_bias else [])]
    slope = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    for mine, other in zip(
        torch.autograd.grad(got, wrt, slope), torch.autograd.grad(expected, wrt, slope), strict=True
    ):
        torch.testing.assert_close(mine.to_dense(), other, atol=1e-6, rtol=1e-6)


def test_the_gradient_of_the_table_is_sparse() -> None:
    queries, table, _, q = problem()
    loss = HeadAndTailLoss(Subset(CLASSES, Scripted(q, PLACES), TAIL), 3)
    loss(queries, table, TARGETS["one"]).backward()
    assert table.grad is not None and table.grad.is_sparse
    touched = torch.tensor([*HEAD, *torch.tensor(TAIL)[PLACES.flatten()].tolist(), 4, 9]).unique()
    assert torch.equal(table.grad.coalesce().indices()[0], touched)
    assert float(loss.coverage) == 0.5  # 3 and 0 of the four targets


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_huge_scores_give_no_nan(dtype: torch.dtype) -> None:
    queries, table, bias, q = problem(torch.float32)
    loss = HeadAndTailLoss(Subset(CLASSES, Given(q.float()), TAIL), 3)
    with torch.autocast("cpu", dtype):
        value = loss(queries, table, TARGETS["several"], bias)
    assert value.dtype == torch.float32 and torch.isfinite(value)
    halved = nn.Parameter((100 * table).detach().to(dtype))
    value = loss(queries.to(dtype), halved, TARGETS["one"])
    value.backward()
    assert torch.isfinite(value) and halved.grad is not None and torch.isfinite(halved.grad.to_dense()).all()


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
