"""An index around random centres: what it computes, what it finds, and what it refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises
from word_topics import share_found

import sylvan
from sylvan import IRLIIndex
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.models.irli.bucket_centers import BucketCenters
from sylvan.models.irli.vectors import exact_neighbors

METRICS = ("euclidean", "angular", "inner_product")
RANDOM = np.random.default_rng(0)
BASE = (RANDOM.normal(size=(40, 7))[RANDOM.integers(0, 40, 3000)] + 0.3 * RANDOM.normal(size=(3000, 7))).astype("f4")
QUERIES = (BASE[:200] + 0.1 * RANDOM.normal(size=(200, 7))).astype(np.float32)


@pytest.mark.parametrize("metric", METRICS)
def test_buckets_and_probabilities_are_those_of_the_definition(metric: str) -> None:
    index = IRLIIndex(metric=metric, n_buckets=20, n_repetitions=3, n_jobs=1).fit(BASE)
    network, base = index.network_, index.base_.astype(np.float64)
    assert isinstance(network, BucketCenters)
    rows = {tuple(row) for row in index.base_.tolist()}
    assert all(tuple(center) in rows for center in network.centers.reshape(-1, 7).tolist())
    assert len(np.unique(network.centers.reshape(-1, 7), axis=0)) > 50, "repetitions have centres of their own"
    queries = QUERIES / np.linalg.norm(QUERIES, axis=1, keepdims=True) if metric == "angular" else QUERIES
    chosen, probabilities = network.top(queries, 4)
    for repetition, centers in enumerate(network.centers.astype(np.float64)):
        distances = np.square(base[:, None] - centers[None]).sum(axis=2)
        assigned = index.buckets_.assignment[repetition]
        np.testing.assert_allclose(distances[np.arange(len(base)), assigned], distances.min(axis=1), atol=1e-5)
        scores = queries.astype(np.float64) @ centers.T
        if metric != "inner_product":
            scores -= np.square(centers).sum(axis=1) / 2
        shares = np.exp((scores - scores.max(axis=1, keepdims=True)) / (0.3 * network.spread))
        shares /= shares.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(probabilities[:, repetition], -np.sort(-shares, axis=1)[:, :4], atol=1e-5)
        np.testing.assert_allclose(np.take_along_axis(shares, chosen[:, repetition], 1), probabilities[:, repetition],
                                   atol=1e-5)  # fmt: skip


@pytest.mark.parametrize("metric", METRICS)
def test_a_search_finds_as_many_as_wished(metric: str, tmp_path: Path) -> None:
    index = IRLIIndex(metric=metric, recall=0.9, n_jobs=1).fit(BASE)
    assert index.tuning_ is not None and index.tuning_.recall >= 0.9 and index.report().text()
    ids, distances, counts = index.search(QUERIES, 10, return_counts=True)
    queries = QUERIES / np.linalg.norm(QUERIES, axis=1, keepdims=True) if metric == "angular" else QUERIES
    true = exact_neighbors(queries, index.base_, 10, metric)[0]  # type: ignore[arg-type]
    assert share_found(ids, true) > 0.8, "these are other queries"
    assert counts.mean() < len(BASE) / 2
    index.save(tmp_path / "index")
    for other in (sylvan.load(tmp_path / "index"), IRLIIndex(metric=metric, n_jobs=3).fit(BASE)):  # type: ignore[arg-type]
        assert other.partition == "centers" and other.tuning_ == index.tuning_
        np.testing.assert_array_equal(other.search(QUERIES, 10)[1], distances)
        np.testing.assert_array_equal(other.search(QUERIES[:1], 10)[0], ids[:1])
    everything = index.search(QUERIES, 10, probes=index.network_.centers.shape[1], candidates="all")[0]
    np.testing.assert_array_equal(everything, true)


def test_queries_that_are_given_set_the_search() -> None:
    true = exact_neighbors(QUERIES, BASE, 10, "euclidean")[0]
    given, computed = (IRLIIndex(n_jobs=1).fit(BASE, QUERIES, nearest) for nearest in (true, None))
    assert given.tuning_ == computed.tuning_ != IRLIIndex(n_jobs=1).fit(BASE).tuning_
    with raises(DataError, "neighbors", 200):
        IRLIIndex().fit(BASE, QUERIES, true[:5])
    with raises(DataError, 7, 5):
        IRLIIndex().fit(BASE, QUERIES[:, :5])


def test_vectors_come_and_go() -> None:
    index = IRLIIndex(n_jobs=1).fit(BASE)
    new = index.add(QUERIES[:3])
    assert new.tolist() == [3000, 3001, 3002]
    np.testing.assert_array_equal(index.buckets_.assignment[:, 3000:], index.network_.assign(QUERIES[:3]))
    assert index.search(QUERIES[:3], 1)[0].ravel().tolist() == new.tolist()
    index.remove(new)
    assert not np.isin(index.search(QUERIES[:3], 10)[0], new).any()


@pytest.mark.parametrize("n", [1, 2, 9, 30])
def test_few_vectors(n: int) -> None:
    index = IRLIIndex(n_buckets=16, n_jobs=1).fit(BASE[:n])
    assert (index.tuning_ is None) == (n < 10)
    assert index.search(BASE[:n], 1, probes=16)[0].ravel().tolist() == list(range(n))
    same = IRLIIndex(n_jobs=1).fit(np.ones((20, 3)))
    assert (same.search(np.ones((2, 3)), 5)[1] == 0).all()


@pytest.mark.parametrize(
    ("name", "value"), [("hidden", 64), ("rounds", 0), ("choices", 3), ("n_queries", 50), ("learning_rate", 0.1)]
)
def test_parameters_of_learning_are_refused_beside_centres(name: str, value: Any) -> None:
    with raises(ParameterError, "partition='learned'", f"{name}={value!r}"):
        IRLIIndex(**{name: value}).fit(BASE)
    with raises(ParameterError, "partition"):
        IRLIIndex("kmeans").fit(BASE)  # type: ignore[arg-type]


def test_a_plan_says_what_is_made() -> None:
    plan = IRLIIndex(n_jobs=1).plan(BASE)
    assert [phase.name for phase in plan.phases] == ["assigning", "neighbours", "setting the search"]
    index = IRLIIndex(n_jobs=1).fit(BASE)
    arrays = index._vectors.to_parts()[1].values()
    assert plan.model_bytes == pytest.approx(sum(array.nbytes for array in arrays), rel=0.05)


def test_damaged_centres_are_refused() -> None:
    index = IRLIIndex(n_jobs=1).fit(BASE[:50])
    state = index.to_state()
    centers = index.network_.centers
    for damaged in (np.ascontiguousarray(centers[:, :, :3]), centers.astype(np.float64)):
        with raises(ModelError, "centers"):
            IRLIIndex.from_state(replace(state, arrays={**state.arrays, "centers": damaged}))
    for spread in (-1.0, float("nan"), "wide", None):
        with raises(ModelError, "spread"):
            IRLIIndex.from_state(replace(state, meta={**state.meta, "spread": spread}))
    odd = IRLIIndex.from_state(replace(state, arrays={**state.arrays, "centers": np.full_like(centers, np.nan)}))
    assert odd.search(QUERIES, 3)[0].shape == (200, 3)


@pytest.mark.filterwarnings("error")
def test_vectors_of_any_length_have_the_same_buckets() -> None:
    index, huge = (IRLIIndex(n_jobs=1).fit(BASE * np.float32(scale)) for scale in (1, 2**40))
    np.testing.assert_array_equal(huge.buckets_.assignment, index.buckets_.assignment)
    assert huge.network_.spread == pytest.approx(index.network_.spread * 2.0**80)
    np.testing.assert_array_equal(huge.search(QUERIES * np.float32(2**40))[0], index.search(QUERIES)[0])
