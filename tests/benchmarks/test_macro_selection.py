"""Labels chosen for all rows together: the best that a change of single rows reaches, from any probabilities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises
from kit.known import known
from reference import linear_reference as reference

from benchmarks.linear.macro import MEASURES, expected_macro, select_macro
from sylvan import NeighborRanker, TopK, metrics
from sylvan.errors import DataError

DATA = known(n_labels=9, rows_per_label=7)
RARE = DATA.Y * (np.arange(len(DATA.X))[:, None] % (1 + np.arange(9)) == 0)  # label l in every (l + 1)th of its rows


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.tuples(*[st.integers(1, 4)] * 3), st.sampled_from(sorted(MEASURES)))
def test_macro_selection_is_the_best_that_row_by_row_gives(
    seed: int, shape: tuple[int, int, int], measure: str
) -> None:
    n, n_labels, k = shape
    random = np.random.default_rng(seed)
    chances = (random.integers(1, 64, (n, n_labels)) / 64).astype(np.float32)
    probabilities = sp.csr_matrix(chances)
    top = select_macro(probabilities, k, measure, tolerance=0)
    k = min(k, n_labels)
    assert ((top.labels >= 0).sum(axis=1) == k).all()
    reached, best = expected_macro(probabilities, top, measure), reference.best_macro(chances, k, measure)
    order = np.argsort(-chances, axis=1, kind="stable")[:, :k].astype(np.int32)
    plain = expected_macro(probabilities, TopK(order, np.ones(order.shape, np.float32)), measure)
    assert plain - 1e-6 <= reached <= best + 1e-6
    if measure == "recall":
        assert reached == pytest.approx(best, rel=1e-6)
    for row, labels in itertools.product(range(n), itertools.combinations(range(n_labels), k)):
        other = TopK(top.labels[:, :k].copy(), top.scores[:, :k])
        other.labels[row] = labels
        assert expected_macro(probabilities, other, measure) <= reached + 1e-5, "no one row can do better"


def test_macro_selection_takes_what_rank_and_predict_proba_give() -> None:
    model = NeighborRanker(n_neighbors=8).fit(DATA.X, RARE)
    top = model.rank(DATA.X, k=9)
    first, second = select_macro(top, 3), select_macro(model.predict_proba(DATA.X), 3)
    assert (first.labels == second.labels).all() and (first.scores == second.scores).all()
    filled = np.where(first.labels >= 0, first.scores, -np.inf)
    assert (filled[:, :-1] >= filled[:, 1:]).all()
    assert metrics.coverage(RARE, first, at=3)[3] >= metrics.coverage(RARE, top, at=3)[3]


def test_macro_selection_of_rows_without_candidates() -> None:
    top = select_macro(sp.csr_matrix((2, 3), dtype=np.float32), 2)
    assert top.labels.tolist() == [[-1, -1], [-1, -1]]


def test_chances_above_1_are_refused() -> None:
    with raises(DataError, "[0, 1]", "1.0", "2.0"):
        select_macro(sp.csr_matrix(np.diag([1.0, 2.0])), 1)
