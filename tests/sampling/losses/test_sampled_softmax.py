"""The sampled softmax beside the full one, hits, several positives, a head that is scored exactly, and what check says.

Its sums are compared in tests/reference/test_softmax_losses.py, and what every loss does is in test_every_loss.py.
"""

import math
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kit.bits import bits
from kit.errors import raises, warns
from reference.softmax_reference import others_alone
from sampling.suite import Given, Scripted
from torch import Tensor, nn

from sylvan.errors import DataError, NotFittedError, ParameterError
from sylvan.sampling import (
    FullSoftmaxLoss,
    HeadAndTailLoss,
    InBatch,
    SampledSoftmaxLoss,
    Softmax,
    Subset,
    Uniform,
    make_tail_sampler,
)
from sylvan.sampling.losses.loss import positives
from sylvan.sampling.losses.sampled_softmax import accidental_hits

CLASSES, DIM = 12, 5
IGNORED = -100


def problem(dtype: torch.dtype = torch.float64) -> tuple[Tensor, nn.Parameter, nn.Parameter, Tensor]:
    """Queries, table, bias, the sampler's probabilities."""
    random = torch.Generator().manual_seed(0)
    queries = torch.randn(4, DIM, generator=random, dtype=dtype).requires_grad_()
    table = nn.Parameter(torch.randn(CLASSES, DIM, generator=random, dtype=dtype))
    bias = nn.Parameter(torch.randn(CLASSES, generator=random, dtype=dtype))
    return queries, table, bias, torch.randn(CLASSES, generator=random, dtype=torch.float64).softmax(0)


TARGETS = {
    "one": torch.tensor([3, 0, 7, 3]),
    "several": torch.tensor([[3, 1, IGNORED], [IGNORED, 0, IGNORED], [7, 8, 2], [5, IGNORED, 3]]),
}
DRAWS = torch.tensor([[3, 4, 3, 9, 1], [5, 6, 5, 2, 11], [7, 8, 2, 2, 7], [1, 3, 2, 3, 10]])


def test_the_sampler_hears_of_the_positives() -> None:
    queries, table, _, q = problem()
    sampler = Given(q)
    SampledSoftmaxLoss(sampler, 5)(queries, table, TARGETS["several"])
    assert sampler.observed is not None and sorted(sampler.observed.tolist()) == [0, 1, 2, 3, 3, 5, 7, 8]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("certain", [False, True])
def test_corrected_when_every_draw_is_the_positive(shared: bool, certain: bool) -> None:
    queries, table, bias, q = problem()
    drawn = torch.full((5,), 3) if shared else torch.full((4, 5), 3)
    probabilities = F.one_hot(torch.tensor(3), CLASSES).double() if certain else q
    loss = SampledSoftmaxLoss(Scripted(probabilities, drawn), 5, shared=shared, correction="others")
    value = loss(queries, table, torch.full((4,), 3), bias)
    value.backward()
    assert value.item() == 0.0
    assert table.grad is not None and torch.isfinite(table.grad.to_dense()).all()


@pytest.mark.parametrize("kind", ["one", "several"])
def test_corrected_with_draws_from_the_softmax_is_the_full_loss(kind: str) -> None:
    """Every negative's term is then the same share of the others' sum, whichever were drawn."""
    queries, table, _, _ = problem()
    sampler = Softmax(CLASSES, DIM)
    loss = SampledSoftmaxLoss(sampler, CLASSES, correction="others", reduction="none")
    with raises(NotFittedError, "refresh"):
        loss(queries, table, TARGETS[kind])
    sampler.refresh(table)
    torch.manual_seed(0)
    full = FullSoftmaxLoss(reduction="none")(queries, table, TARGETS[kind])
    torch.testing.assert_close(loss(queries, table, TARGETS[kind]), full, atol=1e-5, rtol=1e-5)


def test_shared_draws_of_an_adaptive_sampler_are_corrected_by_the_mixture() -> None:
    queries, table, bias, q = problem()
    sampler = Given(q, tilted=True)
    loss = SampledSoftmaxLoss(sampler, 5, shared=True, correction="others", reduction="none")
    targets = TARGETS["one"]
    torch.manual_seed(2)
    got = loss(queries, table, targets, bias)
    torch.manual_seed(2)
    drawn = sampler.sample(queries.float(), 5, shared=True).ids.tolist()
    mixture = sampler.shares(queries.detach()).mean(dim=0)
    scores = queries @ table.t() + bias
    expected = [others_alone(scores[i].tolist(), mixture.tolist(), drawn, [int(targets[i])]) for i in range(4)]
    assert got.tolist() == pytest.approx(expected, rel=1e-5)


def test_distinct_positives_and_hits() -> None:
    wanted = positives(TARGETS["several"], IGNORED)
    known = [sorted(row[mask].tolist()) for row, mask in zip(wanted.ids, wanted.present, strict=True)]
    assert known == [[1, 3], [0], [2, 7, 8], [3, 5]]
    assert all(set(row.tolist()) == set(labels) for row, labels in zip(wanted.ids, known, strict=True))
    assert wanted.present[:, 0].all()
    assert wanted.shares().sum(dim=1).tolist() == pytest.approx([1, 1, 1, 1])
    hits = accidental_hits(DRAWS, wanted)
    assert hits.tolist() == [[k in labels for k in row] for row, labels in zip(DRAWS.tolist(), known, strict=True)]
    assert accidental_hits(DRAWS[0], wanted).tolist() == [[k in labels for k in DRAWS[0].tolist()] for labels in known]


def test_reads_as_it_was_written_and_refuses_a_rule_that_has_no_place() -> None:
    with raises(ParameterError, "correction='drawn'", "accidental='keep'"):
        SampledSoftmaxLoss(Given(torch.full((12,), 1 / 12)), 5, accidental="keep")
    loss = SampledSoftmaxLoss(Given(torch.full((4,), 0.25)), 2, shared=True)
    assert "n_samples=2, shared=True" in repr(loss)
    assert list(loss.get_params(deep=False)) == [
        "sampler", "n_samples", "correction", "accidental", "shared", "sparse", "reduction", "ignore_index",
    ]  # fmt: skip


def test_a_head_of_nothing_is_refused() -> None:
    with raises(ParameterError, "head", 4):
        HeadAndTailLoss(Subset(4, Uniform(4), [0, 1, 2, 3]), 2)


@pytest.mark.parametrize("shared", [False, True])
def test_a_positive_that_is_never_drawn_is_learned_as_one_of_the_head(shared: bool) -> None:
    """Of a tail with one class that can be drawn, draws are exact: the loss is the cross-entropy of all classes that
    can be drawn and the target's own, with its gradient."""
    tail = make_tail_sampler("unigram", 5, counts=[5, 4, 3, 2, 0], n_head=3)
    torch.manual_seed(0)
    queries, targets = torch.randn(3, DIM, dtype=torch.float64), torch.tensor([4, 3, 0])
    table = torch.randn(5, DIM, dtype=torch.float64, requires_grad=True)
    loss = HeadAndTailLoss(tail, 4, shared=shared, reduction="none")(queries, table, targets)
    is_elsewhere = torch.tensor([[False] * 5, [*[False] * 4, True], [*[False] * 4, True]])
    logits = (queries @ table.T).masked_fill(is_elsewhere, -torch.inf)
    expected = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(*(torch.autograd.grad(each.sum(), table)[0].to_dense() for each in (loss, expected)))


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


def test_check_teaches_a_sampler_nothing() -> None:
    checked, plain = SampledSoftmaxLoss(InBatch(20), 15), SampledSoftmaxLoss(InBatch(20), 15)
    queries, table, targets = torch.randn(16, 4), torch.randn(20, 4), torch.arange(16)
    for loss in (checked, plain):
        loss(queries, table, targets)
    checked.check(queries, table, targets)
    assert checked.sampler.training and bits(checked.sampler.state_dict()) == bits(plain.sampler.state_dict())


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
