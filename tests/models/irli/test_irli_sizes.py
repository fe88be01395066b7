"""The sizes of an index by default, the directions that its networks see, and what a search is taken to cost."""

from __future__ import annotations

import numpy as np
import pytest

from sylvan import IRLIIndex
from sylvan.models.irli.buckets import ORDERS
from sylvan.models.irli.index import IndexSizes, principal_directions
from sylvan.models.irli.search import cost_of_counting
from sylvan.models.irli.vectors import METRICS, exact_neighbors, training_queries


@pytest.mark.parametrize(
    ("n", "width", "sizes"),
    [
        (60_000, 784, (256, 128, 128, 20_000)),
        (100_000, 96, (256, 128, 0, 30_000)),
        (500, 8, (16, 128, 0, 10_000)),
        (10_000_000, 768, (2048, 1024, 0, 30_000)),
    ],
)
def test_sizes_by_default(n: int, width: int, sizes: tuple[int, ...]) -> None:
    assert IndexSizes.of(IRLIIndex().get_params(deep=False), n, width) == IndexSizes(*sizes)


def test_given_sizes_rule() -> None:
    index = IRLIIndex(n_buckets=7, hidden=9, n_components=50, n_queries=11)
    assert IndexSizes.of(index.get_params(deep=False), 1000, 60) == IndexSizes(7, 9, 50, 11)
    assert IndexSizes.of(index.get_params(deep=False), 1000, 50).n_components == 0, "nothing would be left out"


def test_principal_directions_are_those_of_the_singular_values() -> None:
    vectors = np.random.default_rng(0).normal(2, size=(200, 30)).astype(np.float32) * np.linspace(1, 3, 30)
    directions = principal_directions(vectors.astype(np.float32), 4, 0)
    right = np.linalg.svd(vectors)[2][:4].T
    np.testing.assert_allclose(np.abs(np.sum(directions * right, axis=0)), 1, atol=1e-4)
    np.testing.assert_allclose(directions.T @ directions, np.eye(4), atol=1e-5)


@pytest.mark.parametrize("metric", METRICS)
def test_neighbours_found_by_a_projection_are_near_the_nearest(metric: str) -> None:
    random = np.random.default_rng(1)
    base = (random.normal(size=(900, 8)) @ random.normal(size=(8, 200)) + 0.3 * random.normal(size=(900, 200))).astype(
        np.float32
    )
    if metric == "angular":
        base /= np.linalg.norm(base, axis=1, keepdims=True)
    projection = principal_directions(base, 16, 0)
    ways = {"metric": metric, "n_queries": 500, "n_neighbors": 10, "seed": 0, "n_jobs": 1}
    found, exact = (training_queries(base, projection=shown, **ways) for shown in (projection, None))  # type: ignore[arg-type]
    both = found.truths.multiply(exact.truths).nnz / exact.truths.nnz
    assert 0.95 < both <= 1
    np.testing.assert_array_equal(found.queries, exact.queries)
    assert found.holdout is not None and exact.holdout is not None
    assert (found.holdout[1] != exact.holdout[1]).nnz == 0, "what is judged by is exact"
    nearest = exact_neighbors(found.queries[:1] @ projection, base @ projection, 1, "euclidean")[0]
    assert (base[nearest[0, 0]] == found.queries[0]).all()


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
