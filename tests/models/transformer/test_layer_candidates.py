"""Candidates of a layer against slow sets, and costs by a slow recursion."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sylvan import LabelTree
from sylvan.arrays import validate
from sylvan.arrays.validate import Csr
from sylvan.matching.negatives import layer_positives
from sylvan.models.transformer.layer_job import LayerCandidates, coverage
from sylvan.ranking.training import cost_weights


class Made:
    """A layer of a few parents and their children, and some rows."""

    def __init__(self, seed: int, n_rows: int = 9, width: int = 3) -> None:
        random = np.random.default_rng(seed)
        self.offsets = np.concatenate(([0], np.cumsum(random.integers(1, 5, 7)))).astype(np.int64)
        self.n_parents, self.n_nodes = len(self.offsets) - 1, int(self.offsets[-1])
        self.costs_of = (random.random((n_rows, self.n_nodes)) < 0.15) * random.random((n_rows, self.n_nodes))
        self.costs_of = self.costs_of.astype(np.float32)
        self.costs = validate.features(self.costs_of)
        self.parent = np.repeat(np.arange(self.n_parents), np.diff(self.offsets))
        above = np.zeros((n_rows, self.n_parents), np.float32)
        for row, node in np.argwhere(self.costs_of > 0):
            above[row, self.parent[node]] = 1
        self.parents: Csr = validate.features(above)
        self.beam = np.array([random.permutation(self.n_parents)[:width] for _ in range(n_rows)], np.int32)
        self.beam[random.random(self.beam.shape) < 0.3] = -1

    def opened(self, row: int, forced: bool, looking: bool) -> set[int]:
        found: set[int] = set()
        if forced:
            found |= {int(self.parent[node]) for node in np.flatnonzero(self.costs_of[row])}
        if looking:
            found |= {int(node) for node in self.beam[row] if node >= 0}
        return found


@given(seed=st.integers(0, 10_000), forced=st.booleans(), looking=st.booleans())
def test_candidates_are_those_of_slow_sets(seed: int, forced: bool, looking: bool) -> None:
    made = Made(seed)
    candidates = LayerCandidates(
        made.offsets, made.costs, made.parents if forced else None, made.beam if looking else None, 0.25
    )
    rows = np.random.default_rng(seed).permutation(9)[:5]
    nodes, positive, weights = candidates.take(rows)
    everything = not forced and not looking
    all_open = [made.opened(int(row), forced, looking) for row in rows]
    union = {n for n in range(made.n_nodes) if everything or any(made.parent[n] in opened for opened in all_open)}
    assert nodes.tolist() == sorted(union)
    for at, row in enumerate(rows):
        for place, node in enumerate(nodes):
            here = everything or int(made.parent[node]) in all_open[at]
            cost = float(made.costs_of[row, node])
            assert positive[at, place] == (here and cost > 0)
            assert weights[at, place] == np.float32((cost or 0.25) if here else 0)
    counts = [made.n_nodes if everything else sum(int(made.parent[n]) in made.opened(row, forced, looking)
              for n in range(made.n_nodes)) for row in range(9)]  # fmt: skip
    assert candidates.mean_number() == pytest.approx(np.mean(counts))


def test_a_batch_of_rows_that_look_nowhere() -> None:
    made = Made(5)
    nowhere = np.full((9, 2), -1, np.int32)
    nodes, positive, weights = LayerCandidates(made.offsets, made.costs, None, nowhere).take(np.array([2, 0]))
    assert nodes.shape == (0,) and weights.shape == positive.shape == (2, 0)


def test_the_size_of_a_batch_is_that_of_what_it_looks_at() -> None:
    """Ten million nodes in clusters of ten: eight rows that look at three clusters each have at most 240 candidates."""
    n_parents = 1_000_000
    offsets = np.arange(n_parents + 1, dtype=np.int64) * 10
    random = np.random.default_rng(0)
    beam = random.integers(0, n_parents, (8, 3)).astype(np.int32)
    nothing = Csr(np.zeros(9, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), (8, 10 * n_parents))
    nodes, _, weights = LayerCandidates(offsets, nothing, None, beam).take(np.arange(8))
    assert len(nodes) == 10 * len(np.unique(beam)) and weights.sum() == 240


def test_coverage_counts_positives_that_the_beam_holds() -> None:
    made = Made(7)
    pairs = [
        (row, int(parent))
        for row in range(9)
        for parent in range(made.n_parents)
        if made.parents.to_scipy()[row, parent] > 0
    ]
    expected = sum(parent in made.beam[row] for row, parent in pairs) / len(pairs)
    assert coverage(made.parents, made.beam) == pytest.approx(expected)
    assert 0 < expected < 1
    assert coverage(made.parents, None) == 1
    assert coverage(validate.features(np.zeros((9, made.n_parents))), made.beam) == 1


def slow_relevance(tree: LabelTree, values: np.ndarray, layer: int, node: int) -> np.ndarray:
    """The relevance of one node for every row: that of its label, or the sum of its children's."""
    if layer == tree.depth - 1:
        return values[:, tree.leaf_labels[node]]
    offsets = tree.child_offsets[layer + 1]
    below = range(int(offsets[node]), int(offsets[node + 1]))
    return sum(slow_relevance(tree, values, layer + 1, child) for child in below)


def some_labels(n: int, n_labels: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = (random.random((n, n_labels)) < 0.15) * random.integers(1, 4, (n, n_labels))
    values[3] = 0  # a row without a label
    return values.astype(np.float32)


@pytest.mark.parametrize("overlap", [1, 2])
@pytest.mark.parametrize("max_leaf", [3, 100])
def test_relevance_is_the_slow_recursion(overlap: int, max_leaf: int) -> None:
    n_labels = 23
    embeddings = np.random.default_rng(1).standard_normal((n_labels, 5)).astype(np.float32)
    tree = LabelTree.build(embeddings, 2, max_leaf, overlap=overlap if max_leaf < n_labels else 1)
    values = some_labels(12, n_labels)
    found = layer_positives(tree, validate.labels(values), np.add)
    assert len(found) == tree.depth
    for layer, relevance in enumerate(found):
        expected = np.stack(
            [slow_relevance(tree, values, layer, node) for node in range(tree.layer_sizes[layer])], axis=1
        )
        np.testing.assert_allclose(relevance.to_scipy().toarray(), expected, rtol=1e-6)


def relevance() -> Csr:
    return validate.features(np.array([[3, 0, 4], [0, 0, 0], [0, 2, 0]], np.float32))


@pytest.mark.parametrize(
    ("norm", "expected"), [("l1", [3 / 7, 4 / 7, 1]), ("l2", [0.6, 0.8, 1]), ("max", [0.75, 1, 1]), ("none", [1, 1, 1])]
)
def test_costs_are_the_relevance_over_its_norm(norm: str, expected: list[float]) -> None:
    given = relevance()
    found = cost_weights(given, norm)
    np.testing.assert_allclose(found.data, expected, rtol=1e-6)
    assert found.data.dtype == np.float32
    assert np.array_equal(found.indices, given.indices) and np.array_equal(found.indptr, given.indptr)
    np.testing.assert_array_equal(given.data, [3, 4, 2])  # left as it was


def test_nobody_has_a_label() -> None:
    assert cost_weights(validate.features(np.zeros((3, 4), np.float32))).nnz == 0
