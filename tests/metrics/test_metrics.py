"""The metrics against values worked out by hand, scikit-learn, and reference implementations that loop."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import metrics
from sylvan.arrays import validate
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError, ParameterError
from sylvan.labels.vocabulary import NamedTopK, Vocabulary
from sylvan.metrics import tallies


def top_of(*labels: list[int]) -> TopK:
    width = max(len(row) for row in labels)
    ids = np.array([row + [-1] * (width - len(row)) for row in labels], np.int32)
    scores = np.where(ids >= 0, -np.arange(width, dtype=np.float32), -np.inf).astype(np.float32)
    return TopK(ids, scores)


def test_answers_have_one_shape() -> None:
    ids, scores = np.zeros((2, 3), np.int32), np.zeros((2, 3), np.float32)
    for labels, values in ((ids, scores[:, :2]), (ids[0], scores[0]), (ids, scores[0])):
        with raises(DataError, "k", "scores"):
            TopK(labels, values)


TRUTH = [[0, 2], [], [3], [1, 2, 3]]
TOP = top_of([2, 1, 0], [0, 1, 2], [0, 1], [3, 0, 1])
D2, D3 = 1 / math.log2(3), 0.5


def test_by_hand() -> None:
    """Row 1 has no true label and counts nowhere; row 2 has two answers only."""
    assert metrics.precision(TRUTH, TOP, at=(1, 2, 3)) == pytest.approx({1: 2 / 3, 2: 2 / 6, 3: 4 / 9})
    assert metrics.recall(TRUTH, TOP, at=(1, 3)) == pytest.approx({1: (1 / 2 + 1 / 3) / 3, 3: (1 + 2 / 3) / 3})
    row0 = (1 + D3) / (1 + D2)
    row3 = (1 + D3) / (1 + D2 + D3)
    assert metrics.ndcg(TRUTH, TOP, at=(1, 3)) == pytest.approx({1: 2 / 3, 3: (row0 + row3) / 3})
    p = np.array([0.5, 0.25, 0.5, 1.0])  # gains 2, 4, 2, 1
    assert metrics.psp(TRUTH, TOP, p, at=(1, 3)) == pytest.approx({1: 3 / 7, 3: (4 + 5) / (4 + 1 + 7)})
    n0, n2, n3 = 1 + D2, 1.0, 1 + D2 + D3
    got = (2 + 2 * D3) / n0 + (1 + 4 * D3) / n3
    best = (2 + 2 * D2) / n0 + 1 / n2 + (4 + 2 * D2 + D3) / n3
    assert metrics.psndcg(TRUTH, TOP, p, at=3) == pytest.approx({3: got / best})
    # Answers at 1: label 2 in row 0 (right), 0 in row 2 (wrong), 3 in row 3 (right).
    assert metrics.macro_precision(TRUTH, TOP, at=1) == pytest.approx({1: 2 / 4})
    # At 3: 0 is right once in three, 1 once in three, 2 once in one, 3 once in one.
    assert metrics.macro_precision(TRUTH, TOP, at=3) == pytest.approx({3: (1 / 3 + 1 / 3 + 1 + 1) / 4})
    assert metrics.coverage(TRUTH, TOP, at=np.array([1, 3])) == pytest.approx({1: 2 / 4, 3: 1.0})


def test_propensities_by_hand() -> None:
    Y = sp.csr_matrix(np.array([[1, 0], [1, 0], [1, 1], [1, 0]], np.float32))
    c = (math.log(4) - 1) * 2.5**0.55
    wanted = [1 / (1 + c * (4 + 1.5) ** -0.55), 1 / (1 + c * (1 + 1.5) ** -0.55)]
    np.testing.assert_allclose(metrics.propensities(Y), wanted)
    np.testing.assert_allclose(metrics.propensities(Y * 7), wanted)  # relevance does not count twice
    c = (math.log(4) - 1) * 3.6**0.6
    np.testing.assert_allclose(metrics.propensities(Y, A=0.6, B=2.6)[1], 1 / (1 + c * 3.6**-0.6))
    assert metrics.propensities([[0], [1]]).tolist() == [1.0, 1.0]  # log 2 < 1
    for bad in ({"A": -1}, {"A": float("nan")}, {"B": 0}, {"B": True}, {"A": "x"}):
        with raises(ParameterError, "propensities"):
            metrics.propensities(Y, **bad)  # type: ignore[arg-type]
    with raises(DataError, "Y_train"):
        metrics.propensities(sp.csr_matrix((0, 3)))


def test_against_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(3)
    Y = (rng.random((60, 12)) < 0.3).astype(np.float32) * rng.integers(1, 4, (60, 12))
    Y[Y.sum(axis=1) == 0, 0] = 1
    scores = rng.random((60, 12))
    sparse, truth = sp.csr_matrix(scores), sp.csr_matrix(Y)
    for k in (1, 3, 12):
        assert metrics.ndcg(truth, sparse, at=k, graded=True)[k] == pytest.approx(sklearn.ndcg_score(Y, scores, k=k))
        assert metrics.ndcg(truth, sparse, at=k)[k] == pytest.approx(sklearn.ndcg_score(Y > 0, scores, k=k))
        answered = np.zeros_like(Y)
        np.put_along_axis(answered, np.argsort(-scores, axis=1)[:, :k], 1, axis=1)
        average = {"average": "macro", "zero_division": 0}
        assert metrics.macro_precision(truth, sparse, at=k)[k] == pytest.approx(
            sklearn.precision_score(Y > 0, answered, **average)
        )
        per_row = {"average": "samples", "zero_division": 0}
        assert metrics.precision(truth, sparse, at=k)[k] == pytest.approx(
            sklearn.precision_score(Y > 0, answered, **per_row)
        )
        assert metrics.recall(truth, sparse, at=k)[k] == pytest.approx(sklearn.recall_score(Y > 0, answered, **per_row))


def slow(truth: list[list[int]], answers: list[list[int]], p: np.ndarray[Any, Any], k: int, L: int) -> dict[str, float]:
    """Every metric the obvious way, one row and one answer at a time."""
    used = [(set(t), a[:k]) for t, a in zip(truth, answers, strict=True) if t]
    n = len(used)
    discount = [1 / math.log2(j + 2) for j in range(max(k, L))]

    def most(t: set[int]) -> list[float]:
        return sorted((1 / p[label] for label in t), reverse=True)[:k]

    ideal = [sum(discount[: min(k, len(t))]) for t, _ in used]
    right = [[a in t for a in row] for t, row in used]
    dcg = [sum(d for d, r in zip(discount, row, strict=False) if r) for row in right]
    psdcg = [sum(d / p[a] for d, a in zip(discount, row, strict=False) if a in t) for t, row in used]
    best = [sum(d * g for d, g in zip(discount, most(t), strict=False)) for t, _ in used]
    tp, named = np.zeros(L), np.zeros(L)
    for t, row in used:
        for a in row:
            named[a] += 1
            tp[a] += a in t
    there = set().union(*(t for t, _ in used))
    return {
        "rows": len(truth),
        "rows_without_labels": len(truth) - n,
        f"P@{k}": sum(sum(r) / k for r in right) / n,
        f"R@{k}": sum(sum(r) / len(t) for r, (t, _) in zip(right, used, strict=False)) / n,
        f"nDCG@{k}": sum(d / i for d, i in zip(dcg, ideal, strict=False)) / n,
        f"F1@{k}": sum(2 * sum(r) / (len(r) + len(t)) for r, (t, _) in zip(right, used, strict=False)) / n,
        f"PSP@{k}": sum(1 / p[a] for t, row in used for a in row if a in t) / sum(sum(most(t)) for t, _ in used),
        f"PSnDCG@{k}": sum(d / i for d, i in zip(psdcg, ideal, strict=False))
        / sum(b / i for b, i in zip(best, ideal, strict=False)),
        f"macro-P@{k}": sum(tp[a] / named[a] for a in range(L) if named[a]) / L,
        f"coverage@{k}": sum(tp[a] > 0 for a in there) / len(there),
    }


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], int]:
    n_labels = draw(st.integers(1, 8))
    ids = st.lists(st.integers(0, n_labels - 1), unique=True, max_size=n_labels)
    pairs = draw(st.lists(st.tuples(ids, ids), min_size=1, max_size=7).filter(lambda p: any(t for t, _ in p)))
    return [t for t, _ in pairs], [a for _, a in pairs], n_labels


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 9), st.integers(1, 30))
def test_against_the_slow_reference(case: tuple[list[list[int]], list[list[int]], int], k: int, block: int) -> None:
    truth, answers, L = case
    Y = sp.lil_matrix((len(truth), L), dtype=np.float32)
    for row, labels in enumerate(truth):
        Y[row, labels] = 1
    p = np.linspace(0.2, 1.0, L)
    wanted = slow(truth, answers, p, k, L)
    padded = np.array([row + [-1] * (L - len(row)) for row in answers], np.int32)
    top = TopK(padded, np.where(padded >= 0, 1, -np.inf).astype(np.float32))
    scores = sp.lil_matrix((len(truth), L), dtype=np.float32)
    for row, labels in enumerate(answers):
        for place, label in enumerate(labels):
            scores[row, label] = 1 - place / 16
    before, tallies._BLOCK_ENTRIES = tallies._BLOCK_ENTRIES, block
    try:
        for given_top in (top, scores.tocsr(), scores.tocsc()):
            assert metrics.evaluate(Y.tocsr(), given_top, at=k, propensities=p) == pytest.approx(wanted)
    finally:
        tallies._BLOCK_ENTRIES = before


def test_batches_add_up() -> None:
    rng = np.random.default_rng(5)
    Y = sp.random(50, 9, 0.3, "csr", dtype=np.float32, random_state=rng)
    S = sp.random(50, 9, 0.5, "csr", dtype=np.float32, random_state=rng)
    p = metrics.propensities(Y)
    whole = metrics.evaluate(Y, S, propensities=p)
    evaluator = metrics.Evaluator(propensities=p)
    for start in range(0, 50, 7):
        evaluator.add(Y[start : start + 7], S[start : start + 7])
    assert evaluator.result() == pytest.approx(whole)
    lists = metrics.Evaluator(propensities=p, n_labels=9)
    for row in range(50):
        lists.add([Y[row].indices.tolist()], S[row])
    assert lists.result() == pytest.approx(whole)


def test_kinds_of_truth_are_one() -> None:
    top = top_of([1, 0], [0, 1], [2, 1])
    dense = np.array([[0, 1, 0], [0, 1, 0], [0, 0, 1]])
    wanted = metrics.evaluate(sp.csr_matrix(dense), top, at=(1, 2))
    for Y in (dense, sp.csc_matrix(dense), sp.csr_array(dense), [[1], [1], [2]], [1, 1, 2], np.array([1, 1, 2])):
        assert metrics.evaluate(Y, top, at=(1, 2)) == wanted
    stored_zero = sp.csr_matrix((np.array([1, 0, 1, 1.0]), [1, 2, 1, 2], [0, 2, 3, 4]), shape=(3, 3))
    assert metrics.evaluate(stored_zero, top, at=(1, 2)) == wanted


def test_stored_scores_are_answers_and_ties_go_to_the_lower_label() -> None:
    scores = sp.csr_matrix((np.array([0.0, -1.0, 0.0]), [3, 1, 2], [0, 3]), shape=(1, 4))
    assert metrics.precision([[2]], scores, at=(1, 2)) == {1: 1.0, 2: 0.5}
    assert metrics.precision([[1]], scores, at=(2, 3)) == {2: 0.0, 3: pytest.approx(1 / 3)}
    assert scores.indices.tolist() == [3, 1, 2]  # the user's matrix is left as it was
    assert metrics.precision([[0]], np.array([[0.0, -1.0, -2.0]]), at=1) == {1: 1.0}  # 0 is a score here
    with raises(DataError, "(1, 0)"):
        metrics.precision(sp.csr_matrix([[1]]), np.zeros((1, 0)), at=1)
    long = sp.csr_matrix(sp.vstack([sp.csr_matrix(np.ones((1, 4))), sp.csr_matrix((40, 4))]))
    assert metrics.precision([[0, 1]] + [[3]] * 40, long, at=2) == {2: pytest.approx(1 / 41)}


def test_a_full_ranking_of_few_labels_may_be_short() -> None:
    assert metrics.precision(sp.csr_matrix([[1, 0]]), top_of([0, 1]), at=5) == {5: 0.2}


def test_labels_beyond_a_list_truth_are_wrong_answers() -> None:
    assert metrics.evaluate([[0], [1]], top_of([0], [9]), at=1)["P@1"] == 0.5


@pytest.mark.parametrize(
    ("Y", "top", "at", "sentence"),
    [
        ([[0], [1]], top_of([0]), 1, ("(2, 2)", "(1, 1)")),
        ([[0]], sp.csr_matrix((2, 1)), 1, ("(1, 1)", "(2, 1)")),
        (sp.csr_matrix([[1, 0]]), sp.csr_matrix((1, 3)), 1, ("(1, 2)", "(1, 3)")),
        ([[0, 5]], sp.csr_matrix((1, 3)), 1, ("label 5", "3 columns")),
        (sp.csr_matrix([[1, 0]]), top_of([2]), 1, (2, "label 2")),
        (np.array([[1, 0]]), top_of([2]), 1, (2, "label 2")),
        (validate.labels([[0]], n_labels=2), top_of([2]), 1, (2, "label 2")),
        ([[0]], top_of([-3]), 1, "label -3"),
        ([[0, 5]], top_of([0, 1, 2]), (1, 5), (5, "TopK", 3, "k=5")),
        ([[0], [1]], top_of([7, 1], [1, 0]), 5, (5, "TopK", 2, "k=5")),
        ([[0]], np.array([[0]]), 1, ("TopK", "ndarray")),
        ([[0, 5]], top_of([1, 2], [0, 0]), 2, "(1, 6)"),
        ([[], [0, 5]], top_of([1, 2], [0, 0]), 2, "row 1"),
        ([[], []], top_of([0], [0]), 1, ("Y", "true")),
        (sp.csr_matrix((0, 4)), TopK(np.zeros((0, 1), np.int32), np.zeros((0, 1), np.float32)), 1, "row"),
        ([[0]], sp.csr_matrix([[np.nan]]), 1, ("NaN", "row 0")),
        ([[0]], sp.csr_matrix([[1j]]), 1, "real"),
        ([["a"]], top_of([0]), 1, ("row 0", "label")),
        ([[0]], TopK(np.zeros((1, 1)), np.zeros((1, 1), np.float32)), 1, "ints"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_a_sentence(Y: Any, top: Any, at: Any, sentence: object) -> None:
    with raises(DataError, sentence):
        metrics.evaluate(Y, top, at=at)


def test_broken_scores_are_a_sentence() -> None:
    scores = sp.csr_matrix(np.ones((2, 3)))
    scores.indptr = np.array([0, 9, 6], np.int32)
    with raises(DataError, "inconsistent"):
        metrics.precision([[0], [1]], scores, at=1)
    scores = sp.csr_matrix(np.ones((2, 3)))
    scores.indices = np.array([0, 1, 900, 0, 1, 2], np.int32)
    with raises(DataError, "inconsistent"):
        metrics.macro_precision([[0], [1]], scores, at=1)


@pytest.mark.parametrize("at", [0, -1, (1, 0), 1.5, True, "3", (), np.array(1)])
def test_ks_are_ints_from_one(at: Any) -> None:
    with raises(ParameterError, "at"):
        metrics.precision([[0]], top_of([0]), at=at)


def test_numbers_of_other_labels_are_refused() -> None:
    Y, top = sp.csr_matrix([[1, 0]]), top_of([0])
    with raises(DataError, "2 labels", "propensities of 3 labels"):
        metrics.psp(Y, top, [0.5, 0.5, 0.5], at=1)
    with raises(DataError, "2 labels", "counts of 3 labels"):
        metrics.slices(Y, top, [5, 5, 5], at=1)
    assert metrics.psp([[0]], top, [0.5, 0.5, 0.5], at=1) == {1: 1.0}  # lists name no more than the highest


def test_names_that_answers_do_not_know_are_one_label_in_all_batches() -> None:
    truth, vocabulary = [["a", "x"], ["b", "y"], ["b", "x"]], Vocabulary(["a", "b", "c"])
    tops = [NamedTopK(row, np.zeros((1, 1), np.float32), vocabulary) for row in np.int32([[[0]], [[1]], [[1]]])]
    evaluator = metrics.Evaluator(at=1)
    for row, top in zip(truth, tops, strict=True):
        evaluator.add([row], top)
    whole = NamedTopK(np.int32([[0], [1], [1]]), np.zeros((3, 1), np.float32), vocabulary)
    assert evaluator.result() == metrics.evaluate(truth, whole, at=1)
    assert evaluator.result()["coverage@1"] == 0.5


@pytest.mark.parametrize("p", [[0.5], [0.5, 0.0], [0.5, 1.5], [0.5, np.nan], [[0.5, 0.5]], [[1], [2, 3]], ["a", "b"]])
def test_propensities_are_checked(p: Any) -> None:
    with raises(DataError, "propensities"):
        metrics.psp([[1]], top_of([1]), p, at=1)
    with raises(DataError, "propensities"):
        metrics.evaluate([[1]], top_of([1]), 1, p)
