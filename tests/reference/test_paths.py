"""Explanations and combined scores of a path against the dense reference: nodes, features, where the beam ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import linear_reference as reference
from reference.test_algorithm2 import CLOSE, dense, laid_out, plain, rankings, trees
from sylvan import LabelTree
from sylvan.arrays import validate
from sylvan.explain.explanation import Names
from sylvan.explain.paths import beam_that_reaches, explain_paths
from sylvan.matching import beam as matching
from sylvan.ranking.tree_ranker import TreeRanker


def ranker_of(case: dict, weight_dtype: str) -> TreeRanker:
    return TreeRanker(
        case["tree"],
        [
            laid_out(W, b, offsets, weight_dtype)
            for W, b, offsets in zip(case["weights"], case["intercepts"], case["tree"].child_offsets, strict=True)
        ],
    )


@settings(deadline=None, max_examples=30)
@given(rankings(), st.sampled_from(["float32", "float16", "uint8", "uint4"]), st.sampled_from([1, 3, 1000]))
def test_paths_equals_the_reference(case: dict, weight_dtype: str, top: int) -> None:
    tree, combine, beam = case["tree"], case["combine"], case["beam"]
    ranker = ranker_of(case, weight_dtype)
    combines = [combine] * tree.depth
    x, layers = case["X"][0], [dense(layer) for layer in ranker.layers]
    row = validate.features(x[None])
    own = [x @ W + b for W, b in layers]
    weights = [W for W, _ in layers], [b for _, b in layers]
    everything = reference.rank_everything(x, *weights, plain(tree), combine=combine)
    ranked = ranker.rank(row, tree.n_labels, beam=beam, combines=combines)
    found = dict(zip(ranked.labels[0].tolist(), ranked.scores[0].tolist(), strict=True))
    for label in range(tree.n_labels):
        paths = explain_paths(ranker, row, label, beam=beam, combines=combines, top=top, names=Names())
        assert sorted(path.leaf for path in paths) == np.flatnonzero(tree.leaf_labels == label).tolist()
        assert paths[0].reached == (label in found), "the first path is the one that ranking counts"
        if paths[0].reached:
            np.testing.assert_allclose(paths[0].score, found[label], rtol=1e-6, atol=0)
        best = max(path.score for path in paths)
        np.testing.assert_allclose(best, everything[label], rtol=1e-3, atol=1e-4)
        for path in paths:
            check_steps(path, tree, x, layers, own, combine, top)


def check_steps(path, tree, x, layers, own, combine, top) -> None:  # type: ignore[no-untyped-def]
    """Every step of a path: its score, what adds up to it, its place beside its siblings."""
    assert [step.node for step in path.steps] == tree.path(path.leaf)
    above, opened = 0.0, True
    for t, step in enumerate(path.steps):
        W, b = layers[t]
        np.testing.assert_allclose(step.score, own[t][step.node], rtol=1e-4, atol=1e-4)
        parts = x * W[:, step.node]
        order = sorted(np.flatnonzero(parts), key=lambda f: (-abs(parts[f]), f))
        assert [f.feature for f in step.positive] == [f for f in order if parts[f] > 0][:top]
        assert [f.feature for f in step.negative] == [f for f in order if parts[f] < 0][:top]
        listed = sum(f.contribution for f in (*step.positive, *step.negative))
        np.testing.assert_allclose(listed + step.rest + step.intercept, step.score, rtol=1e-4, atol=1e-4)
        assert step.n_weighed == np.count_nonzero(W[x != 0, step.node])
        assert step.intercept == b[step.node]
        of_parent, above = above, reference.combined(own[t][step.node], above, combine)
        np.testing.assert_allclose(step.so_far, above if combine == "ranker" else math.exp(above), rtol=1e-3, atol=1e-4)
        parent = int(reference.parent_of(tree.child_offsets[t])[step.node])
        siblings = list(reference.children(tree.child_offsets[t], parent))
        assert step.n_siblings == len(siblings) and 1 <= step.place <= len(siblings)
        # Above a margin of 1 Eq. 13 knows no better; beyond some 16, single precision knows no better sigmoid.
        higher = above + 1e-6 * max(1, abs(above))
        better = [s for s in siblings if own[t][s] > own[t][step.node] + CLOSE]
        better = [s for s in better if reference.combined(own[t][s], of_parent, combine) > higher]
        assert step.place > len(better)
        assert step.opened == opened
        opened = step.followed
    assert path.lost_at == next((step.layer for step in path.steps if not step.followed), None)


@settings(deadline=None, max_examples=25)
@given(rankings())
def test_how_a_beam_loses_a_path(case: dict) -> None:
    tree, combine, beam = case["tree"], case["combine"], case["beam"]
    ranker, combines = ranker_of(case, "float32"), [case["combine"]] * case["tree"].depth
    x = case["X"][0]
    row = validate.features(x[None])
    expected = reference.rank_row(
        x, case["weights"], case["intercepts"], plain(tree), beam=beam, k=tree.n_labels, combine=combine
    )
    sure = expected.margin > CLOSE or (case["exact"] and "sigmoid" not in combine)
    for label in range(tree.n_labels):
        path = explain_paths(ranker, row, label, beam=beam, combines=combines, top=1, names=Names())[0]
        if sure:
            assert path.reached == (label in expected.labels)
            for t, step in enumerate(path.steps[:-1]):
                assert step.followed == (step.opened and step.node in expected.reached[t + 1])
        for step in path.steps[:-1]:
            if step.opened and not step.followed:
                assert step.beam_place > beam and step.n_candidates > beam
                assert step.floor is not None and step.floor >= step.so_far
            elif step.followed:
                assert step.beam_place <= beam
        if not path.reached:
            enough = beam_that_reaches(ranker, row, path, combines)
            assert enough > beam
            assert label in ranker.rank(row, tree.n_labels, beam=enough, combines=combines).labels


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
