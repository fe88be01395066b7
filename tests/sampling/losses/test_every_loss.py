"""What holds for every loss over classes: ignored queries, reductions, sparse gradients, low precision, hostile draws.

What they are worth is in each one's own file and in tests/reference; what they refuse is in ``test_wrong_inputs.py``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from kit.errors import raises
from sampling.suite import same_when_compiled
from torch import Tensor, nn

from sylvan.errors import ParameterError
from sylvan.sampling import (
    BlackOutLoss,
    CANELoss,
    ClassLoss,
    FrequencySubsets,
    FullSoftmaxLoss,
    HeadAndTailLoss,
    NCELoss,
    NegativeSamplingLoss,
    OneVsEachLoss,
    SampledSoftmaxLoss,
    Sampler,
    Uniform,
    Unigram,
    make_sampler,
    make_tail_sampler,
)

N, DIM, BATCH, DRAWS, IGNORED = 12, 5, 6, 9, -100
COUNTS = [*range(1, N), 0]  # the last class is never drawn, though it may be a target


def three(queries: Tensor, table: Tensor) -> Tensor:
    """Candidates: the same three for every query, one of them the most frequent class."""
    return torch.tensor([0, 3, N - 2]).expand(len(queries), -1)


def of_noises(kind: Any, **own: Any) -> Callable[..., ClassLoss]:
    return lambda counts, n_draws, **more: kind(Unigram(len(counts), counts), n_draws, **own, **more)


def head_and_tail(counts: Sequence[float], n_draws: int, **more: Any) -> ClassLoss:
    return HeadAndTailLoss(make_tail_sampler("unigram", len(counts), counts=counts, n_head=5), min(n_draws, 6), **more)


SAMPLED = {
    "sampled softmax": of_noises(SampledSoftmaxLoss),
    "sampled softmax, Eq. (1)": of_noises(SampledSoftmaxLoss, correction="drawn", accidental="paper"),
    "sampled softmax, hits kept": of_noises(SampledSoftmaxLoss, correction="drawn", accidental="keep"),
    "sampled softmax, hits removed": of_noises(SampledSoftmaxLoss, correction="drawn"),
    "sampled softmax, others alone": of_noises(SampledSoftmaxLoss, correction="others"),
    "NCE": of_noises(NCELoss),
    "negative sampling": of_noises(NegativeSamplingLoss),
    "BlackOut": of_noises(BlackOutLoss),
    "one-vs-each": of_noises(OneVsEachLoss),
}
SAMPLED |= {f"{name}, shared": lambda *given, make=make, **more: make(*given, shared=True, **more)
            for name, make in SAMPLED.items()}  # fmt: skip
CANE = {
    name: lambda counts, n_draws, together=together, **more: CANELoss(
        three, Unigram(len(counts), counts), n_noises=2, together=together, **more
    )
    for name, together in (("CANE", False), ("CANE, noises together", True))
}
LOSSES: dict[str, Callable[..., ClassLoss]] = {
    **SAMPLED, **CANE, "head and tail": head_and_tail,
    "full": lambda counts, n_draws, **more: FullSoftmaxLoss(chunk_size=5, **more),
}  # fmt: skip
every_loss = pytest.mark.parametrize("name", LOSSES)


def numbers(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def value(loss: ClassLoss, *given: Tensor, seed: int = 2) -> Tensor:
    torch.manual_seed(seed)
    found: Tensor = loss(*given)
    return found


def is_finite(*parameters: Tensor) -> bool:
    return all(p.grad is not None and bool(torch.isfinite(p.grad.to_dense()).all()) for p in parameters)


@every_loss
def test_ignored_queries_and_reductions(name: str) -> None:
    """In any shape, with one positive or several, of which some places are filling."""
    make, table = LOSSES[name], numbers(N, DIM, seed=1)
    queries = numbers(2, 3, DIM).requires_grad_()
    targets = torch.tensor([[[1, 4], [IGNORED] * 2, [3, IGNORED]], [[IGNORED] * 2, [0, 2], [IGNORED, N - 1]]])
    counted = (targets != IGNORED).any(dim=2)
    none, whole, mean = (
        value(make(COUNTS, DRAWS, reduction=reduction), queries, table, targets)
        for reduction in ("none", "sum", "mean")
    )
    assert none.shape == (2, 3) and torch.equal(none != 0, counted)
    torch.testing.assert_close(whole, none.sum())
    torch.testing.assert_close(mean, none.sum() / 4)
    mean.backward()
    assert queries.grad is not None and torch.equal(queries.grad.ne(0).any(dim=2), counted)
    used = queries.detach()[counted], table, targets[counted]
    assert torch.equal(value(make(COUNTS, DRAWS, reduction="none"), *used), none[counted])
    assert torch.equal(value(make(COUNTS, DRAWS, reduction="none", ignore_index=-1), *used[:2], used[2].clamp(min=-1)),
                       none[counted])  # fmt: skip
    one = torch.tensor([1, 3, 0, N - 1])
    padded = torch.stack([one, torch.full((4,), IGNORED)], dim=1)
    both = [value(make(COUNTS, DRAWS), *used[:2], labels) for labels in (one, padded)]
    torch.testing.assert_close(*both)
    if name != "full":
        assert not torch.equal(both[0], value(make(COUNTS, DRAWS), *used[:2], one, seed=3)), "the seed decides"


@every_loss
def test_the_table_gets_a_sparse_gradient_of_chosen_rows(name: str) -> None:
    table, bias = nn.Parameter(numbers(1000, DIM)), nn.Parameter(numbers(1000))
    value(LOSSES[name]([1.0] * 1000, 4), numbers(BATCH, DIM), table, torch.arange(BATCH), bias).backward()
    for parameter in (table, bias):
        assert parameter.grad is not None and parameter.grad.is_sparse == (name != "full")
        if name != "full":  # targets, draws, candidates or the head
            assert len(parameter.grad.coalesce().indices()[0]) <= BATCH + (4 if "shared" in name else 4 * BATCH) + 5


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_and_scores_of_ten_thousand(name: str, dtype: torch.dtype) -> None:
    linear, table = nn.Linear(DIM, DIM), nn.Parameter(numbers(N, DIM, scale=100.0))
    nn.init.eye_(linear.weight)
    inputs, targets = numbers(64, DIM, seed=3, scale=100.0), torch.arange(64) % N
    assert (inputs @ table.t()).abs().max() > 1e4
    loss = LOSSES[name](COUNTS, DRAWS)
    with torch.autocast("cpu", dtype=dtype):
        queries = linear(inputs)
        found = value(loss, queries, table, targets)
    found.backward()
    assert queries.dtype == dtype and found.dtype == torch.float32 and bool(torch.isfinite(found))
    assert is_finite(table, linear.weight)

    low = numbers(64, DIM).to(dtype).requires_grad_(), nn.Parameter(numbers(N, DIM).to(dtype))
    found = value(loss, *low, targets)
    found.backward()
    assert found.dtype == torch.float32 and low[1].grad is not None and low[1].grad.dtype == dtype and is_finite(*low)
    torch.testing.assert_close(found, value(loss, *(each.detach().float() for each in low), targets))


@pytest.mark.parametrize("name", [*SAMPLED, *CANE])
def test_a_positive_that_is_never_drawn_and_draws_that_are_all_hits(name: str) -> None:
    queries, table = numbers(BATCH, DIM), nn.Parameter(numbers(N, DIM))
    loss = LOSSES[name]([float(label == 3) for label in range(N)], 3)
    for target in (1, 3):
        table.grad = None
        found = value(loss, queries, table, torch.full((BATCH,), target))
        found.backward()
        assert bool(torch.isfinite(found)) and is_finite(table)


@pytest.mark.parametrize("kind", [SampledSoftmaxLoss, NCELoss, NegativeSamplingLoss, BlackOutLoss, OneVsEachLoss])
def test_wrong_parameters(kind: Any) -> None:
    name = kind.__name__
    with raises(ParameterError, "n_samples", name, 13):
        kind(Uniform(N), N + 1)
    if kind is not OneVsEachLoss:
        own = {"correction": "drawn"} if kind is SampledSoftmaxLoss else {}
        with raises(ParameterError, "accidental", name):
            kind(Uniform(N), 2, accidental="drop", **own)
    assert repr(kind(Uniform(N), 2)).startswith(f"{name}(sampler=Uniform(n_classes=12), n_samples=2")


def midx(name: str) -> Sampler:
    torch.manual_seed(2)
    sampler = make_sampler(name, N, DIM, counts=torch.arange(1.0, N + 1), n_codewords=4)
    table, queries = torch.randn(N, DIM), torch.randn(40, DIM)
    sampler.refresh(table)
    sampler.sample(queries, 3)
    sampler.refresh(table)
    return sampler


COMPILED: dict[str, Callable[[], ClassLoss]] = {
    **{name: lambda name=name: LOSSES[name](COUNTS, 5)  # type: ignore[misc]
       for name in ("sampled softmax, others alone", "NCE", "negative sampling", "head and tail", "full")},
    "NCE, a learned normaliser": lambda: NCELoss(Uniform(N), 5, learn_normalizer=True),
    "CANE": lambda: CANELoss(FrequencySubsets([1.0] * N, 5, 6, DIM), Uniform(N), n_noises=2, together=True),
    "blackout": lambda: BlackOutLoss(midx("midx-rq"), 5),
    "one-vs-each": lambda: OneVsEachLoss(midx("midx-pq"), 5, shared=True),
    "midx": lambda: SampledSoftmaxLoss(midx("midx-rq"), 5),
    "midx, learned": lambda: SampledSoftmaxLoss(midx("midx-learned-rq"), 5, shared=True),
    "midx, joint": lambda: SampledSoftmaxLoss(midx("midx-joint-pq"), 5, correction="others"),
    "midx, query-aware": lambda: NCELoss(midx("midx-aware-rq"), 5),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_it_is_the_same(name: str, caplog: pytest.LogCaptureFixture) -> None:
    queries, targets = numbers(7, DIM).requires_grad_(), torch.arange(7)
    targets[2] = IGNORED
    parameters = [queries, nn.Parameter(numbers(N, DIM, seed=1)), nn.Parameter(numbers(N, seed=3))]
    args = queries, parameters[1], targets, parameters[2]
    gradients = same_when_compiled(COMPILED[name](), args, parameters, caplog)
    assert [each.is_sparse for each in gradients] == [False, name != "full", name != "full"]


def test_one_graph_is_more_than_there_is() -> None:
    """As the documentation says: what draws and what looks at targets can't be a part of one graph."""
    compiled = torch.compile(COMPILED["midx"](), backend="eager", fullgraph=True)
    with raises(Exception, "compiler.disable"):
        compiled(torch.randn(7, DIM), nn.Parameter(torch.randn(N, DIM)), torch.arange(7))
