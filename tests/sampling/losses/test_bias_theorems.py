"""Theorems 6 to 9 and 13 of the MIDX paper, exactly: Sylvan's loss and samplers, over every possible set of draws.

The theorems are about M + 1 classes drawn alike from Q, of which one stands for the label: the gradient's part that
is estimated, Σ p'∇o, is then the self-normalised mean of M + 1 draws, and its bias is what they bound. So labels are
drawn from Q here, too. A score's gradient for the query is the class's embedding.

And what losses have for their optimum, likewise: the labels' distribution. A gradient at one fixed model can't see
it: the losses agree there when q is the softmax, or when there are many draws.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import sampling.theory_reference as theory
import torch
from sampling.suite import Scripted
from sampling.theory_samplers import distribution, index_of, refreshed
from torch import Tensor

from sylvan.sampling import MIDX, HeadAndTailLoss, SampledSoftmaxLoss, Subset, Uniform, Unigram
from sylvan.sampling.losses.loss import ClassLoss


def bias(
    q: theory.Array, query: theory.Array, classes: theory.Array, n_draws: int, told: theory.Array | None = None,
    **options: str,
) -> theory.Array:  # fmt: skip
    """E[Σ p'∇o] − Σ p∇o over all labels and draws by probabilities: (dim,); the loss may be told of others."""
    drawn = np.array(list(itertools.product(range(len(classes)), repeat=n_draws + 1)))
    chances = q[drawn].prod(axis=1)
    labels, ids = torch.from_numpy(drawn[:, 0]), torch.from_numpy(drawn[:, 1:])
    queries = torch.from_numpy(query).expand(len(drawn), -1).clone().requires_grad_()
    sampler = Scripted(torch.from_numpy(q if told is None else told), ids)
    loss = SampledSoftmaxLoss(sampler, n_draws, reduction="none", **options)
    loss(queries, torch.from_numpy(classes), labels).sum().backward()
    assert queries.grad is not None
    estimates = queries.grad.numpy() + classes[drawn[:, 0]]
    return np.asarray(chances @ estimates - theory.softmax(classes @ query) @ classes)


def steepest(classes: theory.Array) -> theory.Array:
    """U for each dimension, as small as can be: gradients may be counted from the middle of their range."""
    return np.ptp(classes, axis=0) / 2


def root(d2: float, n_draws: int) -> float:
    """What Theorem 6 multiplies U by."""
    return min(2.0, math.sqrt(max(d2 - 1, 0.0) / (n_draws + 1)))


def problem(seed: int, n: int = 5, scale: float = 1.0) -> tuple[theory.Array, theory.Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), scale * rng.normal(size=2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_draws", [1, 2, 4])
@pytest.mark.parametrize("off", [0.0, 0.03, 1.0])
def test_theorem_6(off: float, n_draws: int, seed: int) -> None:
    """Near the softmax the bound is small: a loss that corrects by other probabilities is beyond it there."""
    classes, query = problem(seed)
    p = theory.softmax(classes @ query)
    q = theory.softmax(classes @ query + off * np.random.default_rng(seed + 100).normal(size=len(p)))
    bound = root(float(theory.d2(p, q)), n_draws) * steepest(classes)
    assert (np.abs(bias(q, query, classes, n_draws)) <= bound + 1e-6).all()
    if off <= 0.03:
        not_corrected = bias(q, query, classes, n_draws, told=np.full(len(p), 1 / len(p)))
        eq_1 = bias(q, query, classes, n_draws, correction="drawn", accidental="paper")
        for wrong in (not_corrected, eq_1):
            assert (np.abs(wrong) > bound + 1e-3).any(), "this test couldn't tell a wrong correction"


@pytest.mark.parametrize("seed", range(4))
def test_the_bias_falls_as_one_over_the_number_of_draws(seed: int) -> None:
    """By the delta method (M + 1) times the bias goes to −Σ p²/q (∇o − Σ p∇o): not a bound, but rate and constant."""
    classes, query = problem(seed, n=6, scale=0.7)
    p = theory.softmax(classes @ query)
    q = theory.softmax(classes @ query + 0.3 * np.random.default_rng(seed + 100).normal(size=6))
    limit = -(p * p / q) @ (classes - p @ classes)
    few, many = (n_terms * bias(q, query, classes, n_terms - 1) for n_terms in (3, 6))
    assert np.linalg.norm(many - limit) < 0.75 * np.linalg.norm(few - limit)
    extrapolated = 2 * many - few  # what is left falls as one over the number of terms, too
    assert np.linalg.norm(extrapolated - limit) < 0.03 * np.linalg.norm(limit)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [0.01, 0.5, 1.5])
def test_theorems_7_and_8(scale: float, seed: int) -> None:
    """The uniform and the unigram sampler: ‖o‖∞, and how seldom the rarest class is drawn."""
    classes, query = problem(seed, scale=scale)
    p, highest = theory.softmax(classes @ query), float(np.abs(classes @ query).max())
    counts = np.random.default_rng(seed).integers(1, 9, len(p))
    for sampler, exponent in (
        (Uniform(len(p)), 2 * highest),
        (Unigram(len(p), counts), 2 * highest - math.log(counts.min() / counts.sum())),
    ):
        q = distribution(sampler, query[None])[0]
        assert 1 - 1e-6 <= float(theory.d2(p, q)) <= math.exp(exponent) + 1e-6
        for n_draws in (1, 3):
            bound = root(math.exp(exponent), n_draws) * steepest(classes)
            assert (np.abs(bias(q, query, classes, n_draws)) <= bound).all()
    if scale == 0.01:  # scores hardly differ: the uniform bound is small
        bound = root(math.exp(2 * highest), 3) * steepest(classes)
        skewed = 10.0 ** np.arange(len(p))
        wrong = bias(np.full(len(p), 1 / len(p)), query, classes, 3, told=skewed / skewed.sum())
        assert (np.abs(wrong) > bound).any(), "this test couldn't tell a wrong correction"


@pytest.mark.parametrize("quantizer", ["pq", "rq"])
@pytest.mark.parametrize("residual", [0.0, 0.02, 0.3])
def test_theorem_9(residual: float, quantizer: str) -> None:
    """MIDX: only what the codewords leave of the scores counts; without residuals there is no bias at all."""
    rng = np.random.default_rng(2)
    corners = 2 * np.array([[i, j] for i in (-1.0, 1.0) for j in (-1.0, 1.0)])
    classes, query = corners[[0, 1, 2, 3, 3, 0]] + residual * rng.normal(size=(6, 2)), np.array([0.4, -0.3])
    torch.manual_seed(0)
    sampler = refreshed(MIDX(6, 2, n_codewords=4, quantizer=quantizer), classes)
    assert isinstance(sampler, MIDX)
    left = float(np.abs((classes - theory.reconstruct(*index_of(sampler), quantizer)) @ query).max())
    p, q = theory.softmax(classes @ query), distribution(sampler, query[None])[0]
    assert float(theory.d2(p, q)) <= math.exp(2 * left) + 1e-6
    for n_draws in (1, 3):
        bound = root(math.exp(2 * left), n_draws) * steepest(classes)
        found = np.abs(bias(q, query, classes, n_draws))
        assert (found <= bound + 1e-6).all()
        if residual == 0:
            assert left < 1e-6 and found.max() < 1e-6
        uniform = np.abs(bias(np.full(6, 1 / 6), query, classes, n_draws))
        if residual <= 0.02:
            assert (uniform > bound).any(), "this test couldn't tell MIDX from a uniform draw"


def shortfall(query: theory.Array, classes: theory.Array, q: theory.Array, label: int, **options: str) -> float:
    """By how much the expected loss of two draws is below the full softmax's: Eq. (7), over all pairs of draws."""
    drawn = np.array(list(itertools.product(range(len(q)), repeat=2)))
    loss = SampledSoftmaxLoss(Scripted(torch.from_numpy(q), torch.from_numpy(drawn)), 2, reduction="none", **options)
    queries, labels = torch.from_numpy(query).expand(len(drawn), -1).clone(), torch.full((len(drawn),), label)
    expected = q[drawn].prod(axis=1) @ loss(queries, torch.from_numpy(classes), labels).numpy()
    return float(-np.log(theory.softmax(classes @ query)[label]) - expected)


def test_theorem_13_is_about_eq_1_and_not_about_the_default_loss() -> None:
    """Its first step: the sampled loss is too small by KL(Q||P) at most. The proof corrects draws that hit, too."""
    readings = {"proof": {"accidental": "keep"}, "paper": {"accidental": "paper"}, "default": {}}
    beyond = dict.fromkeys(readings, 0)
    for seed in range(200):
        classes, query = problem(seed)
        q = theory.softmax(classes @ query + np.random.default_rng(seed + 100).normal(size=len(classes)))
        kl = float(q @ np.log(q / theory.softmax(classes @ query)))
        for name, options in readings.items():
            correction = {} if name == "default" else {"correction": "drawn"}
            beyond[name] += shortfall(query, classes, q, seed % len(q), **correction, **options) > kl + 1e-6
    assert beyond == {"proof": 0, "paper": 1, "default": 42}  # as docs/papers/midx.md has them


P = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
Q = P.flip(0)
M = 2


def every_case(classes: list[int], q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All labels with all draws from some classes: targets (n,), draws (n, M), their places, and probabilities."""
    cases = [(y, *drawn) for y in range(len(P)) for drawn in itertools.product(range(len(classes)), repeat=M)]
    labels, places = torch.tensor(cases)[:, 0], torch.tensor(cases)[:, 1:]
    return labels, places, P[labels] * q[places].prod(dim=1)


def optimum(loss: ClassLoss, labels: Tensor, weights: Tensor) -> Tensor:
    """The softmax of the scores that minimise the expected loss, (n_classes,)."""
    table = torch.zeros(len(P), 1, dtype=torch.float64, requires_grad=True)
    queries = torch.ones(len(labels), 1, dtype=torch.float64)
    optimizer = torch.optim.LBFGS([table], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-16)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value: Tensor = (loss(queries, table * 1, labels) * weights).sum()
        value.backward()
        return value

    optimizer.step(closure)
    return table.detach().squeeze(1).softmax(0)


def of_softmax(**options: Any) -> Tensor:
    labels, places, weights = every_case(list(range(len(P))), Q)
    return optimum(SampledSoftmaxLoss(Scripted(Q, places), M, reduction="none", **options), labels, weights)


def test_with_all_logits_corrected_it_is_the_labels_distribution() -> None:
    torch.testing.assert_close(of_softmax(), P, atol=1e-4, rtol=0)


@pytest.mark.parametrize("rule", ["remove", "paper", "keep"])
def test_with_the_drawn_ones_corrected_alone_it_is_far_from_it(rule: str) -> None:
    """Eq. (1): what is drawn seldom becomes too rare."""
    found = of_softmax(correction="drawn", accidental=rule)
    assert found[0] > 0.8 and found[3] < 0.01


@pytest.mark.parametrize("head", [[0], [2], [0, 3], [1, 2]])
def test_of_a_head_and_a_tail_it_is_the_labels_distribution(head: list[int]) -> None:
    tail = [k for k in range(len(P)) if k not in head]
    q = Q[tail] / Q[tail].sum()
    labels, places, weights = every_case(tail, q)
    loss = HeadAndTailLoss(Subset(len(P), Scripted(q, places), tail), M, reduction="none")
    torch.testing.assert_close(optimum(loss, labels, weights), P, atol=1e-4, rtol=0)
