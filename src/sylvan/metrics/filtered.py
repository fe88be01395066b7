"""Answers that don't count, taken out before a ranking is cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.arrays.topk import TopK
from sylvan.errors import DataError
from sylvan.params.wording import counted


def filter_answers(top: TopK, pairs: Any) -> TopK:
    """A ranking without the answers of some (row, label) pairs; those below them move up.

    So that k answers are left, rank more than k: by as many as a row of ``pairs`` has entries at most.

    Parameters
    ----------
    top : TopK of shape (n, k)
    pairs : sparse matrix, shape (n, n_labels)
        Its stored entries are the pairs, as :func:`sylvan.data.load_filter_labels` reads them. The true labels stay as
        they are, as in the repository's own evaluations.

    Returns
    -------
    TopK of shape (n, k)
        Rows that lost answers end in -1.

    Raises
    ------
    DataError
        When ``pairs`` is no sparse matrix or has another number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2, 0, 1]], np.int32), np.array([[0.9, 0.4, 0.1]], np.float32))
    >>> metrics.filter_answers(top, sp.csr_matrix([[0, 0, 1]])).labels.tolist()
    [[0, 1, -1]]
    """
    if not sp.issparse(pairs):
        raise DataError(f"The pairs to filter must be a sparse matrix. Got {type(pairs).__name__} instead.")
    given: Any = pairs
    matrix = given.tocsr()
    if matrix.shape[0] != len(top):
        raise DataError(f"The pairs to filter have {counted(matrix.shape[0], 'row')}, but the answers {len(top)}.")
    width = np.int64(max(matrix.shape[1], int(top.labels.max(initial=0)) + 1))
    rows = np.arange(len(top), dtype=np.int64)
    keys = np.repeat(rows, np.diff(matrix.indptr)) * width + matrix.indices
    counts = ~np.isin(rows[:, None] * width + top.labels, keys) | (top.labels < 0)
    order = np.argsort(~counts, axis=1, kind="stable")
    labels = np.where(counts, top.labels, np.int32(-1))
    scores = np.where(counts, top.scores, np.float32(-np.inf))
    return replace(top, labels=np.take_along_axis(labels, order, 1), scores=np.take_along_axis(scores, order, 1))
