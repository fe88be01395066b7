"""How good a ranking is on frequent labels, on rare ones, and on those between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import DataError, ParameterError
from sylvan.metrics.evaluator import At, add_rows, ks, need_rows
from sylvan.metrics.rows import Block
from sylvan.metrics.tallies import Floats, RowTally
from sylvan.params.wording import counted

SLICES = ("head", "torso", "tail")


def slice_labels(counts: Any, thresholds: tuple[int, int] | None = None) -> npt.NDArray[np.int8]:
    """Each label's slice: 0 for the head, 1 for the torso, 2 for the tail.

    Parameters
    ----------
    counts : array of int, shape (L,)
        How many training rows have each label, such as a model's ``label_counts_``.
    thresholds : pair of int, optional
        Labels of at least the second many training rows are the head, those of fewer than the first the tail. By
        default the most frequent labels that together hold a third of the training positives are the head, the rarest
        that hold a third are the tail; each slice then weighs alike, and the tail has by far the most labels.

    Raises
    ------
    DataError
        When ``counts`` isn't one int from 0 a label.
    ParameterError
        When ``thresholds`` aren't two ints from 0, the first not above the second.

    Examples
    --------
    >>> from sylvan import metrics
    >>> metrics.slice_labels([1, 6, 3, 1, 1, 0]).tolist()
    [2, 0, 1, 2, 2, 2]
    >>> metrics.slice_labels([1, 6, 3, 1, 1, 0], thresholds=(1, 3)).tolist()
    [1, 0, 0, 1, 1, 2]
    """
    times = np.asarray(counts)
    if times.ndim != 1 or times.dtype.kind not in "iu" or (times.size and int(times.min()) < 0):
        raise DataError(f"counts must be one int from 0 a label. Got {times.dtype} of shape {times.shape} instead.")
    if thresholds is not None:
        low, high = _checked(thresholds)
        return np.where(times >= high, 0, np.where(times >= low, 1, 2)).astype(np.int8)
    order = np.argsort(-times.astype(np.int64), kind="stable")
    before = np.cumsum(times[order], dtype=np.int64) - times[order]
    result = np.full(times.size, 2, np.int8)
    result[order] = np.where(times[order] > 0, np.minimum(before * 3 // max(1, int(times.sum())), 2), 2)
    return result


def _checked(thresholds: Any) -> tuple[int, int]:
    pair = tuple(thresholds) if isinstance(thresholds, (tuple, list, np.ndarray)) else ()
    whole = all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in pair)
    if len(pair) != 2 or not whole or not 0 <= pair[0] <= pair[1]:
        raise ParameterError(
            "The 'thresholds' parameter of slices must be two ints from 0, the first not above the second. "
            f"Got {thresholds!r} instead."
        )
    return int(pair[0]), int(pair[1])


class _Slice(RowTally):
    """A measure of one slice's labels."""

    def __init__(self, at: tuple[int, ...], slice_of: npt.NDArray[np.int8], number: int) -> None:
        super().__init__(at)
        self.slice_of, self.number = slice_of, number

    def sizes_and_hits(self, block: Block) -> tuple[Floats, list[Floats]]:
        """How many true labels of the slice each row has, and how many of them are found at each k."""
        highest = int(block.truths.max(initial=-1))
        if highest >= len(self.slice_of):
            raise DataError(f"Y has label {highest}, but counts of {counted(len(self.slice_of), 'label')} were given.")
        inside = self.slice_of[block.truths] == self.number

        def per_row(chosen: npt.NDArray[np.bool_]) -> Floats:
            return np.bincount(block.row_of[chosen], minlength=len(block.sizes)).astype(np.float64)

        return per_row(inside), [per_row(inside & (block.positions < k)) for k in self.at]


class _Precision(_Slice):
    def rows(self, block: Block) -> Iterator[tuple[Floats, Floats]]:
        sizes, hits = self.sizes_and_hits(block)
        for k, result in zip(self.at, hits, strict=True):
            yield result / k, np.ones_like(sizes)


class _Recall(_Slice):
    def rows(self, block: Block) -> Iterator[tuple[Floats, Floats]]:
        sizes, hits = self.sizes_and_hits(block)
        for result in hits:
            yield result / np.maximum(sizes, 1), (sizes > 0).astype(np.float64)

    def result(self) -> dict[int, float]:
        return super().result() if self.possible[0] else dict.fromkeys(self.at, 0.0)


class Slices:
    """Precision and recall of head, torso and tail over as many batches of rows as there are.

    Parameters
    ----------
    counts : array of int, shape (L,)
        How many training rows have each label.
    at : int or sequence of int
        The k's.
    thresholds : pair of int, optional
        See :func:`slice_labels`.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> measured = metrics.Slices([5, 3, 1], at=1)
    >>> for label in (0, 2):
    ...     measured.add([[2]], TopK(np.array([[label]], np.int32), np.array([[0.5]], np.float32)))
    >>> measured.result()["tail"]
    {'labels': 1, 'rows': 2, 'P@1': 0.5, 'R@1': 0.5}
    """

    def __init__(self, counts: Any, at: At = (1, 3, 5), thresholds: tuple[int, int] | None = None) -> None:
        self._at, self._slice_of = ks(at), slice_labels(counts, thresholds)
        self._precisions = [_Precision(self._at, self._slice_of, number) for number in range(len(SLICES))]
        self._recalls = [_Recall(self._at, self._slice_of, number) for number in range(len(SLICES))]

    def add(self, Y: Any, top: Any) -> None:
        """Count a batch of rows in; arguments and errors as in :func:`precision`."""
        add_rows([*self._precisions, *self._recalls], Y, top, max(self._at))

    def result(self) -> dict[str, dict[str, float]]:
        """What :func:`slices` returns, of all rows so far."""
        need_rows(self._recalls[0].n_rows)
        results: dict[str, dict[str, float]] = {}
        for number, name in enumerate(SLICES):
            precisions, recalls = self._precisions[number], self._recalls[number]
            figures: dict[str, float] = {
                "labels": int(np.count_nonzero(self._slice_of == number)),
                "rows": int(recalls.possible[0]),
            }
            for letter, tally in (("P", precisions), ("R", recalls)):
                figures.update({f"{letter}@{k}": value for k, value in tally.result().items()})
            results[name] = figures
        return results


def slices(
    Y: Any, top: Any, counts: Any, at: At = (1, 3, 5), *, thresholds: tuple[int, int] | None = None
) -> dict[str, dict[str, float]]:
    """Precision and recall of head, torso and tail: labels cut by how often they were in training.

    Parameters
    ----------
    Y, top, at
        As in :func:`precision`.
    counts : array of int, shape (L,)
        How many training rows have each label, such as a model's ``label_counts_``.
    thresholds : pair of int, optional
        Where to cut; thirds of the training positives by default. See :func:`slice_labels`.

    Returns
    -------
    dict of str to dict
        For ``"head"``, ``"torso"`` and ``"tail"``: ``"labels"``, how many labels the slice has; ``"rows"``, how many
        rows have a true label of it; ``"P@k"``, the share of the first k answers that are true and of the slice (the
        three add up to P@k); and ``"R@k"``, the share of a row's true labels of the slice that are among the first k
        answers, the mean over the rows that have any (0 where none has).

    Raises
    ------
    DataError, ParameterError
        As in :func:`precision` and :func:`slice_labels`; and when ``Y`` has labels beyond ``counts``.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import metrics
    >>> from sylvan.arrays.topk import TopK
    >>> top = TopK(np.array([[0, 2], [1, 0]], np.int32), np.array([[0.9, 0.4], [0.7, 0.1]], np.float32))
    >>> found = metrics.slices([[0, 2], [0]], top, [5, 3, 1], at=2)
    >>> {name: figures["R@2"] for name, figures in found.items()}
    {'head': 1.0, 'torso': 0.0, 'tail': 1.0}
    """
    measured = Slices(counts, at, thresholds)
    measured.add(Y, top)
    return measured.result()
