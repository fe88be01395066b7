"""Data whose right answer is known: every label has words of its own, so a row's labels are plain to see."""

import functools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Known:
    """Dense features and, for each row, the set of its labels."""

    X: np.ndarray  # (n, d) float32
    labels: list[list[int]]
    n_labels: int

    @property
    def Y(self) -> np.ndarray:
        """The labels as a dense 0/1 matrix, (n, n_labels) float32."""
        Y = np.zeros((len(self.X), self.n_labels), np.float32)
        for row, ids in enumerate(self.labels):
            Y[row, ids] = 1
        return Y


def known(n_labels: int = 12, rows_per_label: int = 6, seed: int = 0, most: int = 3, wrong: float = 0) -> Known:
    """Label l owns features 2l and 2l + 1; a row has one to ``most`` labels, their features and common noise.

    Small multiples of a quarter are used for values, so that sums don't depend on their order. The share of labels that
    is ``wrong`` is any others, which nothing says.
    """
    X, labels = _drawn(n_labels, rows_per_label, seed, most)
    if wrong:
        random = np.random.default_rng(seed)
        drawn = [[int(random.integers(n_labels)) if random.random() < wrong else id_ for id_ in ids] for ids in labels]
        labels = [sorted({*ids}) for ids in drawn]
    return Known(X.copy(), [list(ids) for ids in labels], n_labels)


@functools.cache
def _drawn(n_labels: int, rows_per_label: int, seed: int, most: int) -> tuple[np.ndarray, list[list[int]]]:
    random = np.random.default_rng(seed)
    n, n_common = n_labels * rows_per_label, 5
    X = np.zeros((n, 2 * n_labels + n_common), np.float32)
    labels = []
    for row in range(n):
        others = random.permutation(n_labels)[: random.integers(0, most)]
        ids = sorted({row % n_labels, *(int(label) for label in others)})
        labels.append(ids)
        for label in ids:
            X[row, [2 * label, 2 * label + 1]] = random.integers(3, 6, 2) / 4
        X[row, 2 * n_labels + random.integers(0, n_common, 2)] = 0.25
    return X, labels


def questions(data: Known) -> tuple[np.ndarray, np.ndarray]:
    """One unseen row a label that holds that label's features alone, and the label."""
    X = np.zeros((data.n_labels, data.X.shape[1]), np.float32)
    for label in range(data.n_labels):
        X[label, [2 * label, 2 * label + 1]] = 1
    return X, np.arange(data.n_labels)
