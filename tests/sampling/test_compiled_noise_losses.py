"""``torch.compile`` on losses with noise: the same values and gradients, the draws left as they are."""

from __future__ import annotations

import pytest
import torch

from sylvan.sampling import CANELoss, ClassLoss, FrequencySubsets, NCELoss, Uniform

N, DIM = 30, 6
LOSSES = {
    "nce": lambda: NCELoss(Uniform(N), 5, learn_normalizer=True),
    "cane": lambda: CANELoss(FrequencySubsets([1.0] * N, 5, 6, DIM), Uniform(N), n_noises=2, together=True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOSSES)
def test_compiled_it_is_the_same(name: str) -> None:
    loss: ClassLoss = LOSSES[name]()
    torch.manual_seed(0)
    queries, targets = torch.randn(7, DIM), torch.randint(N, (7,))
    table = torch.nn.Parameter(torch.randn(N, DIM))
    found = []
    for called in (loss, torch.compile(loss, backend="eager")):
        table.grad = None
        torch.manual_seed(1)
        value = called(queries, table, targets)
        value.backward()
        assert table.grad is not None and table.grad.is_sparse
        found.append((value.detach(), table.grad.to_dense()))
    assert torch.allclose(found[0][0], found[1][0]) and torch.allclose(found[0][1], found[1][1], atol=1e-6)
