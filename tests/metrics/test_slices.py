"""Head, torso and tail; and the measures that weigh labels alike."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import TopK, metrics
from sylvan.errors import DataError, ParameterError


def case(seed: int) -> tuple[np.ndarray, TopK, np.ndarray]:
    random = np.random.default_rng(seed)
    n, n_labels = int(random.integers(1, 30)), int(random.integers(3, 12))
    Y = random.random((n, n_labels)) < 0.3
    Y[0, 0] = True
    labels = np.argsort(random.random((n, n_labels)), axis=1)[:, :3].astype(np.int32)
    labels[random.random(n) < 0.2, 2] = -1
    return Y, TopK(labels, np.zeros(labels.shape, np.float32)), random.integers(0, 20, n_labels)


@settings(max_examples=80)
@given(st.integers(0, 2**32))
def test_slices_are_their_definition(seed: int) -> None:
    Y, top, counts = case(seed)
    slice_of = metrics.slice_labels(counts)
    found = metrics.slices(Y, top, counts, at=(1, 3))
    rows = np.flatnonzero(Y.any(axis=1))
    for number, name in enumerate(("head", "torso", "tail")):
        assert found[name]["labels"] == (slice_of == number).sum()
        with_any = [row for row in rows if (Y[row] & (slice_of == number)).any()]
        assert found[name]["rows"] == len(with_any)
        for k in (1, 3):
            hits = {row: [label for label in top.labels[row, :k] if label >= 0 and Y[row, label]
                          and slice_of[label] == number] for row in rows}  # fmt: skip
            assert found[name][f"P@{k}"] == pytest.approx(sum(map(len, hits.values())) / (k * len(rows)))
            recalls = [len(hits[row]) / (Y[row] & (slice_of == number)).sum() for row in with_any]
            assert found[name][f"R@{k}"] == pytest.approx(np.mean(recalls) if recalls else 0)
    for k, whole in metrics.precision(Y, top, at=(1, 3)).items():
        assert sum(figures[f"P@{k}"] for figures in found.values()) == pytest.approx(whole)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=30))
def test_each_slice_holds_about_a_third(counts: list[int]) -> None:
    times = np.array(counts)
    slice_of = metrics.slice_labels(times)
    occurrences = [int(times[slice_of == number].sum()) for number in range(3)]
    assert all(abs(part - times.sum() / 3) <= max(counts) for part in occurrences)
    order = np.argsort(-times, kind="stable")
    assert (np.diff(slice_of[order]) >= 0).all(), "the more frequent label never stands in the rarer slice"
    assert (slice_of[times == 0] == 2).all()


def test_batches_are_one() -> None:
    Y, top, counts = case(5)
    measured = metrics.Slices(counts, at=(1, 3))
    for rows in np.array_split(np.arange(len(Y)), 3):
        measured.add(Y[rows], TopK(top.labels[rows], top.scores[rows]))
    whole = metrics.slices(Y, top, counts, at=(1, 3))
    for name, figures in measured.result().items():
        assert figures == pytest.approx(whole[name])


@pytest.mark.parametrize("counts", [[0.5, 1], [[1]], [-1, 2]])
def test_counts_that_are_none_are_refused(counts: Any) -> None:
    with raises(DataError, "int", 0):
        metrics.slice_labels(counts)
    with raises(DataError, "counts", "array"):
        metrics.slice_labels([[1], [2, 3]])


@pytest.mark.parametrize("thresholds", [(3, 1), (1,), (1, 2, 3), (0.5, 2), (-1, 2), 3, (True, 2)])
def test_thresholds_that_are_none_are_refused(thresholds: Any) -> None:
    with raises(ParameterError, "thresholds"):
        metrics.slice_labels([1, 2], thresholds)


def test_labels_without_counts_and_rows_without_labels() -> None:
    top = TopK(np.array([[0]], np.int32), np.zeros((1, 1), np.float32))
    with raises(DataError, "Y", "label 3", 2):
        metrics.slices([[3]], top, [1, 2], at=1)
    with raises(DataError, "Y", "true"):
        metrics.slices([[]], top, [1, 2], at=1)


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_macro_measures_are_scikit_learns(seed: int) -> None:
    scores = pytest.importorskip("sklearn.metrics")
    Y, top, _ = case(seed)
    named = np.zeros(Y.shape, bool)
    for row, labels in enumerate(top.labels):
        named[row, labels[labels >= 0]] = True
    rows = Y.any(axis=1)
    for measure, theirs in ((metrics.macro_recall, scores.recall_score), (metrics.macro_f1, scores.f1_score)):
        expected = theirs(Y[rows], named[rows], average="macro", zero_division=0)
        assert measure(Y, top, at=3)[3] == pytest.approx(expected)
