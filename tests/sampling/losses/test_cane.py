"""CANE's loss against Eqs. (2) and (3) in loops, its gradient against (7) and (8), its noises, options and errors."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from kit.errors import raises
from sampling.suite import Recorded, noises_of
from torch import Tensor

from sylvan.errors import DataError, ParameterError
from sylvan.sampling import CANELoss, Softmax, Uniform, Unigram
from sylvan.sampling.samplers.base import Sampler

N, DIM, BATCH, IGNORED = 10, 4, 6, -100
# A row of padding between, one candidate only.
CANDIDATES = torch.tensor(
    [[1, 3, 5, 7], [2, -1, 0, -1], [9, 9, 4, 9], [6, -1, -1, -1], [0, 1, 2, 3], [-1, 8, 7, -1]], dtype=torch.int64
)
ONE = torch.tensor([3, 5, 4, 0, 9, 8])
SEVERAL = torch.tensor([[3, 5, 8], [2, IGNORED, 4], [IGNORED, 1, 9], [6, 0, 1], [9, IGNORED, IGNORED], [8, 7, IGNORED]])


def batch(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(size, generator=generator, dtype=dtype) for size in ((BATCH, DIM), (N, DIM), (N,)))


def chosen(queries: Tensor, table: Tensor) -> Tensor:
    return CANDIDATES[: len(queries)]


def candidates_of(row: int) -> list[int]:
    return sorted({k for k in CANDIDATES[row].tolist() if k >= 0})


def outside(q: list[float], row: int, j: int) -> float:
    return q[j] / (1.0 - sum(q[k] for k in candidates_of(row)))


@pytest.mark.parametrize("targets", [ONE, SEVERAL], ids=["one", "several"])
@pytest.mark.parametrize(("n_noises", "together"), [(1, False), (3, False), (1, True), (3, True)])
@pytest.mark.parametrize("counts", [[1.0] * N, [40, 20, 10, 5, 5, 4, 3, 2, 2, 1]], ids=["even", "uneven"])
def test_equals_equations_2_and_3(counts: list[float], n_noises: int, together: bool, targets: Tensor) -> None:
    queries, table, bias = batch()
    noise = Recorded(counts)
    loss = CANELoss(chosen, noise, n_noises=n_noises, together=together, reduction="none")
    torch.manual_seed(1)
    got = loss(queries, table, targets, bias)
    noises = noises_of(noise.drawn, [candidates_of(row) for row in range(BATCH)], n_noises)
    q = [c / sum(counts) for c in counts]
    scores = (queries @ table.t() + bias).tolist()
    seen = 0
    for row in range(BATCH):
        e = [math.exp(s) for s in scores[row]]
        total = sum(e[k] for k in candidates_of(row))
        wanted = {y for y in targets[row].reshape(-1).tolist() if y != IGNORED}
        losses = []
        for y in wanted:
            seen += y in candidates_of(row)
            if together:
                stand_ins = noises[row] if y in candidates_of(row) else [y, *noises[row][:-1]]
                others = sum(e[j] / outside(q, row, j) for j in stand_ins) / n_noises
                losses.append(-math.log(e[y] / (total + others)))
            elif y in candidates_of(row):
                terms = [math.log(e[y] / (total + e[j] / outside(q, row, j))) for j in noises[row]]
                losses.append(-sum(terms) / n_noises)
            else:
                losses.append(-math.log(e[y] / (total + e[y] / outside(q, row, y))))
        assert got[row].item() == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    share = seen / sum(len({y for y in t if y != IGNORED}) for t in targets.reshape(BATCH, -1).tolist())
    assert loss.coverage.item() == pytest.approx(share) and 0 < share < 1


@pytest.mark.parametrize("n_noises", [1, 4])
def test_gradient_is_that_of_equations_7_and_8(n_noises: int) -> None:
    """Coefficients of the score gradients, written out; a score's gradient in its row of the table is the query."""
    queries, table, _ = batch()
    table.requires_grad_()
    counts = list(range(1, N + 1))
    noise = Recorded(counts)
    torch.manual_seed(3)
    CANELoss(chosen, noise, n_noises=n_noises, reduction="sum")(queries, table, ONE).backward()
    noises = noises_of(noise.drawn, [candidates_of(row) for row in range(BATCH)], n_noises)
    q = [c / sum(counts) for c in counts]
    e = (queries @ table.detach().t()).exp()
    ascent = torch.zeros(N, DIM, dtype=torch.float64)
    for row, y in enumerate(ONE.tolist()):
        members = candidates_of(row)
        ascent[y] += queries[row]
        stand_ins = noises[row] if y in members else [y]
        for j in stand_ins:
            weighted = e[row, j] / outside(q, row, j)
            total = e[row, members].sum() + weighted
            for k in members:
                ascent[k] -= e[row, k] / total / len(stand_ins) * queries[row]
            ascent[j] -= weighted / total / len(stand_ins) * queries[row]
    assert torch.allclose(-table.grad.to_dense(), ascent, rtol=1e-5, atol=1e-7)
    touched = {*ONE.tolist(), *(k for row in range(BATCH) for k in candidates_of(row)), *(j for r in noises for j in r)}
    assert set(table.grad.coalesce().indices()[0].tolist()) <= touched


def test_noises_follow_the_sampler_restricted_to_the_others() -> None:
    counts = [50.0, 20, 10, 8, 5, 3, 2, 1, 0.5, 0.5]
    sampler = Unigram(N, counts)
    loss = CANELoss(lambda queries, table: torch.tensor([[0, 1, 4]]).expand(len(queries), -1), sampler)
    many = 40_000
    torch.manual_seed(0)
    picked = loss._select(torch.zeros(many, DIM), torch.zeros(N, DIM), _no_positives(many))
    assert bool(picked.is_noise.all())
    expected = torch.tensor(counts, dtype=torch.float64)
    expected[[0, 1, 4]] = 0.0
    expected /= expected.sum()
    log_q = picked.noise_log_q[:, 0].double()
    assert torch.allclose(log_q.exp(), expected[picked.noises[:, 0]], rtol=1e-5)
    seen = torch.bincount(picked.noises[:, 0], minlength=N).double()
    assert seen[[0, 1, 4]].sum() == 0
    inside = expected > 0
    chi_square = float(((seen - many * expected)[inside] ** 2 / (many * expected)[inside]).sum())
    assert chi_square < 24.3  # 99.9% point at 7 - 1 degrees is 22.5; the seed is fixed


def _no_positives(n: int) -> Any:
    from sylvan.sampling.losses.loss import positives

    return positives(torch.zeros(n, 1, dtype=torch.int64), IGNORED)


def test_several_noises_of_a_query_are_independent() -> None:
    loss = CANELoss(lambda queries, table: torch.tensor([[0, 1]]).expand(len(queries), -1), Uniform(4), n_noises=2)
    torch.manual_seed(0)
    picked = loss._select(torch.zeros(20_000, DIM), torch.zeros(4, DIM), _no_positives(20_000))
    pairs = torch.bincount(2 * (picked.noises[:, 0] - 2) + picked.noises[:, 1] - 2, minlength=4)
    assert bool((pairs.float() / 20_000 - 0.25).abs().max() < 0.015)


def test_candidates_that_are_all_classes_give_the_softmax() -> None:
    queries, table, bias = batch()
    loss = CANELoss(lambda queries, table: torch.arange(N).expand(len(queries), -1), Uniform(N), n_noises=2)
    expected = torch.nn.functional.cross_entropy(queries @ table.t() + bias, ONE)
    assert loss(queries, table, ONE, bias).item() == pytest.approx(expected.item(), rel=1e-12)
    assert loss.coverage.item() == 1.0


def test_an_adaptive_sampler_may_be_the_noise() -> None:
    queries, table, _ = batch(torch.float32)
    noise = Softmax(N, DIM)
    noise.refresh(table)
    torch.manual_seed(0)
    loss = CANELoss(chosen, noise, reduction="none")(queries, table, ONE)
    # e^s / q is the same for every noise that is drawn from the softmax: the sum is exact where y is a candidate.
    exact = torch.nn.functional.cross_entropy(queries @ table.t(), ONE, reduction="none")
    for row, y in enumerate(ONE.tolist()):
        assert loss[row].item() == pytest.approx(exact[row].item(), rel=1e-4), (row, y)


def test_candidates_with_all_the_noise_or_none_of_the_classes() -> None:
    queries, table, _ = batch(torch.float32)
    table.requires_grad_()
    only = Unigram(N, [1.0] + [0.0] * (N - 1))
    for ids in (torch.zeros(BATCH, 1, dtype=torch.int64), torch.full((BATCH, 2), -1)):
        table.grad = None
        value = CANELoss(lambda q, t, ids=ids: ids, only)(queries, table, ONE)
        value.backward()
        assert bool(torch.isfinite(value)) and bool(torch.isfinite(table.grad.to_dense()).all())


def test_draws_with_repetition_serve_as_candidates() -> None:
    queries, table, _ = batch(torch.float32)
    sampler: Sampler = Uniform(N)
    drawn = sampler.sample(queries, 20).ids
    loss = CANELoss(lambda q, t: drawn, Uniform(N), reduction="none")
    torch.manual_seed(1)
    got = loss(queries, table, ONE)
    width = max(len(set(row)) for row in drawn.tolist())
    once = torch.tensor([sorted(set(row)) + [-1] * (width - len(set(row))) for row in drawn.tolist()])
    torch.manual_seed(1)
    assert torch.allclose(got, CANELoss(lambda q, t: once, Uniform(N), reduction="none")(queries, table, ONE))


def test_errors_are_sentences() -> None:
    queries, table, _ = batch(torch.float32)
    with raises(ParameterError, "candidates", "CANELoss"):
        CANELoss(torch.arange(3), Uniform(N))
    with raises(ParameterError, "noise", "CANELoss"):
        CANELoss(chosen, "uniform")
    with raises(ParameterError, "n_noises", "CANELoss", "[1, inf)"):
        CANELoss(chosen, Uniform(N), n_noises=0)
    with raises(DataError, "noise", 10, 11):
        CANELoss(chosen, Uniform(N + 1))(queries, table, ONE)
    for ids, words in (
        (None, ("NoneType", "CANELoss")),
        (torch.zeros(BATCH, 2), ("torch.float32", "(6, 2)")),
        (torch.zeros(BATCH + 1, 2, dtype=torch.int64), ("int64", 6)),
        (torch.zeros(BATCH, 0, dtype=torch.int64), "place"),
        (torch.full((BATCH, 2), N), ("[0, 10)", -1, 10)),
        (torch.full((BATCH, 2), -2), (-2, "[0, 10)")),
    ):
        with raises(DataError, words):
            CANELoss(lambda q, t, ids=ids: ids, Uniform(N))(queries, table, ONE)
