"""F1 of rows, of pairs and of labels, against scikit-learn and against loops."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import metrics
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError

KINDS = {"F1": "samples", "micro-F1": "micro", "macro-F1": "macro"}


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """True labels, at least one a row, and answers with a score each (0 for none)."""
    n, n_labels = draw(st.integers(1, 7)), draw(st.integers(2, 6))
    flat = draw(st.lists(st.booleans(), min_size=n * n_labels, max_size=n * n_labels))
    Y = np.array(flat, np.float32).reshape(n, n_labels)
    Y[Y.sum(axis=1) == 0, draw(st.integers(0, n_labels - 1))] = 1
    order = draw(st.permutations(range(1, n * n_labels + 1)))
    scores = np.array(order, np.float32).reshape(n, n_labels)
    answered = draw(st.lists(st.booleans(), min_size=n * n_labels, max_size=n * n_labels))
    return Y, scores * np.array(answered).reshape(n, n_labels)


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(1, 6))
def test_against_scikit_learn(case: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]], k: int) -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    Y, scores = case
    truth, ranking = sp.csr_matrix(Y), sp.csr_matrix(scores)

    def expected(answers: Any, average: str) -> float:
        return float(sklearn.f1_score(Y, answers, average=average, zero_division=0))

    first = (np.argsort(np.argsort(-scores, axis=1), axis=1) < k) & (scores > 0)
    assert metrics.f1(truth, ranking, at=k)[k] == pytest.approx(expected(first, "samples"))
    assert metrics.micro_f1(truth, ranking, at=k)[k] == pytest.approx(expected(first, "micro"))
    found = metrics.set_f1(truth, ranking)
    assert found.pop("labels") == pytest.approx((scores > 0).sum() / len(Y))
    assert found == pytest.approx({name: expected(scores > 0, average) for name, average in KINDS.items()})


def test_by_hand_with_rows_that_answer_nothing_and_rows_without_labels() -> None:
    truth = [[0, 1], [2], [], [1]]
    top = TopK(np.array([[0, 2], [-1, -1], [3, 0], [1, -1]], np.int32), np.zeros((4, 2), np.float32))
    assert metrics.f1(truth, top, at=(1, 2)) == pytest.approx({1: (2 / 3 + 0 + 1) / 3, 2: (1 / 2 + 0 + 1) / 3})
    assert metrics.micro_f1(truth, top, at=2)[2] == pytest.approx(4 / (3 + 4))
    found = metrics.set_f1(sp.csr_matrix([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]]), top)
    assert found == pytest.approx(
        {"labels": 1.0, "F1": 1.5 / 3, "micro-F1": 4 / 7, "macro-F1": (1 + 2 / 3 + 0 + 0) / 4}
    )


def test_batches_of_different_widths_are_measured_as_one() -> None:
    Y = sp.csr_matrix(np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 0]])
    answers = sp.csr_matrix(np.array([[1, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]]))
    measured = metrics.SetF1(4)
    for rows in (slice(0, 2), slice(2, 3), slice(3, 5)):
        measured.add(Y[rows], answers[rows])
    assert measured.result() == pytest.approx(metrics.set_f1(Y, answers))
    nothing = TopK(np.empty((2, 0), np.int32), np.empty((2, 0), np.float32))
    assert metrics.set_f1(Y[:2], nothing) == {"labels": 0.0, "F1": 0.0, "micro-F1": 0.0, "macro-F1": 0.0}


def test_faults_are_sentences() -> None:
    with raises(DataError, "(1, 1)"):
        metrics.set_f1([[0]], TopK(np.zeros((2, 1), np.int32), np.ones((2, 1), np.float32)))
    with raises(DataError, "TopK", "matrix"):
        metrics.set_f1([[0]], [[0]])
    with raises(DataError, "measure"):
        metrics.SetF1(3).result()


def test_an_array_of_probabilities_is_a_set_of_all_that_is_not_zero() -> None:
    truth, chosen = np.array([[1, 1, 0], [0, 1, 1]]), np.array([[0.9, 0.8, 0], [0, 0.7, 0.9]])
    assert metrics.set_f1(truth, chosen) == metrics.set_f1(truth, sp.csr_matrix(chosen))
    assert metrics.set_f1(truth, chosen)["labels"] == 2
