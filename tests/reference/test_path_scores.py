"""The combiner against what it is for: the leaf of the highest product along its path, found by looking at every leaf.

Nothing here follows a recursion over layers, as the beam search and its reference implementation both do: a leaf's
path is where it lies, and its score is Eq. 13's product over it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.test_algorithm2 import laid_out, trees
from sylvan import LabelTree
from sylvan.arrays import validate
from sylvan.matching import beam as matching


def nodes_above(tree: LabelTree, leaf: int) -> list[int]:
    """The node of each layer that a leaf lies below, by the ranges of leaves."""
    return [
        next(node for node in range(tree.layer_sizes[layer]) if leaf in tree.leaves(layer, node))
        for layer in range(tree.depth - 1)
    ] + [leaf]


def product(margins: list[float], combine: str) -> float:
    """Of one path: exp(-max(0, 1 - h)^p) for each ranker's margin h, or its probability; or the last margin alone. Of a
    nested hinge f(t) = exp(-max(1 - f(t - 1), 0)^p) exp(-max(1 - h, 0)^p), from Algorithm 2's f(0) = 1."""
    if combine.endswith(":nested"):
        f = 1.0
        for h in margins:
            f = math.exp(-(max(1 - f, 0.0) ** int(combine[1]))) * math.exp(-(max(1 - h, 0.0) ** int(combine[1])))
        return f
    if combine == "ranker":
        return margins[-1]
    if combine == "sigmoid":
        return math.prod(1 / (1 + math.exp(-h)) for h in margins)
    return math.prod(math.exp(-(max(0.0, 1 - h) ** int(combine[1]))) for h in margins)


COMBINES = ["l1_hinge", "l2_hinge", "l3_hinge", "l4_hinge", "sigmoid", "ranker", "l3_hinge:nested", "l2_hinge:nested"]


@settings(deadline=None, max_examples=25)
@given(trees(), st.integers(0, 2**32), st.sampled_from(COMBINES), st.sampled_from([1, 3, 100]))
def test_the_answer_is_the_best_of_all_leaves(tree: LabelTree, seed: int, combine: str, k: int) -> None:
    random = np.random.default_rng(seed)
    X = np.float32(random.normal(size=(4, 6)))
    weights = [random.normal(size=(6, size)) * 0.7 for size in tree.layer_sizes]
    intercepts = [random.normal(size=size) for size in tree.layer_sizes]
    layers = [laid_out(W, b, o) for W, b, o in zip(weights, intercepts, tree.child_offsets, strict=True)]
    top = matching.rank(
        validate.features(X), layers, tree.leaf_labels, k=k, beam=10**6, combines=[combine] * tree.depth,
        n_copies=int(np.bincount(tree.leaf_labels).max()), n_jobs=1,
    )  # fmt: skip
    for x, labels, scores in zip(X, top.labels, top.scores, strict=True):
        by_label: dict[int, float] = {}
        for leaf, label in enumerate(tree.leaf_labels.tolist()):
            path = nodes_above(tree, leaf)
            margins = [float(x @ W[:, node] + b[node]) for W, b, node in zip(weights, intercepts, path, strict=True)]
            by_label[label] = max(by_label.get(label, -math.inf), product(margins, combine))
        highest = sorted(by_label.values(), reverse=True)[:k]
        found = labels[labels >= 0].tolist()
        np.testing.assert_allclose([by_label[label] for label in found], highest, rtol=2e-4, atol=1e-6)
        np.testing.assert_allclose(scores[: len(found)], highest, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("combine", ["l3_hinge", "sigmoid"])
def test_a_label_of_several_leaves_has_the_best_of_them(combine: str) -> None:
    tree = LabelTree((np.array([0, 2]), np.array([0, 2, 4])), np.array([0, 1, 0, 2]), 3)
    weights = [np.array([[0.2, 0.6]]), np.array([[0.9, 0.1, 0.3, 0.5]])]
    layers = [laid_out(W, np.zeros(W.shape[1]), o) for W, o in zip(weights, tree.child_offsets, strict=True)]
    top = matching.rank(
        validate.features(np.ones((1, 1))), layers, tree.leaf_labels, k=3, beam=2, combines=[combine] * 2, n_copies=2
    )
    first = max(product([0.2, 0.9], combine), product([0.6, 0.3], combine))
    assert top.scores[0, top.labels[0] == 0] == pytest.approx(first, rel=1e-5)
