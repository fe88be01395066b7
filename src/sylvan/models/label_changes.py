"""Labels of a trained model that get another name, are merged, or are never answered again; nothing is trained."""

from __future__ import annotations

import hashlib
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.data import Vocabulary
from sylvan.errors import DataError
from sylvan.labels.vocabulary import REMOVED, ids_of_names


def denying(labels: LabelFilter | None, ids: npt.NDArray[np.int32], n_labels: int) -> LabelFilter:
    """A filter that denies some rising label ids as well, where there is one already."""
    return LabelFilter(False, ids, None, n_labels) if labels is None else labels.denying(ids)


def label_ids(labels: Any, n_labels: int, vocabulary: Vocabulary | None, removed: npt.NDArray[np.int32]) -> list[int]:
    """The ids of labels that a model has and that weren't removed, by their names or ids."""
    listed = [labels] if isinstance(labels, str | numbers.Integral) else labels
    if not isinstance(listed, Iterable):
        raise DataError(f"labels must be a list of names or ids. Got {labels!r} instead.")
    listed = list(listed)
    if vocabulary is not None:
        listed = ids_of_names(listed, vocabulary, "labels")
    for label in listed:
        if isinstance(label, bool) or not isinstance(label, numbers.Integral):
            raise DataError(f"labels must be names, or ids in [0, {n_labels - 1}]. Got {label!r} instead.")
        if not 0 <= int(label) < n_labels:
            raise DataError(f"labels must be ids in [0, {n_labels - 1}]. Got {label} instead.")
    gone = set(removed.tolist())
    again = next((label for label in listed if label in gone), None)
    if again is not None:
        raise DataError(f"Label {again} was removed before.")
    return [int(label) for label in listed]


def merged_ids(merge: Mapping[Any, Sequence[Any]], ids_of: Callable[[Any], list[int]]) -> dict[int, list[int]]:
    """Ids of the labels to merge, by the id of the label that they become."""
    result: dict[int, list[int]] = {}
    if not isinstance(merge, Mapping):
        raise DataError(f"merge must be a mapping of label to list of labels. Got {type(merge).__name__} instead.")
    for target, sources in merge.items():
        (into,) = ids_of([target])
        if not isinstance(sources, Iterable):
            raise DataError(f"merge must hold lists of labels. Got {sources!r} for label {target!r} instead.")
        ids = ids_of(list(sources) if not isinstance(sources, str) else [sources])
        if not ids or ids == [into]:
            raise DataError(f"Label {target!r} can't be merged with itself: name the labels that become it.")
        result[into] = ids
    each = [label for ids in result.values() for label in set(ids)]
    twice = next((label for label, n in zip(*np.unique(each, return_counts=True), strict=True) if n > 1), None)
    also = next((label for into, ids in result.items() for label in ids if label != into and label in result), None)
    if twice is not None or also is not None:
        raise DataError(f"Label {twice if twice is not None else also} can't become two labels.")
    return result


def renamed(vocabulary: Vocabulary, names: Mapping[int, str]) -> Vocabulary:
    """The vocabulary with other names for some ids."""
    listed = list(vocabulary)
    for label, name in names.items():
        listed[label] = name if name == listed[label] else Vocabulary([name])[0]
    return type(vocabulary).verbatim(listed)


def without_names(vocabulary: Vocabulary, ids: Iterable[int]) -> Vocabulary:
    """The vocabulary in which the names of removed labels are free again: what stands for them is the same in all
    members of an ensemble."""
    marks = {label: hashlib.sha256(vocabulary[label].encode()).hexdigest()[:16] for label in ids}
    return renamed(vocabulary, {label: f"{REMOVED}{mark})" for label, mark in marks.items()})


def best_of_pairs(
    rows: npt.NDArray[Any], labels: npt.NDArray[np.int32], scores: npt.NDArray[np.float32], n_rows: int, k: int
) -> TopK:
    """The ``k`` best of pairs of a row and a label, by rising rows; of equal ones the lower label."""
    order = np.lexsort((labels, -scores, rows))
    counts = np.bincount(rows, minlength=n_rows)
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)  # rows are as long sorted as not
    chosen = place < k
    best, (row, place) = order[chosen], (rows[chosen], place[chosen])
    top = TopK(np.full((n_rows, k), -1, np.int32), np.full((n_rows, k), -np.inf, np.float32))
    top.labels[row, place], top.scores[row, place] = labels[best], scores[best]
    return top


def rows_of(tops: Sequence[TopK], k: int) -> TopK:
    """The answers to consecutive rows as one."""
    none = TopK(np.zeros((0, k), np.int32), np.zeros((0, k), np.float32))
    return TopK(*(np.concatenate([getattr(top, name) for top in (none, *tops)]) for name in ("labels", "scores")))


def rows_by_id(wanted: Any, ids: npt.NDArray[np.int64], next_id: int) -> npt.NDArray[np.int64]:
    """The numbers of rows that are to be forgotten, rising, of those that have the rising ``ids``; further rows, if
    there were any, have ids from ``next_id`` on."""
    known = np.unique(validate.row_numbers(wanted, max(next_id, 1), name="forget", noun="ids of rows"))
    if len(missing := np.setdiff1d(known, ids)):
        raise DataError(f"There is no row {missing[0]}: it was forgotten before.")
    return np.searchsorted(ids, known)


def merged_labels(labels: Csr, merged: Mapping[int, list[int]]) -> tuple[Csr, npt.NDArray[np.int64]]:
    """Labels with some of them made one, a row's highest relevance counting; and the rows that this changes."""
    if not merged:
        return labels, np.zeros(0, np.int64)
    becomes = np.arange(labels.shape[1], dtype=np.int32)
    for into, ids in merged.items():
        becomes[ids] = into
    indices = becomes[labels.indices]
    changed = indices != labels.indices
    row = labels.rows_of_values()
    order = np.lexsort((indices, row))
    keys = row[order] * np.int64(labels.shape[1]) + indices[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    data = np.maximum.reduceat(labels.data[order], starts) if len(starts) else labels.data[:0]
    merged_rows = row[order][starts]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(merged_rows, minlength=labels.shape[0])))).astype(np.int64)
    return Csr(indptr, indices[order][starts], data, labels.shape), np.unique(row[changed])
