"""What a text model is given beside texts: labels by their names, all at once or block by block."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import validate
from sylvan.data import Vocabulary
from sylvan.errors import DataError
from sylvan.store import ScratchFiles

__all__ = ["LabelNumbers", "encode_labels", "names_and_weights", "scratch_for", "texts_of"]


def scratch_for(options: dict[str, Any]) -> ScratchFiles | None:
    """Files for the features where the model is to be trained within a limit; None for memory."""
    return None if options.get("memory_limit") is None else ScratchFiles(tempfile.gettempdir())


def texts_of(blocks: Iterable[Any], take: Callable[[list[Any], Any], None]) -> Iterator[list[str]]:
    """The texts of one block after another; ``take(labels, weights)`` is given its labels."""
    for number, block in enumerate(blocks):
        try:
            texts, labels, *rest = block
            n_texts, n_labels = len(texts), len(labels)
        except (TypeError, ValueError):
            raise DataError(
                f"Block {number} must be a pair of texts and labels, or a TextData. Got {type(block).__name__} instead."
            ) from None
        if n_texts != n_labels:
            raise DataError(f"Block {number} has {n_texts} texts, but the labels of {n_labels}.")
        take(labels, rest[0] if rest else None)
        yield texts


class LabelNumbers:
    """Labels numbered as they come, so that a row is a few bytes; their names are sorted at the end."""

    def __init__(self) -> None:
        self._number_of: dict[Any, int] = {}
        self._ids: list[npt.NDArray[np.int64]] = []
        self._counts: list[npt.NDArray[np.int64]] = []
        self._weights: list[npt.NDArray[np.float32]] = []
        self._weighted = False

    def take(self, labels: list[Any], weights: Any = None) -> None:
        """One block's labels, a list of names or ints a row, and their relevances where there are any."""
        numbers = self._number_of
        flat = [label for row in labels for label in ([row] if isinstance(row, str | int) else row)]
        try:
            ids = [numbers.setdefault(label, len(numbers)) for label in flat]
        except TypeError:
            raise DataError("The labels of a block must be lists of strings or of ints, one a text.") from None
        self._ids.append(np.array(ids, np.int64))
        self._counts.append(np.array([1 if isinstance(row, str | int) else len(row) for row in labels], np.int64))
        if weights is None:
            self._weights.append(np.ones(len(ids), np.float32))
        else:
            self._weighted = True
            self._weights.append(np.array([weight for row in weights for weight in row], np.float32))

    def finish(self) -> tuple[Vocabulary, sp.csr_matrix]:
        """The names in their order and the label matrix, as if all labels had come at once.

        Raises
        ------
        DataError
            When labels are neither all strings nor all ints, or a relevance is no finite number of at least 0.
        """
        vocabulary = Vocabulary.from_labels([list(self._number_of)])
        column_of = np.array([vocabulary.id(label) for label in self._number_of], np.int64)
        counts = np.concatenate([np.zeros(0, np.int64), *self._counts])
        ids = np.concatenate([np.zeros(0, np.int64), *self._ids])
        weights = np.concatenate([np.zeros(0, np.float32), *self._weights])
        if len(weights) != len(ids) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise DataError("Every label's relevance must be a finite number of at least 0.")
        rows = np.repeat(np.arange(len(counts)), counts)
        Y = sp.csr_matrix((weights, (rows, column_of[ids])), shape=(len(counts), len(vocabulary)), dtype=np.float32)
        if not self._weighted:
            Y.data[:] = 1
        Y.eliminate_zeros()
        return vocabulary, Y


def encode_labels(label_lists: Any) -> tuple[Vocabulary, Any]:
    """Names and matrix of the labels that ``fit`` is given; see :meth:`TextModel.fit` for the forms."""
    if isinstance(label_lists, str | bytes):
        raise DataError("The labels must be a list with one item a text. Got one string instead.")
    if sp.issparse(label_lists) or (isinstance(label_lists, np.ndarray) and label_lists.ndim == 2):
        Y = validate.labels(label_lists)
        return Vocabulary(map(str, range(Y.shape[1]))), Y
    try:
        listed = list(label_lists)
    except TypeError:
        raise DataError(f"The labels must be a list with one item a text, not {type(label_lists).__name__}.") from None
    if all(type(row) is list and all(type(name) is str for name in row) for row in listed):  # the usual case
        vocabulary = Vocabulary.from_labels(listed)
        return vocabulary, vocabulary.encode(listed)
    found = [names_and_weights(row, number) for number, row in enumerate(listed)]
    names = [list(row) for row in found]
    vocabulary = Vocabulary.from_labels(names)
    return vocabulary, vocabulary.encode(names, [list(row.values()) for row in found])


def names_and_weights(row: Any, number: int) -> dict[str | int, float]:
    """The labels of one text with their relevance; one that is named twice counts once, its relevance is summed."""
    if isinstance(row, str | int | np.integer):
        row = [row]
    items = row.items() if isinstance(row, Mapping) else row
    found: dict[str | int, float] = {}
    try:
        for item in items:
            name, weight = item if isinstance(item, tuple | list) else (item, None)
            name = _name(name)
            found[name] = 1.0 if weight is None else found.get(name, 0.0) + float(weight)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The labels of text {number} must be a list of strings, of ints or of pairs (label, relevance). "
            f"Got {row!r:.60} instead."
        ) from error
    return found


def _name(label: Any) -> str | int:
    if isinstance(label, str):
        return str(label)
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        return int(label)
    raise TypeError("not a label")
