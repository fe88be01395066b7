"""Matching, ranking and the whole of Algorithm 2 against the dense reference implementation."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kit.errors import raises

from reference import linear_reference as reference
from sylvan import LabelTree, XRLinear
from sylvan.arrays import validate
from sylvan.errors import DataError
from sylvan.matching import beam as matching
from sylvan.matching.negatives import cluster_rows, layer_positives, of_root, rows_bytes
from sylvan.weights.layer import ClusterRows, LayerWeights

COMBINES = ["ranker", "l3_hinge", "sigmoid", "l2_hinge", "l1_hinge", "l4_hinge"]
COMBINES += ["l3_hinge:0.25", "l2_hinge:0", "sigmoid:0.5"]  # with a weight of the score above
COMBINES += ["l3_hinge:nested", "l1_hinge:nested"]  # which goes through the hinge as well
CLOSE = 1e-4  # decisions closer than this may fall either way in float32


@st.composite
def trees(draw: st.DrawFn, most_layers: int = 3) -> LabelTree:
    """A ragged tree; some labels stand in several leaves."""
    offsets, n_parents = [], 1
    for _ in range(draw(st.integers(1, most_layers))):
        sizes = draw(st.lists(st.integers(1, 4), min_size=n_parents, max_size=n_parents))
        offsets.append(np.concatenate(([0], np.cumsum(sizes))).astype(np.int64))
        n_parents = int(offsets[-1][-1])
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = random.permutation(n_parents)
    if draw(st.booleans()) and len(offsets) > 1:  # overlapping: no label twice in one cluster
        n_labels = max(int(np.diff(offsets[-1]).max()), n_parents * 2 // 3)
        labels = np.concatenate([np.sort((np.arange(n_parents) % n_labels)[a:b]) for a, b in
                                 zip(offsets[-1][:-1], offsets[-1][1:], strict=True)])  # fmt: skip
    return LabelTree(tuple(offsets), labels.astype(np.int32), int(labels.max()) + 1)


def plain(tree: LabelTree) -> reference.Tree:
    return list(tree.child_offsets), tree.leaf_labels


def laid_out(W: np.ndarray, b: np.ndarray, offsets: np.ndarray, weight_dtype: str = "float32") -> LayerWeights:
    """Dense weights (d, nodes) as the fast code keeps them."""
    clusters = []
    for first, last in pairwise(offsets):
        own = W[:, first:last]
        features = np.flatnonzero(own.any(axis=1)).astype(np.int32)
        rows, children = np.nonzero(own[features])
        clusters.append(
            ClusterRows(
                features, np.bincount(rows, minlength=len(features)).astype(np.int32), children.astype(np.int32),
                own[features][rows, children].astype(np.float32), b[first:last].astype(np.float32),
            )
        )  # fmt: skip
    return LayerWeights.from_clusters(clusters, offsets, len(W), weight_dtype)


def dense(layer: LayerWeights) -> tuple[np.ndarray, np.ndarray]:
    """The way back: weights (d, nodes) and intercepts (nodes,)."""
    W = np.zeros((layer.n_features, len(layer.intercepts)))
    for c, (first, last) in enumerate(zip(layer.child_offsets[:-1], layer.child_offsets[1:], strict=True)):
        cluster = layer.cluster(c)
        W[np.repeat(cluster.features, cluster.lengths), cluster.children + first] = cluster.weights
        np.testing.assert_array_equal(cluster.intercepts, layer.intercepts[first:last])
    return W, layer.intercepts.astype(np.float64)


@st.composite
def rankings(draw: st.DrawFn) -> dict:
    tree = draw(trees())
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    d = draw(st.sampled_from([1, 3, 12, 300]))
    n = draw(st.sampled_from([1, 2, 7, 60]))
    density = draw(st.sampled_from([0.1, 0.5, 1.0]))
    dyadic = draw(st.booleans())  # few distinct values: exact sums and many ties
    grid = (-1.0, -0.5, 0.25, 0.5, 1.0)

    def values(*shape: int) -> np.ndarray:
        drawn = random.choice(grid, shape) if dyadic else np.float32(random.normal(size=shape) * 0.7).astype(np.float64)
        return drawn * (random.random(shape) < density)

    sizes = tree.layer_sizes
    return {
        "tree": tree, "X": values(n, d), "weights": [values(d, size) for size in sizes],
        "intercepts": [values(size) for size in sizes], "beam": draw(st.sampled_from([1, 2, 3, 100])),
        "k": draw(st.sampled_from([1, 3, 50])), "combine": draw(st.sampled_from(COMBINES)), "exact": dyadic,
    }  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(rankings(), st.sampled_from(["float32", "float16", "uint8", "uint4"]), st.integers(1, 3))
def test_ranking_equals_the_reference(case: dict, weight_dtype: str, n_jobs: int) -> None:
    tree, X, combine = case["tree"], case["X"], case["combine"]
    layers = [
        laid_out(W, b, offsets, weight_dtype)
        for W, b, offsets in zip(case["weights"], case["intercepts"], tree.child_offsets, strict=True)
    ]
    dense_layers = [dense(layer) for layer in layers]
    if weight_dtype == "float32":
        for (W, b), expected, intercepts in zip(dense_layers, case["weights"], case["intercepts"], strict=True):
            np.testing.assert_array_equal(W, expected.astype(np.float32))
            np.testing.assert_array_equal(b, intercepts)
    copies = int(np.bincount(tree.leaf_labels).max())
    top = matching.rank(
        validate.features(X), layers, tree.leaf_labels, k=case["k"], beam=case["beam"],
        combines=[combine] * tree.depth, n_copies=copies, n_jobs=n_jobs,
    )  # fmt: skip
    exact = case["exact"] and weight_dtype not in ("uint8", "uint4") and "sigmoid" not in combine
    for x, labels, scores in zip(X, top.labels, top.scores, strict=True):
        weights, intercepts = [W for W, _ in dense_layers], [b for _, b in dense_layers]
        width = {"beam": case["beam"], "k": case["k"]}
        expected = reference.rank_row(x, weights, intercepts, plain(tree), combine=combine, **width)
        if not exact and expected.margin < CLOSE:
            continue
        found = labels[labels >= 0].tolist()
        assert len(found) == len(expected.labels)
        if exact:
            assert found == expected.labels
        else:
            by_label = dict(zip(expected.labels, expected.scores, strict=True))
            assert set(found) == set(expected.labels)
            np.testing.assert_allclose(scores[: len(found)], [by_label[i] for i in found], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(scores[: len(found)], expected.scores, rtol=1e-3, atol=1e-4)
        assert np.isneginf(scores[len(found) :]).all()


@settings(deadline=None, max_examples=20)
@given(rankings())
def test_a_beam_of_everything_is_exhaustive(case: dict) -> None:
    tree = case["tree"]
    for x in case["X"][:5]:
        model = case["weights"], case["intercepts"], plain(tree)
        answer = reference.rank_row(x, *model, beam=10**6, k=10**6, combine=case["combine"])
        everything = reference.rank_everything(x, *model, combine=case["combine"])
        assert dict(zip(answer.labels, answer.scores, strict=True)) == pytest.approx(everything, rel=1e-5, abs=1e-6)


@settings(deadline=None, max_examples=25)
@given(rankings())
def test_one_layer_of_the_beam_equals_the_reference(case: dict) -> None:
    """What matcher-aware negatives are made of."""
    tree, combine = case["tree"], case["combine"]
    features = validate.features(case["X"])
    beam = matching.root_beam(len(case["X"]))
    for t in range(tree.depth - 1):
        layer = laid_out(case["weights"][t], case["intercepts"][t], tree.child_offsets[t])
        beam = matching.next_beam(features, layer, beam, case["beam"], combine)
    for x, nodes in zip(case["X"], beam[0], strict=True):
        expected = reference.rank_row(
            x, case["weights"], case["intercepts"], plain(tree), beam=case["beam"], k=1, combine=combine
        )
        if expected.margin > CLOSE or (case["exact"] and "sigmoid" not in combine):
            assert sorted(nodes[nodes >= 0].tolist()) == expected.reached[-1]


@settings(deadline=None, max_examples=30)
@given(trees(), st.integers(0, 2**32), st.sampled_from(["tfn", "man", "tfn+man"]))
def test_negatives_equals_the_reference(tree: LabelTree, seed: int, negatives: str) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 9))
    Y = ((random.random((n, tree.n_labels)) < 0.2) * random.choice([0.5, 1.0, 3.0], tree.n_labels)).astype(np.float32)
    positives = layer_positives(tree, validate.labels(Y))
    for t, (fast, slow) in enumerate(zip(positives, reference.relevances(Y, plain(tree)), strict=True)):
        np.testing.assert_array_equal(fast.to_scipy().toarray(), slow)
        assert of_root(fast).to_scipy().toarray().tolist() == slow.any(axis=1, keepdims=True).tolist()
        n_clusters, parents = len(tree.child_offsets[t]) - 1, positives[t - 1] if t else of_root(positives[0])
        width = int(random.integers(1, n_clusters + 1))
        reached = [random.permutation(n_clusters)[:width] for _ in range(n)]
        padded = np.array([[*row, -1] for row in reached], np.int32)
        starts, rows = cluster_rows(negatives, parents, padded, n_clusters, n)
        assert rows_bytes(len(rows), n_clusters) == rows.nbytes + starts.nbytes
        found = [rows[a:b].tolist() for a, b in pairwise(starts)]
        assert found == reference.cluster_rows(Y, plain(tree), t, negatives, [set(row.tolist()) for row in reached])


@pytest.mark.filterwarnings("ignore:Y of shape")
@settings(deadline=None, max_examples=20)
@given(
    trees(), st.integers(0, 2**32), st.sampled_from(["tfn", "man", "tfn+man"]),
    st.sampled_from(["squared_hinge", "logistic", "hinge"]), st.sampled_from(COMBINES), st.sampled_from([1, 2, 10]),
    st.sampled_from([0.0, 0.3, 1.0]), st.booleans(),
)  # fmt: skip
def test_training_equals_the_reference(
    tree: LabelTree, seed: int, negatives: str, loss: str, combine: str, beam: int, man_threshold: float, graded: bool
) -> None:
    random = np.random.default_rng(seed)
    n, d = 12, 6
    X = np.float32(random.normal(size=(n, d)) * (random.random((n, d)) < 0.7)).astype(np.float64)
    Y = (random.random((n, tree.n_labels)) < 0.25).astype(np.float64)
    if not Y.any():  # of one label there may be no row
        with raises(DataError, "Y", "no label"):
            XRLinear(tree=tree).fit(X, Y)
        return
    if graded:
        Y *= random.choice([0.5, 1.0, 3.0], Y.shape)
    weight = np.float32(random.choice([0.5, 1.0, 2.0], n))
    settings_ = {"negatives": negatives, "loss": loss, "combine": combine, "beam": beam, "cost": 0.5,
                 "positive_cost": 2.0, "negative_cost": 0.75, "bias": 0.5, "man_threshold": man_threshold}  # fmt: skip
    slow = reference.train(X, Y, plain(tree), sample_weight=weight, unreached=-1.0, **settings_)
    if negatives != "tfn":  # a close decision of the beam changes the rows that a layer is trained on
        assume(all(slow.rank(x, k=tree.n_labels).margin > 1e-2 for x in X))
        assume(man_threshold == 0 or slow.closest > 1e-3)
    fast = XRLinear(
        scaling="none", **settings_, tree=tree, tolerance=1e-5, max_iterations=10000, threshold=0.0,
        weight_dtype="float32", n_jobs=1,
    ).fit(X, Y, sample_weight=weight)  # fmt: skip
    for layer, W, b in zip(fast.layers_, slow.weights, slow.intercepts, strict=True):
        found_W, found_b = dense(layer)
        np.testing.assert_allclose(found_W, W, atol=2e-2)
        np.testing.assert_allclose(found_b, b, atol=2e-2)
    for x, labels, scores in zip(X, *_arrays(fast.rank(X, k=3)), strict=True):
        expected = slow.rank(x, k=3)
        if expected.margin > 0.05:
            assert set(labels[labels >= 0].tolist()) == set(expected.labels)
            np.testing.assert_allclose(scores[labels >= 0], expected.scores, atol=5e-2)


def _arrays(top: object) -> tuple[np.ndarray, np.ndarray]:
    return top.labels, top.scores  # type: ignore[attr-defined]
