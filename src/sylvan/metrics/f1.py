"""F1: precision and recall in one number, of the first k answers and of sets of labels of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.arrays.topk import TopK
from sylvan.metrics import tallies
from sylvan.metrics.evaluator import At, add_rows, need_rows, one_metric

_ALL = 2**31 - 1  # a k that no ranking reaches


def f1(Y: Any, top: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """F1@k: the harmonic mean of precision and recall of a row's first k answers; mean over rows.

    ``F1@k = (1/n) sum_i 2 |top_k(i) ∩ Y_i| / (|top_k(i)| + |Y_i|)``. Only answers that there are count, so that a row
    with fewer than k isn't at a disadvantage. It is the sample-based F1: scikit-learn's
    ``f1_score(average="samples")`` of an indicator of the first k answers, and Annif's ``F1@5``. Parameters, result
    and errors as in :func:`precision`.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2, 0], [1, 3]], np.int32), np.array([[0.9, 0.4], [0.7, 0.1]], np.float32))
    >>> metrics.f1([[0, 1], [1]], top, at=(1, 2))
    {1: 0.5, 2: 0.5833333333333333}
    """
    return one_metric(tallies.F1, Y, top, at)


def micro_f1(Y: Any, top: Any, at: At = (1, 3, 5)) -> dict[int, float]:
    """Micro-F1@k: the F1 of all pairs of a row and one of its first k answers together.

    ``2 sum_i |top_k(i) ∩ Y_i| / sum_i (|top_k(i)| + |Y_i|)``: every pair counts the same, so rows with many labels
    count for more. Parameters, result and errors as in :func:`precision`.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[2, 0], [1, 3]], np.int32), np.array([[0.9, 0.4], [0.7, 0.1]], np.float32))
    >>> metrics.micro_f1([[0, 1], [1]], top, at=1)
    {1: 0.4}
    """
    return one_metric(tallies.MicroF1, Y, top, at)


class SetF1:
    """Three kinds of F1 of label sets of any size, over as many batches of rows as there are.

    Parameters
    ----------
    n_labels : int
        How many labels there are: the macro F1 is a mean over all of them.

    Examples
    --------
    >>> from sylvan import metrics
    >>> from scipy.sparse import csr_matrix
    >>> measured = metrics.SetF1(n_labels=2)
    >>> measured.add(csr_matrix([[1, 0]]), csr_matrix([[1, 1]]))
    >>> measured.add(csr_matrix([[0, 1]]), csr_matrix([[0, 1]]))
    >>> {name: round(value, 3) for name, value in measured.result().items()}
    {'labels': 1.5, 'F1': 0.833, 'micro-F1': 0.8, 'macro-F1': 0.833}
    """

    def __init__(self, n_labels: int = 0) -> None:
        self._rows, self._pairs, self._labels = tallies.F1((_ALL,)), tallies.MicroF1((_ALL,)), tallies.MacroF1((_ALL,))
        self._labels.reserve(n_labels)

    def add(self, Y: Any, answers: Any) -> None:
        """Count a batch of rows in; arguments and errors as in :func:`set_f1`."""
        if isinstance(answers, TopK) and answers.k == 0:  # no row was given any label
            answers = TopK(np.full((len(answers), 1), -1, np.int32), np.full((len(answers), 1), -np.inf, np.float32))
        width = answers.k if isinstance(answers, TopK) else 1
        if sp.issparse(answers):
            sparse: Any = answers
            width = max(1, int(np.diff(sparse.tocsr().indptr).max(initial=0)))
        add_rows([self._rows, self._pairs, self._labels], Y, answers, width)

    def result(self) -> dict[str, float]:
        """What :func:`set_f1` returns, of all rows so far."""
        need_rows(self._rows.n_rows)
        named = int(self._labels.named.sum())
        kinds = {"F1": self._rows, "micro-F1": self._pairs, "macro-F1": self._labels}
        return {"labels": named / self._rows.n_rows, **{name: tally.result()[_ALL] for name, tally in kinds.items()}}


def set_f1(Y: Any, answers: Any) -> dict[str, float]:
    """F1 of the label sets that a threshold or another rule has chosen, such as those of ``predict`` or ``choose``.

    Parameters
    ----------
    Y : CSR, lists of label ids or class ids, shape (n, L)
        The true labels. Rows without one are skipped.
    answers : sparse matrix of shape (n, L), or TopK of shape (n, k)
        All stored entries, or all labels, are answers; a row may have none.

    Returns
    -------
    dict of str to float
        ``"labels"``, the mean number of answers a row; ``"F1"``, the mean of the rows' F1 (scikit-learn's "samples",
        which Annif shows first); ``"micro-F1"``, that of all pairs of row and label together; ``"macro-F1"``, the mean
        of the labels' F1 over all L labels, 0 for one that is neither answered nor true.

    Raises
    ------
    DataError
        As in :func:`precision`.

    Examples
    --------
    >>> from sylvan import metrics
    >>> from scipy.sparse import csr_matrix
    >>> found = metrics.set_f1(csr_matrix([[1, 0, 0], [1, 0, 1]]), csr_matrix([[1, 1, 0], [1, 0, 1]]))
    >>> {name: round(value, 3) for name, value in found.items()}
    {'labels': 2.0, 'F1': 0.833, 'micro-F1': 0.857, 'macro-F1': 0.667}
    """
    measured = SetF1()
    measured.add(Y, answers)
    return measured.result()
