"""Any tree, with labels at any depth, scores each label by the product along its path; unsound ones are refused."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan.errors import ModelError, ParameterError
from sylvan.importers.forest import CERTAIN, IMPOSSIBLE, Nodes, build_model

N_FEATURES = 5
TRANSFORMS = {
    "l2_hinge": lambda h: math.exp(-(max(0.0, 1 - h) ** 2)),
    "l1_hinge": lambda h: math.exp(-max(0.0, 1 - h)),
    "sigmoid": lambda h: 1 / (1 + math.exp(-h)),
}


def random_nodes(random: np.random.Generator, n: int, inner_labels: bool) -> tuple[Nodes, int]:
    """Nodes in any order; labels on all that have no children and, perhaps, on some that have."""
    order = random.permutation(n)  # a node's number
    parents = np.full(n, -1)
    for at in range(1, n):
        above = int(random.integers(-1, at))
        parents[order[at]] = -1 if above < 0 else order[above]
    childless = ~np.isin(np.arange(n), parents)
    labelled = np.flatnonzero(childless | (inner_labels & (random.random(n) < 0.3)))
    n_labels = len(labelled) + int(random.integers(0, 3))
    labels = np.full(n, -1)
    labels[labelled] = random.choice(n_labels, len(labelled), replace=False)
    dense = random.normal(size=(n, N_FEATURES)) * (random.random((n, N_FEATURES)) < 0.6)
    weights, intercepts = sp.csr_matrix(dense.astype(np.float32)), random.normal(size=n).astype(np.float32)
    return Nodes(parents, labels, random.permutation(n), weights, intercepts), n_labels


def slow_scores(nodes: Nodes, n_labels: int, x: np.ndarray, combine: str) -> list[float]:
    """Each label's score by walking up from its node; 0 for one that has none."""
    scores = [0.0] * n_labels
    for node, label in enumerate(nodes.labels.tolist()):
        score, at = 1.0, node
        while at >= 0:
            row = int(nodes.rows[at])
            h = float(nodes.weights[row].toarray()[0].astype(np.float64) @ x + nodes.intercepts[row])
            score *= TRANSFORMS[combine](h)
            at = int(nodes.parents[at])
        if label >= 0:
            scores[label] = score
    return scores


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 2**32), st.lists(st.integers(1, 14), min_size=1, max_size=2), st.sampled_from(sorted(TRANSFORMS)),
    st.booleans(),
)  # fmt: skip
def test_scores_are_products_along_the_paths(seed: int, sizes: list[int], combine: str, inner_labels: bool) -> None:
    random = np.random.default_rng(seed)
    trees = [random_nodes(random, n, inner_labels) for n in sizes]
    n_labels = max(count for _, count in trees)
    model = build_model([nodes for nodes, _ in trees], n_labels, combine, "float32", "It", beam=100)
    X = random.normal(size=(3, N_FEATURES)).astype(np.float32)
    top = model.rank(X, n_labels)
    for x, labels, scores in zip(X.astype(np.float64), top.labels, top.scores, strict=True):
        each = [slow_scores(nodes, n_labels, x, combine) for nodes, _ in trees]
        expected = np.mean(each, axis=0)
        assert sorted(labels.tolist()) == list(range(n_labels))
        np.testing.assert_allclose(scores, expected[labels], rtol=2e-4, atol=1e-7)


def test_what_the_model_says_of_itself() -> None:
    nodes, n_labels = random_nodes(np.random.default_rng(1), 12, True)
    model = build_model([nodes], n_labels, "sigmoid", "float32", "It", beam=3, bias=0.5)
    assert (model.beam, model.bias, model.combine, model.n_labels_) == (3, 0.5, "sigmoid", n_labels)
    assert model.branching >= 2 and model.max_leaf == model.tree_.cluster_sizes.max()
    assert model.n_rows_ == 0 and model.label_counts_.tolist() == [0] * n_labels


def nodes_of(parents: list[int], labels: list[int], n_features: int = 2) -> Nodes:
    n = len(parents)
    weights = sp.csr_matrix(np.ones((n, 2), np.float32))
    weights.resize((n, n_features))
    return Nodes(np.array(parents), np.array(labels), np.arange(n), weights, np.zeros(n, np.float32))


def test_nodes_that_are_certain_or_impossible() -> None:
    nodes = nodes_of([-1, -1, 0, 1], [-1, -1, 0, 1])
    nodes.rows[:] = [CERTAIN, IMPOSSIBLE, CERTAIN, CERTAIN]
    for combine in ("l1_hinge", "l2_hinge", "l3_hinge", "l4_hinge", "sigmoid"):
        top = build_model([nodes], 2, combine, "float32", "It").rank(np.ones((1, 2)), 2)
        assert top.labels.tolist() == [[0, 1]] and top.scores.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("parents", "labels", "sentence"),
    [
        ([-1, 5], [0, 1], (2, "[-1, 1]")), ([-1, 2, 1], [0, 1, 2], ("root", 2, 3)), ([-1, 0], [0, -1], "node 1"),
        ([-1, -1], [1, 1], "label 1"), ([-1, *range(64)], [-1] * 64 + [0], ("layers", 64)),
        ([-1], [2**31 - 2], (2147483646, 1)),
    ],
)  # fmt: skip
def test_no_trees(parents: list[int], labels: list[int], sentence: object) -> None:
    with raises(ModelError, sentence):
        build_model([nodes_of(parents, labels)], None, "sigmoid", "float32", "It")


def test_sizes() -> None:
    with raises(ParameterError, "n_labels", 6, "label 5", 3):
        build_model([nodes_of([-1], [5])], 3, "sigmoid", "float32", "It")
    wide = nodes_of([-1] * 20_000, list(range(20_000)), 2**31 - 1)
    assert build_model([wide], None, "sigmoid", "float32", "It").n_features_ == 2**31 - 1
    parents = np.concatenate((np.full(20_000, -1), np.arange(20_000))).tolist()
    deep = nodes_of(parents, [-1] * 20_000 + list(range(20_000)), 2**31 - 1)
    with raises(ModelError, 2147483647, 80000, "MiB"):
        build_model([deep], None, "sigmoid", "float32", "It")
