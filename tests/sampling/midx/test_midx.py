"""MIDX against Eq. (6) computed naively, a two-stage draw in NumPy and the softmax (ExactMIDX); compiled code too."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.chance import assert_drawn_by, draws_needed
from kit.errors import raises

from sylvan.errors import DataError, ParameterError
from sylvan.indexing.codebooks import reconstruct
from sylvan.sampling import MIDX, ExactMIDX
from sylvan.sampling.midx import multi_index
from sylvan.sampling.tensors import invert


def ready(kind: type[MIDX] | type[ExactMIDX], table: torch.Tensor, **parameters: object) -> MIDX | ExactMIDX:
    sampler = kind(len(table), table.shape[1], **parameters)  # type: ignore[arg-type]
    torch.manual_seed(3)
    sampler.refresh(table)
    return sampler


def naive_log_q(sampler: MIDX, queries: torch.Tensor) -> np.ndarray:
    """Eq. (6), its second form: the softmax of the scores of the quantised embeddings."""
    words = [w.double() for w in sampler.index.codewords]
    codes = sampler.index.cell_codes[sampler.index.class_cells.long()]
    scores = (queries.double() @ reconstruct(words, codes, sampler.quantizer).t()).numpy()
    top = scores.max(axis=1, keepdims=True)
    return scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("n_codebooks", [1, 2, 3])
@pytest.mark.parametrize("native", [False, None])
def test_huge_scores_neither_overflow_nor_vanish(n_codebooks: int, native: bool | None) -> None:
    torch.manual_seed(5)
    table, queries = torch.randn(100, 4) * 100, torch.randn(30, 4) * 100
    sampler = ready(MIDX, table, n_codewords=6, n_codebooks=n_codebooks, native=native)
    found = sampler.log_prob(queries, torch.arange(100))
    expected = naive_log_q(sampler, queries)
    assert torch.isfinite(found).all()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=0.05)
    draw = sampler.sample(queries, 20)
    torch.testing.assert_close(draw.log_q, found.gather(1, draw.ids))
    assert torch.all(draw.log_q > -60)
    shared = sampler.shared_log_prob(queries, torch.arange(100))
    assert torch.isfinite(shared).all()
    assert torch.all(torch.isfinite(sampler.sample(queries, 40, shared=True).log_q))


@pytest.mark.parametrize("native", [False, None])
def test_cells_that_all_underflow_in_linear_space_are_drawn_in_log_space(native: bool | None) -> None:
    """The best codewords of the two books never meet: every cell with a class lies 1000 and more below."""
    sampler = MIDX(4, 2, n_codewords=2, quantizer="pq", native=native)
    sampler.refresh(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    query = torch.tensor([[3000.0, 3000.0], [3000.0, 3001.0], [1.0, 0.0]])
    assert int((sampler.index.counts > 0).sum()) == 2
    found = sampler.log_prob(query, torch.arange(4)).exp()
    odds = 1 / (1 + np.e)
    expected = [[0.25] * 4, [odds / 2, odds / 2, (1 - odds) / 2, (1 - odds) / 2], [(1 - odds) / 2] * 2 + [odds / 2] * 2]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
    draw = sampler.sample(query, draws_needed(4, 0.08), generator=torch.Generator().manual_seed(0))
    for ids, probabilities in zip(draw.ids, expected, strict=True):
        assert_drawn_by(ids, probabilities, off_by=0.08)
    torch.testing.assert_close(draw.log_q, found.log().gather(1, draw.ids))
    mean = np.mean(expected, axis=0)
    np.testing.assert_allclose(sampler.shared_log_prob(query, torch.arange(4)).exp().numpy(), mean, rtol=1e-5)
    assert_drawn_by(sampler.sample(query, draws_needed(4, 0.08), shared=True).ids, mean, off_by=0.08)


def test_a_class_that_no_query_ever_draws_has_a_finite_shared_probability() -> None:
    sampler = MIDX(2, 1, n_codewords=2)
    sampler.refresh(torch.tensor([[0.0], [1.0]]))
    query = torch.full((3, 1), 2000.0)
    torch.testing.assert_close(sampler.shared_log_prob(query, torch.arange(2)), torch.tensor([-2000.0, 0.0]))


@given(
    st.integers(1, 20), st.integers(1, 5), st.integers(1, 20), st.sampled_from([1, 7]), st.booleans(),
    st.sampled_from([None, False]),
    st.fixed_dictionaries({"n_codewords": st.integers(1, 9), "n_codebooks": st.integers(1, 3),
                           "quantizer": st.sampled_from(["pq", "rq"])}),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_odd_sizes(
    n: int, dim: int, distinct: int, n_draws: int, exact: bool, native: bool | None, parameters: dict[str, Any]
) -> None:
    if parameters["quantizer"] == "pq":
        parameters["n_codebooks"] = min(parameters["n_codebooks"], dim)
    torch.manual_seed(n + 7 * dim)
    table = torch.randn(n, dim)[torch.arange(n) % distinct]
    sampler = ready(ExactMIDX, table, **parameters) if exact else ready(MIDX, table, native=native, **parameters)
    queries = torch.randn(3, dim)
    log_prob = sampler.log_prob(queries, torch.arange(n))
    torch.testing.assert_close(log_prob.exp().sum(dim=1), torch.ones(3))
    for _ in range(2):
        draw = sampler.sample(queries, n_draws)
        assert int(draw.ids.min()) >= 0 and int(draw.ids.max()) < n
        torch.testing.assert_close(draw.log_q, log_prob.gather(1, draw.ids))
        sampler.refresh(table)  # goes on from its own codewords
        log_prob = sampler.log_prob(queries, torch.arange(n))
    assert sampler.sample(queries, n_draws, shared=True).ids.shape == (n_draws,)


def test_coins_never_fall_on_an_empty_part_or_off_the_end() -> None:
    heights = torch.tensor([0.0, 1e-300, 1e-300, 0.1, 0.1 + 0.2, 0.3 + 1e-16, 0.3 + 1e-16], dtype=torch.float64)
    coins = torch.tensor([0.0, 1e-320, 0.3333333333333333, 1 - 2**-53, 1.0], dtype=torch.float64)
    places, rest = invert(heights, coins)
    widths = heights.diff(prepend=heights.new_zeros(1))
    assert torch.all(widths[places] > 0)
    assert torch.all((rest >= 0) & (rest < 1))


def test_class_weights_bring_heavy_classes_closer_to_the_softmax() -> None:
    torch.manual_seed(10)
    weights = torch.ones(2000)
    weights[:30] = 300.0
    table, queries = torch.randn(2000, 12) * 0.3, torch.randn(50, 12)
    softmax = torch.log_softmax(queries @ table.t(), dim=1)[:, :30]
    errors = []
    for given_weights in (None, weights):
        sampler = ready(MIDX, table, n_codewords=8, class_weights=given_weights)
        errors.append((sampler.log_prob(queries, torch.arange(30)) - softmax).square().mean())
    assert errors[1] < 0.7 * errors[0]


def test_a_query_touches_nothing_of_the_size_of_the_class_set() -> None:
    """All that draws and probabilities allocate stays far below a number for each class."""
    torch.manual_seed(11)
    n = 200_000
    sampler = ready(MIDX, torch.randn(n, 2), n_codewords=8, n_iterations=1, native=False)
    queries, ids = torch.randn(2, 2), torch.randint(n, (2, 5))
    with torch.profiler.profile(profile_memory=True) as profile:
        sampler.sample(queries, 5)
        sampler.sample(queries, 5, shared=True)
        sampler.log_prob(queries, ids)
        sampler.shared_log_prob(queries, ids[0])
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert 0 < largest < n / 4


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"quantizer": "pq", "n_codebooks": 9}, ("[1, 4]", 9)),
        ({"n_codebooks": 10, "n_codewords": 1000}, (2, 62)),
        ({"n_codewords": 10**6}, ("268,435,456", "n_codewords", "n_codebooks", 1000000, 2)),
    ],
)
def test_wrong_parameters(parameters: dict[str, object], sentence: object) -> None:
    with raises(ParameterError, sentence):
        MIDX(10, 4, **parameters)  # type: ignore[arg-type]


def test_wrong_weights_and_calls() -> None:
    with raises(DataError, "class_weights", "MIDX"):
        MIDX(10, 4, class_weights=[1, 2])
    sampler = ready(MIDX, torch.randn(10, 4), n_codewords=2)
    with raises(DataError, "[0, 10)"):
        sampler.shared_log_prob(torch.randn(2, 4), torch.tensor([10]))
    with raises(DataError, "MIDX.shared_log_prob"):
        sampler.shared_log_prob(torch.randn(2, 4), torch.tensor([[1, 2]]))


def pair(n: int, dim: int, **parameters: object) -> tuple[MIDX, MIDX]:
    """Two samplers of the same index: one draws in compiled code, the other doesn't."""
    sampler: Any = ready(MIDX, torch.randn(n, dim, generator=torch.Generator().manual_seed(0)), **parameters)
    other = copy.deepcopy(sampler)
    sampler.native, other.native = True, False
    return sampler, other


def same_draws(first: MIDX, second: MIDX, queries: torch.Tensor, n: int) -> None:
    draws = [s.sample(queries, n, generator=torch.Generator().manual_seed(2)) for s in (first, second)]
    assert torch.equal(draws[0].ids, draws[1].ids)
    torch.testing.assert_close(draws[0].log_q, draws[1].log_q, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("quantizer", ["pq", "rq"])
def test_the_same_coins_give_the_same_classes(scale: float, quantizer: str) -> None:
    first, second = pair(5000, 16, n_codewords=20, quantizer=quantizer)
    same_draws(first, second, torch.randn(50, 16) * scale, 70)


@given(st.integers(1, 40), st.integers(2, 4), st.integers(1, 12), st.integers(1, 4), st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_odd_sizes_in_compiled_code(n: int, dim: int, n_codewords: int, n_queries: int, n_draws: int) -> None:
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
