"""What losses draw by themselves, and their mean over what they draw: that over all draws there are, exactly.

Losses of prescribed draws are in their own files and in tests/reference. ``kit.chance`` says how seldom a comparison
fails by chance alone.
"""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kit.chance import assert_drawn_by, assert_mean, draws_needed
from sampling.suite import Given, Scripted
from torch import Tensor

from sylvan.sampling import (
    BlackOutLoss,
    CANELoss,
    FrequencySubsets,
    HeadAndTailLoss,
    NCELoss,
    NegativeSamplingLoss,
    OneVsEachLoss,
    SampledSoftmaxLoss,
    Sampler,
    Subset,
    Unigram,
)
from sylvan.sampling.losses.cane import distinct_offsets
from sylvan.sampling.losses.loss import ClassLoss, positives

Q = torch.tensor([0.05, 0.15, 0.3, 0.5], dtype=torch.float64)
N, M, TAIL = len(Q), 2, [1, 3]
SCORES = torch.tensor([0.3, -0.2, 1.0, 0.5], dtype=torch.float64).unsqueeze(1)


def of_all(kind: Any, **options: Any) -> tuple[Tensor, Callable[[Sampler], ClassLoss]]:
    """The distribution of a loss's draws, and the loss with a sampler of it."""
    return Q, lambda sampler: kind(sampler, M, reduction="none", **options)


LOSSES = {
    "sampled softmax": of_all(SampledSoftmaxLoss),
    "sampled softmax, Eq. (1)": of_all(SampledSoftmaxLoss, correction="drawn", accidental="paper"),
    "sampled softmax, others alone": of_all(SampledSoftmaxLoss, correction="others"),
    "NCE": of_all(NCELoss),
    "negative sampling": of_all(NegativeSamplingLoss),
    "BlackOut": of_all(BlackOutLoss),
    "one-vs-each": of_all(OneVsEachLoss),
    "head and tail": (
        Q[TAIL] / Q[TAIL].sum(),
        lambda sampler: HeadAndTailLoss(Subset(N, sampler, TAIL), M, reduction="none"),
    ),
}


def values(loss: ClassLoss, targets: Tensor) -> Tensor:
    found: Tensor = loss(torch.ones(len(targets), 1, dtype=torch.float64), SCORES, targets)
    return found


@pytest.mark.parametrize("name", LOSSES)
def test_the_mean_over_a_loss_s_own_draws_is_that_over_all_draws(name: str) -> None:
    q, make = LOSSES[name]
    drawn = torch.tensor(list(itertools.product(range(len(q)), repeat=M)))
    torch.manual_seed(0)
    for target in range(N):
        exact = q[drawn].prod(dim=1) @ values(make(Scripted(q, drawn)), torch.full((len(drawn),), target))
        found = values(make(Given(q)), torch.full((60_000,), target))
        assert_mean(found, float(exact), off_by=0.04 * float(exact))


def test_one_vs_each_is_unbiased_and_bounds_the_softmax() -> None:
    drawn = torch.tensor(list(itertools.product(range(N), repeat=M)))
    scores = SCORES.squeeze(1)
    for target in range(N):
        _, make = LOSSES["one-vs-each"]
        mean = Q[drawn].prod(dim=1) @ values(make(Scripted(Q, drawn)), torch.full((len(drawn),), target))
        others = [k for k in range(N) if k != target]
        whole = -torch.nn.functional.logsigmoid(scores[target] - scores[others]).sum()
        torch.testing.assert_close(mean, whole)
        assert whole >= -scores.log_softmax(dim=0)[target]


def test_cane_s_noises_are_independent_draws_of_the_sampler_restricted_to_the_others() -> None:
    """By their pairs."""
    counts = torch.tensor([50.0, 20, 10, 8, 5, 3, 2, 1, 0.5, 0.5], dtype=torch.float64)
    n, many = len(counts), draws_needed(100, 0.06)
    loss = CANELoss(
        lambda queries, table: torch.tensor([[0, 1, 4]]).expand(len(queries), -1), Unigram(n, counts), n_noises=2
    )
    torch.manual_seed(0)
    targets = positives(torch.zeros(many, 1, dtype=torch.int64), -100)
    picked = loss._select(torch.zeros(many, 3), torch.zeros(n, 3), targets)
    assert bool(picked.is_noise.all())
    expected = counts.clone()
    expected[[0, 1, 4]] = 0.0
    expected /= expected.sum()
    assert torch.allclose(picked.noise_log_q.double().exp(), expected[picked.noises], rtol=1e-5)
    pairs = n * picked.noises[:, 0] + picked.noises[:, 1]
    assert_drawn_by(pairs, torch.outer(expected, expected).flatten(), off_by=0.06)


def candidates_of_one_subset(n: int, size: int, many: int) -> Tensor:
    subsets = FrequencySubsets([1.0] * size, 1, n, 3)
    return subsets(torch.zeros(many, 3), torch.zeros(size, 3))


def offsets(n: int, size: int, many: int) -> Tensor:
    return distinct_offsets(torch.full((many,), size), n)


@pytest.mark.parametrize(
    ("draw", "n", "size"), [(candidates_of_one_subset, 4, 12), *((offsets, 5, size) for size in (5, 8, 20, 21, 1000))]
)
def test_distinct_draws_are_alike(draw: Callable[[int, int, int], Tensor], n: int, size: int) -> None:
    """Each place holds every class as often, and beside each class every other."""
    torch.manual_seed(0)
    off_by = 0.1 if size < 1000 else 0.2
    drawn = draw(n, size, draws_needed(min(size * size, 1000), off_by))
    ascending = drawn.sort(dim=1).values
    assert bool((ascending[:, 1:] > ascending[:, :-1]).all())
    of_pairs = (1 - torch.eye(size)).flatten() / (size * (size - 1))
    for first, second in itertools.combinations(range(n), 2):
        assert_drawn_by(drawn[:, first], torch.full((size,), 1 / size), off_by)
        if size < 1000:
            assert_drawn_by(size * drawn[:, first] + drawn[:, second], of_pairs, off_by)
