"""Ranks and measures over the full catalogue against loops and against ``sylvan.metrics``."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan import metrics
from sylvan.arrays.topk import TopK
from sylvan.sampling.tensors import slices
from sylvan.tasks.base import ranking_measures, target_ranks, top_classes


def naive_rank(scores: list[float], target: int, seen: set[int]) -> int:
    allowed = [c for c in range(len(scores)) if c == target or c not in seen]
    return sorted(allowed, key=lambda c: (-scores[c], c)).index(target) + 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 12), st.booleans(), st.sampled_from([None, 1, 20]))
def test_ranks_agree_with_sorting(seed: int, n: int, n_classes: int, with_seen: bool, most: int | None) -> None:
    rng = np.random.default_rng(seed)
    # Small ints: exact scores, many of them equal.
    queries = torch.from_numpy(rng.integers(-2, 3, (n, 3))).float()
    table = torch.from_numpy(rng.integers(-2, 3, (n_classes, 3))).float()
    targets = rng.integers(n_classes, size=n)
    seen = [set(rng.integers(n_classes, size=4).tolist()) if with_seen else set() for _ in range(n)]
    pairs = [(row, item) for row, items in enumerate(seen) for item in sorted(items)]
    given_seen = None
    if with_seen:
        given_seen = torch.tensor([row for row, _ in pairs]), torch.tensor([item for _, item in pairs])
    ranks = target_ranks(queries, table, torch.from_numpy(targets), given_seen, most)
    scores = (queries @ table.T).tolist()
    assert ranks.tolist() == [naive_rank(scores[i], targets[i], seen[i]) for i in range(n)]


def test_measures_agree_with_sylvan_s_metrics_and_with_loops() -> None:
    torch.manual_seed(0)
    queries, table, targets = torch.randn(40, 6), torch.randn(70, 6), torch.randint(70, (40,))
    ranks = target_ranks(queries, table, targets)
    found = ranking_measures(ranks)
    top = top_classes(queries, table, 50, most=200)
    truth = targets.numpy()
    for k in (10, 20, 50):
        assert found[f"ndcg@{k}"] == pytest.approx(metrics.ndcg(truth, top, k)[k], rel=1e-6)
        assert found[f"recall@{k}"] == pytest.approx(metrics.recall(truth, top, k)[k], rel=1e-6)
        within = [rank for rank in ranks.tolist() if rank <= k]
        assert found[f"ndcg@{k}"] == pytest.approx(sum(1 / math.log2(r + 1) for r in within) / 40)
        assert found[f"recall@{k}"] == pytest.approx(len(within) / 40)


def test_scores_that_are_no_numbers_rank_last() -> None:
    table = torch.randn(8, 2)
    queries = torch.tensor([[float("nan"), 0.0], [float("inf"), 0.0]])
    assert target_ranks(queries, table, torch.tensor([0, 0])).tolist() == [8, 8]


def test_the_item_asked_for_stays_in_though_it_was_seen() -> None:
    table = torch.eye(4)
    queries = torch.tensor([[3.0, 2.0, 1.0, 0.0]])
    seen = torch.tensor([0, 0]), torch.tensor([0, 2])
    assert target_ranks(queries, table, torch.tensor([2])).item() == 3
    assert target_ranks(queries, table, torch.tensor([2]), seen).item() == 2


@pytest.mark.parametrize("most", [1, 17, None])
def test_top_classes_against_a_full_sort(most: int | None) -> None:
    torch.manual_seed(1)
    queries, table, bias = torch.randn(9, 4), torch.randn(11, 4), torch.randn(11)
    top = top_classes(queries, table, 3, bias, most)
    assert isinstance(top, TopK)
    scores = (queries @ table.T + bias).numpy()
    np.testing.assert_array_equal(top.labels, np.argsort(-scores, axis=1)[:, :3])
    assert top_classes(queries, table, 99).k == 11


def test_chunks_hold_few_scores() -> None:
    assert list(slices(5, 10, 25)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(slices(3, 100, 25)) == [slice(0, 1), slice(1, 2), slice(2, 3)]
    assert list(slices(0, 100)) == []
