"""Labels of a trained model that get another name, or that it is never to answer with again; nothing is trained."""

from __future__ import annotations

import hashlib
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays.canonical import Csr
from sylvan.arrays.frames import labels_of, numpy_of
from sylvan.data import Vocabulary
from sylvan.errors import DataError, UnsupportedError
from sylvan.labels.lookup import ids_of_names
from sylvan.labels.targets import grown_labels
from sylvan.models.fitted import Fitted
from sylvan.params.wording import counted

_Ids = npt.NDArray[np.int32]
_Self = TypeVar("_Self", bound="LabelChanges")
_NONE = np.zeros(0, np.int32)
_NONE.flags.writeable = False


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


class LabelChanges(Fitted):
    """Base of models whose labels can be renamed and removed. The model that is asked doesn't change: others may go on
    using it meanwhile."""

    n_labels_: int
    label_counts_: npt.NDArray[np.int64]
    vocabulary_: Vocabulary | None = None
    _removed: _Ids = _NONE

    @property
    def removed_labels_(self) -> _Ids:
        """Ids of the labels that were removed, rising."""
        self._need_fit("removed_labels_")
        return self._removed

    def with_label_names(self: _Self, names: Mapping[str, str]) -> _Self:
        """A copy in which some labels have other names; their ids and scores stay.

        Parameters
        ----------
        names : mapping of str to str
            The new name of each label that gets one. Two labels may swap theirs.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        DataError
            When the labels have no names, one isn't known, or a new name is that of another label.

        Examples
        --------
        >>> from sylvan import TextModel
        >>> tagger = TextModel().fit(["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]])
        >>> tagger.with_label_names({"Whaling": "Whale hunting"}).rank(["the whales"], k=1).names
        [['Whale hunting']]
        """
        self._need_fit("with_label_names")
        vocabulary = self.vocabulary_
        if vocabulary is None:
            raise DataError(f"The labels of this {type(self).__name__} are ids without names: none can be renamed.")
        new = dict(zip(self._ids_of(list(names)), names.values(), strict=True))
        for label, name in new.items():
            taken = vocabulary.get(name) if isinstance(name, str) else None
            if taken is not None and taken not in new:
                raise DataError(f"Label {vocabulary[label]!r} can't be called {name!r}: so is another, label {taken}.")
        return self._renamed(new)

    def without_labels(self: _Self, labels: Any) -> _Self:
        """A copy that never answers with some labels; what it has learned of them is gone from it.

        The ids and the scores of all other labels stay. Weights that several labels share, such as those of the
        clusters above a label, aren't learned anew.

        Parameters
        ----------
        labels : str, int, list of these, or array of int
            Names, or ids. Where labels are called by numbers, an int is the name.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        DataError
            For a label that isn't known or was removed before, and when no label would be left.
        UnsupportedError
            When a model of this kind can't lose labels.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import XRLinear
        >>> model = XRLinear().fit(np.eye(3).repeat(5, axis=0), np.arange(3).repeat(5))
        >>> model.without_labels([1]).rank(np.eye(3)[[1]], k=3).labels[0, -1]
        np.int32(-1)
        """
        self._need_fit("without_labels")
        return self.without_label_ids(np.array(self._ids_of(labels), np.int32))

    def without_label_ids(self: _Self, labels: _Ids) -> _Self:
        """As :meth:`without_labels`, of labels by their ids, whatever they are called."""
        ids = np.unique(labels)
        if len(ids) + len(self.removed_labels_) == self.n_labels_:
            n_labels = counted(self.n_labels_, "label")
            raise DataError(f"Of {n_labels} not all can be removed: a model needs at least one.")
        made = self._shallow()
        vocabulary = self.vocabulary_
        made._drop_labels(ids)
        if made.vocabulary_ is vocabulary:  # else of parts, which have seen to their names
            made._free_names(ids)
        return made

    def _free_names(self, ids: _Ids) -> None:
        """Give the names of removed labels back, so that others can have them; called of a copy."""
        names = self.vocabulary_
        if names is not None:
            self.vocabulary_ = _with_names(names, {at: _stand_in(names[at]) for at in ids.tolist()})

    def _renamed(self: _Self, names: Mapping[int, str]) -> _Self:
        """A copy with other names for some label ids."""
        assert self.vocabulary_ is not None
        made = self._shallow()
        made.vocabulary_ = _with_names(self.vocabulary_, names)
        return made

    def _shallow(self: _Self) -> _Self:
        """A copy that shares all parts; an encoder that is still in its files stays there."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def _drop_labels(self, ids: _Ids) -> None:
        """Lose labels; called of a fresh, shallow copy, whose parts are replaced and never written to."""
        raise UnsupportedError(f"The labels of {type(self).__name__} can't be removed: train it without them.")

    def _note_dropped(self, ids: _Ids) -> None:
        """What all models note of dropped labels."""
        self._removed = np.union1d(self._removed, ids).astype(np.int32)
        self.label_counts_ = self.label_counts_.copy()
        self.label_counts_[ids] = 0

    def _with_new_names(self, Y: Any) -> tuple[Vocabulary | None, Csr]:
        """The names of labels with those that are new, and ``Y`` by their ids."""
        return grown_labels(self.vocabulary_, self.n_labels_, Y)

    def _merged(self, merge: Mapping[Any, Sequence[Any]]) -> dict[int, list[int]]:
        """Ids of the labels to merge, by the id of the label that they become."""
        result: dict[int, list[int]] = {}
        if not isinstance(merge, Mapping):
            raise DataError(f"merge must be a mapping of label to list of labels. Got {type(merge).__name__} instead.")
        for target, sources in merge.items():
            (into,) = self._ids_of([target])
            if not isinstance(sources, Iterable):
                raise DataError(f"merge must hold lists of labels. Got {sources!r} for label {target!r} instead.")
            ids = self._ids_of(list(sources) if not isinstance(sources, str) else [sources])
            if not ids or ids == [into]:
                raise DataError(f"Label {target!r} can't be merged with itself: name the labels that become it.")
            result[into] = ids
        each = [label for ids in result.values() for label in set(ids)]
        twice = next((label for label, n in zip(*np.unique(each, return_counts=True), strict=True) if n > 1), None)
        also = next((label for into, ids in result.items() for label in ids if label != into and label in result), None)
        if twice is not None or also is not None:
            raise DataError(f"Label {twice if twice is not None else also} can't become two labels.")
        return result

    def _ids_of(self, labels: Any) -> list[int]:
        """The ids of labels that are there, by their names or ids."""
        listed = [labels] if isinstance(labels, str | numbers.Integral) else labels
        if not isinstance(listed, Iterable):
            raise DataError(f"labels must be a list of names or ids. Got {labels!r} instead.")
        listed = list(listed)
        if self.vocabulary_ is not None:
            listed = ids_of_names(listed, self.vocabulary_, "labels")
        for label in listed:
            if isinstance(label, bool) or not isinstance(label, numbers.Integral):
                raise DataError(f"labels must be names, or ids in [0, {self.n_labels_ - 1}]. Got {label!r} instead.")
            if not 0 <= int(label) < self.n_labels_:
                raise DataError(f"labels must be ids in [0, {self.n_labels_ - 1}]. Got {label} instead.")
        removed = set(self.removed_labels_.tolist())
        again = next((label for label in listed if label in removed), None)
        if again is not None:
            raise DataError(f"Label {again} was removed before.")
        return [int(label) for label in listed]


def _with_names(vocabulary: Vocabulary, names: Mapping[int, str]) -> Vocabulary:
    """The vocabulary with other names for some ids."""
    listed = list(vocabulary)
    for label, name in names.items():
        listed[label] = name if name == listed[label] else Vocabulary([name])[0]
    return type(vocabulary).verbatim(listed)


def _stand_in(name: str) -> str:
    """What a removed label is called, so that its name is free again: the same in all members of an ensemble."""
    return f"(removed {hashlib.sha256(name.encode()).hexdigest()[:16]})"


def merged_labels(labels: Csr, merged: Mapping[int, list[int]]) -> tuple[Csr, npt.NDArray[np.int64]]:
    """Labels with some of them made one, a row's highest relevance counting; and the rows that this changes."""
    if not merged:
        return labels, np.zeros(0, np.int64)
    becomes = np.arange(labels.shape[1], dtype=np.int32)
    for into, ids in merged.items():
        becomes[ids] = into
    indices = becomes[labels.indices]
    changed = indices != labels.indices
    row = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))
    order = np.lexsort((indices, row))
    keys = row[order] * np.int64(labels.shape[1]) + indices[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    data = np.maximum.reduceat(labels.data[order], starts) if len(starts) else labels.data[:0]
    own = row[order][starts]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(own, minlength=labels.shape[0])))).astype(np.int64)
    return Csr(indptr, indices[order][starts], data, labels.shape), np.unique(row[changed])
