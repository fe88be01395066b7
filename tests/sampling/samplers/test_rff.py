"""RFF: both structures draw by the random features' kernel with its floor, and tell their own exact probability."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_reference import all_log_probs, check_draws, made, rff_features, rff_tree_probabilities
from kit.errors import raises

from sylvan.errors import ParameterError
from sylvan.sampling import RFF


def expected(sampler: RFF, table: torch.Tensor, queries: torch.Tensor) -> np.ndarray:
    """Every class's probability by the definition of the sampler's structure, (batch, n_classes)."""
    frequencies = sampler.frequencies.numpy()
    kernel = rff_features(queries.double().numpy(), frequencies) @ rff_features(table.double().numpy(), frequencies).T
    floor = sampler.floor or max(np.exp(-2 * sampler.temperature), 0.25 / np.sqrt(2 * sampler.n_features))
    if sampler.tree is None:
        mass = np.maximum(kernel, floor)
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))
    return np.stack([rff_tree_probabilities(row, floor, sampler.tree.depth, sampler.blocks.size) for row in kernel])


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(1, 70),
    dim=st.integers(1, 9),
    leaf=st.integers(1, 40),
    n_features=st.sampled_from([1, 3, 32]),
    structure=st.sampled_from(["scan", "tree"]),
    floor=st.sampled_from([None, 0.01, 1.0]),
    seed=st.integers(0, 99),
)
def test_probabilities_are_the_definition(
    n: int, dim: int, leaf: int, n_features: int, structure: str, floor: float | None, seed: int
) -> None:
    sampler, table, queries = made(
        RFF, n, dim, seed=seed, structure=structure, leaf_size=leaf, n_features=n_features, floor=floor
    )
    wanted = expected(sampler, table, queries)
    found = all_log_probs(sampler, queries).exp()
    np.testing.assert_allclose(found.sum(dim=1), 1, rtol=1e-4)
    np.testing.assert_allclose(found, wanted, rtol=5e-3, atol=1e-5)
    draw = sampler.sample(queries, 5)
    assert bool(((draw.ids >= 0) & (draw.ids < n)).all())
    torch.testing.assert_close(draw.log_q, sampler.log_prob(queries, draw.ids), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("structure", "n", "leaf", "rows"),
    [("scan", 500, None, 1), ("tree", 500, 3, 1), ("tree", 500, 3, 40_000), ("tree", 61, 100, 1), ("tree", 33, 2, 9)],
)
def test_draws_follow_the_probabilities(structure: str, n: int, leaf: int | None, rows: int) -> None:
    """Many draws at once weigh whole levels; many queries with a draw each walk down by gathered sums."""
    sampler, table, queries = made(RFF, n, 6, structure=structure, leaf_size=leaf, temperature=3.0)
    if sampler.tree is not None:
        sampler.tree.dense_nodes = 2
    check_draws(sampler, queries[:1], expected(sampler, table, queries[:1])[0], 40_000, rows)


def test_the_floor_matters_here() -> None:
    """The cases above have classes and leaves with a negative estimate: the floor is no dead letter."""
    sampler, table, queries = made(RFF, 500, 6, structure="tree", leaf_size=3, temperature=3.0)
    frequencies = sampler.frequencies.numpy()
    kernel = rff_features(queries.numpy(), frequencies) @ rff_features(table.numpy(), frequencies).T
    assert (kernel < 0).mean() > 0.05
    assert (np.add.reduceat(kernel, np.arange(0, 500, sampler.blocks.size), axis=1) < 0).any()


@pytest.mark.parametrize("dense_nodes", [1, 4, 1024])
def test_the_distribution_does_not_depend_on_where_walking_begins(dense_nodes: int) -> None:
    sampler, table, queries = made(RFF, 300, 8, structure="tree", leaf_size=5)
    assert sampler.tree is not None and sampler.tree.depth == 6
    sampler.tree.dense_nodes = dense_nodes
    ids = torch.randint(300, (3, 7))
    wanted = np.take_along_axis(expected(sampler, table, queries), ids.numpy(), axis=1)
    np.testing.assert_allclose(sampler.log_prob(queries, ids).exp(), wanted, rtol=2e-3)
    draw = sampler.sample(queries, 9)
    wanted = np.take_along_axis(expected(sampler, table, queries), draw.ids.numpy(), axis=1)
    np.testing.assert_allclose(draw.log_q.exp(), wanted, rtol=2e-3)


@pytest.mark.parametrize("structure", ["scan", "tree"])
def test_many_features_give_the_softmax_of_normalised_embeddings(structure: str) -> None:
    sampler, table, queries = made(RFF, 40, 5, structure=structure, leaf_size=4, n_features=20_000, temperature=1.5)
    unit = torch.nn.functional.normalize
    wanted = (1.5 * unit(queries, dim=1) @ unit(table, dim=1).t()).softmax(dim=1)
    np.testing.assert_allclose(all_log_probs(sampler, queries).exp(), wanted, atol=2e-3)


@pytest.mark.parametrize("structure", ["scan", "tree"])
def test_parts_change_nothing(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, table, queries = made(RFF, 150, 4, structure=structure, leaf_size=8)
    before = all_log_probs(whole, queries)
    of_one = lambda n, size: (slice(i, i + 1) for i in range(n))  # noqa: E731
    monkeypatch.setattr("sylvan.sampling.samplers.kernel_sampler.slices", of_one)
    small = RFF(150, 4, seed=0, structure=structure, leaf_size=8)
    small.refresh(table)
    torch.testing.assert_close(all_log_probs(small, queries), before, atol=1e-4, rtol=1e-4)
    draw = small.sample(queries, 4)
    torch.testing.assert_close(before.gather(1, draw.ids), draw.log_q, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("structure", ["scan", "tree"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_large_scores_and_zero_vectors(structure: str, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    table, queries = (torch.randn(90, 5) * 300).to(dtype), (torch.randn(4, 5) * 300).to(dtype)
    table[::4], queries[0] = 0, 0
    sampler = RFF(90, 5, structure=structure, leaf_size=8, temperature=40.0)
    sampler.refresh(table)
    log_q = all_log_probs(sampler, queries)
    assert log_q.dtype == torch.float32
    np.testing.assert_allclose(log_q.exp(), expected(sampler, table, queries), rtol=1e-2, atol=1e-5)
    assert bool(sampler.sample(queries, 3).log_q.isfinite().all())


def test_the_frequencies_come_from_the_seed_or_from_pytorchs_generator() -> None:
    assert torch.equal(RFF(9, 4, seed=3).frequencies, RFF(70, 4, seed=3).frequencies)
    assert not torch.equal(RFF(9, 4).frequencies, RFF(9, 4).frequencies)


def test_defaults_are_the_papers() -> None:
    sampler = RFF(10, 500)
    assert sampler.frequencies.shape == (500, 32)
    assert float(sampler.frequencies.var()) == pytest.approx(4.0, rel=0.05)
    assert sampler.tree is None
    assert RFF(20_000, 4).tree is not None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"temperature": 0}, ("temperature", "RFF", "(0, inf)")),
        ({"n_features": 0}, "n_features"),
        ({"floor": 0.0}, "floor"),
        ({"floor": 1.5}, "floor"),
        ({"seed": -1}, "seed"),
    ],
)
def test_errors(parameters: dict[str, object], message: object) -> None:
    with raises(ParameterError, message):
        RFF(5, 2, **parameters)  # type: ignore[arg-type]
