"""What a search of an IRLIIndex is taken to cost when its settings are chosen."""

from __future__ import annotations

import numpy as np
import pytest

from sylvan.models.irli.buckets import ORDERS
from sylvan.models.irli.search import cost_of_counting


@pytest.mark.parametrize("order", ORDERS)
def test_more_counters_never_cost_less(order: str) -> None:
    """Neither where they are raised one by one, nor in blocks, nor from one to the other."""
    costs = [cost_of_counting(float(counted), 10_000, order) for counted in range(0, 20_000, 10)]
    assert (np.diff(costs) > 0).all() and costs[0] == 0


@pytest.mark.parametrize("order", ORDERS)
def test_counters_of_a_good_part_of_all_vectors_cost_less_each(order: str) -> None:
    few = cost_of_counting(1000.0, 10_000, order) - cost_of_counting(500.0, 10_000, order)
    many = cost_of_counting(10_500.0, 10_000, order) - cost_of_counting(10_000.0, 10_000, order)
    assert many < few / 3
