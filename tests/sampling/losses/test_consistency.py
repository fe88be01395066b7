"""What losses have for their optimum, by enumeration of everything that can be drawn: the labels' distribution.

A gradient at one fixed model can't see it: the losses agree there when q is the softmax, or when there are many draws.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from sampling.scripted import Scripted
from torch import Tensor

from sylvan.sampling import HeadAndTailLoss, SampledSoftmaxLoss, Subset
from sylvan.sampling.losses.loss import ClassLoss

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
