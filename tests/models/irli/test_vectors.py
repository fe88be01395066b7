"""True distances and the nearest of them, beside NumPy in double precision; sizes of an index, costs of a search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import IRLIIndex, kernels
from sylvan.models.irli.buckets import ORDERS, Candidates
from sylvan.models.irli.index import IndexSizes, principal_directions
from sylvan.models.irli.search import cost_of_counting
from sylvan.models.irli.vectors import METRICS, exact_neighbors, nearest_candidates, training_queries


def measured(queries: np.ndarray, base: np.ndarray, metric: str) -> np.ndarray:
    """All distances in double precision, (n, L)."""
    rows, vectors = queries.astype(np.float64), base.astype(np.float64)
    if metric == "euclidean":
        return np.sqrt(((rows[:, None] - vectors[None]) ** 2).sum(axis=2))
    products = rows @ vectors.T
    return np.maximum(1 - products, 0) if metric == "angular" else products


def candidates_of(lists: list[list[int]]) -> Candidates:
    offsets = np.concatenate(([0], np.cumsum([len(one) for one in lists]))).astype(np.int64)
    labels = np.array([label for one in lists for label in one], np.int32)
    ones = np.ones(len(labels), np.int32)
    return Candidates(offsets, labels, ones, ones.astype(np.float32), np.diff(offsets))


def nearest_slowly(distances: np.ndarray, among: list[int], k: int, metric: str) -> tuple[list[int], list[float]]:
    sign = -1 if metric == "inner_product" else 1
    best = sorted(among, key=lambda i: (sign * distances[i], i))[:k]
    missing = k - len(best)
    return best + [-1] * missing, [float(distances[i]) for i in best] + [sign * np.inf] * missing


@settings(max_examples=60)
@given(
    st.integers(0, 2**32), st.sampled_from(METRICS), st.integers(0, 5), st.integers(1, 600), st.integers(0, 37),
    st.sampled_from([1, 2, 10, 700]),
)  # fmt: skip
def test_whole_numbers_are_ranked_exactly(seed: int, metric: str, n: int, n_base: int, dim: int, k: int) -> None:
    """Small whole numbers leave no rounding, except in the root: ties, ids and distances must be exact."""
    random = np.random.default_rng(seed)
    queries, base = (random.integers(-2, 3, (rows, dim)).astype(np.float32) for rows in (n, n_base))
    distances = measured(queries, base, metric).astype(np.float32)
    lists = [random.permutation(n_base)[: random.integers(0, n_base + 1)].tolist() for _ in range(n)]
    ids, found = nearest_candidates(queries, base, candidates_of(lists), k, metric)
    assert ids.dtype == np.int32 and found.dtype == np.float32 and ids.shape == found.shape == (n, k)
    for i in range(n):
        assert (ids[i].tolist(), found[i].tolist()) == nearest_slowly(distances[i], lists[i], k, metric)
    own = random.integers(-1, n_base, n, np.int32)
    ids, found = exact_neighbors(queries, base, k, metric, excluded=own)
    for i in range(n):
        others = [j for j in range(n_base) if j != own[i]]
        assert (ids[i].tolist(), found[i].tolist()) == nearest_slowly(distances[i], others, k, metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dim", [1, 7, 16, 100, 769])
def test_real_numbers_are_ranked_within_rounding(metric: str, dim: int) -> None:
    random = np.random.default_rng(dim)
    queries, base = (random.normal(size=(rows, dim)).astype(np.float32) for rows in (20, 1000))
    if metric == "angular":
        queries, base = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (queries, base))
    sign = -1 if metric == "inner_product" else 1
    expected = sign * measured(queries, base, metric)
    ids, distances = exact_neighbors(queries, base, 10, metric)
    scale = 3e-6 * max(1, np.abs(expected).max())
    np.testing.assert_allclose(sign * distances, np.sort(expected, axis=1)[:, :10], atol=scale)
    np.testing.assert_allclose(sign * distances, np.take_along_axis(expected, ids, axis=1), atol=scale)
    assert (np.diff(sign * distances, axis=1) >= 0).all()


@pytest.mark.parametrize("metric", METRICS)
def test_a_distance_has_the_same_bits_however_it_is_met(metric: str) -> None:
    random = np.random.default_rng(7)
    queries, base = (random.normal(size=(rows, 101)).astype(np.float32) for rows in (150, 777))
    exact = exact_neighbors(queries, base, 25, metric)
    lists = [random.permutation(777).tolist() for _ in range(150)]
    for n_jobs in (1, 2, 5):
        for found in (
            exact_neighbors(queries, base, 25, metric, n_jobs=n_jobs),
            nearest_candidates(queries, base, candidates_of(lists), 25, metric, n_jobs=n_jobs),
        ):
            np.testing.assert_array_equal(found[0], exact[0])
            np.testing.assert_array_equal(found[1].view(np.int32), exact[1].view(np.int32))
    alone = nearest_candidates(queries[3:4], base, candidates_of([[int(exact[0][3, 0])]]), 1, metric)
    assert alone[1][0, 0] == exact[1][3, 0]


@pytest.mark.parametrize("metric", METRICS)
def test_duplicates_stand_in_the_order_of_their_ids(metric: str) -> None:
    row = np.array([[0.3, -0.7, 0.648074]], np.float32)
    base = np.repeat(row, 9, axis=0)
    ids, distances = exact_neighbors(row, base, 12, metric, excluded=np.array([4], np.int32))
    assert ids[0].tolist() == [0, 1, 2, 3, 5, 6, 7, 8, -1, -1, -1, -1]
    if metric != "inner_product":
        assert (distances[0, :8] >= 0).all() and not np.signbit(distances[0, :8]).any()
    assert np.isinf(distances[0, 8:]).all()


def test_what_is_no_number_is_nobodys_neighbour() -> None:
    base = np.array([[0.0], [np.nan], [1.0]], np.float32)
    ids, _ = exact_neighbors(np.zeros((1, 1), np.float32), base, 3, "euclidean")
    assert ids.tolist() == [[0, 2, -1]]


def test_nothing_to_search_is_an_answer() -> None:
    empty = np.empty((0, 3), np.float32)
    ids, distances = exact_neighbors(np.zeros((2, 3), np.float32), empty, 2, "euclidean")
    assert ids.tolist() == [[-1, -1]] * 2 and np.isposinf(distances).all()
    assert exact_neighbors(empty, np.zeros((2, 3), np.float32), 2, "angular")[0].shape == (0, 2)
    query, base = np.zeros((1, 3), np.float32), np.zeros((2, 3), np.float32)
    ids, distances = nearest_candidates(query, base, candidates_of([[]]), 2, "inner_product")
    assert ids.tolist() == [[-1, -1]] and np.isneginf(distances).all()


def test_the_door_holds_the_sizes() -> None:
    queries, base = np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32)
    out = np.zeros((2, 1), np.int32), np.zeros((2, 1), np.float32)
    offsets, ids = np.array([0, 1, 2]), np.array([0, 3], np.int32)
    good = (queries, base, offsets, ids, 0, 2, 0, *out)
    kernels.nearest_candidates(*good)
    for at, value in (
        (0, queries[:, :2].copy()), (2, offsets[:2].copy()), (2, np.array([0, 2, 1])), (2, np.array([0, 1, 3])),
        (2, np.array([-1, 1, 2])), (3, np.array([0, 4], np.int32)), (3, np.array([-1, 0], np.int32)), (4, -1), (5, 3),
        (6, 3), (6, -1), (7, np.zeros((1, 1), np.int32)), (8, np.zeros((2, 2), np.float32)),
        (7, np.zeros((2, 0), np.int32)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"disagree|out of range|offsets|metric"):
            kernels.nearest_candidates(*good[:at], value, *good[at + 1 :])
    with raises(ValueError, "row"):
        kernels.nearest_vectors(queries, base, np.zeros(1, np.int32), 0, 2, 0, *out)


@pytest.mark.parametrize(
    ("n", "width", "sizes"),
    [
        (60_000, 784, (256, 16, 128, 128, 20_000)),
        (100_000, 96, (256, 16, 128, 0, 30_000)),
        (500, 8, (16, 16, 128, 0, 10_000)),
        (10_000_000, 768, (2048, 16, 1024, 0, 30_000)),
    ],
)
def test_sizes_by_default(n: int, width: int, sizes: tuple[int, ...]) -> None:
    assert IndexSizes.of(IRLIIndex("learned").get_params(deep=False), n, width) == IndexSizes(*sizes)


def test_given_sizes_rule() -> None:
    index = IRLIIndex("learned", n_buckets=7, hidden=9, n_components=50, n_queries=11)
    assert IndexSizes.of(index.get_params(deep=False), 1000, 60) == IndexSizes(7, 16, 9, 50, 11)
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
