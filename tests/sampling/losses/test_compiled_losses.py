"""``torch.compile`` on losses with samplers: the same values and gradients, the draws left as they are, no warning."""

from __future__ import annotations

import logging
import warnings

import pytest
import torch
from kit.errors import raises

from sylvan.sampling import (
    BlackOutLoss,
    CANELoss,
    ClassLoss,
    FrequencySubsets,
    HeadAndTailLoss,
    NCELoss,
    NegativeSamplingLoss,
    OneVsEachLoss,
    SampledSoftmaxLoss,
    Sampler,
    Uniform,
    make_sampler,
    make_tail_sampler,
)

N, DIM = 30, 6


def midx(name: str) -> Sampler:
    torch.manual_seed(2)
    sampler = make_sampler(name, N, DIM, counts=torch.arange(1.0, N + 1), n_codewords=4)
    table, queries = torch.randn(N, DIM), torch.randn(40, DIM)
    sampler.refresh(table)
    sampler.sample(queries, 3)
    sampler.refresh(table)
    return sampler


LOSSES = {
    "nce": lambda: NCELoss(Uniform(N), 5, learn_normalizer=True),
    "cane": lambda: CANELoss(FrequencySubsets([1.0] * N, 5, 6, DIM), Uniform(N), n_noises=2, together=True),
    "negative sampling": lambda: NegativeSamplingLoss(Uniform(N), 5),
    "blackout": lambda: BlackOutLoss(midx("midx-rq"), 5),
    "one-vs-each": lambda: OneVsEachLoss(midx("midx-pq"), 5, shared=True),
    "head and tail": lambda: HeadAndTailLoss(make_tail_sampler("uniform", N, counts=[1.0] * N, n_head=10), 5),
    "midx": lambda: SampledSoftmaxLoss(midx("midx-rq"), 5),
    "midx, learned": lambda: SampledSoftmaxLoss(midx("midx-learned-rq"), 5, shared=True),
    "midx, joint": lambda: SampledSoftmaxLoss(midx("midx-joint-pq"), 5, correction="others"),
    "midx, query-aware": lambda: NCELoss(midx("midx-aware-rq"), 5),
}


@pytest.mark.parametrize("name", LOSSES)
def test_compiled_it_is_the_same(name: str, caplog: pytest.LogCaptureFixture) -> None:
    loss: ClassLoss = LOSSES[name]()
    torch.manual_seed(0)
    queries, targets = torch.randn(7, DIM), torch.randint(N, (7,))
    targets[2] = -100
    table = torch.nn.Parameter(torch.randn(N, DIM))
    found = []
    torch._dynamo.reset()
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.filterwarnings("error", ".*[Gg]raph break.*")
        for called in (loss, torch.compile(loss, backend="aot_eager")):
            table.grad = None
            torch.manual_seed(1)
            value = called(queries, table, targets)
            value.backward()
            assert table.grad is not None and table.grad.is_sparse
            found.append((value.detach(), table.grad.to_dense()))
    assert torch.allclose(found[0][0], found[1][0]) and torch.allclose(found[0][1], found[1][1], atol=1e-6)
    assert "Graph break" not in caplog.text


def test_one_graph_is_more_than_there_is() -> None:
    """As the documentation says: what draws and what looks at targets can't be a part of one graph."""
    compiled = torch.compile(LOSSES["midx"](), backend="eager", fullgraph=True)
    with raises(Exception, "compiler.disable"):
        compiled(torch.randn(7, DIM), torch.nn.Parameter(torch.randn(N, DIM)), torch.randint(N, (7,)))
