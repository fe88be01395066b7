"""CANE's loss against Eqs. (2) to (8) in loops, its noises and errors; and what the paper proves, by enumeration.

Theorem 1, Eqs. (5) and (6) and Corollary 1 on problems small enough."""

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from kit.errors import raises
from sampling.suite import Recorded, Scripted, noises_of
from torch import Tensor

from sylvan.errors import DataError, ParameterError
from sylvan.sampling import CANELoss, Softmax, Uniform, Unigram

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


def test_errors_are_sentences() -> None:
    queries, table, _ = batch(torch.float32)
    with raises(ParameterError, "candidates", "CANELoss"):
        CANELoss(torch.arange(3), Uniform(N))
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


N_FEW = 6
FEW_COUNTS = [8.0, 5.0, 4.0, 2.0, 2.0, 1.0]
# p(k | x) of two queries, and their candidates.
P = torch.tensor([[0.35, 0.25, 0.2, 0.1, 0.07, 0.03], [0.05, 0.05, 0.1, 0.2, 0.25, 0.35]], dtype=torch.float64)
OF_TWO = torch.tensor([[0, 1, 4], [5, 2, -1]])


def shares(counts: Sequence[float]) -> Tensor:
    return torch.tensor(counts, dtype=torch.float64) / sum(counts)


def noise_probabilities(candidates: Sequence[int], counts: Sequence[float]) -> dict[int, float]:
    """q_x of each class that isn't a candidate."""
    others = {j: counts[j] for j in range(len(counts)) if j not in candidates}
    return {j: count / sum(others.values()) for j, count in others.items()}


def test_noises_together_have_the_same_optimum() -> None:
    """The extension for several noises: its expectation, over all pairs of them, is least at the log-odds too."""
    log_odds = (P[:1] / P[:1, -1:]).log()

    def expectation(scores: Tensor) -> tuple[float, Tensor]:
        q = noise_probabilities(OF_TWO[0].tolist(), FEW_COUNTS)
        cases = [(y, i, j, float(P[0, y]) * q[i] * q[j]) for y in range(N_FEW) for i in q for j in q]
        y, i, j, weight = (torch.tensor(column) for column in zip(*cases, strict=True))
        loss = CANELoss(
            lambda queries, table: OF_TWO[:1].expand(len(queries), -1),
            Scripted(shares(FEW_COUNTS), torch.stack([i, j], dim=1)), n_noises=2, together=True, reduction="none",
        )  # fmt: skip
        scores = scores.clone().requires_grad_()
        value = (loss(torch.ones(len(y), 1, dtype=torch.float64), scores.t(), y) * weight).sum()
        value.backward()
        return float(value.detach()), scores.grad

    best, gradient = expectation(log_odds)
    assert float(gradient.abs().max()) < 1e-6
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        other = log_odds + 0.3 * torch.randn(1, N_FEW, generator=generator, dtype=torch.float64)
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
    noise = Scripted(shares(counts), j.unsqueeze(1))
    loss = CANELoss(lambda queries, table: candidates[x], noise, reduction="none")
    return loss(torch.eye(len(scores), dtype=torch.float64)[x], scores.t(), y)


@pytest.mark.parametrize("n_noises", [1, 2])
def test_the_stochastic_gradient_is_unbiased_for_equation_5(n_noises: int) -> None:
    torch.manual_seed(0)
    queries, table = torch.randn(4, 3, dtype=torch.float64), torch.randn(N_FEW, 3, dtype=torch.float64)
    table.requires_grad_()
    rows, targets = torch.tensor([0, 1, 0, 1]), torch.tensor([1, 5, 2, 4])  # two candidates, two that aren't

    # Eq. (5) for these examples: the sum over noises weighted by q_x, written out.
    scores = queries @ table.t()
    whole = torch.zeros((), dtype=torch.float64)
    for i, y in enumerate(targets.tolist()):
        members = [k for k in OF_TWO[rows[i]].tolist() if k >= 0]
        q = noise_probabilities(members, FEW_COUNTS)
        total = scores[i, members].exp().sum()
        for j, q_j in q.items():
            stand_in = j if y in members else y
            whole = whole - q_j * (scores[i, y] - torch.log(total + scores[i, stand_in].exp() / q[stand_in]))
    (expected,) = torch.autograd.grad(whole, table)

    got = torch.zeros_like(expected)
    for i in range(4):  # each example alone, over every tuple of noises
        q = noise_probabilities(OF_TWO[rows[i]].tolist(), FEW_COUNTS)
        for noises in itertools.product(q, repeat=n_noises):
            noise = Scripted(shares(FEW_COUNTS), torch.tensor([noises]))
            loss = CANELoss(lambda queries, table, i=i: OF_TWO[rows[i : i + 1]], noise, n_noises=n_noises)
            table.grad = None
            loss(queries[i : i + 1], table, targets[i : i + 1]).backward()
            chance = 1.0
            for j in noises:
                chance *= q[j]
            got += chance * table.grad.to_dense()
    assert torch.allclose(got, expected, rtol=1e-5, atol=1e-7)


def test_the_optimum_is_the_log_odds() -> None:
    """Theorem 1, with the last class's score fixed at 0 and Eq. (4) minimised exactly over all the others."""
    x, y, j, weight = enumerated(P, OF_TWO, FEW_COUNTS)
    free = torch.zeros(2, N_FEW - 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [free], max_iter=500, tolerance_grad=1e-10, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        scores = torch.cat([free, torch.zeros(2, 1, dtype=torch.float64)], dim=1)
        value = (weight * losses_of(scores, x, y, j, OF_TWO, FEW_COUNTS)).sum()
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
    noise = Scripted(shares(counts), j.unsqueeze(1))
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
    found = second_moment(P[0], candidates, FEW_COUNTS)
    assert torch.allclose(found, information(P[0], candidates, FEW_COUNTS), atol=1e-6)


def test_the_variance_approaches_the_softmaxs_as_candidates_cover_the_label() -> None:
    """Corollary 1: variances fall to the maximum-likelihood estimator's as P(y in C) goes to 1.

    Those of the loss by its gradients; the maximum-likelihood estimator's by the softmax's information.
    """
    best = torch.linalg.inv(softmax_information(P[0])).trace()
    ratios = []
    for size in range(N_FEW - 1):
        candidates = [*range(size), N_FEW - 1]  # the most probable classes, and the reference
        ratios.append(float(torch.linalg.inv(second_moment(P[0], candidates, FEW_COUNTS)).trace() / best))
    assert all(above > below for above, below in itertools.pairwise(ratios))
    assert ratios[0] > 1.5 and 1 < ratios[-2] < 1.02 and ratios[-1] == pytest.approx(1)  # the one noise left is sure
    # Not the number of candidates but the label's probability of being one decides: rare classes don't help.
    rare = torch.linalg.inv(second_moment(P[0], [3, 4, 5], FEW_COUNTS)).trace() / best
    assert float(rare) > ratios[2]
