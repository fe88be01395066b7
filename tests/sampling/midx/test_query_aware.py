"""MIDX made for the queries there are: against sums over classes, and nearer to the softmax than without.

Scores of an index that is sure of the wrong classes are made flatter: against a search over naive sums.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises
from sampling.suite import flattened

from sylvan.errors import ParameterError
from sylvan.indexing.codebooks import reconstruct
from sylvan.sampling import MIDX
from sylvan.sampling.midx import midx as module
from sylvan.sampling.midx.midx import QuerySpace, RecentQueries, mean_softmax
from sylvan.sampling.midx.multi_index import MultiIndex


def embeddings(n: int = 300, dim: int = 8) -> torch.Tensor:
    """Longer for frequent classes."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, dim, generator=generator) * 3 / (1 + torch.arange(n)[:, None]).log1p()


def asked(n: int = 200, dim: int = 8) -> torch.Tensor:
    """Queries with a mean of their own, in few of the directions."""
    generator = torch.Generator().manual_seed(3)
    return 1 + torch.randn(n, 2, generator=generator) @ torch.randn(2, dim, generator=generator)


def made(n: int = 300, dim: int = 8, **parameters: object) -> MIDX:
    """A sampler that has drawn for queries and was refreshed thereafter."""
    torch.manual_seed(1)
    sampler = MIDX(n, dim, **{"n_codewords": 6, "query_aware": True, **parameters})  # type: ignore[arg-type]
    sampler.refresh(embeddings(n, dim))
    queries = asked(dim=dim)
    for start in range(0, len(queries), 40):
        sampler.sample(queries[start : start + 40], 2)
    sampler.refresh(embeddings(n, dim))
    return sampler


def naive_log_q(sampler: MIDX, queries: torch.Tensor) -> np.ndarray:
    """Log-probabilities of all classes from the definition: mean and covariance, codewords, what is left over."""
    index, table = sampler.index, embeddings(sampler.n_classes, sampler.dim).double().numpy()
    assert sampler.space is not None
    mean, root = sampler.space.center.double().numpy(), sampler.space.root.double().numpy()
    codes = index.cell_codes[index.class_cells.long()]
    quantised = reconstruct([words.detach() for words in index.codewords], codes, sampler.quantizer).double().numpy()
    moved = table @ root
    own = table @ mean + 0.5 * ((moved - quantised) ** 2).sum(axis=1)
    seen = (queries.double().numpy() - mean) @ np.linalg.inv(root)
    scores = float(index.factor) * (seen @ quantised.T + own)  # the factor: test_a_good_index_is_left_alone_…
    scores -= scores.max(axis=1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("quantizer", ["pq", "rq"])
@pytest.mark.parametrize("n_codebooks", [1, 2, 3])
def test_probabilities_are_those_of_the_definition(quantizer: str, n_codebooks: int) -> None:
    sampler = made(quantizer=quantizer, n_codebooks=n_codebooks)
    queries = asked()[::10]
    found = sampler.log_prob(queries, torch.arange(300)).numpy()
    np.testing.assert_allclose(found, naive_log_q(sampler, queries), atol=2e-4)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, atol=1e-5)


@given(
    n=st.integers(1, 60), dim=st.integers(2, 5), n_codewords=st.integers(1, 9), scale=st.sampled_from([0.01, 1.0, 40.0])
)
@settings(max_examples=20, deadline=None)
def test_compiled_code_and_pytorch_draw_the_same(n: int, dim: int, n_codewords: int, scale: float) -> None:
    sampler, queries, draws = made(n, dim, n_codewords=n_codewords), asked(7, dim) * scale, []
    for native in (True, False):
        sampler.native = native
        draws.append(sampler.sample(queries, 9, generator=torch.Generator().manual_seed(2)))
    assert torch.equal(draws[0].ids, draws[1].ids)
    torch.testing.assert_close(draws[0].log_q, draws[1].log_q, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("quantizer", ["pq", "rq"])
def test_it_is_nearer_to_the_softmax(quantizer: str) -> None:
    table, queries = embeddings(), asked()
    log_p = torch.log_softmax(queries @ table.t(), dim=1)
    ln_d2 = []
    for sampler in (made(quantizer=quantizer, query_aware=False), made(quantizer=quantizer)):
        log_q = sampler.log_prob(queries, torch.arange(300))
        ln_d2.append(float(torch.logsumexp(2 * log_p - log_q, dim=1).mean()))
    assert ln_d2[1] < 0.5 * ln_d2[0]


def test_learning_goes_on_from_there() -> None:
    table, queries = embeddings(), asked()
    log_p = torch.log_softmax(queries @ table.t(), dim=1)
    divergences = []
    for learnable in (False, True):
        log_q = made(n_codewords=3, learnable=learnable).log_prob(queries, torch.arange(300))
        divergences.append(float((log_p.exp() * (log_p - log_q)).sum(dim=1).mean()))
    assert divergences[1] < divergences[0]


def test_the_space_keeps_scores_and_makes_queries_round() -> None:
    table, queries = embeddings(), asked() + 0.3 * torch.randn(200, 8, generator=torch.Generator().manual_seed(9))
    space = QuerySpace(8)
    space.fit(queries)
    seen, moved = space.queries(queries), space.classes(table)
    torch.testing.assert_close(seen @ moved.t() + table @ space.center, queries @ table.t(), atol=1e-3, rtol=1e-4)
    assert float((seen.t() @ seen / 200 - torch.eye(8)).abs().max()) < 0.3  # shrunk towards its mean
    torch.testing.assert_close(space.root @ space.inverse_root, torch.eye(8), atol=1e-4, rtol=1e-4)
    before = space.root.clone()
    space.fit(torch.ones(5, 8))
    assert torch.equal(space.root, before)


@pytest.mark.parametrize(("n", "fitted"), [(1, False), (2, True)])
def test_two_queries_make_a_space_and_one_does_not(n: int, fitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    flattened, real = [], module.flattening
    monkeypatch.setattr(module, "flattening", lambda *given: flattened.append(n) or real(*given))
    sampler = MIDX(30, 8, n_codewords=4, query_aware=True)
    sampler.refresh(embeddings(30))
    sampler.sample(asked(n), 2)
    sampler.refresh(embeddings(30))
    assert sampler.space is not None and sampler.recent is not None and len(sampler.recent.sound()) == n
    assert torch.equal(sampler.space.root, torch.eye(8)) != fitted
    assert bool(sampler.index.own_scores.any()) == bool(flattened) == fitted


def test_mean_probabilities_are_those_of_all_classes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sylvan.sampling.tensors._IN_CACHE", 1000)  # several blocks
    table, queries = embeddings(), asked(30) * 4
    expected = torch.softmax(queries.double() @ table.double().t(), dim=1).mean(dim=0)
    torch.testing.assert_close(mean_softmax(queries, table).double(), expected, atol=1e-6, rtol=1e-4)


def test_own_scores_far_below_weigh_next_to_nothing_but_something() -> None:
    index = MultiIndex(6, 2, 2, 2, "rq", weighted=True)
    index.rebuild(torch.tensor([[0, 0], [0, 0], [0, 1], [1, 0], [1, 0], [1, 0]]))
    index.set_own_scores(torch.tensor([5.0, 4.0, -1e30, 5.0, -1e30, 5.0]))
    assert index.own_scores.tolist() == [0.0, -1.0, -300.0, 0.0, -300.0, 0.0]
    expected = [1 + np.exp(-1), np.exp(-300), 2 + np.exp(-300), 0]
    np.testing.assert_allclose(index.masses().numpy(), expected)
    np.testing.assert_allclose(index.heights.numpy(), [1 / (1 + np.exp(-1)), 1, 2, 2.5, 2.5, 3], rtol=1e-12)


@pytest.mark.parametrize("spoilt", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("parameters", [{}, {"query_aware": False, "learnable": True}])
def test_queries_that_are_no_numbers_spoil_nothing(parameters: dict[str, bool], spoilt: float) -> None:
    sampler = made(**parameters)
    queries = asked().clone()
    queries[::2] = spoilt
    sampler.sample(queries[:40], 2)
    sampler.refresh(embeddings())
    assert torch.isfinite(sampler.log_prob(asked(), torch.arange(300))).all()


def test_codewords_trained_beside_the_model_cannot_be_made_for_queries() -> None:
    with raises(ParameterError, "query_aware", "MIDX", "False"):
        MIDX(10, 4, learnable="joint", query_aware=True)


@pytest.mark.parametrize("parameters", [{"query_aware": True}, {"learnable": True}])
def test_queries_of_an_evaluation_are_not_stored(parameters: dict[str, bool]) -> None:
    sampler = MIDX(30, 4, n_codewords=4, **parameters)  # type: ignore[arg-type]
    sampler.refresh(embeddings(30, 4))
    assert sampler.recent is not None
    sampler.eval()
    for shared in (False, True):
        sampler.sample(torch.randn(8, 4), 3, shared=shared)
    assert sampler.recent.n_stored == 0
    sampler.train()
    sampler.sample(torch.randn(8, 4), 3)
    assert sampler.recent.n_stored == 8


def test_the_oldest_queries_are_overwritten() -> None:
    recent = RecentQueries(5, 1)
    recent.keep(torch.tensor([[1.0], [2.0], [3.0]]))
    assert recent.n_stored == 3
    recent.keep(torch.tensor([[4.0], [5.0], [6.0]], dtype=torch.bfloat16))
    assert recent.n_stored == 5
    assert recent.queries.flatten().tolist() == [6.0, 2.0, 3.0, 4.0, 5.0]
    recent.keep(torch.arange(100.0)[:, None])
    assert sorted(recent.queries.flatten().tolist()) == [0.0, 20.0, 40.0, 60.0, 80.0]


def cross_entropy(sampler: MIDX, queries: torch.Tensor, table: torch.Tensor) -> float:
    p = torch.softmax(queries.double() @ table.double().t(), dim=1)
    return float(-(p * sampler.log_prob(queries, torch.arange(len(table))).double()).sum(dim=1).mean())


@pytest.mark.parametrize("parameters", [{}, {"quantizer": "pq"}, {"n_codebooks": 3}, {"learnable": True, "n_steps": 2}])
def test_a_good_index_is_left_alone_and_a_bad_one_made_as_good_as_it_can_be(parameters: dict[str, object]) -> None:
    good, _, _ = flattened(1.0, **parameters)
    assert float(good.index.factor) == 1.0
    bad, _, table = flattened(**parameters)
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


def test_a_flattened_index_is_saved_as_such_and_the_next_refresh_begins_anew() -> None:
    sampler, queries, table = flattened()
    again = flattened(1.0)[0]
    again.load_state_dict(sampler.state_dict())
    ids = torch.arange(400)
    assert torch.equal(again.log_prob(queries, ids), sampler.log_prob(queries, ids))
    for _ in range(20):
        sampler.sample(queries / 40, 1)
    sampler.refresh(table)
    assert float(sampler.index.factor) == 1.0
