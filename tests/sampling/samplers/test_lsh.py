"""LSH: probabilities by the definition, bucket by bucket, and draws that follow them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_reference import all_log_probs, check_draws, made
from kit.errors import raises

from sylvan.errors import ParameterError
from sylvan.sampling import LSH


def expected(sampler: LSH, table: torch.Tensor, queries: torch.Tensor) -> np.ndarray:
    """Every class's probability by the definition, query by query and table by table, (batch, n_classes)."""
    classes, asked = table.double().numpy(), queries.double().numpy()
    planes = sampler.planes.double().numpy().reshape(sampler.n_tables, sampler.n_bits, -1)
    if sampler.augment:
        lengths = np.linalg.norm(classes, axis=1)
        rest = np.sqrt(np.maximum(0, lengths.max() ** 2 - lengths**2))
        classes = np.hstack([classes, rest[:, None]])  # all divided by the largest length have the same signs
        asked = np.hstack([asked, np.zeros((len(asked), 1))])
    n = len(classes)
    found = np.zeros((len(asked), n))
    for row, query in enumerate(asked):
        for hashes in planes:
            same = ((classes @ hashes.T > 0) == (hashes @ query > 0)).all(axis=1)
            found[row] += same / same.sum() if same.any() else np.full(n, 1 / n)
    return (1 - sampler.uniform_share) * found / sampler.n_tables + sampler.uniform_share / n


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(1, 60),
    dim=st.integers(1, 9),
    n_tables=st.integers(1, 5),
    n_bits=st.integers(1, 7),
    uniform_share=st.sampled_from([0.0, 0.1, 1.0]),
    augment=st.booleans(),
    seed=st.integers(0, 99),
)
def test_probabilities_are_the_definition(
    n: int, dim: int, n_tables: int, n_bits: int, uniform_share: float, augment: bool, seed: int
) -> None:
    sampler, table, queries = made(
        LSH, n, dim, seed=seed, n_tables=n_tables, n_bits=n_bits, uniform_share=uniform_share, augment=augment
    )
    wanted = expected(sampler, table, queries)
    np.testing.assert_allclose(wanted.sum(axis=1), 1, rtol=1e-9)
    np.testing.assert_allclose(all_log_probs(sampler, queries).exp(), wanted, rtol=1e-5, atol=1e-9)
    draw = sampler.sample(queries, 9)
    assert bool(((draw.ids >= 0) & (draw.ids < n)).all())
    of_draws = np.take_along_axis(wanted, draw.ids.numpy(), axis=1)
    np.testing.assert_allclose(draw.log_q.exp(), of_draws, rtol=1e-5)
    assert bool(draw.log_q.isfinite().all())


@pytest.mark.parametrize(
    ("n", "parameters", "rows"),
    [
        (500, {}, 1),
        (500, {"uniform_share": 0.0}, 100),
        (40, {"n_tables": 3, "n_bits": 6, "uniform_share": 0.0}, 1),
        (40, {"n_tables": 3, "n_bits": 2, "augment": True}, 1),
    ],
)
def test_draws_follow_the_probabilities(n: int, parameters: dict[str, object], rows: int) -> None:
    sampler, table, queries = made(LSH, n, 6, batch=8, **parameters)
    wanted = expected(sampler, table, queries)
    for row in range(2):
        check_draws(sampler, queries[row : row + 1], wanted[row], 40_000, rows)


def test_empty_buckets_occur_here() -> None:
    """With 6 signs and 40 classes some buckets are empty: the fallback is no dead letter above."""
    sampler, _, queries = made(LSH, 40, 6, batch=8, n_tables=3, n_bits=6, uniform_share=0.0)
    _, _, size = sampler._buckets(queries)
    assert bool(((size == 0).any(dim=1) & (size > 0).any(dim=1)).any())


def test_without_a_uniform_share_some_classes_are_never_drawn() -> None:
    sampler, table, queries = made(LSH, 300, 16, uniform_share=0.0)
    missed = np.isneginf(all_log_probs(sampler, queries).numpy())
    np.testing.assert_array_equal(missed, expected(sampler, table, queries) == 0)
    assert missed.mean() > 0.1
    assert bool(all_log_probs(made(LSH, 300, 16)[0], queries).isfinite().all())


def test_augmented_collisions_fall_with_the_inner_product() -> None:
    """Two classes in the query's own direction: with the added dimension the longer one collides more."""
    table = torch.tensor([[1.0, 0.0], [0.2, 0.0], [0.0, 1.0]])
    query = torch.tensor([[5.0, 0.0]])
    for augment in (False, True):
        sampler = LSH(3, 2, n_tables=2000, n_bits=2, augment=augment, seed=1)
        sampler.refresh(table)
        codes, _, _ = sampler._buckets(query)
        shared = (sampler.codes == codes.view(-1, 1)).double().mean(dim=0)
        angles = np.arccos([1.0, 0.2, 0.0]) if augment else np.array([0.0, 0.0, np.pi / 2])
        np.testing.assert_allclose(shared, (1 - angles / np.pi) ** 2, atol=0.04)


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_large_scores_and_zero_vectors(augment: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    table, queries = (torch.randn(90, 5) * 3000).to(dtype), (torch.randn(4, 5) * 3000).to(dtype)
    table[::4], queries[0] = 0, 0
    sampler = LSH(90, 5, augment=augment)
    sampler.refresh(table)
    log_q = all_log_probs(sampler, queries)
    assert log_q.dtype == torch.float32
    np.testing.assert_allclose(log_q.exp(), expected(sampler, table, queries), rtol=1e-4)
    assert bool(sampler.sample(queries, 3).log_q.isfinite().all())
    sampler.refresh(torch.zeros(90, 5, dtype=dtype))
    np.testing.assert_allclose(all_log_probs(sampler, torch.zeros(1, 5)), -np.log(90), rtol=1e-5)


def test_planes_are_drawn_and_a_second_refresh_leaves_nothing_of_the_first() -> None:
    assert not torch.equal(LSH(9, 4).planes, LSH(9, 4).planes)
    sampler, table, queries = made(LSH, 100, 4)
    before = all_log_probs(sampler, queries)
    sampler.refresh(table.flip(0))
    torch.testing.assert_close(all_log_probs(sampler, queries), before.flip(1))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_bits": 17}, ("n_bits", "LSH", "[1, 16]", 17)),
        ({"n_tables": 0}, "n_tables"),
        ({"uniform_share": 1.5}, "uniform_share"),
        ({"augment": 1}, "augment"),
    ],
)
def test_errors(parameters: dict[str, object], message: object) -> None:
    with raises(ParameterError, message):
        LSH(5, 2, **parameters)  # type: ignore[arg-type]
