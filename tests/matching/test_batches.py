"""A row gets the same bits alone and among others, however these are grouped, unpacked and shared between threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan.arrays import validate
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Int32
from sylvan.matching import beam as matching
from sylvan.weights.layer import ClusterRows, LayerWeights

CHILDREN = (1, 5, 8, 16, 33, 77, 128, 129, 300)  # of a cluster: of each way to add rows, and beside its bounds
DTYPES = ("float32", "float16", "uint8", "uint4")


def layer_of(
    random: np.random.Generator, n_children: list[int], n_features: int, density: float, dtype: str
) -> LayerWeights:
    """A layer whose clusters have empty, short and full rows, or none at all (as after pruning)."""
    clusters = []
    for n in n_children:
        share = density * random.choice([0.0, 1.0, 1.0])
        features = np.flatnonzero(random.random(n_features) < share).astype(np.int32)
        lengths = np.minimum(random.choice([1, 2, 4, 5, 11, n], len(features)), n).astype(np.int32)
        children = [np.sort(random.choice(n, length, replace=False)) for length in lengths.tolist()]
        weights = random.normal(size=int(lengths.sum())) * random.lognormal(size=int(lengths.sum()))
        clusters.append(
            ClusterRows(
                features, lengths, np.concatenate([*children, np.zeros(0, np.int32)]).astype(np.int32),
                weights.astype(np.float32), random.normal(size=n).astype(np.float32),
            )
        )  # fmt: skip
    return LayerWeights.from_clusters(clusters, np.cumsum([0, *n_children]), n_features, dtype)


def ranked(X: sp.csr_matrix, layers: list[LayerWeights], leaves: Int32, k: int, n_jobs: int = 1) -> TopK:
    return matching.rank(
        validate.features(X), layers, leaves, k=k, beam=4, combines=["l3_hinge"] * len(layers), n_jobs=n_jobs
    )


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([2, 30, 700]), st.sampled_from(CHILDREN), st.sampled_from(DTYPES),
    st.sampled_from([3, 40, 700]), st.sampled_from([0.02, 0.5, 1.0]), st.sampled_from([1, 3, 10, 400]),
)  # fmt: skip
def test_a_row_has_the_same_bits_alone(
    seed: int, n_rows: int, widest: int, dtype: str, n_features: int, density: float, k: int
) -> None:
    random = np.random.default_rng(seed)
    n_clusters = int(random.integers(1, 7))
    n_children = np.minimum(random.choice(CHILDREN, n_clusters), widest).tolist()
    layers = [
        layer_of(random, [n_clusters], n_features, density, dtype),
        layer_of(random, n_children, n_features, density, dtype),
    ]
    leaves = random.permutation(sum(n_children)).astype(np.int32)
    X = sp.random(n_rows, n_features, random.choice([0.05, 0.3]), "csr", np.float32, random)
    k = min(k, len(leaves))
    together = ranked(X, layers, leaves, k)
    for r in range(0, n_rows, max(1, n_rows // 20)):
        alone = ranked(X[r], layers, leaves, k)
        np.testing.assert_array_equal(together.labels[r], alone.labels[0])
        np.testing.assert_array_equal(together.scores[r].view(np.int32), alone.scores[0].view(np.int32))
    longer = ranked(X, layers, leaves, len(leaves))
    np.testing.assert_array_equal(longer.labels[:, :k], together.labels)
    shared = ranked(X, layers, leaves, k, n_jobs=2)
    np.testing.assert_array_equal(shared.labels, together.labels)
    np.testing.assert_array_equal(shared.scores.view(np.int32), together.scores.view(np.int32))


@pytest.mark.parametrize("n_rows", [1, 700])
@pytest.mark.parametrize(("n_labels", "k"), [(40, 5), (40, 40), (300, 5), (300, 120)])
def test_equal_scores_go_to_the_lower_label(n_rows: int, n_labels: int, k: int) -> None:
    random = np.random.default_rng(0)
    layer = layer_of(random, [n_labels], 5, 0.0, "uint8")
    layer.intercepts[:] = random.integers(0, 3, n_labels)
    leaves = random.permutation(n_labels).astype(np.int32)
    top = ranked(sp.csr_matrix((n_rows, 5), dtype=np.float32), [layer], leaves, k)
    expected = leaves[np.lexsort([leaves, -np.minimum(layer.intercepts, 1)])][:k]
    np.testing.assert_array_equal(top.labels, np.tile(expected, (n_rows, 1)))
