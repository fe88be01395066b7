"""Searching among allowed labels, against the reference and against filtering an exhaustive ranking."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from reference import linear_reference as reference
from reference.test_algorithm2 import CLOSE, laid_out, plain, rankings
from sylvan import LabelTree, kernels
from sylvan.arrays import validate
from sylvan.arrays.label_filter import LabelFilter
from sylvan.matching import beam as matching

WHO = ["nobody", "all rows", "each row"]


def draw_labels(draw: st.DrawFn, n_rows: int, n_labels: int) -> tuple[Any, list[set[int]] | None]:
    """An ``allowed`` or ``denied`` in one of its forms, and the set that it means for each row."""
    who = draw(st.sampled_from(WHO))
    if who == "nobody":
        return None, None
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    mask = random.random((n_rows, n_labels)) < draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
    if who == "all rows":
        mask[:] = mask[0]
        ids = np.flatnonzero(mask[0])
        forms = [ids, ids[::-1].tolist() * 2, mask[0], set(ids.tolist()), ids.astype(np.uint8)]
    else:
        forms = [mask, sp.csr_matrix(mask), sp.csc_array(mask.astype(float)), sp.coo_matrix(mask.astype(np.int8)),
                 [np.flatnonzero(row).tolist() for row in mask]]  # fmt: skip
    return draw(st.sampled_from(forms)), [set(np.flatnonzero(row).tolist()) for row in mask]


@st.composite
def filtered(draw: st.DrawFn) -> dict:
    case = draw(rankings())
    n_rows, n_labels = len(case["X"]), case["tree"].n_labels
    case["allowed"], yes = draw_labels(draw, n_rows, n_labels)
    case["denied"], no = draw_labels(draw, n_rows, n_labels)
    everything = set(range(n_labels))
    case["open"] = [(yes[r] if yes else everything) - (no[r] if no else set()) for r in range(n_rows)]
    case["filter"] = LabelFilter.of(case["allowed"], case["denied"], n_rows=n_rows, n_labels=n_labels)
    case["layers"] = [
        laid_out(W, b, offsets)
        for W, b, offsets in zip(case["weights"], case["intercepts"], case["tree"].child_offsets, strict=True)
    ]
    return case


def rank(case: dict, rows: slice = slice(None), n_jobs: int = 1, **changed: Any) -> Any:
    tree, how = case["tree"], {**case, **changed}
    return matching.rank(
        validate.features(case["X"][rows]), case["layers"], tree.leaf_labels, k=how["k"], beam=how["beam"],
        combines=[case["combine"]] * tree.depth, n_copies=tree.most_copies, labels=how["filter"],
        paths=None if how["filter"] is None else matching.label_paths(tree), n_jobs=n_jobs,
    )  # fmt: skip


@settings(deadline=None, max_examples=50)
@given(filtered(), st.integers(1, 3))
def test_the_filtered_search_equals_the_reference(case: dict, n_jobs: int) -> None:
    top = rank(case, n_jobs=n_jobs)
    if case["filter"] is not None:
        assert [set(np.flatnonzero(case["filter"].mask(r))) for r in range(len(case["X"]))] == case["open"]
    for x, allowed, labels, scores in zip(case["X"], case["open"], top.labels, top.scores, strict=True):
        expected = reference.rank_row(
            x, case["weights"], case["intercepts"], plain(case["tree"]), beam=case["beam"], k=case["k"],
            combine=case["combine"], allowed=allowed,
        )  # fmt: skip
        found = labels[labels >= 0].tolist()
        assert set(found) <= allowed
        assert np.isneginf(scores[len(found) :]).all() and (labels[len(found) :] == -1).all()
        if case["exact"] and "sigmoid" not in case["combine"]:
            assert found == expected.labels
        elif expected.margin >= CLOSE:
            assert set(found) == set(expected.labels)
        else:
            continue
        np.testing.assert_allclose(scores[: len(found)], expected.scores, rtol=1e-3, atol=1e-4)


@settings(deadline=None, max_examples=30)
@given(filtered())
def test_with_the_widest_beam_it_is_an_exhaustive_ranking_filtered(case: dict) -> None:
    n_labels = case["tree"].n_labels
    top = rank(case, beam=10**6, k=n_labels)
    everything = rank(case, beam=10**6, k=n_labels, filter=None)
    for row, allowed in enumerate(case["open"]):
        is_allowed = np.isin(everything.labels[row], list(allowed))
        n = int(is_allowed.sum())
        assert top.labels[row, :n].tolist() == everything.labels[row][is_allowed].tolist()
        # Of two leaves of a label, either may answer where one scores 0 and the other -0.
        own, expected = top.scores[row, :n] + 0.0, everything.scores[row][is_allowed] + 0.0
        assert own.tobytes() == expected.tobytes()
        assert (top.labels[row, n:] == -1).all()


@settings(deadline=None, max_examples=25)
@given(filtered())
def test_a_row_alone_gets_the_bits_of_the_batch(case: dict) -> None:
    n_labels, together = case["tree"].n_labels, rank(case)
    for row in range(min(5, len(case["X"]))):
        alone = LabelFilter.of(np.array([label in case["open"][row] for label in range(n_labels)]), None,
                               n_rows=1, n_labels=n_labels)  # fmt: skip
        top = rank(case, slice(row, row + 1), filter=alone)
        assert top.labels[0].tobytes() == together.labels[row].tobytes()
        assert top.scores[0].tobytes() == together.scores[row].tobytes()


def test_a_zero_of_either_sign_is_one_intercept() -> None:
    """A row alone adds nothing to an intercept of -0; rows at once add zeros."""
    child_offsets = [np.array([0, 1]), np.array([0, 2])]
    weights = [np.zeros((2, 1)), np.array([[0.0, 0.0], [0.0, 0.5]])]
    case = {"tree": LabelTree(child_offsets, np.arange(2), 2), "X": np.tile([[1.0, 0.0], [0.0, 1.0]], (30, 1)), "k": 2,
            "beam": 1, "combine": "ranker", "filter": None}  # fmt: skip
    intercepts = [np.zeros(1), np.array([-0.0, -0.0])]
    case["layers"] = [laid_out(W, b, offsets) for W, b, offsets in zip(weights, intercepts, child_offsets, strict=True)]
    together = rank(case)
    for row in range(2):
        assert rank(case, slice(row, row + 1)).scores[0].tobytes() == together.scores[row].tobytes()


def test_rows_with_long_lists_are_searched_a_few_at_a_time() -> None:
    """More listed labels than one block of rows holds."""
    from sylvan import XRLinear

    random = np.random.default_rng(0)
    n, n_labels = 700, 4000
    X, Y = random.random((n, 20), np.float32), sp.random(n, n_labels, 0.002, "csr", np.float32, random)
    model = XRLinear(max_iterations=1, n_jobs=1).fit(X, Y)
    mask = random.random((n, n_labels)) < 0.6
    everything = model.rank(X, k=n_labels, beam=1000).labels
    for top, is_allowed in ((model.rank(X, k=3, beam=1000, allowed=mask), mask),
                      (model.rank(X, k=3, beam=1000, denied=mask), ~mask)):  # fmt: skip
        expected = [[label for label in row if own[label]][:3] for row, own in zip(everything, is_allowed, strict=True)]
        assert top.labels.tolist() == expected


@pytest.mark.parametrize(
    ("shared", "offsets", "labels", "words"),
    [
        ([4], None, [], "range"), ([-1], None, [], "range"), ([], [0, 1], [9], "range"), ([], [0, 2], [1], "range"),
        ([], [-1, 1], [1], "range"), ([], [0], [1], "range"), ([], [2, 1], [1, 2], "offsets"),
    ],
)  # fmt: skip
def test_the_kernel_refuses_lists_that_it_cannot_trust(shared: Any, offsets: Any, labels: Any, words: str) -> None:
    """Whatever reaches it from elsewhere than LabelFilter."""
    tree, arguments = small_search()
    listed = kernels.ListedLabels(
        True, np.array(shared, np.int32), None if offsets is None else np.array(offsets, np.int64),
        np.array(labels, np.int32),
    )  # fmt: skip
    with raises(ValueError, words):
        kernels.rank(*arguments, matching.label_paths(tree), listed)


def test_the_kernel_refuses_the_paths_of_another_tree() -> None:
    _, arguments = small_search()
    other, _ = small_search()
    listed = kernels.ListedLabels(True, np.array([1], np.int32), None, np.empty(0, np.int32))
    for paths in (matching.label_paths(other), None):
        with raises(ValueError, "paths"):
            kernels.rank(*arguments, paths, listed)


@pytest.mark.parametrize("at", range(5))
def test_the_kernel_refuses_paths_that_lead_nowhere(at: int) -> None:
    tree, _ = small_search()
    offsets, leaves = tree.leaves_of_labels()
    arrays = [tree.leaf_labels, offsets, tree.parents(1)[leaves], tree.parents(0), np.array([2, 2], np.int32)]
    arrays[at] = np.concatenate((arrays[at][:-1], [99])).astype(arrays[at].dtype) if at < 4 else arrays[at][:1]
    with pytest.raises(ValueError, match=r"out of range|offsets|disagree"):
        kernels.LabelPaths(*arrays[:3], [arrays[3]], [arrays[4]])


def small_search() -> tuple[Any, tuple]:
    """A tree of four labels under two clusters, and a call of the kernel without a filter."""
    from sylvan import LabelTree

    tree = LabelTree((np.array([0, 2]), np.array([0, 2, 4])), np.array([2, 0, 1, 3]), 4)
    layers = [laid_out(np.ones((3, n)), np.zeros(n), tree.child_offsets[t]) for t, n in enumerate((2, 4))]
    X = validate.features(np.ones((1, 3)))
    out = np.empty((1, 2), np.int32), np.empty((1, 2), np.float32)
    return tree, (
        [layer.native for layer in layers], X.indptr, X.indices, X.data, 0, 1, 10, [1, 1], 3.0, [1.0, 1.0],
        tree.leaf_labels, 1, True, *out,
    )  # fmt: skip
