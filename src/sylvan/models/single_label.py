"""One class a row: what a model is given so, it answers so, as scikit-learn's classifiers do."""

from __future__ import annotations

import numbers
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.canonical import Csr
from sylvan.dlpack import numpy_of
from sylvan.frames import labels_of
from sylvan.labels.vocabulary import Numbers
from sylvan.models.label_changes import LabelChanges
from sylvan.topk import TopK

__all__ = ["SingleLabel", "one_class_a_row"]

_Self = TypeVar("_Self", bound="SingleLabel")


class SingleLabel(LabelChanges):
    """Base of models that know whether ``fit`` was given one class a row."""

    single_label_: bool = False  # whether it was, as an array, list or column of class ids or names

    def to_state(self) -> store.State:
        state = super().to_state()
        if self.single_label_:
            state.meta["single_label"] = True
        return state

    @classmethod
    def from_state(cls: type[_Self], state: store.State) -> _Self:
        made = super().from_state(state)
        made.single_label_ = "single_label" in state.meta and store.need_bool(state, "single_label")
        return made

    def _best_classes(self, top: TopK) -> npt.NDArray[Any]:
        """The class of each row that is ranked first, as it was called in ``fit``; the most frequent where none is."""
        best = top.labels[:, 0]
        if (best < 0).any():
            best = np.where(best < 0, np.int32(self._usual_class()), best)
        return self._classes_of(best)

    def _usual_class(self) -> int:
        """The label with most training rows."""
        return int(np.argmax(self.label_counts_))

    def _classes_of(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
        """What labels are called; only those that occur are read from the vocabulary."""
        if self.vocabulary_ is None:
            return ids.astype(np.int64)
        different, place = np.unique(ids, return_inverse=True)
        return self._as_classes([self.vocabulary_[label] for label in different.tolist()])[place]

    def _as_classes(self, names: list[str]) -> npt.NDArray[Any]:
        """Names as an array, of numbers where labels are such."""
        if isinstance(self.vocabulary_, Numbers):
            numbers_ = [int(name) if name.removeprefix("-").isdecimal() else name for name in names]
            return np.array(numbers_, np.int64 if all(type(number) is int for number in numbers_) else object)
        return np.array(names, object)  # as long as they are; each as wide as the longest otherwise

    def _shares(self, top: TopK) -> npt.NDArray[np.float32]:
        """Probabilities of all classes, which sum to 1 in each row, as the class is one of them."""
        dense: npt.NDArray[np.float32] = top.to_csr(self.n_labels_).toarray()
        sums = dense.sum(axis=1, keepdims=True)
        equal = np.full_like(dense, 1 / dense.shape[1])
        shares: npt.NDArray[np.float32] = np.divide(dense, sums, out=equal, where=sums > 0)
        return shares


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
