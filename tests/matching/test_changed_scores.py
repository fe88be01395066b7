"""Beam search with changes of single scores, and the columns of each row's largest values, against slow ones."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.weights import dense_weights

from sylvan import LabelTree, XRLinear, kernels
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
        scores, offsets = X @ dense_weights(weights) + weights.intercepts, tree.child_offsets[t]
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


def test_a_label_of_several_leaves_has_the_score_of_the_best() -> None:
    random = np.random.default_rng(0)
    X = random.random((200, 12)).astype(np.float32)
    Y = [[int(label) for label in np.argsort(row)[-2:]] for row in X @ random.normal(size=(12, 12))]
    fitted = XRLinear(branching=3, max_leaf=3, overlap=2, calibration=None).fit(X, Y)
    tree = fitted.tree_
    features, options = validate.features(X), {"k": 9, "beam": 99, "combines": ["l3_hinge"] * tree.depth}
    unchanged = [None] * tree.depth
    found = rank_changed(features, fitted.layers_, tree.leaf_labels, unchanged, n_copies=2, **options)
    usual = rank(features, fitted.layers_, tree.leaf_labels, n_copies=2, **options)
    assert (np.sort(found.labels, axis=1) == np.arange(9)).all()
    np.testing.assert_allclose(found.scores, usual.scores, rtol=1e-4)


@pytest.mark.parametrize(("combine", "power"), [("l1_hinge", 1), ("l2_hinge", 2), ("l3_hinge", 3), ("l4_hinge", 4)])
def test_a_hinge_has_the_power_of_its_name(model: tuple[XRLinear, np.ndarray], combine: str, power: int) -> None:
    _, X = model
    flat = XRLinear(tree=LabelTree.flat(3), calibration=None).fit(X, [[row % 3] for row in range(len(X))])
    margins, found = (
        rank(validate.features(X), flat.layers_, np.arange(3, dtype=np.int32), k=3, beam=3, combines=[each]).to_csr(3)
        for each in ("ranker", combine)
    )
    hinges = np.maximum(0, 1 - margins.toarray())
    np.testing.assert_allclose(found.toarray(), np.exp(-(hinges**power)), rtol=1e-4)


AWKWARD = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.4e38], np.float32)


def best(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    columns, found = np.empty((len(values), k), np.int32), np.empty((len(values), k), np.float32)
    kernels.best_columns(values, columns, found)
    return columns, found


@settings(max_examples=100)
@given(
    st.integers(0, 2**32), st.integers(0, 4), st.sampled_from([1, 2, 63, 64, 127, 128, 129, 300, 1000]),
    st.sampled_from([1, 2, 10, 33, 64, 1000]), st.sampled_from([0, 3, 1000, -1]),
)  # fmt: skip
def test_best_columns_are_those_of_a_stable_sort_awkward_values_too(
    seed: int, n: int, n_columns: int, k: int, levels: int
) -> None:
    random = np.random.default_rng(seed)
    if levels > 0:
        values = random.integers(-levels, levels, (n, n_columns)).astype(np.float32)
    elif levels:
        values = random.normal(size=(n, n_columns)).astype(np.float32)
        values[random.random(values.shape) < random.choice([0.0, 0.5, 0.99])] = np.nan
    else:
        values = random.choice(AWKWARD, (n, n_columns))
    k = min(k, n_columns)
    columns, found = best(values, k)
    for row, names, highest in zip(values, columns, found, strict=True):
        known = np.where(np.isnan(row), 0, row)
        expected = np.lexsort((np.arange(n_columns), -known, np.isnan(row)))[:k]
        assert names.tolist() == expected.tolist()
        np.testing.assert_array_equal(highest, row[expected])


def test_the_door_holds_the_sizes() -> None:
    values, columns, found = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int32), np.zeros((2, 3), np.float32)
    kernels.best_columns(values, columns, found)
    kernels.best_columns(values, columns[:, :0].copy(), found[:, :0].copy())
    for wrong in (
        (values, columns[:1], found),
        (values, columns, found[:1]),
        (values, columns[:, :2].copy(), found),
        (values[:, :2].copy(), columns, found),
    ):
        with pytest.raises(ValueError, match=r"disagree|out of range"):
            kernels.best_columns(*wrong)
