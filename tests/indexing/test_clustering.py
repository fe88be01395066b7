"""Balanced clustering: the whole tree against a slow reference, its structure, and inputs that break others."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import LabelTree, indexing
from sylvan.arrays import validate
from sylvan.errors import DataError, ParameterError
from sylvan.indexing import clustering
from sylvan.indexing.clustering import layer_plan, plan_offsets

_WORD = 2**64


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) % _WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % _WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % _WORD
    return x ^ (x >> 31)


class ReferenceClustering:
    """The tree as the documentation says it is made, one halving after the other, in plain Python."""

    def __init__(self, Z, offsets, seed, spherical, max_iterations, sample):
        self.Z, self.offsets, self.seed, self.spherical = Z.astype(float), offsets, seed, spherical
        self.max_iterations, self.sample = max_iterations, sample
        self.order = list(range(len(Z)))
        self.split(0, 0, int(offsets[0][-1]))

    def position(self, layer, node):
        for below in self.offsets[layer + 1 :]:
            node = int(below[node])
        return node

    def split(self, layer, first, last):
        leaves = layer == len(self.offsets) - 1
        if last - first == 1 and not leaves:
            below = self.offsets[layer + 1]
            self.split(layer + 1, int(below[first]), int(below[last]))
            return
        if last - first < 2 or (leaves and last - first <= 16):
            return
        groups = -(-(last - first) // 16)
        middle = first + ((groups + 1) // 2 * 16 if leaves else (last - first) // 2)
        begin = self.position(layer, first)
        self.halve(begin, self.position(layer, middle) - begin, self.position(layer, last) - begin)
        self.split(layer, first, middle)
        self.split(layer, middle, last)

    def halve(self, begin, quota, n):
        self.state = mix(mix(self.seed ^ mix(begin)) + n)
        labels = self.order[begin : begin + n]
        m = self.sample if n > 2 * self.sample else n
        if m < n:
            for i in range(m):
                j = i + self.draw(n - i)
                labels[i], labels[j] = labels[j], labels[i]
        a = self.draw(m)
        b = (a + 1 + self.draw(m - 1)) % m
        share = min(m - 1, max(1, quota * m // n)) if m < n else quota
        sides = {labels[a]: 0, labels[b]: 1}
        labels[:m] = self.lloyd(labels[:m], share, sides, self.max_iterations)
        if m < n:
            labels = self.lloyd(labels, quota, sides, 1)
        self.order[begin : begin + n] = labels

    def lloyd(self, labels, quota, sides, iterations):
        for _ in range(iterations):
            sums = [sum((self.Z[row] for row in sides if sides[row] == s), 0 * self.Z[0]) for s in (0, 1)]
            size = [np.linalg.norm(c) if self.spherical else float(np.sum([sides[r] == s for r in sides]))
                    for s, c in enumerate(sums)]  # fmt: skip
            scale = [1 / x if x else 0.0 for x in size]
            score = {row: self.Z[row] @ sums[0] * scale[0] - self.Z[row] @ sums[1] * scale[1] for row in labels}
            best = set(sorted(labels, key=lambda row: (-np.float32(score[row]), row))[:quota])
            new = {row: 0 if row in best else 1 for row in labels}
            moved = sum(sides.get(row) != side for row, side in new.items())
            sides.update(new)
            if moved * 200 <= len(labels):
                break
        return [row for row in labels if sides[row] == 0] + [row for row in labels if sides[row] == 1]

    def draw(self, below):
        self.state = (self.state + 0x9E3779B97F4A7C15) % _WORD
        return mix(self.state) % below


@given(
    st.integers(2, 90), st.integers(1, 25), st.integers(0, 10_000), st.sampled_from(["kmeans", "spherical"]),
    st.booleans(), st.sampled_from([4, 4096]),
)  # fmt: skip
@settings(max_examples=40)
def test_the_tree_is_the_reference_tree(n_labels, dimensions, seed, kind, dense, sample):
    rng = np.random.default_rng(seed)
    # Powers of two on the axes have exact lengths and sums: the kernel and the reference can't differ by a rounding.
    Z = np.zeros((n_labels, dimensions), np.float32)
    Z[np.arange(n_labels), rng.integers(0, dimensions, n_labels)] = 1.0
    if kind == "kmeans":
        Z += rng.integers(0, 3, Z.shape)
    offsets = plan_offsets(layer_plan(n_labels, 3, 20))
    kwargs = {"seed": seed, "spherical": kind == "spherical", "max_iterations": 5}
    rows = Z if dense else validate.features(Z)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clustering, "_SAMPLE", sample)
        order = clustering.clustered_order(rows, offsets, **kwargs, n_jobs=1)
        threaded = clustering.clustered_order(rows, offsets, **kwargs, n_jobs=3)
        patch.setattr(clustering, "_TASK_LABELS", 3)
        in_many_calls = clustering.clustered_order(rows, offsets, **kwargs, n_jobs=1)
    assert order.tolist() == ReferenceClustering(Z, offsets, *kwargs.values(), sample).order
    assert threaded.tolist() == in_many_calls.tolist() == order.tolist()


def test_spherical_clusters_are_of_directions_alone() -> None:
    rng = np.random.default_rng(0)
    Z, lengths = rng.normal(size=(300, 6)), 2.0 ** rng.integers(-3, 4, (300, 1))  # which divide without a rounding
    plain, scaled = ([LabelTree.build(each, 3, 9, clustering=kind) for each in (Z, Z * lengths)]
                     for kind in ("spherical", "kmeans"))  # fmt: skip
    assert plain[0] == plain[1] and scaled[0] != scaled[1]


def blobs(n_groups, size, dimensions=8, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_groups, dimensions)) * 10
    group = rng.permutation(np.repeat(np.arange(n_groups), size))
    return (centres[group] + rng.normal(size=(group.size, dimensions)) * 0.01).astype(np.float32), group


@pytest.mark.parametrize("kind", ["kmeans", "spherical"])
@pytest.mark.parametrize(
    "make", [np.asarray, sp.csr_matrix, sp.csc_array, validate.features, np.float64, np.asfortranarray]
)
def test_known_groups_are_found(kind, make):
    Z, group = blobs(4, 16)
    tree = LabelTree.build(make(Z), branching=4, max_leaf=16, clustering=kind, seed=1)
    assert tree.layer_sizes == (4, 64)
    assert all(len(set(group[part])) == 1 for part in np.split(tree.leaf_labels, 4))


def test_alike_labels_stand_side_by_side_in_a_cluster():
    Z, group = blobs(3, 16)
    tree = LabelTree.build(Z, max_leaf=48, seed=2)
    assert tree.depth == 1
    assert all(len(set(group[part])) == 1 for part in np.split(tree.leaf_labels, 3))


@given(
    st.integers(1, 300), st.integers(2, 20), st.integers(1, 40), st.integers(1, 4), st.integers(0, 99),
    st.sampled_from(["kmeans", "spherical", "random"]),
)  # fmt: skip
@settings(max_examples=40)
def test_structure(n_labels, branching, max_leaf, overlap, seed, kind):
    rng = np.random.default_rng(seed)
    Z = sp.random_array((n_labels, 30), density=rng.choice([0.0, 0.02, 0.2]), rng=rng, format="csr", dtype=np.float32)
    tree = LabelTree.build(Z, branching, max_leaf, clustering=kind, overlap=overlap, seed=seed)
    counts = np.bincount(tree.leaf_labels, minlength=n_labels)
    assert counts.min() >= 1
    assert counts.max() <= overlap
    assert tree.cluster_sizes.max() <= max_leaf
    assert all(np.ptp(np.diff(layer)) <= 1 for layer in tree.child_offsets[:-1])
    assert all(np.diff(layer).max() <= branching for layer in tree.child_offsets[:-1])
    if overlap == 1:
        assert np.ptp(tree.cluster_sizes) <= 1
    again = LabelTree.build(Z, branching, max_leaf, clustering=kind, overlap=overlap, seed=seed, n_jobs=2)
    assert again == tree


def test_large_splits_iterate_on_a_sample_and_threads_do_not_matter():
    rng = np.random.default_rng(3)
    Z = sp.random_array((20_000, 300), density=0.02, rng=rng, format="csr", dtype=np.float32)
    tree = LabelTree.build(Z, seed=5)
    assert np.ptp(tree.cluster_sizes) <= 1
    assert tree == LabelTree.build(Z, seed=5, n_jobs=2) == LabelTree.build(Z, seed=5, n_jobs=5)
    assert tree != LabelTree.build(Z, seed=6)


@pytest.mark.parametrize("rows", [np.zeros((50, 3)), np.ones((50, 3)), np.zeros((50, 0)), sp.csr_matrix((50, 7))])
@pytest.mark.parametrize("kind", ["kmeans", "spherical"])
def test_embeddings_that_say_nothing(rows, kind):
    tree = LabelTree.build(rows, branching=2, max_leaf=1, clustering=kind)
    assert sorted(tree.leaf_labels.tolist()) == list(range(50))


def test_embeddings_at_the_edge_of_float32():
    tree = LabelTree.build(
        np.full((60, 4), 3e38) * np.array([[1], [-1]] * 30), branching=2, max_leaf=4, clustering="kmeans"
    )
    assert sorted(tree.leaf_labels.tolist()) == list(range(60))


def test_one_label_and_fewer_labels_than_branching():
    assert LabelTree.build(np.ones((1, 2))).layer_sizes == (1,)
    assert LabelTree.build(np.eye(3), branching=16, max_leaf=1).layer_sizes == (3, 3)


def test_overlapping_clusters_hold_what_lies_between():
    Z = np.array([[1, 0], [0.9, 0.1], [0.71, 0.7], [0, 1], [0.1, 0.9], [0.0, 0.8]], np.float32)
    tree = LabelTree.build(Z, branching=2, max_leaf=6, overlap=2, clustering="kmeans")
    clusters = [set(part.tolist()) for part in np.split(tree.leaf_labels, tree.child_offsets[-1][1:-1])]
    assert sum(2 in cluster for cluster in clusters) == 2
    assert tree.n_leaves > tree.n_labels


def test_embeddings_of_a_vast_feature_space():
    Z = sp.csr_matrix((np.ones(6, np.float32), [0, 2**31 - 2, 5, 5, 7, 0], [0, 2, 3, 4, 6]), shape=(4, 2**31 - 1))
    tree = LabelTree.build(Z, branching=2, max_leaf=2)
    assert sorted(tree.leaf_labels.tolist()) == [0, 1, 2, 3]
    assert indexing.pifa(Z, [[0], [0], [1], [1]]).indices.tolist() == [0, 5, 2**31 - 2, 0, 5, 7]


def test_the_callers_arrays_are_left_alone():
    Z = np.arange(12, dtype=np.float32).reshape(6, 2)
    Z.flags.writeable = False
    LabelTree.build(Z, 2, 2, clustering="spherical")
    S = sp.csr_matrix(Z)
    before = S.data.copy()
    LabelTree.build(S, 2, 2, clustering="spherical", overlap=2)
    assert (S.data == before).all()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.array([[1.0], [np.nan]]), "row 1"), (np.array([[np.inf], [1.0]]), "row 0"),
        (sp.csr_matrix([[1.0], [np.nan]]), "row 1"), (np.array([[1e300]]), "row 0"), (np.ones(3), "dimensions"),
        (np.ones((0, 3)), "(0, 3)"), (sp.csr_matrix((0, 3)), "place"), (np.array([["a"]]), "text"),
        (np.array([[1j]]), "complex128"),
    ],
)  # fmt: skip
def test_malformed_embeddings(rows, words):
    with raises(DataError, words):
        LabelTree.build(rows)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"branching": 1}, ("branching", "[2, inf)", 1)), ({"max_leaf": 0}, ("max_leaf", 0)),
        ({"overlap": 0}, ("overlap", 0)),
        ({"clustering": "ward"}, ("clustering", "spherical", "kmeans", "random", "ward")),
        ({"max_iterations": 0}, ("max_iterations", 0)), ({"seed": 1.5}, ("seed", "1.5")), ({"n_jobs": 0}, "n_jobs"),
        ({"n_jobs": -5}, "n_jobs"),
    ],
)  # fmt: skip
def test_parameters_out_of_range(values, words):
    with raises(ParameterError, words):
        LabelTree.build(np.eye(4), **values)
