"""The gradient of the sampled softmax against the full one's: Theorem 6 and Theorem 13's first step, measured.

Exact values come from ``theory_reference.py``; what is random has a fixed seed, and tolerances are multiples of the
standard error that it has at this size.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import sampling.theory_reference as theory
import torch
from sampling.theory_samplers import distribution, midx, refreshed, tensor, trained

from sylvan.sampling import MIDX, Draw, SampledSoftmaxLoss, Sampler, Softmax, Uniform, Unigram

SIZES = (4, 16, 64)
QUERIES = 3


def each_draw(
    sampler: Sampler, query: theory.Array, classes: theory.Array, target: int, n_samples: int, n_draws: int, hits: str
) -> tuple[theory.Array, theory.Array]:
    """The sampled loss (n_draws,) and its gradient with respect to the query (n_draws, dim), of so many draws."""
    rule = {"correction": "others"} if hits == "corrected" else {"correction": "drawn", "accidental": hits}
    loss = SampledSoftmaxLoss(sampler, n_samples, reduction="none", **rule)
    losses, gradients = [], []
    for part in np.array_split(np.arange(n_draws), -(-n_draws * n_samples // 250_000)):
        queries = tensor(query).expand(len(part), -1).clone().requires_grad_()
        values = loss(queries, tensor(classes), torch.full((len(part),), target))
        values.sum().backward()
        assert queries.grad is not None
        losses.append(values.detach().double().numpy())
        gradients.append(queries.grad.double().numpy())
    return np.concatenate(losses), np.concatenate(gradients)


class WrongLogQ(Sampler):
    """Draws as another sampler does and tells probabilities that are a little off."""

    def __init__(self, inner: Sampler) -> None:
        super().__init__(inner.n_classes)
        self.inner = inner

    def _draw(self, queries: torch.Tensor, n: int, generator: torch.Generator | None) -> Draw:
        draw = self.inner.sample(queries, n, generator=generator)
        return Draw(draw.ids, draw.log_q + 0.2)


def far_from_expected(sampler: Sampler, q: theory.Array, hits: str) -> float:
    """How many standard errors the mean gradient is from its mean over all possible draws, in the worst dimension."""
    classes, query = small()
    expected = theory.expected_gradient(query, classes, 2, q, 2, hits)
    torch.manual_seed(1)
    _, found = each_draw(sampler, query, classes, 2, 2, 40_000, hits)
    errors = found.std(axis=0) / math.sqrt(len(found))
    return float((np.abs(found.mean(axis=0) - expected) / errors).max())


def small() -> tuple[theory.Array, theory.Array]:
    """Classes and a query, few enough for every pair of draws to be gone through."""
    rng = np.random.default_rng(3)
    return rng.normal(size=(10, 4)), 0.8 * rng.normal(size=4)


@pytest.mark.parametrize("hits", ["remove", "paper", "keep"])
def test_the_mean_gradient_is_that_over_all_possible_draws(hits: str) -> None:
    classes, query = small()
    torch.manual_seed(0)
    samplers = [
        Uniform(10), Unigram(10, torch.arange(1.0, 11)), refreshed(MIDX(10, 4, n_codewords=3), classes)
    ]  # fmt: skip
    for sampler in samplers:
        q = distribution(sampler, query[None])[0]
        assert far_from_expected(sampler, q, hits) < 4.5, type(sampler).__name__
        assert far_from_expected(WrongLogQ(sampler), q, hits) > 9, "this test couldn't tell a wrong log_q"


@functools.cache
def measured() -> dict[tuple[str, str, int, int], tuple[float, float]]:
    """The bias's length and its bound by sampler, rule for hits, number of draws and query."""
    model, rng = trained(), np.random.default_rng(5)
    n_classes = len(model.classes)
    samplers: dict[str, Sampler] = {
        "uniform": Uniform(n_classes),
        "unigram": Unigram(n_classes, model.frequency),
        "midx": midx(32),
    }
    rules = {"midx": ("remove", "paper", "corrected")}
    steepest = float(np.linalg.norm(model.classes, axis=1).max())  # a score's gradient is the class's embedding
    found = {}
    for at, word in enumerate(rng.choice(n_classes, QUERIES, p=model.frequency)):
        query, target = model.contexts[word], int(rng.choice(n_classes, p=model.transitions[word]))
        full, softmax = theory.full_gradient(query, model.classes, target), theory.softmax(model.classes @ query)
        for name, sampler in samplers.items():
            q = distribution(sampler, query[None])[0]
            for n_samples in SIZES:
                for hits in rules.get(name, ("remove",)):
                    torch.manual_seed(at)
                    _, gradients = each_draw(sampler, query, model.classes, target, n_samples, 4_000, hits)
                    bound = theory.bias_bound(softmax, q, n_samples, steepest)
                    found[name, hits, n_samples, at] = theory.unbiased_length(gradients - full), bound
    return found


@pytest.mark.parametrize("at", range(QUERIES))
def test_the_bias_stays_below_theorem_6_and_falls(at: int) -> None:
    for name in ("uniform", "unigram", "midx"):
        own = [measured()[name, "remove", n, at] for n in SIZES]
        assert all(found < bound for found, bound in own), (name, own)
        lengths = [found for found, _ in own]
        assert lengths[0] > 1.2 * lengths[1] > 1.2**2 * lengths[2], (name, lengths)
    for n in SIZES:
        assert measured()["midx", "remove", n, at][0] < 0.5 * measured()["uniform", "remove", n, at][0]


def test_the_paper_s_rule_for_accidental_hits_leaves_the_bound() -> None:
    """Eq. (1) counts the target once more for each draw of it, some M q_y times: a bias that grows with M.

    Theorem 6 has no such draws, and what leaves them out, or corrects for them, keeps to it.
    """
    worst = []
    for at in range(QUERIES):
        paper, bound = measured()["midx", "paper", SIZES[-1], at]
        worst.append(paper / bound)
        for hits in ("remove", "corrected"):
            assert measured()["midx", hits, SIZES[-1], at][0] < min(0.2 * bound, 0.5 * paper)
    assert max(worst) > 1


@pytest.mark.parametrize("n_samples", [1, 2, 5])
def test_draws_from_the_softmax_with_the_corrected_positive_have_no_bias(n_samples: int) -> None:
    """But for the chance that all draws are the target: then there is nothing to learn from."""
    classes, query = small()
    sampler = refreshed(Softmax(10, 4), classes)
    expected = theory.full_gradient(query, classes, 2) * (1 - theory.softmax(classes @ query)[2] ** n_samples)
    torch.manual_seed(2)
    _, found = each_draw(sampler, query, classes, 2, n_samples, 40_000, "corrected")
    errors = found.std(axis=0) / math.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - expected) < 4.5 * errors).all()


@pytest.mark.parametrize("n_samples", [1, 4, 32])
@pytest.mark.parametrize("kind", ["uniform", "unigram", "midx"])
def test_the_sampled_loss_falls_short_by_no_more_than_the_divergence(kind: str, n_samples: int) -> None:
    """Theorem 13's first step, E[full - sampled] ≤ KL(Q ‖ P), and by Jensen's inequality no less than -ln(1 + p_y).

    Draws of the target stay in there. Removed, the sum estimates the softmax's without bias, so its logarithm is
    too small in the mean.
    """
    model = trained()
    n_classes = len(model.classes)
    sampler = {"uniform": Uniform(n_classes), "unigram": Unigram(n_classes, model.frequency), "midx": midx(16)}[kind]
    rng = np.random.default_rng(6)
    for word in rng.choice(n_classes, 2, p=model.frequency):
        query, target = model.contexts[word], int(rng.choice(n_classes, p=model.transitions[word]))
        softmax = theory.softmax(model.classes @ query)
        q = distribution(sampler, query[None])[0]
        short = {}
        for hits in ("keep", "remove"):
            torch.manual_seed(0)
            losses, _ = each_draw(sampler, query, model.classes, target, n_samples, 8_000, hits)
            gap = -math.log(softmax[target]) - losses
            short[hits] = gap.mean(), 4 * gap.std() / math.sqrt(len(gap))
        mean, error = short["keep"]
        assert -math.log1p(softmax[target]) - error < mean < theory.kl(q, softmax) + error
        assert short["remove"][0] > -short["remove"][1]
