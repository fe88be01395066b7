"""Beam search with changes of single scores, against one that looks at every node."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sylvan import XRLinear
from sylvan.arrays import validate
from sylvan.matching.beam import RowChanges, rank, rank_changed


def changes_of(dense: np.ndarray) -> RowChanges:
    matrix = sp.csr_matrix(dense)
    matrix.sort_indices()
    return RowChanges(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float32))


@pytest.fixture(scope="module")
def model() -> tuple[XRLinear, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.random((300, 20)).astype(np.float32) * (random.random((300, 20)) < 0.3)
    Y = [[int(label) for label in np.argsort(row)[-2:]] for row in X @ random.normal(size=(20, 20))]
    return XRLinear(branching=3, max_leaf=2, calibration=None).fit(X, Y), X


def test_without_changes_it_is_the_usual_search(model: tuple[XRLinear, np.ndarray]) -> None:
    fitted, X = model
    tree, features = fitted.tree_, validate.features(X)
    for combines in (["l3_hinge"] * tree.depth, ["l3_hinge"] * (tree.depth - 1) + ["ranker"]):
        options = {"k": 6, "beam": 4, "combines": combines}
        usual = rank(features, fitted.layers_, tree.leaf_labels, **options)
        none = changes_of(np.zeros((len(X), 1)))
        for changes in ([None] * tree.depth, [none] * tree.depth):
            found = rank_changed(features, fitted.layers_, tree.leaf_labels, changes, n_jobs=2, **options)
            np.testing.assert_allclose(found.scores, usual.scores, rtol=1e-5)
            assert (found.labels == usual.labels).mean() > 0.99  # equal scores are ordered by node here


def test_changes_are_added_to_the_rankers_scores(model: tuple[XRLinear, np.ndarray]) -> None:
    fitted, X = model
    tree, features = fitted.tree_, validate.features(X)
    random, n = np.random.default_rng(1), len(X)
    combines = ["l3_hinge"] * tree.depth
    changes = [
        random.normal(size=(n, size)) * (random.random((n, size)) < 0.3) for size in tree.layer_sizes
    ]  # fmt: skip
    above, slow = np.zeros((n, 1)), np.zeros((n, 1))
    for t, weights in enumerate(fitted.layers_):
        offsets = tree.child_offsets[t]
        scores = np.zeros((n, int(offsets[-1])))
        for cluster in range(len(offsets) - 1):
            rows = weights.cluster(cluster)
            W = np.zeros((X.shape[1], int(offsets[cluster + 1] - offsets[cluster])))
            W[np.repeat(rows.features, rows.lengths), rows.children] = rows.weights
            scores[:, offsets[cluster] : offsets[cluster + 1]] = X @ W + rows.intercepts
        parent = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        slow = above[:, parent] - np.maximum(0, 1 - scores - changes[t]) ** 3
        above = slow
    found = rank_changed(
        features, fitted.layers_, tree.leaf_labels, [changes_of(each) for each in changes], k=20,
        beam=max(tree.layer_sizes), combines=combines,
    )  # fmt: skip
    by_label = np.zeros((n, 20))
    by_label[:, tree.leaf_labels] = np.exp(slow)
    np.testing.assert_allclose(found.scores, np.take_along_axis(by_label, found.labels.astype(int), 1), atol=1e-4)
    assert (np.diff(found.scores) <= 0).all()
