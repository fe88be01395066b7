"""Four-bit weights, and layers with other weights in some clusters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan.weights import layer as weights
from sylvan.weights import quantized
from sylvan.weights.layer import WEIGHT_DTYPES, ClusterRows, LayerWeights, runs_between, with_clusters


def rows_of(lengths: list[int], n_children: int, seed: int) -> ClusterRows:
    random = np.random.default_rng(seed)
    children = [np.sort(random.choice(n_children, length, replace=False)) for length in lengths]
    flat = np.concatenate([*children, np.zeros(0, np.int64)])
    drawn = random.choice([-1, 1], len(flat)) * random.lognormal(-1.5, 1, len(flat))
    return ClusterRows(
        np.flatnonzero(random.permutation(np.arange(3 * len(lengths)) < len(lengths))).astype(np.int32),
        np.array(lengths, np.int32), flat.astype(np.int32), drawn.astype(np.float32), np.zeros(n_children, "f4"),
    )  # fmt: skip


@given(st.lists(st.integers(0, 2**40), max_size=50), st.integers(4, 35), st.integers(0, 9))
def test_packed_numbers_come_back(drawn: list[int], bits: int, skipped: int) -> None:
    numbers = np.array(drawn, np.int64) % (1 << bits)
    stream = np.concatenate((quantized.pack_bits(numbers, bits), np.full(quantized.ENTRY_PADDING, 255, np.uint8)))
    assert len(stream) == quantized.stream_bytes(len(numbers), bits)
    skipped = min(skipped, len(numbers))
    found = quantized.unpack_bits(stream, skipped, len(numbers) - skipped, bits)
    assert found.tolist() == numbers[skipped:].tolist()


@given(st.lists(st.integers(1, quantized.LONGEST), max_size=20))
def test_packed_lengths_come_back(lengths: list[int]) -> None:
    stream = quantized.pack_lengths(np.array(lengths, np.int64))
    assert quantized.unpack_lengths(stream, 0, len(lengths)).tolist() == lengths
    assert quantized.unpack_lengths(stream, 1, max(0, len(lengths) - 1)).tolist() == lengths[1:]


@pytest.mark.parametrize(("most", "bits"), [(1, 0), (2, 1), (16, 4), (17, 5), (100, 7), (256, 8), (70_000, 17)])
def test_bits_of_a_child(most: int, bits: int) -> None:
    assert quantized.child_bits(most) == bits


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.sampled_from([60, 300]), st.integers(0, 2**32))
def test_a_cluster_comes_back_rounded(lengths: list[int], n_children: int, seed: int) -> None:
    """Rows and children as they were, every weight near its own: nearer than to the next weight of the codebook."""
    cluster = rows_of(lengths, n_children, seed)
    n_features = 3 * len(lengths)
    layer = LayerWeights.from_clusters([cluster], np.array([0, n_children]), n_features, "uint4")
    found = layer.cluster(0)
    for name in ("features", "lengths", "children"):
        np.testing.assert_array_equal(getattr(found, name), getattr(cluster, name))
    assert layer.codebook is not None and (np.diff(layer.codebook) >= 0).all()
    rounded = layer.codebook[np.abs(cluster.weights[:, None] - layer.codebook).argmin(axis=1)]
    assert (np.abs(found.weights - cluster.weights) <= np.abs(rounded - cluster.weights) + 1e-6).all()
    assert layer.n_entries >= len(cluster.weights)


def test_few_different_weights_are_exact() -> None:
    cluster = rows_of([20, 3, 1], 30, 0)
    weights = np.array([-2.0, -0.5, 0.25, 1.0, 8.0], np.float32)[np.arange(24) % 5]
    cluster = ClusterRows(cluster.features, cluster.lengths, cluster.children, weights, cluster.intercepts)
    layer = LayerWeights.from_clusters([cluster], np.array([0, 30]), 9, "uint4")
    np.testing.assert_array_equal(layer.cluster(0).weights, weights)
    assert layer.n_entries == 24


def test_large_weights_are_sums() -> None:
    """The few that the codebook meets worst, most of them large, are met better than by its nearest weight."""
    cluster = rows_of([60] * 30, 60, 3)
    layer = LayerWeights.from_clusters([cluster], np.array([0, 60]), 90, "uint4")
    weights, book = cluster.weights, layer.codebook
    assert book is not None and 1800 < layer.n_entries < 1.1 * 1800
    nearest = np.abs(weights[:, None] - book).min(axis=1)
    worst = np.argsort(-nearest)[:72]  # of 1,800 weights
    summed = np.abs(layer.cluster(0).weights - weights)[worst]
    assert np.median(np.abs(weights[worst])) > 5 * np.median(np.abs(weights))
    assert summed.mean() < nearest[worst].mean() / 4


def test_an_empty_cluster() -> None:
    empty = ClusterRows(*(np.zeros(0, dtype) for dtype in (np.int32, np.int32, np.int32, np.float32)), np.ones(3, "f4"))  # type: ignore[arg-type]
    layer = LayerWeights.from_clusters([empty, empty], np.array([0, 3, 6]), 5, "uint4")
    assert layer.n_entries == 0 and len(layer.cluster(1).features) == 0


@pytest.mark.parametrize("rows_of_a_cluster", [3, 200, 1_100, 9_000])
def test_packed_blocks_are_as_small_on_disk_as_any(rows_of_a_cluster: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger blocks have fewer starts, but from 256 features on their keys take two bytes."""

    def n_bytes() -> int:
        return weights.laid_out_bytes(5 * n_rows, n_rows, 50, 5_000, 30_000, 100, "uint4")

    n_rows = 50 * rows_of_a_cluster
    chosen = n_bytes()
    for aimed_at in range(weights.ROWS_PER_BLOCK, weights.PACKED_ROWS_PER_BLOCK):
        monkeypatch.setattr(weights, "PACKED_ROWS_PER_BLOCK", aimed_at)
        assert n_bytes() >= chosen


N_FEATURES = 30


def drawn(random: np.random.Generator, n_children: int, scale: float = 1) -> ClusterRows:
    """A cluster of random weights."""
    dense = random.normal(size=(N_FEATURES, n_children)) * (random.random((N_FEATURES, n_children)) < 0.3) * scale
    rows = np.flatnonzero(dense.any(axis=1))
    at, children = np.nonzero(dense[rows])
    return ClusterRows(
        rows.astype(np.int32), np.bincount(at, minlength=len(rows)).astype(np.int32), children.astype(np.int32),
        dense[rows][at, children].astype(np.float32), random.normal(size=n_children).astype(np.float32),
    )  # fmt: skip


def offsets_of(clusters: list[ClusterRows]) -> np.ndarray:
    """Where each cluster's children begin."""
    return np.concatenate(([0], np.cumsum([len(each.intercepts) for each in clusters]))).astype(np.int64)


@settings(max_examples=35)
@given(st.integers(0, 10_000), st.sampled_from(WEIGHT_DTYPES), st.booleans(), st.sampled_from([0, 1, 400]))
def test_what_is_copied_is_what_would_be_placed(seed: int, dtype: str, keeps_codebook: bool, wider: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 5, random.integers(1, 8)).tolist()
    before = [drawn(random, size) for size in sizes]
    layer = LayerWeights.from_clusters(before, offsets_of(before), N_FEATURES, dtype)
    came_from, changed, clusters = [], {}, []
    for o in range(len(before)):
        what = random.choice(["same", "changed", "divided", "larger"])
        parts = {"same": [], "changed": sizes[o : o + 1], "divided": [1, 2], "larger": [40]}[what]
        for size in parts:
            changed[len(clusters)] = drawn(random, size, scale=random.choice([1e-3, 1, 50]))
            clusters.append(changed[len(clusters)])
        if what == "same":
            clusters.append(layer.cluster(o))
        came_from += [o] * max(1, len(parts))
    codebook = layer.codebook if dtype == "uint8" and keeps_codebook else None
    own = np.array(came_from, np.int32)
    made = with_clusters(layer, changed, own, offsets_of(clusters), N_FEATURES + wider, codebook)
    laid_out = LayerWeights.from_clusters(clusters, offsets_of(clusters), N_FEATURES + wider, dtype, codebook)
    expected, found = laid_out.to_arrays("layer"), made.to_arrays("layer")
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        assert array.dtype == found[name].dtype, name
        np.testing.assert_array_equal(array, found[name], name)


@pytest.mark.parametrize(
    ("changed", "runs"),
    [([], [(0, 6)]), ([2, 3], [(0, 2), (4, 6)]), ([5, 0], [(1, 5)]), ([0, 2], [(1, 2), (3, 6)]), (range(6), [])],
)
def test_runs_between(changed: list[int], runs: list[tuple[int, int]]) -> None:
    assert list(runs_between(changed, 6)) == runs
