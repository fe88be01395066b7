"""XRLinear.preset("paper") against what PECOS says: its tables' trees, Section 3's choices and Algorithm 2 in full."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from reference import linear_reference as reference

from sylvan import LabelTree, XRLinear
from sylvan.indexing.clustering import layer_plan
from sylvan.models.xr.params import layer_words

PAPER = XRLinear.preset("paper")
# Table 6: labels, and the depth D with B = 2, 8 and 32.
TABLE_6 = {
    "Eurlex-4K": (3_956, 7, 3, 3), "Wiki10-31K": (30_938, 10, 4, 3), "AmazonCat-13K": (13_330, 9, 4, 3),
    "Wiki-500K": (501_070, 14, 6, 4), "Amazon-670K": (670_091, 14, 6, 4), "Amazon-3M": (2_812_281, 16, 6, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE_6)
def test_trees_have_the_depths_of_table_6(name: str) -> None:
    n_labels, *depths = TABLE_6[name]
    assert [len(layer_plan(n_labels, branching, PAPER.max_leaf)) for branching in (2, 8, 32)] == depths


def test_what_section_6_1_says_of_the_experiments() -> None:
    """B = 32, beam size 10, three trees, PIFA."""
    assert (PAPER.branching, PAPER.beam, PAPER.n_trees, PAPER.embedding) == (32, 10, 3, "pifa")
    assert PAPER.max_features_per_label is None  # v = (X^T Y)_l, all of it


def test_what_section_3_says_of_layers() -> None:
    """TFN with the L3 hinge of Eq. 13 for the first D - 1 layers, TFN + MAN with Eq. 12 for the D-th."""
    assert layer_words(PAPER, "negatives", 4) == ["tfn", "tfn", "tfn", "tfn+man"]
    assert layer_words(PAPER, "combine", 4) == [*["l3_hinge:nested"] * 3, "ranker"]
    assert layer_words(PAPER, "combine", 1) == ["ranker"]
    assert layer_words(XRLinear(combine="paper"), "combine", 4) == [*["l3_hinge"] * 3, "ranker"]


def sigma(g: float, h: float) -> float:
    """Eq. 13 with p = 3."""
    return math.exp(-(max(1 - g, 0) ** 3)) * math.exp(-(max(1 - h, 0) ** 3))


def along_the_path(g: float, h: float) -> float:
    """The product along the path, which both readings of Eq. 13 begin with."""
    return g * sigma(1.0, h)


def matched(x: np.ndarray, models: list, tree: LabelTree, beam: int, score: Callable = sigma) -> list[int]:
    """f_b of Algorithm 2 after the layers in ``models``: the beam of the last of them, and f(0) = 1 of the root."""
    followed = {0: 1.0}
    for (weights, intercepts), offsets in zip(models, tree.child_offsets, strict=False):
        scores = {
            child: score(g, float(x @ weights[:, child] + intercepts[child]))
            for node, g in followed.items() for child in range(offsets[node], offsets[node + 1])
        }  # fmt: skip
        followed = dict(sorted(scores.items(), key=lambda item: -item[1])[:beam])
    return sorted(followed)


def test_algorithm_2_as_it_stands() -> None:
    """Every weight, and every answer, of one tree without sparsification."""
    rng = np.random.default_rng(7)
    offsets = [np.arange(n + 1) * 3 for n in (1, 3, 9)]
    tree = LabelTree(tuple(offsets), rng.permutation(27).astype(np.int32), 27)
    X = np.float32(rng.normal(size=(90, 8))).astype(np.float64)
    Y = (rng.random((90, 27)) < 0.12).astype(np.float64)
    beam, models, searched = 2, [], 0
    for layer, truth in enumerate(reference.truth(Y, (offsets, tree.leaf_labels))):
        found = [matched(x, models, tree, beam) if layer == 2 else [] for x in X]
        teacher = [{int(node) // 3 for node in np.flatnonzero(row)} for row in truth]
        searched += sum(len(set(more) - known) for more, known in zip(found, teacher, strict=True))
        W, b = np.zeros((8, truth.shape[1])), np.zeros(truth.shape[1])
        for node in range(truth.shape[1]):
            rows = [i for i in range(90) if node // 3 in teacher[i] or node // 3 in found[i]]
            y = np.where(truth[rows, node] > 0, 1.0, -1.0)
            problem = reference.Problem(X[rows], y, np.ones(len(rows)), "squared_hinge", 1.0)
            W[:, node], b[node] = reference.solve(problem)
        models.append((W, b))
    assert searched > 20  # that the search brings other rows than the truth
    exact = {"threshold": 0.0, "tolerance": 1e-6, "max_iterations": 20_000}
    model = XRLinear.preset("paper", n_trees=1, tree=tree, beam=beam, **exact).fit(X, Y)
    top = model.rank(X, k=3)
    (W, b), nested = models[-1], 0
    for x, labels, scores in zip(X, top.labels, top.scores, strict=True):
        clusters = matched(x, models[:2], tree, beam)
        leaves = list(itertools.chain.from_iterable(range(3 * c, 3 * c + 3) for c in clusters))
        h = sorted(((float(x @ W[:, leaf] + b[leaf]), int(tree.leaf_labels[leaf])) for leaf in leaves), reverse=True)
        assert [label for _, label in h[:3]] == labels.tolist()
        np.testing.assert_allclose(scores, [score for score, _ in h[:3]], atol=2e-3)
        nested += clusters != matched(x, models[:2], tree, beam, along_the_path)
    assert nested  # rows that the other reading of Eq. 13 leads elsewhere
    product = XRLinear.preset("paper", n_trees=1, tree=tree, beam=beam, combine="paper", **exact).fit(X, Y)
    assert not np.array_equal(product.rank(X, k=3).labels, top.labels)
