"""Which labels a model may answer with: ``allowed`` and ``denied``, checked and converted to one form."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, matrix, pair_keys, shape_text, take_rows
from sylvan.errors import DataError
from sylvan.params.wording import counted

_INT32 = np.dtype(np.int32)
_Ids = npt.NDArray[np.int32]
_NONE = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class LabelFilter:
    """The labels that may, or may not, be answered."""

    allows: bool  # whether the listed labels are the only allowed ones, or the denied ones
    shared: _Ids  # labels listed for every row, each once
    # shape (n, n_labels), or None: labels listed for single rows in addition; never together with allowed labels in
    # `shared`
    rows: Csr | None
    n_labels: int

    @classmethod
    def of(
        cls, allowed: Any, denied: Any, *, n_rows: int, n_labels: int, shorter: bool = True
    ) -> LabelFilter | None:
        """The filter for a caller's ``allowed`` and ``denied``; None when both are None. Most labels that are allowed
        become the few others that are denied, if ``shorter``."""
        if allowed is None and denied is None:
            return None
        yes = None if allowed is None else _listed(allowed, "allowed", n_rows, n_labels)
        no = _NONE if denied is None else _listed(denied, "denied", n_rows, n_labels)
        if yes is None:
            return cls(False, _NONE, no, n_labels) if isinstance(no, Csr) else cls(False, no, None, n_labels)
        if isinstance(yes, Csr):
            return cls(True, _NONE, _without(yes, no), n_labels)
        if isinstance(no, Csr):  # what isn't allowed is denied for every row, and what a row denies besides
            return cls(False, _others(yes, n_labels), no, n_labels)
        if len(no):
            yes = yes[~np.isin(yes, no, assume_unique=True)]
        if 2 * len(yes) <= n_labels or not shorter:
            return cls(True, yes, None, n_labels)
        return cls(False, _others(yes, n_labels), None, n_labels)

    def to_kernel(self) -> kernels.ListedLabels:
        """The filter in the form that kernels take."""
        if self.rows is None:
            return kernels.ListedLabels(self.allows, self.shared, None, _NONE)
        return kernels.ListedLabels(self.allows, self.shared, self.rows.indptr, self.rows.indices)

    def denying(self, labels: _Ids) -> LabelFilter:
        """The filter that denies some more labels, rising ids, for every row."""
        if not self.allows:
            denied = np.union1d(self.shared, labels).astype(_INT32) if len(self.shared) else labels
            return LabelFilter(False, denied, self.rows, self.n_labels)
        if self.rows is not None:
            return LabelFilter(True, self.shared, _without(self.rows, labels), self.n_labels)
        return LabelFilter(True, np.setdiff1d(self.shared, labels).astype(_INT32), None, self.n_labels)

    def as_given(self) -> dict[str, Any]:
        """``allowed`` and ``denied`` that mean the same to :meth:`of`; None for what isn't needed."""
        if self.allows:
            return {"allowed": self.shared if self.rows is None else self.rows, "denied": None}
        if self.rows is None:
            return {"allowed": None, "denied": self.shared}
        return {"allowed": _others(self.shared, self.n_labels), "denied": self.rows}

    def of_rows(self, rows: npt.NDArray[np.integer[Any]]) -> LabelFilter:
        """The filter for some of the rows."""
        listed = None if self.rows is None else take_rows(self.rows, rows)
        return LabelFilter(self.allows, self.shared, listed, self.n_labels)

    def mask(self, row: int) -> npt.NDArray[np.bool_]:
        """The labels that a row may be answered with, as a mask of shape (n_labels,)."""
        listed = _mask(self.shared, self.n_labels)
        if self.rows is not None:
            listed[self.rows.indices[self.rows.indptr[row] : self.rows.indptr[row + 1]]] = True
        return listed if self.allows else ~listed

    def opens(self, labels: _Ids, of_row: npt.NDArray[np.integer[Any]], rows: tuple[int, int]) -> npt.NDArray[np.bool_]:
        """Whether labels may be answered, each for its row, counted from the first of ``rows``; -1 never may."""
        named = _mask(self.shared, self.n_labels)[np.maximum(labels, 0)]
        if self.rows is not None:
            keys = pair_keys(take_rows(self.rows, np.arange(*rows)), self.n_labels)
            named |= np.isin(of_row.astype(np.int64) * self.n_labels + labels, keys)
        return (named if self.allows else ~named) & (labels >= 0)


def _listed(value: Any, name: str, n_rows: int, n_labels: int) -> _Ids | Csr:
    """The labels that ``value`` lists, for every row or row by row."""
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray):
        value = np.asarray(value)
    if sp.issparse(value) or isinstance(value, Csr):
        mask = value if isinstance(value, Csr) else matrix(value, name, "labels")
        _need_shape(mask.shape, name, n_rows, n_labels)
        # Copied, as the kernels write where these ids say: a caller's other thread can't change them meanwhile.
        return mask._replace(indptr=mask.indptr.copy(), indices=mask.indices.copy())
    if isinstance(value, np.ndarray) and value.ndim == 2:
        if value.dtype != bool:
            raise DataError(
                f"{name} is an array of {value.dtype} of shape {shape_text(value.shape)}: a mask for each row must "
                "be an array of bool or a sparse matrix."
            )
        _need_shape(value.shape, name, n_rows, n_labels)
        return validate.labels(value)
    if isinstance(value, str | bytes | dict) or not isinstance(value, Iterable):
        raise DataError(
            f"{name} must be label ids, such as [3, 7], or a mask of shape ({n_rows}, {n_labels}). "
            f"Got {value!r:.60} instead."
        )
    listed = value if isinstance(value, np.ndarray) else list(value)
    several = (hasattr(item, "__len__") and not isinstance(item, str | bytes) for item in listed)
    if isinstance(listed, list) and any(several):
        _need_shape((len(listed), n_labels), name, n_rows, n_labels)
        return validate.labels(listed, n_labels=n_labels, name=name)
    return _ids(np.asarray(listed) if len(listed) else _NONE, name, n_labels)


def _ids(listed: npt.NDArray[Any], name: str, n_labels: int) -> _Ids:
    """Label ids for every row, each once and rising."""
    if listed.ndim != 1:
        raise DataError(f"{name} must be label ids of shape (m,). Got shape {shape_text(listed.shape)} instead.")
    if listed.dtype == bool:
        if len(listed) != n_labels:
            raise DataError(f"{name} is a mask of {counted(len(listed), 'label')}, but the model has {n_labels}.")
        return np.flatnonzero(listed).astype(_INT32)
    if listed.dtype.kind not in "iu":
        items, last = listed.tolist(), n_labels - 1
        word = next((item for item in items if not isinstance(item, numbers.Integral)), None)
        if isinstance(word, str):
            raise DataError(
                f"{name} holds the name {word!r}, but this model knows labels by their ids alone, 0 to {last}."
            )
        raise DataError(f"{name} must hold label ids, ints in [0, {last}]. Got {items!r:.60} instead.")
    wrong = listed[(listed < 0) | (listed >= n_labels)]
    if wrong.size:
        raise DataError(f"{name} holds label {wrong[0]}, but label ids must be in [0, {n_labels - 1}].")
    if len(listed) == n_labels > 2 and listed.max(initial=0) <= 1:
        raise DataError(
            f"{name} holds {n_labels} zeros and ones, as many as there are labels: a mask must be of bool, as in "
            "mask.astype(bool), and ids stand once each."
        )
    if len(listed) < n_labels // 16:
        return np.unique(listed).astype(_INT32)
    return np.flatnonzero(_mask(listed, n_labels)).astype(_INT32)  # a long list is sorted sooner so


def _others(listed: _Ids, n_labels: int) -> _Ids:
    """The labels that aren't listed."""
    return np.flatnonzero(~_mask(listed, n_labels)).astype(_INT32)


def _mask(listed: npt.NDArray[Any], n_labels: int) -> npt.NDArray[np.bool_]:
    """Which labels are listed, as a mask of shape (n_labels,)."""
    mask = np.zeros(n_labels, bool)
    mask[listed] = True
    return mask


def _need_shape(shape: tuple[int, ...], name: str, n_rows: int, n_labels: int) -> None:
    if tuple(shape) != (n_rows, n_labels):
        raise DataError(
            f"{name} has shape {shape_text(shape)}, but a mask for each row must have shape ({n_rows}, {n_labels})."
        )


def _without(rows: Csr, no: _Ids | Csr) -> Csr:
    """``rows`` less the labels of ``no``."""
    if isinstance(no, Csr):
        keys, denied = (pair_keys(each, rows.shape[1]) for each in (rows, no))
        stays = ~np.isin(keys, denied, assume_unique=True)
    elif len(no):
        stays = ~_mask(no, rows.shape[1])[rows.indices]
    else:
        return rows
    ends = np.concatenate(([0], np.cumsum(stays)))
    return Csr(ends[rows.indptr].astype(np.int64), rows.indices[stays], rows.data[stays], rows.shape)
