"""The alias table against what it stands for: the probability that each class gets from the cells."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sylvan.sampling.samplers.static import alias_table, draw_alias


def weights_of(kind: str, n: int) -> Tensor:
    g = torch.Generator().manual_seed(n)
    plain = torch.rand(n, generator=g, dtype=torch.float64)
    if kind == "skewed":
        return plain**12
    if kind == "half zeros":
        plain[torch.rand(n, generator=g) < 0.5] = 0
        plain[-1] = 1
        return plain
    if kind == "equal":
        return torch.full((n,), 0.1, dtype=torch.float64)
    if kind == "one":
        return torch.eye(n, dtype=torch.float64)[n // 2]
    return plain


@pytest.mark.parametrize("n", [1, 2, 3, 10, 3000])
@pytest.mark.parametrize("kind", ["plain", "skewed", "half zeros", "equal", "one"])
def test_cells_give_each_class_its_probability(kind: str, n: int) -> None:
    weights = weights_of(kind, n)
    threshold, alias = alias_table(weights)
    cells = threshold.tolist()
    for cell, other in enumerate(alias.tolist()):  # the slow way to add up what the cells give
        cells[other] += 1 - float(threshold[cell])
    given = torch.tensor(cells, dtype=torch.float64)
    wanted = weights / weights.sum()
    assert torch.all((threshold >= 0) & (threshold <= 1))
    torch.testing.assert_close(given / n, wanted, rtol=0, atol=1e-10 * float(wanted.max()))
    assert torch.all(given[weights == 0] == 0)


def test_draws_follow_the_weights() -> None:
    threshold, alias = alias_table(torch.tensor([5.0, 0.0, 1.0, 4.0], dtype=torch.float64))
    drawn = draw_alias(threshold, alias, (500, 400), torch.Generator().manual_seed(0))
    shares = torch.bincount(drawn.reshape(-1), minlength=4) / drawn.numel()
    torch.testing.assert_close(shares, torch.tensor([0.5, 0.0, 0.1, 0.4]), atol=0.005, rtol=0)
