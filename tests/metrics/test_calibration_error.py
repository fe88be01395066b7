"""ECE@k, reliability and per-label thresholds against loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

from sylvan import TopK, metrics
from sylvan.errors import DataError, ParameterError
from sylvan.labels.vocabulary import NamedTopK, Vocabulary


def case(seed: int = 0, n: int = 60, k: int = 6, n_labels: int = 15) -> tuple[sp.csr_matrix, TopK]:
    random = np.random.default_rng(seed)
    labels = np.argsort(random.random((n, n_labels)), axis=1)[:, :k].astype(np.int32)
    scores = -np.sort(-random.integers(0, 33, (n, k)) / 32, axis=1).astype(np.float32)
    truth = random.random((n, n_labels)) < 0.2
    truth[3] = False
    labels[5, 2:], scores[5, 2:] = -1, -np.inf
    return sp.csr_matrix(truth.astype(np.float32)), TopK(labels, scores)


def slow_bins(Y: sp.csr_matrix, top: TopK, k: int, edges: np.ndarray) -> list[list[tuple[float, bool]]]:
    bins: list[list[tuple[float, bool]]] = [[] for _ in edges[1:]]
    for row, truth in enumerate(Y.toarray() > 0):
        for label, p in zip(top.labels[row, :k], top.scores[row, :k], strict=True):
            if truth.any() and label >= 0:
                inside = [b for b in range(len(edges) - 1) if edges[b] <= p < edges[b + 1]]
                bins[inside[-1] if inside else -1].append((float(p), bool(truth[label])))
    return bins


@pytest.mark.parametrize("bins", ["width", "mass"])
@pytest.mark.parametrize("n_bins", [1, 4, 15])
def test_ece_is_the_loops(bins: str, n_bins: int) -> None:
    Y, top = case()
    found = metrics.calibration_error(Y, top, (1, 3, 6), n_bins=n_bins, bins=bins)
    for k, error in found.items():
        diagram = metrics.reliability(Y, top, k, n_bins=n_bins, bins=bins)
        slow = slow_bins(Y, top, k, diagram.edges)
        assert diagram.counts.tolist() == [len(inside) for inside in slow]
        n = sum(map(len, slow))
        gaps = [abs(np.mean([p - t for p, t in inside])) * len(inside) / n for inside in slow if inside]
        assert error == pytest.approx(sum(gaps), abs=1e-9) == pytest.approx(diagram.error)
        for b, inside in enumerate(slow):
            expected = np.mean(inside, axis=0) if inside else [np.nan, np.nan]
            np.testing.assert_allclose([diagram.predicted[b], diagram.observed[b]], expected, atol=1e-9)
        if bins == "mass" and n_bins < 15:
            assert diagram.counts.max() - diagram.counts.min() <= n // 5, "ties alone make them differ"


def test_a_sparse_matrix_is_a_topk() -> None:
    Y, top = case()
    distinct = TopK(top.labels, (top.scores - np.arange(6, dtype=np.float32) / 1000).clip(0, 1) * (top.labels >= 0))
    assert metrics.calibration_error(Y, distinct.to_csr(15)) == pytest.approx(metrics.calibration_error(Y, distinct))


def test_what_is_no_probability_is_refused() -> None:
    Y, top = case()
    with raises(DataError, "[0, 1]", 2, "predict_proba"):
        metrics.calibration_error(Y, TopK(top.labels, top.scores * 2), 1)
    with raises(DataError, "-0.5"):
        metrics.calibration_error([[0]], TopK(np.zeros((1, 1), np.int32), np.full((1, 1), -0.5, np.float32)), 1)
    with raises(ParameterError, "bins", "calibration_error", "width", "mass"):
        metrics.reliability(Y, top, bins="equal")
    with raises(ParameterError, "n_bins", 0):
        metrics.calibration_error(Y, top, n_bins=0)
    with raises(ParameterError, "'k'"):
        metrics.reliability(Y, top, k=(1, 3))
    with raises(DataError, "Y", "true"):
        metrics.calibration_error([[], []], TopK(np.zeros((2, 1), np.int32), np.zeros((2, 1), np.float32)), 1)


def test_answers_beyond_listed_labels_are_wrong_and_no_other_rows() -> None:
    top = TopK(np.array([[2], [1]], np.int32), np.full((2, 1), 0.5, np.float32))  # 2 is 0 of the next row in width 2
    assert metrics.expected_hits([[1], [0]], top, 1).right == 0
    assert metrics.reliability([[1], [0]], top, 1).error == 0.5


def test_answers_that_name_a_label_twice_are_refused() -> None:
    top = TopK(np.array([[1, 0], [0, 0]], np.int32), np.full((2, 2), 0.5, np.float32))
    for measure in (metrics.calibration_error, metrics.fit_thresholds):
        with raises(DataError, "twice", "row 1"):
            measure([[0], [0]], top, **({"at": 2} if measure is metrics.calibration_error else {}))


def label_f1(right: np.ndarray, answered: np.ndarray) -> float:
    return 2 * (right & answered).sum() / max(1, answered.sum() + right.sum())


def test_each_threshold_gives_its_label_the_best_f1() -> None:
    Y, top = case(1, 200)
    scores = top.to_csr(15)
    found = metrics.fit_thresholds(Y, scores, default=0.25, min_positives=40)
    truth, dense, stored = Y.toarray() > 0, scores.toarray(), (scores != 0).toarray()
    few = 0
    for label in range(15):
        right, p, there = truth[:, label], dense[:, label], stored[:, label]
        best = max(label_f1(right, there & (p >= cut)) for cut in np.unique(p[there]))
        if right.sum() < 40 or best == 0:
            assert found[label] == 0.25
            few += 1
        else:
            assert label_f1(right, there & (p >= found[label])) == pytest.approx(best)
    assert 0 < few < 15
    assert (metrics.fit_thresholds(Y, top, default=0.25, min_positives=40) == found).all()


def test_thresholds_of_all_columns_where_lists_name_fewer_labels() -> None:
    scores = sp.csr_matrix(([0.75, 0.5, 0.25, 0.1], ([0, 1, 2, 3], [0, 0, 0, 0])), shape=(4, 6), dtype=np.float32)
    assert metrics.fit_thresholds([[0], [0], [], []], scores, min_positives=2).tolist() == [0.375] + [0.5] * 5


def test_labels_that_named_answers_do_not_know_have_no_threshold() -> None:
    top = NamedTopK(np.int32([[0, 1], [1, 2]]), np.float32([[0.9, 0.5], [0.75, 0.5]]), Vocabulary(["a", "b", "c"]))
    found = metrics.fit_thresholds([["a", "x"], ["b"]], top, min_positives=1)
    assert found.tolist() == pytest.approx([0.9, 0.625, 0.5])


def test_thresholds_that_cannot_be_fitted() -> None:
    Y, top = case()
    with raises(DataError, "[0, 1]", -3, "predict_proba"):
        metrics.fit_thresholds([[0]], sp.csr_matrix([[-3.0]]), min_positives=1)
    with raises(ParameterError, "default", "fit_thresholds", "[0, 1]"):
        metrics.fit_thresholds(Y, top, default=2)
    with raises(ParameterError, "min_positives", 0):
        metrics.fit_thresholds(Y, top, min_positives=0)
    with raises(DataError, "thresholds"):
        metrics.fit_thresholds(Y, sp.csr_matrix(Y.shape, dtype=np.float32))


def test_the_error_of_one_answer_is_its_distance_from_the_truth() -> None:
    top = TopK(np.array([[1]], np.int32), np.array([[0.25]], np.float32))
    assert metrics.reliability([[0]], top, 1).error == metrics.calibration_error([[0]], top, 1)[1] == 0.25
