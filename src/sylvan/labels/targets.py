"""Labels in any form: as a matrix with names for its columns, and by the names that a model knows."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, as_array
from sylvan.arrays.frames import label_columns, labels_of, numpy_of
from sylvan.errors import DataError, warn_data
from sylvan.labels.vocabulary import REMOVED, Numbers, Vocabulary, label_name, looks_like_uri, warn_of_blanks
from sylvan.params.wording import are, counted

_MANY_COLUMNS, _PER_LABEL = 1 << 24, 100  # a wide matrix of which few columns occur costs what occurs
_LARGEST_NUMBER = (1 << 62) - 1


@dataclass(frozen=True)
class Targets:
    """Labels as they were given, read."""

    matrix: Csr  # shape (n, L): the relevance of each label for each row
    # what the columns are called: strings, or `Numbers`. None where they are 0 to L - 1: those of a matrix, and classes
    # that are so numbered
    names: Vocabulary | None
    listed: bool  # whether labels were named, one or several a row, and not given as a matrix

    @classmethod
    def read(cls, Y: Any, name: str = "Y") -> Targets:
        """Labels in any form. The columns of a matrix are labels, whether they occur or not. Lists and vectors name
        classes, strings or ints: those that occur are labels, in sorted order."""
        # Shape: Y (n, L)
        if Y is None or isinstance(Y, str | bytes | dict | Csr):
            return cls(validate.labels(Y, name=name), None, False)
        columns = label_columns(Y)
        labels = numpy_of(labels_of(Y, name), name)
        if columns is not None:
            return cls(validate.labels(labels, name=name), Vocabulary(columns), True)
        if hasattr(labels, "__array__") and not isinstance(labels, np.ndarray) and not sp.issparse(labels):
            labels = as_array(labels, name)
        if sp.issparse(labels) or getattr(labels, "ndim", 1) == 2:
            _say_of_column(labels, name)
            matrix = validate.labels(labels, name=name)
            if matrix.shape[1] >= _MANY_COLUMNS:
                used = _by_number(matrix)
                if _PER_LABEL * used.matrix.shape[1] <= matrix.shape[1]:
                    return used
            return cls(matrix, None, False)
        if not hasattr(labels, "__len__") and hasattr(labels, "__iter__"):
            labels = list(labels)
        if (named := rows_of_names(labels)) is not None:
            return cls._of_names(named)
        if isinstance(labels, Iterable) and not isinstance(labels, np.ndarray) and _by_rows(labels):
            return cls._of_names(list(labels))
        ids, lengths = validate.listed_ids(labels, name, low=-_LARGEST_NUMBER, high=_LARGEST_NUMBER)
        validate.refuse_indicator(ids, lengths, name)
        numbers, places = _different(ids)
        matrix = validate.rows_of_ids(places, lengths, len(numbers), name)
        contiguous = not len(numbers) or (numbers[0] == 0 and numbers[-1] == len(numbers) - 1)
        return cls(matrix, None if contiguous else Numbers.of(numbers.tolist()), True)

    @classmethod
    def _of_names(cls, listed: list[Any]) -> Targets:
        weights = None
        if not all(type(row) is list and all(type(name) is str for name in row) for row in listed):  # as it usually is
            rows = [names_and_weights(row, number) for number, row in enumerate(listed)]
            listed, weights = [list(row) for row in rows], [list(row.values()) for row in rows]
        vocabulary = Vocabulary.from_labels(listed)
        matrix = vocabulary.encode(listed, weights)
        return cls(validate.labels(matrix), vocabulary, True)

    def vocabulary(self) -> Vocabulary:
        """The names of all columns, their numbers where they have no others."""
        return Numbers.of(range(self.matrix.shape[1])) if self.names is None else self.names


def _different(ids: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The different ids, rising, and the place of each among them."""
    if not ids.size or int(ids.min()) < 0 or int(ids.max()) > 4 * ids.size + (1 << 16):
        numbers, places = np.unique(ids, return_inverse=True)
        return numbers, places.astype(np.int64)
    present = np.zeros(int(ids.max()) + 1, bool)  # without sorting all
    present[ids] = True
    numbers = np.flatnonzero(present)
    return numbers, ids if len(numbers) == len(present) else (np.cumsum(present) - 1)[ids]


def _by_number(matrix: Csr) -> Targets:
    """The columns that occur, called by their numbers."""
    columns, places = np.unique(matrix.indices, return_inverse=True)
    used = matrix._replace(indices=places.astype(np.int32), shape=(matrix.shape[0], len(columns)))
    return Targets(used, Numbers.of(columns.tolist()), False)


def _by_rows(listed: Iterable[Any]) -> bool:
    """Whether rows of numbers differ in form, or are pairs of a label and its relevance, and so are read one by one."""
    kinds = set()
    for row in listed:
        first = next(iter(row), None) if isinstance(row, list | tuple) else None
        if isinstance(row, Mapping) or (isinstance(first, list | tuple) and len(first) == 2):
            return True
        kinds.add(hasattr(row, "__len__"))
    return len(kinds) == 2 and None not in listed


def _say_of_column(labels: Any, name: str) -> None:
    """Warn of a column that may be one class a row, and is taken as a label that a row has or hasn't; refuse names."""
    if isinstance(labels, np.ndarray) and (labels.dtype.kind in "US" or isinstance(next(labels.flat, None), str)):
        way = f", or {name}.ravel() for one class a row" if labels.shape[1] == 1 else ""
        raise DataError(f"{name} of shape {labels.shape} holds names. Give a list of labels for each row{way}.")
    if isinstance(labels, np.ndarray) and labels.shape[1:] == (1,) and labels.dtype.kind in "iuf" and len(labels) > 1:
        warn_data(
            f"{name} of shape {labels.shape} is taken as a matrix with a column for one label, which a row has or "
            f"hasn't. Give {name}.ravel() for one class a row, or a column of bool for a label.",
            4,
        )


def true_labels(Y: Any, vocabulary: Vocabulary, unknown: str = "beyond", others: dict[str, int] | None = None) -> Csr:
    """Labels in any form by the ids of a vocabulary; ``others`` has those of names that it lacks, and gets more."""
    targets, n_known = Targets.read(Y), len(vocabulary)
    if targets.names is None and not targets.listed:
        if targets.matrix.shape[1] == n_known:
            return targets.matrix
        if isinstance(vocabulary, Numbers) and targets.matrix.shape[1] > n_known:
            targets = _by_number(targets.matrix)
        else:
            raise DataError(
                f"Y has {counted(targets.matrix.shape[1], 'column')}, but there are {counted(n_known, 'label')}: a "
                "matrix needs a column for each. Give lists of names, or the matrix that vocabulary_.encode makes."
            )
    names = targets.vocabulary()
    ids = vocabulary.ids(names)
    if len(ids) and names._kind != vocabulary._kind and (ids < 0).all():
        raise DataError(
            f"Y names labels by {names._kind}, such as {names.value(0)!r}, but they are called by {vocabulary._kind}, "
            f"such as {vocabulary.value(0)!r}: none of Y's is known."
        )
    if unknown == "beyond":
        others = {} if others is None else others
        for place in np.flatnonzero(ids < 0).tolist():
            ids[place] = others.setdefault(names[place], n_known + len(others))
        n_known += len(others)
    return _moved(targets.matrix, ids, n_known)


def _moved(matrix: Csr, ids: npt.NDArray[np.int64], n_labels: int) -> Csr:
    """A matrix with its columns at other places; those of -1 are left out."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    column = ids[matrix.indices]
    valid = column >= 0
    entries = matrix.data[valid], (row[valid], column[valid])
    return validate.labels(sp.csr_matrix(entries, shape=(matrix.shape[0], n_labels), dtype=np.float32))


def grown_labels(
    vocabulary: Vocabulary | None, n_labels: int, Y: Any, extra_names: Iterable[str] = ()
) -> tuple[Vocabulary | None, Csr]:
    """The names of a model's labels and behind them those that are new, and new rows' labels by their ids."""
    targets = Targets.read(Y)
    if targets.names is None and not targets.listed and (vocabulary is None or not list(extra_names)):
        width = targets.matrix.shape[1]
        if vocabulary is not None and width > n_labels:
            raise DataError(f"Y has {counted(width, 'label')}, but the model has {n_labels}: a new one needs a name.")
        return vocabulary, targets.matrix
    if vocabulary is None:
        if targets.names is not None and not isinstance(targets.names, Numbers):
            raise DataError("Y holds names, but the model's labels are ids without names.")
        if targets.names is None:
            return None, targets.matrix
        ids = np.array([targets.names.value(label) for label in range(len(targets.names))], np.int64)
        beyond = ids[(ids < 0) | (ids >= n_labels)]
        if np.array_equal(beyond, np.arange(n_labels, n_labels + len(beyond))):  # the next ids
            return None, _moved(targets.matrix, ids, n_labels + len(beyond))
        vocabulary = Numbers.of(range(n_labels))
    names = targets.vocabulary()
    new = [name for name in names if name not in vocabulary]
    if new and names._kind != vocabulary._kind:  # which digits beside ints alone may be
        digits = new if isinstance(vocabulary, Numbers) else vocabulary
        if not all(name.isascii() and name.removeprefix("-").isdigit() and str(int(name)) == name for name in digits):
            raise DataError(
                f"Y names labels by {names._kind}, such as {new[0]}, but the model's are called by {vocabulary._kind}, "
                f"such as {vocabulary.value(0)!r}."
            )
    need_uris(vocabulary, new, "Y", ", which names have by SubjectVocabulary.uri(name) (--vocabulary FILE)")
    new_names = {*new, *(name for name in map(label_name, extra_names) if name not in vocabulary)}
    ints = isinstance(vocabulary, Numbers)  # beside which a label that has a text alone may be called anything
    ordered = sorted(new_names, key=lambda n: (int(n) if ints and n.removeprefix("-").isdecimal() else float("inf"), n))
    grown = vocabulary.extended(ordered)
    return grown, _moved(targets.matrix, grown.ids(names), len(grown))


def need_uris(vocabulary: Vocabulary, new: Iterable[str], given: str, way: str = "") -> None:
    """Refuse new labels that are no URIs, where all of a model's are."""
    named = [name for name in new if not looks_like_uri(name) and name not in vocabulary]
    if named and len(vocabulary) and all(looks_like_uri(name) or name.startswith(REMOVED) for name in vocabulary):
        raise DataError(
            f"{given} has {counted(len(named), 'label')} that {are(len(named))} no URI, such as {min(named)!r}, and "
            f"the model's labels are URIs: give URIs{way}."
        )


def need_as_many(n_texts: int, n_rows: int) -> None:
    """Refuse texts with the labels of another number of them."""
    if n_texts != n_rows:
        raise DataError(f"X has {counted(n_texts, 'text')}, but Y has labels for {n_rows:,}.")


def names_for(model: Any, vocabulary: Vocabulary) -> dict[str, Vocabulary]:
    """The label names as an option of ``fit`` of a text model's inner model, where that takes them."""
    return {"class_names": vocabulary} if getattr(model, "takes_class_names", False) else {}


def named_rows(vocabulary: Vocabulary, labels: Any) -> list[list[str]]:
    """The names of each row's labels, of a matrix."""
    rows = validate.labels(labels)
    return vocabulary.decode(rows._replace(shape=(rows.shape[0], len(vocabulary))).to_scipy())


def rows_of_names(Y: Any) -> list[Any] | None:
    """``Y`` as a list when its labels are strings, one or several a row; None for ids and matrices."""
    Y = labels_of(Y)
    if sp.issparse(Y) or isinstance(Y, str | bytes):
        return None
    if not hasattr(Y, "__array__") and not (hasattr(Y, "__len__") and hasattr(Y, "__iter__")):
        return None
    if hasattr(Y, "__array__"):
        Y = as_array(Y, "Y")
        if Y.ndim != 1 or Y.dtype.kind not in "OU":
            return None
    listed = Y.tolist() if isinstance(Y, np.ndarray) else list(Y)
    for row in listed:
        if isinstance(row, str):
            return listed
        first = next(iter(row), None) if isinstance(row, Iterable) else row
        if isinstance(first, tuple | list) and len(first) == 2:  # a label and its relevance
            first = first[0]
        if first is not None:
            return listed if isinstance(first, str) else None
    return None


def one_class_a_row(Y: Any) -> bool:
    """Whether labels are one class id or name for each row, and not lists, a matrix or a frame with several columns."""
    Y = numpy_of(labels_of(Y), "Y")
    if hasattr(Y, "__array__") and not sp.issparse(Y):
        array = np.asarray(Y)
        if array.ndim != 1 or array.dtype != object:
            return array.ndim == 1 and len(array) > 0
        Y = array.tolist()
    if sp.issparse(Y) or isinstance(Y, Csr | str | bytes | dict) or not hasattr(Y, "__len__"):
        return False
    return len(Y) > 0 and all(isinstance(row, str | numbers.Real | np.generic) for row in Y)


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
        number_of = self._number_of
        rows = [[row] if isinstance(row, str | int) else row for row in labels]
        try:
            ids = [number_of.setdefault(label, len(number_of)) for row in rows for label in row]
        except TypeError:
            raise DataError("The labels of a block must be lists of strings or of ints, one a text.") from None
        self._ids.append(np.array(ids, np.int64))
        self._counts.append(np.array(list(map(len, rows)), np.int64))
        self._weighted = self._weighted or weights is not None
        weights = [[1.0] * len(row) for row in rows] if weights is None else weights
        if list(map(len, weights)) != self._counts[-1].tolist():
            raise DataError("The relevances of a block must be as many as its labels, text by text.")
        self._weights.append(np.array(list(itertools.chain.from_iterable(weights)), np.float32))

    def finish(self) -> tuple[Vocabulary, sp.csr_matrix]:
        """The names in their order and the label matrix, as if all labels had come at once."""
        vocabulary = Vocabulary.from_labels([list(self._number_of)])
        column_of = vocabulary.ids(self._number_of)  # -1: blank
        none = np.zeros(0, np.int64)
        counts, ids = np.concatenate([none, *self._counts]), np.concatenate([none, *self._ids])
        weights = np.concatenate([np.zeros(0, np.float32), *self._weights])
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise DataError("Every label's relevance must be a finite number of at least 0.")
        rows, columns = np.repeat(np.arange(len(counts)), counts), column_of[ids]
        named = columns >= 0
        warn_of_blanks(int(np.count_nonzero(~named)))
        entries = weights[named], (rows[named], columns[named])
        Y = sp.csr_matrix(entries, shape=(len(counts), len(vocabulary)), dtype=np.float32)
        if not self._weighted:
            Y.data[:] = 1
        Y.eliminate_zeros()
        return vocabulary, Y


def encode_labels(label_lists: Any) -> tuple[Vocabulary, sp.csr_matrix]:
    """Names and matrix of the labels that ``fit`` is given; see :meth:`TextModel.fit` for the forms."""
    if isinstance(label_lists, str | bytes):
        raise DataError("The labels must be a list with one item a text. Got one string instead.")
    targets = Targets.read(label_lists)
    return targets.vocabulary(), targets.matrix.to_scipy()


def names_and_weights(row: Any, number: int) -> dict[str | int, float]:
    """The labels of one text with their relevance; one that is named twice counts once, its relevance is summed."""
    if isinstance(row, str | int | np.integer):
        row = [row]
    items = row.items() if isinstance(row, Mapping) else row
    results: dict[str | int, float] = {}
    try:
        for item in items:
            label, weight = item if isinstance(item, tuple | list) else (item, None)
            if isinstance(label, bool) or not isinstance(label, str | int | np.integer):
                raise TypeError("not a label")
            name = label_name(str(label)) if isinstance(label, str) else int(label)
            results[name] = 1.0 if weight is None else results.get(name, 0.0) + float(weight)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The labels of text {number} must be a list of strings, of ints or of pairs (label, relevance). "
            f"Got {row!r:.60} instead."
        ) from error
    return results
