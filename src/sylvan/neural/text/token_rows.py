"""Tokenised texts as three flat arrays: cheap to store, to cut into batches and to pickle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import DataError


@dataclass(frozen=True, eq=False)
class TokenRows:
    """n texts as the ids of their tokens, text after text.

    Attributes
    ----------
    ids : ndarray of int32, shape (nnz,)
    offsets : ndarray of int64, shape (n + 1,)
        Where each text's ids begin, and where the last one's end.
    values : ndarray of float32, shape (nnz,), optional
        What each id counts, where texts are bags of features.

    Examples
    --------
    >>> from sylvan.neural import TokenRows
    >>> rows = TokenRows.from_lists([[4, 7, 5], [4, 5]])
    >>> len(rows), rows.lengths.tolist(), rows.take([1, 0]).ids.tolist()
    (2, [3, 2], [4, 5, 4, 7, 5])
    """

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", np.ascontiguousarray(self.ids, dtype=np.int32))
        object.__setattr__(self, "offsets", np.ascontiguousarray(self.offsets, dtype=np.int64))
        if self.values is not None:
            object.__setattr__(self, "values", np.ascontiguousarray(self.values, dtype=np.float32))
        ends = self.offsets
        fits = ends.ndim == 1 and len(ends) > 0 and ends[0] == 0 and self.ids.shape == (ends[-1],)
        if not fits or (np.diff(ends) < 0).any() or (self.values is not None and self.values.shape != self.ids.shape):
            raise DataError(
                "TokenRows needs ids of the shape (nnz,), offsets that rise from 0 to nnz and, if any, values of the "
                f"shape (nnz,). Got {self.ids.shape} ids and {self.offsets.shape} offsets instead."
            )

    @classmethod
    def from_lists(cls, lists: Sequence[Sequence[int]]) -> TokenRows:
        """Rows of one list of ids a text."""
        offsets = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum([len(ids) for ids in lists], out=offsets[1:])
        ids = np.fromiter(chain.from_iterable(lists), dtype=np.int32, count=int(offsets[-1]))
        return cls(ids, offsets)

    @classmethod
    def join(cls, parts: Sequence[TokenRows]) -> TokenRows:
        """The rows of all parts, one after the other."""
        if not parts:
            return cls(np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64))
        starts = np.cumsum([0, *(len(part.ids) for part in parts)])
        offsets = [part.offsets[:-1] + start for part, start in zip(parts, starts, strict=False)]
        values = [part.values for part in parts if part.values is not None]
        if values and len(values) < len(parts):
            raise DataError("TokenRows with values can't be joined with some that have none.")
        ids = np.concatenate([part.ids for part in parts])
        return cls(ids, np.concatenate([*offsets, starts[-1:]]), np.concatenate(values) if values else None)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of ids of each text, shape (n,)."""
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.ids.nbytes + self.offsets.nbytes + (0 if self.values is None else self.values.nbytes)

    def take(self, rows: Any) -> TokenRows:
        """Some of the texts, in the order asked for.

        Parameters
        ----------
        rows : array of int, shape (m,)
            Each from 0 to n - 1; a row may be named several times.

        Returns
        -------
        TokenRows
            m texts.
        """
        chosen = np.asarray(rows, dtype=np.int64).reshape(-1)
        lengths = self.lengths[chosen]
        offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # Place of each id in the new rows, moved to where its row begins in the old ones.
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths)
        return TokenRows(self.ids[places], offsets, None if self.values is None else self.values[places])

    def dense(self, padding: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The ids as a matrix padded on the right, and a mask that is 1 at ids and 0 at padding.

        Parameters
        ----------
        padding : int
            What stands after the end of a shorter text.

        Returns
        -------
        (ids, mask) : ndarrays of int64, shape (n, longest length)
        """
        lengths = self.lengths
        width = int(lengths.max()) if len(lengths) else 0
        mask = np.arange(width) < lengths[:, None]
        ids = np.full(mask.shape, padding, dtype=np.int64)
        ids[mask] = self.ids
        return ids, mask.astype(np.int64)
