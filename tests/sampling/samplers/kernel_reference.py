"""Slow and obvious reference implementations of the samplers by a kernel, and what draws of theirs must look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from sampling.suite import chi_square

from sylvan.sampling import Sampler, Sphere

Kind = TypeVar("Kind", bound=Sampler)


def made(
    kind: type[Kind], n: int, dim: int, *, seed: int = 0, batch: int = 3, **parameters: Any
) -> tuple[Kind, torch.Tensor, torch.Tensor]:
    """A sampler that has seen a class table, the table (n, dim), and queries (batch, dim)."""
    torch.manual_seed(seed)
    table, queries = torch.randn(n, dim), torch.randn(batch, dim)
    own_seed = {} if kind is Sphere else {"seed": seed}  # Sphere makes nothing at random
    sampler = kind(n, dim, **own_seed, **parameters)
    sampler.refresh(table)
    return sampler, table, queries


def sphere_probabilities(queries: np.ndarray, table: np.ndarray, alpha: float) -> np.ndarray:
    """Every class's probability by the definition, float64 (batch, n_classes)."""
    mass = alpha * (queries.astype(np.float64) @ table.astype(np.float64).T) ** 2 + 1
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def rff_features(vectors: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Random Fourier features of normalised vectors, float64 (n, 2 * n_features)."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    angles = (vectors / np.where(lengths == 0, 1, lengths)) @ frequencies.astype(np.float64)
    return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(frequencies.shape[1])


def rff_tree_probabilities(kernel: np.ndarray, floor: float, depth: int, size: int) -> np.ndarray:
    """Every class's probability in the tree, from one query's kernel estimates (n_classes,), class by class."""
    n_classes = len(kernel)

    def mass(first: int, span: int) -> float:
        part = kernel[first : first + span]
        return max(part.sum(), floor * len(part))

    found = np.empty(n_classes)
    for label in range(n_classes):
        probability, first, span = 1.0, 0, size << depth
        while span > size:
            span //= 2
            left, right = mass(first, span), mass(first + span, span)
            goes_right = label >= first + span
            probability *= (right if goes_right else left) / (left + right)
            first += span * goes_right
        leaf = np.maximum(kernel[first : first + size], floor)
        found[label] = probability * leaf[label - first] / leaf.sum()
    return found


def all_log_probs(sampler: Sampler, queries: torch.Tensor) -> torch.Tensor:
    return sampler.log_prob(queries, torch.arange(sampler.n_classes))


def check_draws(sampler: Sampler, query: torch.Tensor, expected: np.ndarray, n: int, rows: int = 1) -> None:
    """Chi-square of ``n`` draws for one query against ``expected`` (n_classes,), ``rows`` at a time; fixed seed."""
    generator = torch.Generator().manual_seed(7)
    draw = sampler.sample(query.expand(rows, -1), n // rows, generator=generator)
    assert chi_square(draw.ids, torch.from_numpy(expected).log()) > 1e-4
    # The draws' log-probabilities are those of log_prob.
    again = sampler.log_prob(query.expand(rows, -1), draw.ids)
    torch.testing.assert_close(draw.log_q, again, atol=2e-5, rtol=1e-5)


def same_for_any_batch(make: Callable[[], Sampler], queries: torch.Tensor) -> None:
    """The probabilities of a query don't depend on which queries came with it."""
    sampler = make()
    whole = all_log_probs(sampler, queries)
    alone = torch.cat([all_log_probs(sampler, queries[i : i + 1]) for i in range(len(queries))])
    torch.testing.assert_close(whole, alone, atol=2e-5, rtol=1e-5)
