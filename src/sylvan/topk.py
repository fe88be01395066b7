"""TopK: the result of every ranking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.errors import DataError

__all__ = ["TopK"]


@dataclass(frozen=True)
class TopK:
    """The best labels of each row, best first.

    Attributes
    ----------
    labels : ndarray of int32, shape (n, k)
        Label ids; a row with fewer than k answers ends in -1.
    scores : ndarray of float32, shape (n, k)
        Their scores, in decreasing order; -inf where the label is -1.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import TopK
    >>> top = TopK(np.array([[2, 0]], np.int32), np.array([[0.75, 0.5]], np.float32))
    >>> top.to_csr(3).toarray().tolist()
    [[0.5, 0.0, 0.75]]
    """

    labels: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.labels.ndim != 2 or self.labels.shape != self.scores.shape:
            raise DataError(
                "TopK needs labels and scores of one shape (n, k). "
                f"Got {self.labels.shape} and {self.scores.shape} instead."
            )

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def __iter__(self) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]]:
        return iter(zip(self.labels, self.scores, strict=True))

    @property
    def k(self) -> int:
        """Number of answers per row."""
        return int(self.labels.shape[1])

    def to_csr(self, n_labels: int) -> sp.csr_matrix:
        """The scores as a float32 CSR matrix of shape (n, n_labels); answers of -1 are skipped.

        Raises
        ------
        DataError
            When a label id is not below ``n_labels``.
        """
        if self.labels.size and int(self.labels.max()) >= n_labels:
            raise DataError(f"TopK holds label {int(self.labels.max())}, but n_labels is {n_labels}.")
        present = self.labels >= 0
        indptr = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int64)
        matrix = sp.csr_matrix(
            (self.scores[present], self.labels[present], indptr), shape=(len(self), n_labels), dtype=np.float32
        )
        matrix.sort_indices()
        return matrix

    def names(self, vocabulary: Sequence[str]) -> list[list[str]]:
        """The labels of each row as names, ``vocabulary[label]``; answers of -1 are skipped."""
        return [[vocabulary[label] for label in row if label >= 0] for row in self.labels.tolist()]
