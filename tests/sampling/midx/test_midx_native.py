"""The compiled two-stage draws against those of PyTorch's operations, and against what is no index at all."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan.sampling import MIDX
from sylvan.sampling.midx import multi_index


def pair(n: int, dim: int, **parameters: object) -> tuple[MIDX, MIDX]:
    """Two samplers of the same index: one draws in compiled code, the other doesn't."""
    table = torch.randn(n, dim, generator=torch.Generator().manual_seed(0))
    samplers = []
    for native in (True, False):
        torch.manual_seed(1)
        sampler = MIDX(n, dim, native=native, **parameters)  # type: ignore[arg-type]
        sampler.refresh(table)
        samplers.append(sampler)
    return samplers[0], samplers[1]


def same_draws(first: MIDX, second: MIDX, queries: torch.Tensor, n: int) -> None:
    draws = [s.sample(queries, n, generator=torch.Generator().manual_seed(2)) for s in (first, second)]
    assert torch.equal(draws[0].ids, draws[1].ids)
    torch.testing.assert_close(draws[0].log_q, draws[1].log_q, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("quantizer", ["pq", "rq"])
def test_the_same_coins_give_the_same_classes(scale: float, quantizer: str) -> None:
    first, second = pair(5000, 16, n_codewords=20, quantizer=quantizer)
    same_draws(first, second, torch.randn(50, 16) * scale, 70)


@given(
    n=st.integers(1, 40),
    dim=st.integers(2, 4),
    n_codewords=st.integers(1, 12),
    n_queries=st.integers(1, 4),
    n_draws=st.integers(1, 9),
)
@settings(max_examples=30, deadline=None)
def test_odd_sizes(n: int, dim: int, n_codewords: int, n_queries: int, n_draws: int) -> None:
    first, second = pair(n, dim, n_codewords=n_codewords)
    same_draws(first, second, torch.randn(n_queries, dim), n_draws)


def test_a_query_of_nan_draws_some_class() -> None:
    for sampler in pair(30, 3, n_codewords=4):
        draw = sampler.sample(torch.full((2, 3), torch.nan), 5)
        assert int(draw.ids.min()) >= 0 and int(draw.ids.max()) < 30


def test_compiled_code_draws_unless_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, plain = pair(100, 4, n_codewords=4)
    usual.native = None
    calls: list[int] = []
    draw = multi_index.native_draw
    monkeypatch.setattr(multi_index, "native_draw", lambda *args: calls.append(1) or draw(*args))
    same_draws(usual, plain, torch.randn(3, 4), 5)
    assert calls == [1]
