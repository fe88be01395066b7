"""Sphere: both structures draw by the quadratic kernel, and tell the probability by its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_reference import all_log_probs, check_draws, made, same_for_any_batch, sphere_probabilities
from kit.errors import raises

from sylvan.errors import DataError, ParameterError
from sylvan.sampling import Sphere


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(1, 70),
    dim=st.integers(1, 9),
    leaf=st.integers(1, 40),
    structure=st.sampled_from(["scan", "tree"]),
    alpha=st.sampled_from([0.0, 0.3, 100.0]),
    seed=st.integers(0, 99),
)
def test_probabilities_are_the_definition(n: int, dim: int, leaf: int, structure: str, alpha: float, seed: int) -> None:
    sampler, table, queries = made(Sphere, n, dim, seed=seed, structure=structure, leaf_size=leaf, alpha=alpha)
    expected = sphere_probabilities(queries.numpy(), table.numpy(), alpha)
    np.testing.assert_allclose(all_log_probs(sampler, queries).exp(), expected, rtol=2e-4, atol=1e-7)
    draw = sampler.sample(queries, 5)
    assert draw.ids.shape == (3, 5)
    assert bool(((draw.ids >= 0) & (draw.ids < n)).all())
    of_draws = np.take_along_axis(expected, draw.ids.numpy(), axis=1)
    np.testing.assert_allclose(draw.log_q.exp(), of_draws, rtol=2e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("structure", "n", "leaf", "rows"),
    [
        ("scan", 500, None, 1),
        ("tree", 500, 3, 1),
        ("tree", 500, 3, 40_000),
        ("tree", 61, 100, 1),
        ("tree", 33, 2, 20_000),
    ],
)
def test_draws_follow_the_probabilities(structure: str, n: int, leaf: int | None, rows: int) -> None:
    """Many draws at once weigh whole levels; many queries with a draw or two each walk down by gathered sums."""
    sampler, table, queries = made(Sphere, n, 6, structure=structure, leaf_size=leaf, alpha=5.0)
    if sampler.tree is not None:
        sampler.tree.dense_nodes = 2
    expected = sphere_probabilities(queries.numpy(), table.numpy(), 5.0)[0]
    check_draws(sampler, queries[:1], expected, 40_000, rows)


@pytest.mark.parametrize("dense_nodes", [1, 4, 1024])
def test_walking_and_whole_levels_agree(dense_nodes: int) -> None:
    """The product of the branching probabilities is the kernel's share, wherever walking begins."""
    sampler, table, queries = made(Sphere, 300, 8, structure="tree", leaf_size=5, alpha=3.0)
    assert sampler.tree is not None and sampler.tree.depth == 6
    sampler.tree.dense_nodes = dense_nodes
    leaves, log_leaf = sampler.tree.draw(sampler._features(queries), 40, sampler._node_mass, None)
    expected = sphere_probabilities(queries.numpy(), table.numpy(), 3.0)
    starts = np.arange(64) * sampler.blocks.size
    of_leaf = np.add.reduceat(np.hstack([expected, np.zeros((3, 64 * sampler.blocks.size - 300))]), starts, axis=1)
    np.testing.assert_allclose(log_leaf.exp(), np.take_along_axis(of_leaf, leaves.numpy(), 1), rtol=1e-4)
    again = sampler.tree.log_prob(sampler._features(queries), leaves, sampler._node_mass)
    torch.testing.assert_close(log_leaf, again, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("structure", ["scan", "tree"])
def test_parts_change_nothing(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is in memory at once, the probabilities and the index are the same."""
    whole, table, queries = made(Sphere, 150, 4, structure=structure, leaf_size=8)
    before = all_log_probs(whole, queries)
    some = torch.tensor([[3, 149, 3], [0, 1, 2], [77, 5, 149]])
    chosen = whole.log_prob(queries, some)
    of_one = lambda n, size: (slice(i, i + 1) for i in range(n))  # noqa: E731
    monkeypatch.setattr("sylvan.sampling.samplers.kernel_sampler.slices", of_one)
    small = Sphere(150, 4, structure=structure, leaf_size=8)
    small.refresh(table)
    torch.testing.assert_close(all_log_probs(small, queries), before, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(small.log_prob(queries, some), chosen, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(before.gather(1, some), chosen, atol=1e-5, rtol=1e-5)
    draw = small.sample(queries, 4)
    torch.testing.assert_close(before.gather(1, draw.ids), draw.log_q, atol=1e-5, rtol=1e-5)


def test_auto_is_the_tree_for_many_classes() -> None:
    assert Sphere(511, 1).tree is None
    assert Sphere(512, 1).tree is not None
    assert Sphere(512, 1, structure="scan").tree is None
    same_for_any_batch(lambda: made(Sphere, 2048, 4)[0], torch.randn(5, 4))


@pytest.mark.parametrize("structure", ["scan", "tree"])
def test_large_scores_and_zero_vectors(structure: str) -> None:
    torch.manual_seed(2)
    table, queries = torch.randn(70, 8) * 100, torch.randn(6, 8) * 100
    table[::3], queries[0] = 0, 0
    sampler = Sphere(70, 8, structure=structure, leaf_size=4)
    sampler.refresh(table)
    expected = sphere_probabilities(queries.numpy(), table.numpy(), 100.0)
    np.testing.assert_allclose(all_log_probs(sampler, queries), np.log(expected), atol=2e-3)
    np.testing.assert_allclose(all_log_probs(sampler, queries)[0], -np.log(70), rtol=1e-6)
    draw = sampler.sample(queries, 200)
    assert bool(draw.log_q.isfinite().all())
    assert bool((draw.ids[1:] % 3 != 0).all())  # their probability is some 1e-11


def test_query_at_a_right_angle_to_everything() -> None:
    """Sums of squares that cancel to nothing, or a little below, leave the classes equally likely."""
    torch.manual_seed(3)
    turn = torch.linalg.qr(torch.randn(16, 16)).Q
    table, query = 30 * torch.randn(200, 1) * turn[:1], 5 * turn[1:2]
    sampler = Sphere(200, 16, structure="tree", leaf_size=10)
    sampler.refresh(table)
    log_q = all_log_probs(sampler, query)
    np.testing.assert_allclose(log_q, -np.log(200), atol=1e-2)
    assert len(sampler.sample(query, 2000).ids.unique()) > 150


def test_memory_of_the_tree() -> None:
    """The moments of all nodes take dim / leaf_size of the class table's memory, whatever the classes."""
    sampler = Sphere(2**15, 32, structure="tree")
    assert sampler.tree is not None
    assert sampler.blocks.rows.numel() == 2**15 * 32
    assert sampler.tree.sums.numel() < 0.55 * sampler.blocks.rows.numel()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1.0}, ("alpha", "[0, inf)")),
        ({"structure": "grid"}, ("structure", "auto", "scan", "tree")),
        ({"leaf_size": 0}, "leaf_size"),
    ],
)
def test_errors(parameters: dict[str, object], message: object) -> None:
    with raises(ParameterError, message):
        Sphere(5, 2, **parameters)  # type: ignore[arg-type]
    with raises(DataError, "(5, 2)"):
        Sphere(5, 2).refresh(torch.zeros(5, 3))
