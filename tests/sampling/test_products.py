"""Products with the same bits for any number of threads are products."""

from __future__ import annotations

import pytest
import torch

from sylvan.sampling.tensors import product, products


@pytest.mark.parametrize("batch", [1, 7, 16, 39])
@pytest.mark.parametrize("n", [1, 16, 4097])
@pytest.mark.parametrize("dim", [3, 100])
def test_product(batch: int, n: int, dim: int) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(batch, dim), torch.randn(n, dim)
    found = []
    for count in (1, 2, 3, 8):
        torch.set_num_threads(count)
        found.append(product(left, right))
        assert torch.equal(found[0], found[-1])
    torch.testing.assert_close(found[0], left @ right.t(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("k", [1, 3, 200])
def test_products(k: int) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(k, 9, 20), torch.randn(k, 37, 20)
    found = []
    for count in (1, 2, 3, 8):
        torch.set_num_threads(count)
        found.append((products(left, right), products(left, right[0])))
        assert torch.equal(found[0][0], found[-1][0])
        assert torch.equal(found[0][1], found[-1][1])
    torch.testing.assert_close(found[0][0], left @ right.mT)
    torch.testing.assert_close(found[0][1], left @ right[0].t())


def test_gradients_pass() -> None:
    left, right = torch.randn(3, 4, requires_grad=True), torch.randn(21, 4, requires_grad=True)
    product(left, right).sum().backward()
    torch.testing.assert_close(left.grad, right.detach().sum(dim=0).expand(3, -1))
    torch.testing.assert_close(right.grad, left.detach().sum(dim=0).expand(21, -1))
