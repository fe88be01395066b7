"""NCE, negative sampling, BlackOut and one-vs-each against loops in float64, with every option; and what they share."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sampling.suite import normal
from torch import Tensor

from sylvan.sampling import (
    BlackOutLoss,
    InBatch,
    NCELoss,
    NegativeSamplingLoss,
    OneVsEachLoss,
    Softmax,
    Uniform,
    Unigram,
)
from sylvan.sampling.samplers.base import Sampler

N, DIM, BATCH, DRAWS = 12, 5, 6, 9
LOSSES = [NCELoss, NegativeSamplingLoss, BlackOutLoss, OneVsEachLoss]
IGNORED = -100


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


def nce_reference(s: dict[int, float], y: int, drawn: list[int], q: Callable[[int], float], others: set[int], **o: Any):
    log_z = math.log(N) if o.get("log_normalizer") is None else o["log_normalizer"]
    used = [j for j in drawn if o.get("accidental", "keep") == "keep" or j not in others]
    total = -log_sigmoid(s[y] - log_z - math.log(len(drawn) * q(y)))
    return total - sum(log_sigmoid(math.log(len(drawn) * q(j)) + log_z - s[j]) for j in used)


def negative_sampling_reference(s, y, drawn, q, others, **o):
    used = [j for j in drawn if o.get("accidental", "remove") == "keep" or j not in others]
    return -log_sigmoid(s[y]) - sum(log_sigmoid(-s[j]) for j in used)


def black_out_reference(s, y, drawn, q, others, **o):
    used = [j for j in drawn if o.get("accidental", "remove") == "keep" or j not in others]
    weighted = [math.exp(s[j]) / q(j) for j in used]
    first = math.exp(s[y]) / q(y)
    total = first + sum(weighted)
    return -math.log(first / total) - sum(math.log(1.0 - w / total) for w in weighted)


def one_vs_each_reference(s, y, drawn, q, others, **o):
    return -sum(log_sigmoid(s[y] - s[j]) / q(j) for j in drawn if j not in others) / len(drawn)


REFERENCES = {
    NCELoss: nce_reference,
    NegativeSamplingLoss: negative_sampling_reference,
    BlackOutLoss: black_out_reference,
    OneVsEachLoss: one_vs_each_reference,
}


def batch() -> list[Tensor]:
    """Queries, table, bias."""
    return [normal(*shape, seed=seed).double() for seed, shape in enumerate(((BATCH, DIM), (N, DIM), (N,)))]


def samplers(table: Tensor) -> dict[str, Sampler]:
    softmax = Softmax(N, DIM)
    softmax.refresh(table.float())
    return {"unigram": Unigram(N, range(1, N + 1), power=0.5), "softmax": softmax}


SEVERAL = torch.tensor(
    [[1, 3, IGNORED], [2, IGNORED, 5], [IGNORED, 7, IGNORED], [0, 1, 2], [11, IGNORED, IGNORED], [4, 6, IGNORED]]
)
OPTIONS = [
    (NCELoss, {}), (NCELoss, {"log_normalizer": 0.0}), (NCELoss, {"log_normalizer": -1.5, "accidental": "remove"}),
    (NCELoss, {"learn_normalizer": True}), (NegativeSamplingLoss, {}), (NegativeSamplingLoss, {"accidental": "keep"}),
    (BlackOutLoss, {}), (BlackOutLoss, {"accidental": "keep"}), (OneVsEachLoss, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "shared", "targets"),
    [("unigram", False, SEVERAL), ("softmax", True, SEVERAL), ("softmax", False, torch.tensor([1, 2, 2, 0, 11, 5]))],
    ids=["unigram", "shared", "softmax"],
)
@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_equals_its_formula(kind: Any, options: dict[str, Any], name: str, shared: bool, targets: Tensor) -> None:
    queries, table, bias = batch()
    sampler = samplers(table)[name]
    loss = kind(sampler, DRAWS, shared=shared, reduction="none", **options)
    torch.manual_seed(5)
    got = loss(queries, table, targets, bias)
    torch.manual_seed(5)
    drawn = sampler.sample(queries.float(), DRAWS, shared=shared).ids
    all_ids = torch.arange(N)
    # What a draw is drawn from: each query's distribution, or their mixture.
    q = sampler.log_prob(queries.float(), all_ids).double().exp()
    if shared:
        q = q.mean(dim=0).expand(BATCH, -1)
    scores = queries @ table.t() + bias
    for row in range(BATCH):
        wanted = {int(y) for y in targets[row].reshape(-1) if y != IGNORED}
        ids = (drawn if shared else drawn[row]).tolist()
        s = {j: float(scores[row, j]) for j in range(N)}
        alone = [REFERENCES[kind](s, y, ids, lambda j, row=row: float(q[row, j]), wanted, **options) for y in wanted]
        assert float(got[row].detach()) == pytest.approx(sum(alone) / len(alone), rel=2e-5), row


@pytest.mark.parametrize("kind", LOSSES)
def test_gradients_are_those_of_finite_differences(kind: Any) -> None:
    """Those of the table dense; that sparse ones are the same is in tests/field/test_torch.py."""
    loss = kind(Unigram(N, range(1, N + 1)), DRAWS, sparse=False)

    def value(queries: Tensor, table: Tensor, bias: Tensor) -> Tensor:
        torch.manual_seed(3)
        found: Tensor = loss(queries, table, SEVERAL, bias)
        return found

    given = [each.requires_grad_() for each in batch()]
    assert torch.autograd.gradcheck(value, given, rtol=1e-4, atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("kind", LOSSES)
def test_the_batch_may_be_the_sampler(kind: Any) -> None:
    """Noises are then targets of the batch, whose share is how often each occurs: the formula, by the same draws."""
    queries, table, bias = batch()
    targets = torch.tensor([1, 2, 2, 0, 11, 2])
    loss = kind(sampler := InBatch(N), 4)
    torch.manual_seed(7)
    found = float(loss(queries, table, targets, bias))
    torch.manual_seed(7)
    drawn = sampler.sample(queries, 4).ids
    assert set(drawn.flatten().tolist()) <= set(targets.tolist())
    scores, shares = (queries @ table.t() + bias).tolist(), torch.bincount(targets, minlength=N) / BATCH
    expected = [
        REFERENCES[kind](dict(enumerate(row)), y, ids, lambda j: float(shares[j]), {y})
        for row, y, ids in zip(scores, targets.tolist(), drawn.tolist(), strict=True)
    ]
    assert found == pytest.approx(sum(expected) / BATCH, rel=1e-6)


def test_nce_learns_its_normaliser() -> None:
    """It begins as ln N, and its gradient is that of finite differences."""
    loss = NCELoss(Uniform(N), DRAWS, learn_normalizer=True)
    ((name, begun),) = loss.named_parameters()
    assert name == "learned_log_normalizer" and begun.item() == pytest.approx(math.log(N))

    def value(log_normalizer: Tensor) -> Tensor:
        torch.manual_seed(3)
        queries, table, bias = batch()
        found: Tensor = torch.func.functional_call(loss, {name: log_normalizer}, (queries, table, SEVERAL, bias))
        return found

    given = begun.detach().double().requires_grad_()  # though the loss computes in float32
    assert torch.autograd.gradcheck(value, given, eps=0.01, atol=1e-3, rtol=1e-3)


def test_black_out_is_smooth_where_one_draw_dominates() -> None:
    """1 - p of a draw with nearly all the mass comes from the others, not from a difference of equals."""
    table = torch.tensor([[0.0], [60.0]], dtype=torch.float32, requires_grad=True)
    sampler = Unigram(2, [1, 1])
    torch.manual_seed(0)
    loss = BlackOutLoss(sampler, 1, reduction="none")
    values = loss(torch.ones(64, 1), table, torch.zeros(64, dtype=torch.int64))
    torch.manual_seed(0)
    hit = sampler.sample(torch.ones(64, 1), 1).ids[:, 0] == 0
    # Alone: 0. Against the other: -ln p = 60 and -ln(1 - p') = 60.
    assert torch.allclose(values, torch.where(hit, 0.0, 120.0), atol=1e-4)
    values.sum().backward()
    assert bool(torch.isfinite(table.grad.to_dense()).all()) and float(table.grad.to_dense()[1]) > 0
