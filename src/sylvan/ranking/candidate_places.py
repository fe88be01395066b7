"""Where labels stand among the candidates of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["CandidatePlaces", "entries_of"]

_Ids = npt.NDArray[np.int32]
_Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CandidatePlaces:
    """Finds labels among the candidates of rows.

    Attributes
    ----------
    keys : ndarray of int64, shape (n * k,)
        A number for the row and the label of each candidate, rising.
    order : ndarray of int64, shape (n * k,)
        Their places in the flattened array of candidates.
    n_labels : int
    """

    keys: _Places
    order: _Places
    n_labels: int

    @classmethod
    def of(cls, labels: _Ids, n_labels: int) -> CandidatePlaces:
        """Of candidates of shape (n, k), each once in a row; -1 where there is none."""
        keys = _keys(np.arange(len(labels))[:, None], labels, n_labels).ravel()
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], order, n_labels)

    def find(self, rows: npt.NDArray[np.integer], labels: _Ids) -> tuple[npt.NDArray[np.bool_], _Places]:
        """Which of some labels of rows, flat and -1 for none, are candidates there, and the flat places of these."""
        if not len(self.keys):
            return np.zeros(len(labels), bool), np.zeros(0, np.int64)
        wanted = _keys(rows, labels, self.n_labels)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        found = (self.keys[at] == wanted) & (labels >= 0)
        return found, self.order[at[found]]


def _keys(rows: npt.NDArray[np.integer], labels: _Ids, n_labels: int) -> _Places:
    keys: _Places = rows * np.int64(n_labels + 1) + labels + 1
    return keys


def entries_of(ids: _Ids, offsets: _Places) -> tuple[_Places, _Places]:
    """All that lists behind each other hold of some ids, -1 for none: whose each value is, and its place there."""
    there = ids >= 0
    starts = np.where(there, offsets[ids], 0)
    lengths = np.where(there, offsets[ids + 1] - starts, 0)
    whose = np.repeat(np.arange(len(ids)), lengths)
    return whose, np.arange(len(whose)) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
