"""Solved clusters in blocks, parts in which a large training is solved, and layers without some of their nodes."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises
from ranking.interruptions import SETTINGS, outcome, training_set

from sylvan import LabelTree, XRLinear
from sylvan.arrays import validate
from sylvan.errors import ModelError
from sylvan.matching import beam
from sylvan.ranking import training
from sylvan.ranking.solution import (
    CHANGES,
    WIDENED,
    LayerSolution,
    SolvedBlock,
    block_packing,
    column_sums,
    rounded,
    solved_bytes,
    widened,
)
from sylvan.ranking.training import solved_together
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.weights.layer import WEIGHT_DTYPES, ClusterRows, LayerWeights

X, Y = training_set()


def solved(n_children: int, n_rows: int, seed: int) -> ClusterRows:
    """Rows of all lengths from one child to all of them."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, n_children + 1, n_rows).astype(np.int32)
    if n_rows:
        lengths[-1] = n_children
    children = [np.sort(random.choice(n_children, length, replace=False)) for length in lengths]
    return ClusterRows(
        np.sort(random.choice(1 << 30, n_rows, replace=False)).astype(np.int32), lengths,
        np.concatenate([np.zeros(0), *children]).astype(np.int32),
        random.normal(size=int(lengths.sum())).astype(np.float32), random.normal(size=n_children).astype(np.float32),
    )  # fmt: skip


@pytest.mark.parametrize(("n_children", "n_bytes"), [(1, 1), (256, 1), (257, 2), (70_000, 4)])
def test_a_block_gives_back_what_it_holds(n_children: int, n_bytes: int) -> None:
    clusters = [solved(n, 3 * at, n + at) for at, n in enumerate((n_children, 1, n_children))]
    changed = [tuple(np.arange(n).astype(dtype) for _, dtype in CHANGES) for n in (3, 0, 2)]
    block = SolvedBlock.of(clusters, n_children, changed)
    packing = block_packing(block.n_children, n_children)
    for made in (block, packing.unpack(packing.pack(block))):
        for one, other in zip(clusters, made, strict=True):
            for name in ("features", "lengths", "children", "weights", "intercepts"):
                assert name == "children" or getattr(one, name).dtype == getattr(other, name).dtype
                assert (getattr(one, name) == getattr(other, name)).all()
        for dtype in ("uint8", "uint4", "float32") if n_children <= 257 else ("uint8",):
            assert (made.sizes(dtype) == np.array([rows.sizes(dtype) for rows in clusters], ClusterRows.SIZES)).all()
        assert [part.tolist() for part in made.changes()] == [[0, 1, 2, 0, 1]] * 3
    n_weights, n_rows = (len(block.arrays[name]) for name in ("weights", "features"))
    assert solved_bytes(n_weights, n_rows, n_children) == (4 + n_bytes) * (n_weights + n_rows)
    own = block.arrays["intercepts"].nbytes + block.arrays["ends"].nbytes + 5 * 12
    assert block.nbytes == solved_bytes(n_weights, n_rows, n_children) + own


@pytest.mark.parametrize("name", ["features", "lengths", "children", "weights", "intercepts", "ends", "changes"])
def test_a_damaged_block_is_refused(name: str) -> None:
    changed = tuple(np.ones(2, dtype) for _, dtype in CHANGES)
    block = SolvedBlock.of([solved(5, 4, 0), solved(3, 0, 1)], 5, [changed])
    packing = block_packing(block.n_children, 5)
    whole = dict(packing.pack(block))
    for wrong in (whole[name][:-1], whole[name].astype(np.float64)):
        with raises(ModelError, "block"):
            packing.unpack({**whole, name: wrong})


def test_what_is_solved_together() -> None:
    few, much = {0: 1, 1: 20, 2: 300, 3: 5000}, float(training.LARGE_STAGE)
    assert solved_together(dict.fromkeys(range(4), 1.0), few) == [[0, 1, 2, 3]]
    assert solved_together(dict.fromkeys(range(4), much), few) == [[0, 1, 3], [2]]
    assert solved_together(dict.fromkeys((2, 3), much), few) == [[3], [2]]
    assert solved_together({3: much}, few) == [[3]]


@pytest.mark.parametrize("settings", SETTINGS)
def test_parts_change_no_bit(settings: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = outcome(XRLinear(**SETTINGS[settings], calibration="platt").fit(X, Y))
    monkeypatch.setattr(training, "LARGE_STAGE", 0)
    monkeypatch.setattr(training, "FEW", 1)
    monkeypatch.setattr(training, "RELEASED", 0)
    parts = XRLinear(**SETTINGS[settings], calibration="platt", n_jobs=2).fit(X, Y)
    assert outcome(parts) == expected


def test_the_rows_searched_at_once_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    model = XRLinear(branching=40, max_leaf=1, beam=3, threshold=0.0).fit(X, Y)
    features = validate.features(np.tile(X.toarray(), (9, 1)))
    above = beam.next_beam(features, model.layers_[0], beam.root_beam(features.shape[0]), 40, "l3_hinge")
    found = {}
    for n_rows in (1, 256, 1 << 15):
        monkeypatch.setattr(beam, "_MOST_ROWS", n_rows)
        found[n_rows] = beam.next_beam(features, model.layers_[1], above, 5, "l3_hinge")
    for nodes, scores in found.values():
        assert (nodes == found[1][0]).all() and (scores == found[1][1]).all()


EVERY = np.arange(0x7C00, dtype=np.uint16).view(np.float16)  # all halfs that are finite and not negative


def test_widened_multipliers_are_those_that_were_kept() -> None:
    np.testing.assert_array_equal(widened(EVERY) * WIDENED, EVERY.astype(np.float32))


def test_column_sums_are_those_of_floats() -> None:
    matrix = np.random.default_rng(0).permutation(EVERY)[:31_700].reshape(-1, 10)
    np.testing.assert_array_equal(column_sums(matrix), matrix.astype(np.float32).sum(axis=0))
    assert column_sums(matrix[:0]).tolist() == [0] * 10


def test_the_sum_of_a_column_is_the_same_beside_others() -> None:
    """Sums that were kept when some children were solved stand for those that a loaded model computes of all."""
    matrix = np.random.default_rng(0).uniform(0, 1, (5000, 9)).astype(np.float16)
    every = column_sums(matrix)
    for n in (1, 2, 8):
        np.testing.assert_array_equal(column_sums(matrix[:, :n].copy()), every[:n])
    with_others = np.insert(matrix, np.arange(0, 5000, 7), np.float16(0), axis=0)  # of rows that nothing depends on
    np.testing.assert_array_equal(column_sums(with_others), every)
    assert column_sums(matrix[:0, :1]).tolist() == [0]


def test_no_multiplier_is_lost() -> None:
    small = np.array([[0, 1e-30, 1e-6], [0.1, 1, 1e30]], np.float32)
    kept = rounded(small)
    assert kept.dtype == np.float16
    np.testing.assert_array_equal(kept > 0, small > 0)
    assert np.isfinite(kept).all()
    assert kept[1, 1] == 1


def drawn_layer(random: np.random.Generator, offsets: np.ndarray, dtype: str) -> LayerWeights:
    """A layer of random weights, some clusters without any."""
    clusters = []
    for n_children in np.diff(offsets).tolist():
        dense = random.normal(size=(30, n_children)) * (random.random((30, n_children)) < random.choice([0, 0.1, 0.9]))
        rows = np.flatnonzero(dense.any(axis=1))
        at, children = np.nonzero(dense[rows])
        lengths = np.bincount(at, minlength=len(rows)).astype(np.int32)
        weights = dense[rows][at, children].astype(np.float32)
        intercepts = random.normal(size=n_children).astype(np.float32)
        clusters.append(ClusterRows(rows.astype(np.int32), lengths, children.astype(np.int32), weights, intercepts))
    return LayerWeights.from_clusters(clusters, offsets, 30, dtype)


def paths(tree: LabelTree, ranker: TreeRanker) -> dict[int, list[tuple[bytes, bytes]]]:
    """Of each label, the weights and intercepts of the nodes on its path, root first."""
    found = {}
    for leaf, label in enumerate(tree.leaf_labels.tolist()):
        path = []
        for t, node in enumerate(tree.path(leaf)):
            offsets = tree.child_offsets[t]
            parent = int(np.searchsorted(offsets, node, side="right")) - 1
            rows = ranker.layers[t].cluster(parent)
            dense = np.zeros((30, int(offsets[parent + 1] - offsets[parent])), np.float32)
            dense[np.repeat(rows.features, rows.lengths), rows.children] = rows.weights
            child = node - int(offsets[parent])
            path.append((dense[:, child].tobytes(), rows.intercepts[child : child + 1].tobytes()))
        found[label] = path
    return found


@pytest.mark.parametrize("dtype", WEIGHT_DTYPES)
@settings(max_examples=12)
@given(st.integers(1, 50), st.integers(2, 5), st.integers(1, 40), st.integers(0, 99), st.data())
def test_what_is_left_is_what_it_was(
    dtype: str, n_labels: int, branching: int, max_leaf: int, seed: int, data: st.DataObject
) -> None:
    tree = LabelTree.random(n_labels, branching, max_leaf, seed=seed)
    random = np.random.default_rng(seed)
    ranker = TreeRanker(tree, [drawn_layer(random, offsets, dtype) for offsets in tree.child_offsets])
    gone = data.draw(st.sets(st.integers(0, n_labels - 1), max_size=n_labels - 1))
    smaller = ranker.without(np.array(sorted(gone), np.int32))
    expected = {label: path for label, path in paths(tree, ranker).items() if label not in gone}
    assert paths(smaller.tree, smaller) == expected
    assert {layer.weight_dtype for layer in smaller.layers} == {dtype}


@pytest.mark.parametrize("dtype", WEIGHT_DTYPES)
def test_weights_of_removed_labels_are_gone(dtype: str) -> None:
    X = np.eye(12, dtype=np.float32).repeat(5, axis=0)
    model = XRLinear(max_leaf=3, branching=2, weight_dtype=dtype).fit(X, np.arange(12).repeat(5))
    smaller = model.without_labels(range(6))
    leaves, before = smaller.layers_[-1], model.layers_[-1]
    assert len(leaves.intercepts) == 6
    own = [before.cluster(c) for c in range(len(before.row_offsets) - 1)]
    labels = np.split(model.tree_.leaf_labels, model.tree_.child_offsets[-1][1:-1])
    expected = sum(int((ids[rows.children] >= 6).sum()) for ids, rows in zip(labels, own, strict=True))
    assert sum(len(leaves.cluster(c).children) for c in range(len(leaves.row_offsets) - 1)) == expected


def test_a_tree_that_lost_labels_can_be_trained_on() -> None:
    X = np.eye(8, dtype=np.float32).repeat(6, axis=0)
    Y = sp.csr_matrix((np.ones(48), (np.arange(48), np.arange(8).repeat(6))))
    tree = LabelTree.random(8, 2, 2, seed=0).without([2, 5])[0]
    model = XRLinear(tree=tree).fit(X, Y)
    assert model.removed_labels_.tolist() == [2, 5]
    best = model.rank(X[::6], k=1).labels[:, 0].tolist()
    assert [best[label] for label in (0, 1, 3, 4, 6, 7)] == [0, 1, 3, 4, 6, 7]
    assert not {2, 5} & set(model.rank(X, k=8).labels.ravel().tolist())


@pytest.mark.parametrize(("rows", "sound"), [([1, 2, 0, 2], True), ([1, 1, 0, 2], False), ([2, 1, 0, 2], False),
                                             ([1, 3, 0, 2], False), ([-1, 2, 0, 2], False)])  # fmt: skip
def test_rows_of_a_solution_rise_in_each_cluster(rows: list[int], sound: bool) -> None:
    one, ids = np.ones((2, 1), np.float16), np.array(rows, np.int32)
    solution = LayerSolution.of(np.arange(3), [ids[:2], ids[2:]], [one, one], np.zeros(2, np.float32))
    if sound:
        solution.verify(3, "here")
    else:
        with raises(ModelError, "here", "[0, 2]"):
            solution.verify(3, "here")
