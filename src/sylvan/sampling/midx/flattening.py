"""Scores of an index that is sure of the wrong classes, made flatter."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from sylvan.sampling.midx.codeword_learning import codeword_masses
from sylvan.sampling.midx.multi_index import MultiIndex
from sylvan.sampling.midx.query_space import mean_softmax

__all__ = ["flattening"]

_QUERIES = 32  # to judge by, or fewer where there are very many cells
_AT_ONCE = 1 << 22  # cells times queries
_STEPS = 20  # golden sections: the factor is found to 0.0001
_GOLDEN = (math.sqrt(5) - 1) / 2
_LEAST_GAIN = 0.25  # nats; for less an index is left as it was made, as so few queries tell little of it


def flattening(index: MultiIndex, queries: Tensor, moved: Tensor, table: Tensor) -> float:
    """What to multiply the scores of an index by, in [0, 1]: 1 but for one that is sure of the wrong classes. The
    measure is the cross-entropy of the index's distribution under the softmax of queries, which is convex in the
    factor; a factor of 0 makes draws uniform. Where the scores of classes spread wider than codewords can follow, an
    index is sure of the wrong classes, and its cross-entropy above the uniform one. The factor is where the
    cross-entropy is least if that is lower by more than a quarter of a nat."""
    # Shapes: queries, moved (n, dim); table (n_classes, dim)
    n = max(1, min(_QUERIES, _AT_ONCE // index.n_cells, len(queries)))
    chosen = torch.arange(n, device=queries.device) * len(queries) // n
    few = queries[chosen]
    scores = index.log_scores(moved[chosen])
    expected = float(mean_softmax(few, table).double() @ index.own_scores.double())
    for mass, score in zip(codeword_masses(few, table, index), scores, strict=True):
        expected += float((mass * score.double().masked_fill(mass == 0, 0.0)).sum(dim=1).mean())
    used = index.counts > 0
    of_cells = index.cell_scores(scores)[:, used]  # (n, cells with classes)

    def cross_entropy(factor: float) -> float:
        masses = index.own_masses(factor)[used]
        return float(torch.logsumexp(factor * of_cells + masses.log(), dim=1).mean()) - factor * expected

    present = cross_entropy(1.0)
    if cross_entropy(1.01) - present <= 0.01 * _LEAST_GAIN:  # no tangent of a convex function falls by more than that
        return 1.0
    least = _least(cross_entropy)
    return least if cross_entropy(least) < present - _LEAST_GAIN else 1.0


def _least(function: Callable[[float], float]) -> float:
    """Where a convex function of a number in [0, 1] is least, by golden sections."""
    low, high = 0.0, 1.0
    left, right = high - _GOLDEN, low + _GOLDEN
    at_left, at_right = function(left), function(right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2
