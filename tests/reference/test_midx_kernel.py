"""The kernel that draws from an inverted multi-index, given arrays that don't fit or numbers that are none.

Without PyTorch, so that the sanitizers reach it; ``tests/sampling/midx/test_midx.py`` tests what it draws.
"""

from collections.abc import Callable

import numpy as np
import pytest
from kit.bits import same_bits
from kit.errors import raises

from sylvan import kernels

Arrays = dict[str, np.ndarray]


def arrays(n_queries: int = 2, n_draws: int = 3, k: int = 4, n_classes: int = 9, weighted: bool = False) -> Arrays:
    rng = np.random.default_rng(0)
    counts = rng.multinomial(n_classes, np.ones(k * k) / k**2)
    second = rng.uniform(size=(n_queries, k))
    weights = rng.uniform(size=(n_queries, k)) * (second @ counts.reshape(k, k).T)
    return {
        "cumulative": np.cumsum(weights, axis=1),
        "second": second,
        "log_first": np.zeros((n_queries, k), np.float32),
        "log_second": np.zeros((n_queries, k), np.float32),
        "offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "masses": counts.astype(np.float64),
        "order": rng.permutation(n_classes).astype(np.int32),
        "in_cells": np.arange(1.0, n_classes + 1) if weighted else np.zeros(0),
        "own_scores": np.zeros(n_classes if weighted else 0, np.float32),
        "uniforms": rng.uniform(size=(n_queries, n_draws)),
        "ids": np.full((n_queries, n_draws), -1, np.int64),
        "log_q": np.zeros((n_queries, n_draws), np.float32),
    }


FITTING = ["cumulative", "second", "log_first", "log_second", "uniforms", "ids", "log_q", "offsets", "masses"]


@pytest.mark.parametrize("name", [*FITTING, "in_cells", "own_scores"])
@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a[..., :-1], lambda a: a.astype(np.int16)])
def test_arrays_that_do_not_fit_are_refused(name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    call = arrays(weighted=True)
    kernels.midx_draw(**call)
    call[name] = np.ascontiguousarray(change(call[name]))
    with pytest.raises((ValueError, TypeError)):
        kernels.midx_draw(**call)


def test_classes_of_either_width_are_drawn_alike() -> None:
    call, wide = arrays(weighted=True), arrays(weighted=True)
    wide["order"] = wide["order"].astype(np.int64)
    kernels.midx_draw(**call)
    kernels.midx_draw(**wide)
    same_bits((call["ids"], call["log_q"]), (wide["ids"], wide["log_q"]))
    assert call["ids"].min() >= 0


def test_offsets_that_are_none_are_refused() -> None:
    for place, value in [(3, 99), (5, -1), (0, 1), (-1, 10**12)]:
        call = arrays()
        call["offsets"][place] = value
        with raises(ValueError, "offsets"):
            kernels.midx_draw(**call)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, -3e38, 3e38, 0.0, 1e-40])
@pytest.mark.parametrize(
    "name", ["cumulative", "second", "log_first", "log_second", "uniforms", "masses", "in_cells", "own_scores"]
)
def test_hostile_numbers_draw_within_the_classes(name: str, poison: float) -> None:
    for whole in (True, False):
        call = arrays(n_queries=5, n_draws=50, weighted=True)
        if whole:
            call[name][:] = poison
        else:
            call[name].flat[::3] = poison
        kernels.midx_draw(**call)
        assert call["ids"].min() >= 0
        assert call["ids"].max() < 9
