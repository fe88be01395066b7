"""What CANE's paper proves, on problems small enough to enumerate: Eq. (5), Theorem 1, Eq. (6) and Corollary 1."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from sylvan.sampling import CANELoss, Unigram
from sylvan.sampling.samplers.base import Draw

K = 6
COUNTS = [8.0, 5.0, 4.0, 2.0, 2.0, 1.0]
# p(k | x) of two queries, and their candidates.
P = torch.tensor([[0.35, 0.25, 0.2, 0.1, 0.07, 0.03], [0.05, 0.05, 0.1, 0.2, 0.25, 0.35]], dtype=torch.float64)
CANDIDATES = torch.tensor([[0, 1, 4], [5, 2, -1]])


class Forced(Unigram):
    """The noise distribution of the counts, whose next draws are given."""

    def force(self, ids: Sequence[Sequence[int]]) -> None:
        self.ids = torch.tensor(ids)

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        repeated = self.ids.repeat(1, n)[:, :n]
        return Draw(repeated, self._log_prob(queries, repeated))


def noise_probabilities(candidates: Sequence[int], counts: Sequence[float]) -> dict[int, float]:
    """q_x of each class that isn't a candidate."""
    others = {j: counts[j] for j in range(len(counts)) if j not in candidates}
    return {j: count / sum(others.values()) for j, count in others.items()}


def test_noises_together_have_the_same_optimum() -> None:
    """The extension for several noises: its expectation, over all pairs of them, is least at the log-odds too."""
    log_odds = (P[:1] / P[:1, -1:]).log()

    def expectation(scores: Tensor) -> tuple[float, Tensor]:
        q = noise_probabilities(CANDIDATES[0].tolist(), COUNTS)
        cases = [(y, i, j, float(P[0, y]) * q[i] * q[j]) for y in range(K) for i in q for j in q]
        y, i, j, weight = (torch.tensor(column) for column in zip(*cases, strict=True))
        noise = Forced(K, COUNTS)
        noise.force(torch.stack([i, j], dim=1).tolist())
        loss = CANELoss(
            lambda queries, table: CANDIDATES[:1].expand(len(queries), -1),
            noise, n_noises=2, together=True, reduction="none",
        )  # fmt: skip
        scores = scores.clone().requires_grad_()
        value = (loss(torch.ones(len(y), 1, dtype=torch.float64), scores.t(), y) * weight).sum()
        value.backward()
        return float(value.detach()), scores.grad

    best, gradient = expectation(log_odds)
    assert float(gradient.abs().max()) < 1e-6
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        other = log_odds + 0.3 * torch.randn(1, K, generator=generator, dtype=torch.float64)
        assert expectation(other)[0] > best


def enumerated(p: Tensor, candidates: Tensor, counts: Sequence[float]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Every (query, label, noise): their numbers and probabilities."""
    found = []
    for x in range(len(p)):
        q = noise_probabilities(candidates[x].tolist(), counts)
        found += [(x, y, j, float(p[x, y]) * q_j) for y in range(p.shape[1]) for j, q_j in q.items()]
    x, y, j, weight = zip(*found, strict=True)
    return torch.tensor(x), torch.tensor(y), torch.tensor(j), torch.tensor(weight, dtype=torch.float64)


def losses_of(scores: Tensor, x: Tensor, y: Tensor, j: Tensor, candidates: Tensor, counts: Sequence[float]) -> Tensor:
    """CANELoss of each (query, label, noise); scores (queries, classes) are a table that one-hot queries read."""
    noise = Forced(len(counts), counts)
    noise.force(j.unsqueeze(1).tolist())
    loss = CANELoss(lambda queries, table: candidates[x], noise, reduction="none")
    return loss(torch.eye(len(scores), dtype=torch.float64)[x], scores.t(), y)


@pytest.mark.parametrize("n_noises", [1, 2])
def test_the_stochastic_gradient_is_unbiased_for_equation_5(n_noises: int) -> None:
    torch.manual_seed(0)
    queries, table = torch.randn(4, 3, dtype=torch.float64), torch.randn(K, 3, dtype=torch.float64)
    table.requires_grad_()
    rows, targets = torch.tensor([0, 1, 0, 1]), torch.tensor([1, 5, 2, 4])  # two candidates, two that aren't

    # Eq. (5) for these examples: the sum over noises weighted by q_x, written out.
    scores = queries @ table.t()
    whole = torch.zeros((), dtype=torch.float64)
    for i, y in enumerate(targets.tolist()):
        members = [k for k in CANDIDATES[rows[i]].tolist() if k >= 0]
        q = noise_probabilities(members, COUNTS)
        total = scores[i, members].exp().sum()
        for j, q_j in q.items():
            stand_in = j if y in members else y
            whole = whole - q_j * (scores[i, y] - torch.log(total + scores[i, stand_in].exp() / q[stand_in]))
    (expected,) = torch.autograd.grad(whole, table)

    got = torch.zeros_like(expected)
    for i in range(4):  # each example alone, over every tuple of noises
        q = noise_probabilities(CANDIDATES[rows[i]].tolist(), COUNTS)
        for noises in itertools.product(q, repeat=n_noises):
            noise = Forced(K, COUNTS)
            noise.force([noises])
            loss = CANELoss(lambda queries, table, i=i: CANDIDATES[rows[i : i + 1]], noise, n_noises=n_noises)
            table.grad = None
            loss(queries[i : i + 1], table, targets[i : i + 1]).backward()
            chance = 1.0
            for j in noises:
                chance *= q[j]
            got += chance * table.grad.to_dense()
    assert torch.allclose(got, expected, rtol=1e-5, atol=1e-7)


def test_the_optimum_is_the_log_odds() -> None:
    """Theorem 1, with the last class's score fixed at 0 and Eq. (4) minimised exactly over all the others."""
    x, y, j, weight = enumerated(P, CANDIDATES, COUNTS)
    free = torch.zeros(2, K - 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [free], max_iter=500, tolerance_grad=1e-10, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        scores = torch.cat([free, torch.zeros(2, 1, dtype=torch.float64)], dim=1)
        value = (weight * losses_of(scores, x, y, j, CANDIDATES, COUNTS)).sum()
        value.backward()
        return value

    optimizer.step(closure)
    log_odds = (P[:, :-1] / P[:, -1:]).log()
    assert torch.allclose(free.detach(), log_odds, atol=1e-5)


def information(p: Tensor, candidates: Sequence[int], counts: Sequence[float]) -> Tensor:
    """M of Eq. (6) for one query, its last class the reference, which is always in the sum: (K - 1, K - 1)."""
    n = len(p) - 1
    # The reference counts as a candidate; among the noises are the others.
    members = [k for k in candidates if k != n]
    matrix = torch.zeros(n, n, dtype=torch.float64)
    for j, q_j in noise_probabilities([*members, n], counts).items():
        u = torch.zeros(n, dtype=torch.float64)
        u[members] = p[members]
        u[j] = p[j] / q_j
        matrix += q_j * (torch.diag(u) - torch.outer(u, u) / (p[n] + p[members].sum() + u[j]))
    return matrix


def softmax_information(p: Tensor) -> Tensor:
    return torch.diag(p[:-1]) - torch.outer(p[:-1], p[:-1])


def gradients_at(
    scores: Tensor, x: Tensor, y: Tensor, j: Tensor, candidates: Tensor, counts: Sequence[float]
) -> Tensor:
    """Gradient (examples, classes) of each example's loss for its own query's scores."""
    copies = scores[x].clone().requires_grad_()
    noise = Forced(len(counts), counts)
    noise.force(j.unsqueeze(1).tolist())
    loss = CANELoss(lambda queries, table: candidates[x], noise, reduction="sum")
    loss(torch.eye(len(x), dtype=torch.float64), copies.t(), y).backward()
    return copies.grad


def second_moment(p: Tensor, candidates: Sequence[int], counts: Sequence[float]) -> Tensor:
    """Of CANELoss's gradients at the optimum for one query, over labels and noises: (K - 1, K - 1).

    Their mean is 0 there, so that the estimator's variance is this matrix's inverse.
    """
    members = torch.tensor([list(candidates)])
    x, y, j, weight = enumerated(p[None], members, counts)
    gradients = gradients_at((p / p[-1]).log()[None], x, y, j, members, counts)
    mean = (weight.unsqueeze(1) * gradients).sum(dim=0)
    assert torch.allclose(mean, torch.zeros_like(mean), atol=1e-7)
    return ((gradients * weight.unsqueeze(1)).t() @ gradients)[:-1, :-1]


@pytest.mark.parametrize("candidates", [[5], [0, 5], [0, 1, 5], [3, 4, 5], [0, 1, 2, 3, 5]])
def test_the_gradients_second_moment_is_the_matrix_of_equation_6(candidates: list[int]) -> None:
    """At the optimum, over labels and noises: that is what the estimator's variance is the inverse of."""
    assert torch.allclose(second_moment(P[0], candidates, COUNTS), information(P[0], candidates, COUNTS), atol=1e-6)


def test_the_variance_approaches_the_softmaxs_as_candidates_cover_the_label() -> None:
    """Corollary 1: variances fall to the maximum-likelihood estimator's as P(y in C) goes to 1.

    Those of the loss by its gradients; the maximum-likelihood estimator's by the softmax's information.
    """
    best = torch.linalg.inv(softmax_information(P[0])).trace()
    ratios = []
    for size in range(K - 1):
        candidates = [*range(size), K - 1]  # the most probable classes, and the reference
        ratios.append(float(torch.linalg.inv(second_moment(P[0], candidates, COUNTS)).trace() / best))
    assert all(above > below for above, below in itertools.pairwise(ratios))
    assert ratios[0] > 1.5 and 1 < ratios[-2] < 1.02 and ratios[-1] == pytest.approx(1)  # the one noise left is sure
    # Not the number of candidates but the label's probability of being one decides: rare classes don't help.
    rare = torch.linalg.inv(second_moment(P[0], [3, 4, 5], COUNTS)).trace() / best
    assert float(rare) > ratios[2]


def test_the_information_matrices_meet_in_the_limit() -> None:
    """The candidates unchanged, their probability going to 1: the matrices differ by what isn't covered."""
    differences = []
    for epsilon in (1e-1, 1e-2, 1e-3):
        p = torch.tensor([0.6, 0.5 * epsilon, 0.5 * epsilon, 0.4 - epsilon], dtype=torch.float64)
        difference = second_moment(p, [0, 3], [1.0] * 4) - softmax_information(p)
        differences.append(float(difference.abs().max()))
    assert differences[0] / 8 > differences[1] and differences[1] / 8 > differences[2]
    assert differences[2] < 2e-3
