"""Labels by name: from a caller's names to ids, all at once or block by block, and from ids to names."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import validate
from sylvan.canonical import as_array
from sylvan.errors import DataError
from sylvan.frames import label_columns, labels_of
from sylvan.labels.vocabulary import Vocabulary
from sylvan.topk import TopK
from sylvan.wording import counted

__all__ = [
    "LabelNumbers", "NamedTopK", "Numbers", "encode_classes", "encode_labels", "encode_numbers", "ids_of_names",
    "named_rows", "names_and_weights", "names_for", "need_as_many", "numbered_labels", "numbers_far_apart",
    "rows_by_column", "rows_of_names",
]  # fmt: skip

# Label ids from this on, and from this many for each different label, aren't places in a list but numbers of products
# or books: a model of a label for each number below would fill any memory.
_HIGH_ID, _PER_LABEL = 1 << 20, 100
_MANY_COLUMNS = 1 << 24  # of a matrix, whose columns are meant as places unless there is no room for them
_COMPARED = 200_000  # names among which a like one is looked for; more would take seconds


class Numbers(Vocabulary):
    """The names of labels that are numbers (see :func:`encode_numbers`): an int is a name too, not a label's place."""


@dataclass(frozen=True)
class NamedTopK(TopK):
    """A :class:`~sylvan.TopK` whose labels have names.

    Attributes
    ----------
    labels : ndarray of int32, shape (n, k)
    scores : ndarray of float32, shape (n, k)
    names : list of list of str
        The label names of each row, best first; shorter than k where there are fewer answers.
    """

    vocabulary: Vocabulary

    @cached_property
    def names(self) -> list[list[str]]:  # type: ignore[override]  # here the vocabulary is known already
        return TopK.names(self, self.vocabulary)

    def to_frame(self, library: str = "pandas", *, rows: Any = None, names: Any = None) -> Any:
        """As :meth:`sylvan.TopK.to_frame`; labels are called by their names."""
        return super().to_frame(library, rows=rows, names=self.vocabulary if names is None else names)


def ids_of_names(labels: Any, vocabulary: Vocabulary, name: str) -> Any:
    """``labels`` with every string replaced by its id in ``vocabulary``; ids and masks are left as they are.

    Where the labels are :class:`Numbers`, an int is a name too.

    Parameters
    ----------
    labels : list of str or int, list of such lists, or anything else
        Strings are names, ints are label ids.
    vocabulary : Vocabulary
    name : str
        What the errors call ``labels``.

    Raises
    ------
    DataError
        For a name that the vocabulary doesn't have, with one that is like it.

    Examples
    --------
    >>> from sylvan import validate
    >>> from sylvan.labels.vocabulary import Vocabulary
    >>> from sylvan.labels.targets import ids_of_names
    >>> ids_of_names(["sea", 0], Vocabulary(["whaling", "sea"]), "allowed")
    [1, 0]
    """
    if labels is None or isinstance(labels, str | bytes) or sp.issparse(labels) or not isinstance(labels, Iterable):
        return labels
    kinds = "OUSiu" if isinstance(vocabulary, Numbers) else "OUS"
    if hasattr(labels, "dtype") and getattr(labels.dtype, "kind", "O") not in kinds:
        return labels
    listed = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    return [
        [_id(item, vocabulary, name) for item in row] if isinstance(row, list | tuple | set | np.ndarray)
        else _id(row, vocabulary, name)
        for row in listed
    ]  # fmt: skip


def _id(item: Any, vocabulary: Vocabulary, name: str) -> Any:
    if isinstance(vocabulary, Numbers) and isinstance(item, int | np.integer) and not isinstance(item, bool):
        item = str(item)
    if not isinstance(item, str):
        return item
    result = vocabulary.get(item)
    if result is not None:
        return result
    near = difflib.get_close_matches(item, list(vocabulary), n=1) if len(vocabulary) <= _COMPARED else []
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise DataError(
        f"{name} holds {item!r}, but none of the model's {counted(len(vocabulary), 'label')} has that name.{guess}"
    )


def need_as_many(n_texts: int, n_rows: int) -> None:
    """Refuse texts with the labels of another number of them.

    Raises
    ------
    DataError
    """
    if n_texts != n_rows:
        raise DataError(f"X has {counted(n_texts, 'text')}, but Y has labels for {n_rows:,}.")


def names_for(model: Any, vocabulary: Vocabulary) -> dict[str, Vocabulary]:
    """The label names as an option of ``fit`` of a text model's inner model, where that takes them."""
    return {"class_names": vocabulary} if getattr(model, "takes_class_names", False) else {}


def named_rows(vocabulary: Vocabulary, labels: Any) -> list[list[str]]:
    """The names of each row's labels, of a matrix."""
    rows = validate.labels(labels)
    bounds = rows.indptr.tolist()
    names = [vocabulary[label] for label in rows.indices.tolist()]
    return [names[first:last] for first, last in itertools.pairwise(bounds)]


def rows_by_column(Y: Any) -> list[list[str]]:
    """The names of each row's labels, of a frame that :func:`~sylvan.frames.label_columns` has names for."""
    return named_rows(*encode_labels(Y))


def rows_of_names(Y: Any) -> list[Any] | None:
    """``Y`` as a list when its labels are strings, one or several a row; None for ids and matrices.

    Examples
    --------
    >>> from sylvan.labels.targets import rows_of_names
    >>> rows_of_names([[], ["sea"]]), rows_of_names([[], [0]])
    ([[], ['sea']], None)
    """
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
    columns, label_lists = label_columns(label_lists), labels_of(label_lists)
    if columns is not None:
        return Vocabulary(columns), validate.labels(label_lists).to_scipy()
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
    results = [names_and_weights(row, number) for number, row in enumerate(listed)]
    names = [list(row) for row in results]
    vocabulary = Vocabulary.from_labels(names)
    return vocabulary, vocabulary.encode(names, [list(row.values()) for row in results])


def numbers_far_apart(Y: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """Label ids that are no places in a list but numbers of products or books, and where each row's begin; or None."""
    Y = labels_of(Y)
    if sp.issparse(Y):
        if cast(Any, Y).shape[1] < _MANY_COLUMNS:
            return None
        given = validate.labels(Y)
        return (given.indices, given.indptr) if _sparse(given.indices) else None
    rows = Y.tolist() if isinstance(Y, np.ndarray) and Y.dtype == object else Y
    if not isinstance(rows, np.ndarray | list | tuple):
        return None
    try:
        several = not isinstance(rows, np.ndarray) and any(hasattr(row, "__len__") for row in rows)
        lengths = [len(row) for row in rows] if several else [1] * len(rows)
        flat = np.asarray(list(itertools.chain.from_iterable(rows)) if several else rows)
    except (TypeError, ValueError, OverflowError):  # no rows of numbers: whoever reads them says what is wrong
        return None
    return (flat, np.cumsum([0, *lengths])) if flat.ndim == 1 and _sparse(flat) else None


def _sparse(ids: npt.NDArray[Any]) -> bool:
    if ids.dtype.kind not in "iu" or not ids.size or ids.min() < 0 or ids.max() < _HIGH_ID:
        return False
    return int(ids.max()) >= _PER_LABEL * len(np.unique(ids))


def encode_numbers(Y: Any) -> tuple[Numbers, sp.csr_matrix] | None:
    """The names and the matrix of labels that are numbers far apart, such as ISBNs; None for any other labels.

    Examples
    --------
    >>> from sylvan.labels.targets import encode_numbers
    >>> names, matrix = encode_numbers([7, 9783161484100, 7])
    >>> list(names), matrix.toarray().tolist()
    (['7', '9783161484100'], [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> encode_numbers([0, 1, 2]) is None
    True
    """
    numbers = numbers_far_apart(Y)
    if numbers is None:
        return None
    flat, indptr = numbers
    different, columns = np.unique(flat, return_inverse=True)
    relevance = validate.labels(Y).data if sp.issparse(Y) else np.ones(len(flat), np.float32)
    matrix = sp.csr_matrix((relevance, columns, indptr), (len(indptr) - 1, len(different)))
    if not sp.issparse(Y):
        matrix.sum_duplicates()
        np.minimum(matrix.data, 1, out=matrix.data)  # a number named twice is one label
    return Numbers(map(str, different.tolist())), matrix


def encode_classes(Y: Any) -> tuple[Numbers, sp.csr_matrix] | None:
    """The names and the matrix of one class a row that is a whole number, where some are negative; None for others.

    Examples
    --------
    >>> from sylvan.labels.targets import encode_classes
    >>> list(encode_classes([-1, 1, -1])[0]), encode_classes([0, 1]) is None
    (['-1', '1'], True)
    """
    given = np.asarray(labels_of(Y))
    if given.dtype.kind not in "if" or not len(given) or not (given < 0).any() or (given != np.floor(given)).any():
        return None
    different, columns = np.unique(given.astype(np.int64), return_inverse=True)
    matrix = sp.csr_matrix((np.ones(len(given), np.float32), columns, np.arange(len(given) + 1)))
    return Numbers(map(str, different.tolist())), matrix


def numbered_labels(Y: Any, vocabulary: Numbers) -> sp.csr_matrix:
    """True labels, in any of their forms, by their places among names that are numbers; unknown ones are dropped."""
    Y = labels_of(Y)
    if getattr(getattr(Y, "dtype", None), "kind", "") == "f" and not sp.issparse(Y) and (np.floor(Y) == Y).all():
        Y = Y.astype(np.int64)
    if sp.issparse(Y) or getattr(Y, "ndim", 1) == 2:
        matrix = validate.labels(Y)
        rows: list[Any] = np.split(matrix.indices, matrix.indptr[1:-1])
    else:
        rows = [row if isinstance(row, Iterable) and not isinstance(row, str) else [row] for row in Y]
    return vocabulary.encode(rows, unknown="ignore")


def names_and_weights(row: Any, number: int) -> dict[str | int, float]:
    """The labels of one text with their relevance; one that is named twice counts once, its relevance is summed."""
    if isinstance(row, str | int | np.integer):
        row = [row]
    items = row.items() if isinstance(row, Mapping) else row
    results: dict[str | int, float] = {}
    try:
        for item in items:
            name, weight = item if isinstance(item, tuple | list) else (item, None)
            name = _name(name)
            results[name] = 1.0 if weight is None else results.get(name, 0.0) + float(weight)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The labels of text {number} must be a list of strings, of ints or of pairs (label, relevance). "
            f"Got {row!r:.60} instead."
        ) from error
    return results


def _name(label: Any) -> str | int:
    if isinstance(label, str):
        return str(label)
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        return int(label)
    raise TypeError("not a label")
