"""Scores of an index that is sure of the wrong classes are made flatter: against a search over naive sums."""

from __future__ import annotations

import math

import pytest
import torch

from sylvan.indexing.codebooks import reconstruct
from sylvan.sampling import MIDX
from sylvan.sampling.midx import midx as module


def refreshed(spread: float, **parameters: object) -> tuple[MIDX, torch.Tensor, torch.Tensor]:
    """A sampler that has seen queries, of scores that differ by about so much from class to class; queries, table."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(400, 8, generator=generator) / 8**0.5
    queries = spread * torch.randn(200, 8, generator=generator)
    torch.manual_seed(1)
    sampler = MIDX(400, 8, **{"n_codewords": 4, "query_aware": True, **parameters})  # type: ignore[arg-type]
    for _ in range(2):
        sampler.refresh(table)
        sampler.sample(queries, 1)
    sampler.refresh(table)
    return sampler, queries, table


def cross_entropy(sampler: MIDX, queries: torch.Tensor, table: torch.Tensor) -> float:
    p = torch.softmax(queries.double() @ table.double().t(), dim=1)
    return float(-(p * sampler.log_prob(queries, torch.arange(len(table))).double()).sum(dim=1).mean())


@pytest.mark.parametrize("parameters", [{}, {"quantizer": "pq"}, {"n_codebooks": 3}, {"learnable": True, "n_steps": 2}])
def test_a_good_index_is_left_alone_and_a_bad_one_made_as_good_as_it_can_be(parameters: dict[str, object]) -> None:
    good, _, _ = refreshed(1.0, **parameters)
    assert float(good.index.factor) == 1.0
    bad, _, table = refreshed(40.0, **parameters)
    assert 0 < float(bad.index.factor) < 0.5
    assert bad.recent is not None and bad.space is not None
    seen = bad.recent.sound()
    seen = seen[torch.arange(module._QUERIES) * len(seen) // module._QUERIES]  # those it was judged by
    assert cross_entropy(bad, seen, table) < math.log(400)
    index = bad.index
    codes = index.cell_codes[index.class_cells.long()]
    whole = reconstruct([word.double() for word in index.codewords], codes, bad.quantizer)
    scores = bad.space.queries(seen).double() @ whole.t() + index.own_scores.double() / float(index.factor)
    p = torch.softmax(seen.double() @ table.double().t(), dim=1)
    found = [
        float(-(p * torch.log_softmax(factor * scores, dim=1)).sum(dim=1).mean())
        for factor in torch.linspace(0, 1, 1001).tolist()
    ]
    assert float(index.factor) == pytest.approx(min(range(1001), key=found.__getitem__) / 1000, abs=2e-3)
    assert min(found) - 5e-3 < cross_entropy(bad, seen, table) < min(found) + 1e-4  # finer than the thousandths here
    assert found[-1] > math.log(400)  # as it would be without


def test_draws_of_a_flattened_index_have_the_probabilities_that_it_tells() -> None:
    sampler, queries, _ = refreshed(40.0)
    draw = sampler.sample(queries[:2], 40_000)
    log_q = sampler.log_prob(queries[:2], torch.arange(400))
    torch.testing.assert_close(draw.log_q, log_q.gather(1, draw.ids), atol=1e-5, rtol=1e-5)
    assert torch.allclose(log_q.double().exp().sum(dim=1), torch.ones(2, dtype=torch.float64), atol=1e-5)
    for row in range(2):
        shares = torch.bincount(draw.ids[row], minlength=400) / 40_000
        assert float((shares - log_q[row].exp()).abs().sum()) < 0.1


def test_a_flattened_index_is_saved_as_such_and_the_next_refresh_begins_anew() -> None:
    sampler, queries, table = refreshed(40.0)
    again = refreshed(1.0)[0]
    again.load_state_dict(sampler.state_dict())
    ids = torch.arange(400)
    assert torch.equal(again.log_prob(queries, ids), sampler.log_prob(queries, ids))
    for _ in range(20):
        sampler.sample(queries / 40, 1)
    sampler.refresh(table)
    assert float(sampler.index.factor) == 1.0
