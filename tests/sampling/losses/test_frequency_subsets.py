"""CANE's candidates for language models: the split, what is drawn, how the subsets' vectors learn."""

from typing import Any

import pytest
import torch
from kit.errors import raises
from torch import Tensor

from sylvan.errors import DataError, ParameterError
from sylvan.sampling import CANELoss, FrequencySubsets, Uniform

DIM = 3
COUNTS = [3, 90, 1, 1, 20, 8, 8, 2, 5, 4, 1, 0]


def made(counts: Any = COUNTS, n_subsets: int = 4, n_candidates: int = 3, **options: Any) -> FrequencySubsets:
    subsets = FrequencySubsets(counts, n_subsets, n_candidates, DIM, **options)
    torch.manual_seed(0)
    with torch.no_grad():
        subsets.subset_vectors.copy_(torch.randn(n_subsets, DIM))
    return subsets


def members(subsets: FrequencySubsets) -> list[list[int]]:
    return [
        [int(c) for c in subsets.order[subsets.starts[n] : subsets.starts[n + 1]]] for n in range(subsets.n_subsets)
    ]


def split_reference(weights: list[float], n_subsets: int) -> list[int]:
    """Sizes: a class heavier than the mean of what is left stands alone; the rest is cut nearest equal shares."""
    left, sizes = sorted(weights, reverse=True), []
    while n_subsets > 1 and left[0] * n_subsets > sum(left):
        sizes.append(1)
        left, n_subsets = left[1:], n_subsets - 1
    total, gone, current, cut = sum(left), 0.0, 0, 1
    for weight in left:
        while cut < n_subsets and gone + weight / 2 >= total * cut / n_subsets:
            sizes.append(current)
            current, cut = 0, cut + 1
        current += 1
        gone += weight
    return [*sizes, current]


def test_split_by_mass_and_by_count() -> None:
    subsets = made()
    assert members(subsets) == [[1], [4], [5, 6], [8, 9, 0, 7, 2, 3, 10, 11]]
    assert [int(subsets.subset_of[c]) for c in range(12)] == [3, 0, 3, 3, 1, 2, 2, 3, 3, 3, 3, 3]
    assert members(made(split="count")) == [[1, 4, 5], [6, 8, 9], [0, 7, 2], [3, 10, 11]]
    zipf = (1e6 / torch.arange(1, 5001)).round()
    for n in (1, 2, 10, 100):
        by_mass = FrequencySubsets(zipf, n, 5, DIM)
        assert by_mass.starts.diff().tolist() == split_reference(zipf.tolist(), n)
        mass = torch.stack([zipf[rows].sum() for rows in members(by_mass)])
        several = by_mass.starts.diff() > 1
        assert not several.any() or float(mass[several].max() / mass[several].min()) < 2  # words come whole


@pytest.mark.parametrize(("weights", "n"), [([1, 0, 0, 0], 4), ([3, 3, 3, 0, 0, 0], 6), ([1] * 7, 7), ([5, 0, 0], 2)])
def test_no_subset_is_empty(weights: list[int], n: int) -> None:
    subsets = FrequencySubsets(weights, n, 1, DIM)
    assert int(subsets.starts.diff().min()) >= 1 and int(subsets.starts[-1]) == len(weights)


@pytest.mark.parametrize("split", ["mass", "count"])
@pytest.mark.parametrize("beam", [1, 2, 4])
@pytest.mark.parametrize("n_candidates", [1, 3, 6, 30])
def test_candidates_come_from_the_best_subsets_in_order(n_candidates: int, beam: int, split: str) -> None:
    subsets = made(n_candidates=n_candidates, beam=beam, split=split)
    queries = torch.randn(200, DIM)
    ids = subsets(queries, torch.zeros(len(COUNTS), DIM))
    assert ids.shape == (200, n_candidates) and ids.dtype == torch.int64
    groups = members(subsets)
    ranking = (queries @ subsets.subset_vectors.detach().t()).argsort(dim=1, descending=True)[:, :beam].tolist()
    for row, order in zip(ids.tolist(), ranking, strict=True):
        got = [k for k in row if k >= 0]
        assert len(set(got)) == len(got)
        left = n_candidates
        for n in order:  # whole subsets while they fit, then as many as there are places from the next
            taken = min(left, len(groups[n]))
            assert len(set(got) & set(groups[n])) == taken
            left -= taken
        assert len(got) == n_candidates - left


def test_scores_are_sums_over_the_path() -> None:
    """Eq. (9): the loss with a selector that adds subset scores is that of the summed table with a plain selector."""
    subsets = made(n_candidates=3)
    table = torch.randn(12, DIM, requires_grad=True)
    queries, targets = torch.randn(20, DIM), torch.randint(12, (20,))
    torch.manual_seed(4)
    loss = CANELoss(subsets, Uniform(12))
    value = loss(queries, table, targets)
    torch.manual_seed(4)
    # The same draws: the plain selector asks the same subsets for candidates.
    plain = CANELoss(lambda q, t: subsets(q, t), Uniform(12))
    summed = loss.output_embeddings(table.detach())
    assert torch.allclose(summed, table.detach() + subsets.subset_vectors.detach()[subsets.subset_of])
    assert value.item() == pytest.approx(plain(queries, summed, targets).item(), rel=1e-5)


def test_an_edge_on_every_path_isnt_updated() -> None:
    """Eqs. (10), (11): an edge's gradient sums those of the classes below it; Proposition 1: on all paths, it is 0."""
    torch.manual_seed(1)
    queries, targets = torch.randn(16, DIM), torch.randint(12, (16,))
    for n_subsets in (1, 4):
        subsets = made(n_subsets=n_subsets)
        table = torch.randn(12, DIM, requires_grad=True)
        CANELoss(subsets, Uniform(12))(queries, table, targets).backward()
        sums = torch.zeros(n_subsets, DIM).index_add_(0, subsets.subset_of, table.grad.to_dense())
        assert torch.allclose(subsets.subset_vectors.grad, sums, atol=1e-6)
        if n_subsets == 1:
            assert float(sums.abs().max()) < 1e-6
        else:
            assert float(sums.abs().max()) > 1e-3


def test_own_learning_adds_the_subsets_cross_entropy_and_leaves_the_model_alone() -> None:
    subsets = made(learning="own")
    table = torch.randn(12, DIM)
    queries = torch.randn(16, DIM, requires_grad=True)
    targets = torch.rand(16, 12).argsort(dim=1)[:, :2]
    torch.manual_seed(2)
    with_own = CANELoss(subsets, Uniform(12), reduction="none")(queries, table, targets)
    with_own.sum().backward()
    gradient = queries.grad.clone()
    queries.grad = None
    torch.manual_seed(2)
    without = CANELoss(lambda q, t: subsets(q, t), Uniform(12), reduction="none")(queries, table, targets)
    without.sum().backward()
    assert torch.allclose(gradient, queries.grad, atol=1e-6)
    log_p = torch.log_softmax(queries.detach() @ subsets.subset_vectors.detach().t(), dim=1)
    for row in range(16):
        wanted = sorted(set(targets[row].tolist()))
        own = -sum(float(log_p[row, subsets.subset_of[y]]) for y in wanted) / len(wanted)
        assert (with_own[row] - without[row]).item() == pytest.approx(own, abs=1e-5)
    assert subsets.subset_vectors.grad is not None
    assert CANELoss(subsets, Uniform(12)).output_embeddings(table) is table


def test_half_precision_and_state() -> None:
    subsets = made(learning="path", beam=2)
    loss = CANELoss(subsets, Uniform(12))
    table = torch.nn.Parameter(100 * torch.randn(12, DIM))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(100 * torch.randn(8, DIM).bfloat16(), table, torch.randint(12, (8,)))
    value.backward()
    assert value.dtype == torch.float32 and bool(torch.isfinite(subsets.subset_vectors.grad).all())
    other = FrequencySubsets([1.0] * 12, 4, 3, DIM)
    other.load_state_dict(subsets.state_dict())
    assert members(other) == members(subsets) and bool((other.subset_vectors == subsets.subset_vectors).all())


def test_the_seed_decides_the_candidates() -> None:
    subsets = made(counts=[1.0] * 500, n_subsets=2, n_candidates=7)
    draws: list[Tensor] = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(subsets(torch.ones(4, DIM), torch.zeros(500, DIM)))
    assert bool((draws[0] == draws[1]).all()) and not bool((draws[0] == draws[2]).all())


def test_errors_are_sentences() -> None:
    with raises(ParameterError, "n_subsets", "FrequencySubsets", "[1, 12]"):
        FrequencySubsets(COUNTS, 13, 2, DIM)
    with raises(DataError, "counts", "FrequencySubsets"):
        FrequencySubsets([1, -1], 1, 1, DIM)
