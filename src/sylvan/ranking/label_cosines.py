"""Labels that are near rows by a text encoder's vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["LabelCosines", "Near"]

_Ids = npt.NDArray[np.int32]
_Vectors = npt.NDArray[np.floating[Any]]

BLOCK_COSINES = 1 << 23  # computed at once
TIED = 1e-6  # where a vector stands in a product decides on the last bits of its cosine: so near to another it is equal


class Near(NamedTuple):
    """Candidates of rows."""

    row: npt.NDArray[np.int64]  # shape (m,): rising
    place: _Ids  # shape (m,): of labels among those that are scored; rising in each row
    cosine: npt.NDArray[np.float32]  # shape (m,)
    # shape (n,): of each row, the mean of its highest cosines with any label, those below 0 counting as 0
    usual: npt.NDArray[np.float64]


class LabelCosines:
    """The cosines of rows with some labels."""

    def __init__(self, vectors: _Vectors, labels: _Ids, n_usual: int) -> None:
        # Shape: vectors (n_labels, dim)
        self._vectors = np.ascontiguousarray(vectors, np.float32)
        self._labels, self._n_usual = labels, n_usual

    def of(self, vector: _Vectors, label: int) -> float:
        """The cosine of one row with one label."""
        return float(np.asarray(vector, np.float32) @ self._vectors[label])

    def near(
        self, rows: _Vectors, places: _Ids, n: int, masks: list[npt.NDArray[np.bool_]] | None = None
    ) -> Near:
        """The ``n`` nearest labels of each row, with those that are as near as the last, beside its candidates."""
        # Shapes: rows (n_rows, dim); places (n_rows, c)
        rows = np.asarray(rows, np.float32)
        n_block = max(1, BLOCK_COSINES // max(1, len(self._vectors)))
        blocks, usual = [], np.zeros(len(rows))
        for first in range(0, len(rows), n_block):
            last = min(first + n_block, len(rows))
            every = rows[first:last] @ self._vectors.T
            n_usual = min(self._n_usual, every.shape[1])
            highest = np.partition(every, every.shape[1] - n_usual, axis=1)[:, every.shape[1] - n_usual :]
            usual[first:last] = np.maximum(highest, 0).sum(axis=1, dtype=np.float64) / self._n_usual
            own = every[:, self._labels]
            may = None if masks is None else np.stack(masks if len(masks) == 1 else masks[first:last])
            wanted = _nearest(own if may is None else np.where(may, own, -np.inf), n)
            row, at = np.nonzero(places[first:last] >= 0)
            wanted[row, places[first:last][row, at]] = True
            row, place = np.nonzero(wanted)
            blocks.append((row + first, place.astype(np.int32), own[row, place]))
        if not blocks:
            return Near(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), usual)
        rows_of, places_of, cosines = zip(*blocks, strict=True)
        return Near(np.concatenate(rows_of), np.concatenate(places_of), np.concatenate(cosines), usual)


def _nearest(cosines: npt.NDArray[np.float32], n: int) -> npt.NDArray[np.bool_]:
    """Flags of the ``n`` highest of each row, and of those equal to the last of them; none at or below 0."""
    if n < cosines.shape[1]:
        least = np.partition(cosines, cosines.shape[1] - n, axis=1)[:, cosines.shape[1] - n, None]
        wanted: npt.NDArray[np.bool_] = (cosines >= least - np.float32(TIED)) & (cosines > 0)
        return wanted
    return cosines > 0
