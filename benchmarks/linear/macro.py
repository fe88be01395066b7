"""The k labels of every row that together are best for all labels alike: macro-averaged measures at k."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError

__all__ = ["MEASURES", "Measure", "expected_macro", "select_macro"]

Floats = npt.NDArray[np.float64]


def _precision(right: Floats, named: Floats, true: Floats) -> Floats:
    return np.divide(right, named, out=np.zeros_like(right), where=named > 0)


def _recall(right: Floats, named: Floats, true: Floats) -> Floats:
    return np.divide(right, true, out=np.zeros_like(right), where=true > 0)


def _f1(right: Floats, named: Floats, true: Floats) -> Floats:
    return np.divide(2 * right, named + true, out=np.zeros_like(right), where=named + true > 0)


Measure = Literal["precision", "recall", "f1"]
MEASURES: dict[Measure, Callable[[Floats, Floats, Floats], Floats]] = {
    "precision": _precision,
    "recall": _recall,
    "f1": _f1,
}


def expected_macro(probabilities: sp.csr_matrix, top: TopK, measure: Measure = "f1") -> float:
    """What the answers ``top`` make of a measure's sum over labels, with expected counts in place of true ones.

    Parameters
    ----------
    probabilities : csr_matrix of shape (n, L)
    top : TopK of shape (n, k)
    measure : {"f1", "precision", "recall"}

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from sylvan import TopK
    >>> from benchmarks.linear.macro import expected_macro
    >>> probabilities = sp.csr_matrix(np.array([[0.75, 0.25], [0.75, 0.0]]))
    >>> top = TopK(np.array([[1], [0]], np.int32), np.ones((2, 1), np.float32))
    >>> expected_macro(probabilities, top, "recall")
    1.5
    """
    named = TopK(top.labels, np.ones_like(top.scores)).to_csr(probabilities.shape[1])
    sums = (matrix.sum(axis=0) for matrix in (named.multiply(probabilities), named, probabilities))
    right, names, true = (np.asarray(counts, np.float64).ravel() for counts in sums)
    return float(MEASURES[measure](right, names, true).sum())


def select_macro(
    probabilities: Any, k: int, measure: Measure = "f1", *, max_passes: int = 20, tolerance: float = 1e-4
) -> TopK:
    """The ``k`` labels of each row that together make a macro-averaged measure greatest, in expectation.

    A row's labels are chosen in view of what the other rows are given: a label that no row was given yet gains more
    than one that hundreds have. So the rows of a test set are chosen for together, and the answer for a row depends
    on the others.

    Parameters
    ----------
    probabilities : csr_matrix of shape (n, L), or TopK of shape (n, candidates)
        Each row's candidates, such as what ``predict_proba(X, k=100)`` gives; better calibrated, better chosen.
    k : int
        Labels a row; fewer where there are fewer candidates.
    measure : {"f1", "precision", "recall"}
    max_passes : int
        Most rounds over the rows.
    tolerance : float
        A round that gains less than this share of the objective is the last.

    Returns
    -------
    TopK of shape (n, k)
        Best first; scores are what each label adds to the sum over all labels, given everything else.

    Raises
    ------
    DataError
        When a probability isn't in [0, 1].

    Notes
    -----
    Block coordinate ascent on the expected test utility, after Schultheis, Wydmuch, Kotłowski, Babbar & Dembczyński
    (2023), "Generalized test utilities for long-tail performance in extreme multi-label classification", NeurIPS,
    Section 5: start from the most probable labels; take row after row out of the counts and give it the k labels of
    highest gain. Rows are visited in their order, so the answer is the same every time, and the objective never falls.
    For recall, which is a sum over rows, this is the optimum; for the others a local one. Where answers must not
    depend on each other, ``rank(X, k, tail="macro_recall")`` weighs labels one by one.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from benchmarks.linear.macro import select_macro
    >>> probabilities = sp.csr_matrix(np.array([[0.75, 0.25], [0.75, 0.0]]))
    >>> select_macro(probabilities, k=1).labels.tolist()
    [[1], [0]]
    """
    chances = _checked(probabilities)
    search = _Ascent(chances, k, MEASURES[measure])
    for _ in range(max_passes):
        before = search.objective()
        search.visit_all()
        if search.objective() - before <= tolerance * before:
            break
    return search.answer()


def _checked(probabilities: Any) -> validate.Csr:
    """The candidates by row, rising by label."""
    if isinstance(probabilities, TopK):
        highest = int(probabilities.labels.max(initial=0))
        probabilities = probabilities.to_csr(highest + 1)
    chances = validate.features(probabilities, name="probabilities")
    if chances.nnz and not 0 <= float(chances.data.min()) <= float(chances.data.max()) <= 1:
        raise DataError(
            f"probabilities must be in [0, 1]. Got values from {chances.data.min()} to {chances.data.max()} instead."
        )
    return chances


class _Ascent:
    """What every row is given, and the counts that follow from it."""

    def __init__(self, chances: validate.Csr, k: int, measure: Callable[[Floats, Floats, Floats], Floats]) -> None:
        n_labels = chances.shape[1]
        self.chances, self.k, self.measure = chances, k, measure
        self.true: Floats = np.bincount(chances.indices, chances.data, n_labels).astype(np.float64)
        self.right: Floats = np.zeros(n_labels)
        self.named: Floats = np.zeros(n_labels)
        self.given = [np.zeros(0, np.int64)] * chances.shape[0]  # places among the row's candidates, best first
        for row in range(chances.shape[0]):
            labels, chance = self._candidates(row)
            self._give(row, labels, chance, np.argsort(-chance, kind="stable")[:k])

    def objective(self) -> float:
        """The sum of the measure over all labels."""
        return float(self.measure(self.right, self.named, self.true).sum())

    def visit_all(self) -> None:
        """Take each row out of the counts, and give it what then gains most."""
        for row in range(self.chances.shape[0]):
            labels, chance = self._candidates(row)
            self._take_back(row, labels, chance)
            self._give(row, labels, chance, np.argsort(-self._gains(labels, chance), kind="stable")[: self.k])

    def answer(self) -> TopK:
        """What every row is given, by what it adds."""
        shape = (self.chances.shape[0], self.k)
        top = TopK(np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
        for row in range(shape[0]):
            labels, chance = self._candidates(row)
            given = self.given[row]
            self._take_back(row, labels, chance)
            gains = self._gains(labels, chance)[given]
            self._give(row, labels, chance, given)
            order = np.lexsort((labels[given], -gains))
            top.labels[row, : len(order)], top.scores[row, : len(order)] = labels[given][order], gains[order]
        return top

    def _candidates(self, row: int) -> tuple[npt.NDArray[np.int32], Floats]:
        at = slice(int(self.chances.indptr[row]), int(self.chances.indptr[row + 1]))
        return self.chances.indices[at], self.chances.data[at].astype(np.float64)

    def _gains(self, labels: npt.NDArray[np.int32], chance: Floats) -> Floats:
        right, named, true = (counts[labels] for counts in (self.right, self.named, self.true))
        return self.measure(right + chance, named + 1.0, true) - self.measure(right, named, true)

    def _give(self, row: int, labels: npt.NDArray[np.int32], chance: Floats, places: npt.NDArray[np.int64]) -> None:
        self.given[row] = places
        self.right[labels[places]] += chance[places]
        self.named[labels[places]] += 1

    def _take_back(self, row: int, labels: npt.NDArray[np.int32], chance: Floats) -> None:
        places = self.given[row]
        self.right[labels[places]] -= chance[places]
        self.named[labels[places]] -= 1
