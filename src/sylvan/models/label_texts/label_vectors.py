"""A text encoder's vectors of labels' texts, and of the rows that show what their cosines are worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store

_Vectors = npt.NDArray[np.float16]


@dataclass(frozen=True, eq=False)
class LabelVectors:
    """Vectors of length 1, in half precision."""

    labels: _Vectors  # shape (n_labels, dim): of each label's text; zeros where it has none
    # shape (m,): the ids of the training rows that the curve is fitted to, rising; none in a model that keeps no rows,
    # whose curve stays as it is
    judged: npt.NDArray[np.int64]
    rows: _Vectors  # shape (m, dim): of these rows' texts

    @classmethod
    def empty(cls, n_labels: int, judged: npt.NDArray[np.int64], rows: _Vectors) -> LabelVectors:
        """Of labels without texts."""
        return cls(np.zeros((n_labels, rows.shape[1]), np.float16), judged, rows)

    def grown(self, n_labels: int) -> LabelVectors:
        """With more labels, without texts."""
        more = np.zeros((n_labels - len(self.labels), self.labels.shape[1]), np.float16)
        return replace(self, labels=np.concatenate((self.labels, more)))

    def with_labels(self, labels: npt.NDArray[Any], vectors: npt.NDArray[Any] | None) -> LabelVectors:
        """With other vectors for some labels, or with none."""
        changed = self.labels.copy()
        changed[labels] = 0 if vectors is None else vectors
        return replace(self, labels=changed)

    def left_with(self, ids: npt.NDArray[np.int64]) -> LabelVectors:
        """When other training rows are forgotten."""
        there = np.isin(self.judged, ids)
        return replace(self, judged=self.judged[there], rows=self.rows[there])

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays to store."""
        return {"vectors.labels": self.labels, "vectors.judged": self.judged, "vectors.rows": self.rows}

    @classmethod
    def from_state(cls, state: store.State, n_labels: int) -> LabelVectors | None:
        """From what :meth:`to_arrays` gave, verified; None where there is nothing."""
        if "vectors.labels" not in state.arrays:
            return None
        labels = store.need_array(state, "vectors.labels", np.float16, (n_labels, None))
        judged = store.need_rising(state, "vectors.judged", 0, 2**62, np.int64)
        rows = store.need_array(state, "vectors.rows", np.float16, (len(judged), labels.shape[1]))
        for name in ("vectors.labels", "vectors.rows"):
            store.need_finite(state, name)
        return cls(labels, judged, rows)
