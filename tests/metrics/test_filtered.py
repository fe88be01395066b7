"""Answers filtered from a ranking: the same as a slow filter of lists."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import metrics
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 6))
def test_as_a_filter_of_lists(seed, n, k):
    rng = np.random.default_rng(seed)
    labels = np.array([rng.permutation(8)[:k] for _ in range(n)], np.int32)
    labels[rng.random((n, k)) < 0.1] = -1
    scores = np.where(labels >= 0, rng.random((n, k)), -np.inf).astype(np.float32)
    pairs = sp.csr_matrix(rng.random((n, 7)) < 0.4)
    got = metrics.filter_answers(TopK(labels, scores), pairs)
    for row in range(n):
        left = [
            (label, score)
            for label, score in zip(labels[row].tolist(), scores[row].tolist(), strict=True)
            if label < 0 or label >= 7 or not pairs[row, label]
        ]
        padded = left + [(-1, -np.inf)] * (k - len(left))
        assert list(zip(got.labels[row].tolist(), got.scores[row].tolist(), strict=True)) == padded


def test_faults():
    top = TopK(np.zeros((2, 1), np.int32), np.zeros((2, 1), np.float32))
    with raises(DataError, "row", 1, 2):
        metrics.filter_answers(top, sp.csr_matrix((1, 3)))
    with raises(DataError, "list"):
        metrics.filter_answers(top, [[0]])
