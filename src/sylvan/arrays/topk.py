"""TopK: the result of every ranking."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.errors import DataError
from sylvan.params.fields import Choice, check_value

Library = Literal["pandas", "polars", "arrow"]
LIBRARIES: dict[Library, str] = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}  # their packages
_COLUMNS = ("row", "rank", "label", "score")
_Self = TypeVar("_Self", bound="TopK")
_Name = TypeVar("_Name")
_TopK = TypeVar("_TopK", bound="TopK")


def best_columns(values: npt.NDArray[np.float32], m: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """The columns of the ``m`` largest values of each row and these, largest first, lower column among equals."""
    shape = (len(values), min(m, values.shape[1]))
    columns, largest = np.empty(shape, np.int32), np.empty(shape, np.float32)
    kernels.best_columns(np.ascontiguousarray(values, np.float32), columns, largest)
    return columns, largest


class LabelNames(list[list[Any]]):
    """What each row's labels are called, best first; called with a vocabulary, what they are called there."""

    def __init__(self, labels: npt.NDArray[np.int32], name_of: Callable[[int], Any]) -> None:
        super().__init__(names_by_row(labels, name_of))
        self._labels = labels

    def __call__(self, vocabulary: Sequence[str]) -> list[list[str]]:
        """The labels of each row as ``vocabulary[label]``; answers of -1 are skipped."""
        return names_by_row(self._labels, vocabulary.__getitem__)


@dataclass(frozen=True)
class TopK:
    """The best labels of each row, best first.

    Attributes
    ----------
    labels : ndarray of int32, shape (n, k)
        Label ids; a row with fewer than k answers ends in -1.
    scores : ndarray of float32, shape (n, k)
        Their scores, in decreasing order; -inf where the label is -1.
    names : list of list
        What each row's labels are called, best first, without the answers of -1: their ids, or where labels have names
        these. ``names(vocabulary)`` calls them ``vocabulary[label]``.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import TopK
    >>> top = TopK(np.array([[2, 0]], np.int32), np.array([[0.75, 0.5]], np.float32))
    >>> top.to_csr(3).toarray().tolist()
    [[0.5, 0.0, 0.75]]
    >>> top.names, top.names(["Baking", "Voyages", "Whaling"])
    ([[2, 0]], [['Whaling', 'Baking']])
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

    def of_rows(self: _Self, rows: slice | npt.NDArray[Any]) -> _Self:
        """The answers of some rows: a slice, their numbers, or a mask."""
        return replace(self, labels=self.labels[rows], scores=self.scores[rows])

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

    @cached_property
    def names(self) -> LabelNames:
        """What each row's labels are called: their ids; called with a vocabulary, ``vocabulary[label]``."""
        return LabelNames(self.labels, int)

    def to_frame(self, library: Library = "pandas", *, rows: Any = None, names: Sequence[str] | None = None) -> Any:
        """A data frame with a line for each answer, by row and then by rank; answers of -1 are skipped.

        Parameters
        ----------
        library : {"pandas", "polars", "arrow"}, default "pandas"
            Whose frame: a ``pandas.DataFrame``, a ``polars.DataFrame`` or a ``pyarrow.Table``.
        rows : sequence of length n, optional
            What rows are called, such as a frame's index or a column of ids; by default their numbers.
        names : sequence of str, optional
            What labels are called, ``names[label]``; by default their ids. Rankings that have names know them.

        Returns
        -------
        data frame
            With the columns ``row``, ``rank`` (int32, from 1), ``label`` and ``score`` (float32).

        Raises
        ------
        ParameterError
            For another library.
        ImportError
            When it isn't installed.
        DataError
            When ``rows`` isn't one value for each row.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import TopK
        >>> top = TopK(np.array([[2, 0], [1, -1]], np.int32), np.array([[0.75, 0.5], [1, -np.inf]], np.float32))
        >>> top.to_frame("arrow", rows=["a", "b"]).to_pylist()[2]
        {'row': 'b', 'rank': 1, 'label': 1, 'score': 1.0}
        """
        check_value("library", library, Choice(LIBRARIES), "to_frame")
        package = LIBRARIES[library]
        try:
            module = importlib.import_module(package)
        except ImportError as error:
            raise ImportError(
                f"to_frame({library!r}) needs {package}. Install it with: pip install {package}"
            ) from error
        answered = self.labels >= 0
        places, ranks = np.nonzero(answered)
        row_of: Any = places
        if rows is not None:
            listed = rows.tolist() if hasattr(rows, "tolist") else list(rows)
            if len(listed) != len(self):
                raise DataError(
                    f"The 'rows' of to_frame must name each of the {len(self)} rows. Got {len(listed)} instead."
                )
            row_of = [listed[place] for place in places.tolist()]
        labels: Any = self.labels[answered]
        if names is not None:  # each is decoded once
            name_of = {label: names[label] for label in np.unique(labels).tolist()}
            labels = [name_of[label] for label in labels.tolist()]
        columns = row_of, (ranks + 1).astype(np.int32), labels, self.scores[answered]
        table = dict(zip(_COLUMNS, columns, strict=True))
        return module.table(table) if library == "arrow" else module.DataFrame(table)


def names_by_row(labels: npt.NDArray[np.int32], name_of: Callable[[int], _Name]) -> list[list[_Name]]:
    """What ``name_of`` calls the labels of each row; answers of -1 are skipped."""
    return [[name_of(label) for label in row if label >= 0] for row in labels.tolist()]


def answers_of(top: _TopK, rows: npt.NDArray[np.bool_]) -> _TopK:
    """A ranking with the answers of some rows, by a mask; the others have none."""
    if all(rows.tolist()):  # of one row, a tenth of the time of rows.all()
        return top
    labels = np.where(rows[:, None], top.labels, np.int32(-1))
    return replace(top, labels=labels, scores=np.where(rows[:, None], top.scores, np.float32(-np.inf)))


def keep(top: TopK, chosen: npt.NDArray[np.bool_]) -> TopK:
    """The chosen answers alone, in their order, as wide as the longest row asks."""
    width = int(chosen.sum(axis=1).max(initial=0))
    order = np.argsort(~chosen, axis=1, kind="stable")[:, :width]
    chosen_in_order = np.take_along_axis(chosen, order, axis=1)
    labels = np.where(chosen_in_order, np.take_along_axis(top.labels, order, axis=1), np.int32(-1))
    scores = np.where(chosen_in_order, np.take_along_axis(top.scores, order, axis=1), np.float32(-np.inf))
    return TopK(labels, scores)


def ranking_order(labels: npt.NDArray[np.int32], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The places of each row's labels from the highest score down; among equal scores the lower label, -1 last."""
    lasts = np.where(labels >= 0, labels, np.iinfo(np.int32).max)
    order: npt.NDArray[np.int64] = np.lexsort((lasts, -scores), axis=1)
    return order


def resized(top: _Self, k: int) -> _Self:
    """The first ``k`` answers of each row; -1 behind fewer."""
    n, width = len(top.labels), min(k, top.k)
    labels, scores = np.full((n, k), -1, np.int32), np.full((n, k), -np.inf, np.float32)
    labels[:, :width], scores[:, :width] = top.labels[:, :width], top.scores[:, :width]
    return replace(top, labels=labels, scores=scores)
