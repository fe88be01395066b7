"""What a classifier of one class a row learns from: rows, what ``y`` may be, ids for its classes, weights."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, shape_text, take_rows
from sylvan.arrays.frames import label_columns, labels_of
from sylvan.arrays.types import Array, Float32, Int32, Int64
from sylvan.errors import DataError, ParameterError
from sylvan.labels.targets import Targets, rows_of_names
from sylvan.labels.vocabulary import Numbers, Vocabulary
from sylvan.params.wording import counted

_DENSE = 0.25  # share of stored values from which rows are taken as dense ones


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of a model, in the order of their ids."""

    n: int  # how many; without names they are the ids 0 to n - 1 themselves
    vocabulary: Vocabulary | None = None  # what they are called: strings, or ints other than these ids
    listed: bool = True  # whether they were named, and are not the columns of a matrix

    @cached_property
    def array(self) -> Array:
        """The classes as an array of shape (n,), as scikit-learn has them."""
        if self.vocabulary is None:
            return np.arange(self.n)
        if isinstance(self.vocabulary, Numbers):
            return np.array([self.vocabulary.value(label) for label in range(self.n)])
        names = list(self.vocabulary)
        # NumPy's strings end where only NULs follow.
        return np.array(names, object if any(name.endswith("\0") for name in names) else None)

    @property
    def names(self) -> Vocabulary:
        """What the classes are called: those without names by their ids."""
        return Numbers.of(range(self.n)) if self.vocabulary is None else self.vocabulary

    def find(self, y: Any, *, owner: str | None = None) -> Int32:
        """The id of each row's class; -1 for one that isn't here, or a DataError where there is an ``owner``."""
        classes, ids = classes_of(y)
        numbers_ = ids.astype(np.int64)
        if classes.listed and (classes.vocabulary is not None or self.vocabulary is not None):
            names, alike = self.names, isinstance(self.names, Numbers) == isinstance(classes.names, Numbers)
            places = [names.get(name) if alike else None for name in classes.names]
            numbers_ = np.array([-1 if place is None else place for place in places], np.int64)[ids]
        missing = (numbers_ < 0) | (numbers_ >= self.n)
        if owner is not None and missing.any():
            row = int(np.argmax(missing))
            raise DataError(
                f"y holds class {classes.array[ids[row]].item()!r} in row {row}, but {owner} knows only the "
                f"{counted(self.n, 'class')} that it was given first: partial_fit adds none. update adds classes, of "
                "the same kind as these."
            )
        return np.where(missing, -1, numbers_).astype(np.int32)

    def with_those_of(self, y: Any) -> Classes:
        """These classes and behind them those of ``y`` that aren't among them, in sorted order. What is no class beside
        these, such as a string beside numbers, is left for :meth:`find` to refuse."""
        classes = classes_of(y)[0]
        if self.vocabulary is None and classes.vocabulary is None:
            return self if classes.n <= self.n else Classes(classes.n)
        if not classes.listed:
            return self
        before, names = self.names, classes.names
        if isinstance(before, Numbers) != isinstance(names, Numbers):
            return self
        new = [name for name in names if name not in before]
        if self.vocabulary is None and new == [str(label) for label in range(self.n, self.n + len(new))]:
            return Classes(self.n + len(new))  # the next ids
        grown = before.extended(new)
        return Classes(len(grown), grown)

    def id_of(self, label: Any) -> int | None:
        """The id of one class, by its name, number or id; None where there is none."""
        if self.vocabulary is not None and not isinstance(self.vocabulary, Numbers):
            return self.vocabulary.get(label) if isinstance(label, str) else None
        if isinstance(label, bool) or not isinstance(label, numbers.Integral):
            return None
        if self.vocabulary is None:
            return int(label) if 0 <= int(label) < self.n else None
        return self.vocabulary.get(int(label))

def classes_of(y: Any, *, name: str = "y") -> tuple[Classes, Int32]:
    """The classes of a target and the id of each row's."""
    # Shape: y (n,); returns (n,)
    if label_columns(y) is None:
        y = labels_of(y, name)
        if not sp.issparse(y) and not isinstance(y, Csr) and getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
            y = np.asarray(y).ravel()  # a column of classes, as tools hand it on
        if (named := None if isinstance(y, dict) else rows_of_names(y)) is not None:
            y = [_one_word(row, number, name) for number, row in enumerate(named)]
        else:
            _refuse_mixed(y, name)
            _refuse_fractions(y, name)
    targets = Targets.read(y, name)
    counts = np.diff(targets.matrix.indptr)
    if (counts != 1).any():
        row = int(np.argmax(counts != 1))
        has = counted(counts[row], "label") if counts[row] else "no label"
        raise DataError(
            f"{name} must name one class in each row, but row {row} has {has}. Several labels a row are for XRLinear."
        )
    return Classes(targets.matrix.shape[1], targets.names, targets.listed), targets.matrix.indices


def first_classes(y: Any, classes: Any, class_weight: Any, before: Classes | None) -> Classes | None:
    """The classes that ``partial_fit`` was given; None where a matrix ``y`` has them, or they are those ``before``."""
    refuse_balanced(class_weight)
    listed = None if classes is None else classes_of(classes, name="classes")[0]
    if listed is not None and not listed.n:
        raise DataError("classes is empty: partial_fit must be given all classes that will ever come.")
    if listed is None and before is None and not (sp.issparse(y) or getattr(y, "ndim", 1) == 2):
        raise DataError("The first call of partial_fit must be given all classes: partial_fit(X, y, classes=…).")
    if listed is not None and before is not None and not np.array_equal(listed.array, before.array):
        raise DataError(
            f"The classes given, {listed.n} of them, are not those of the first call, {before.n}: "
            "partial_fit adds no classes, update does; fit trains from scratch with all of them."
        )
    return listed


def refuse_balanced(class_weight: Any) -> None:
    """Refuse weights of classes that depend on all rows, of those who learn some alone."""
    if class_weight == "balanced":
        raise ParameterError(
            "class_weight='balanced' is not for partial_fit or update, which don't see all rows at once: give a dict "
            "of weights, or sample_weight."
        )


@dataclass(frozen=True)
class Examples:
    """What is learned from: rows, the id of each one's class, and weights."""

    X: Any  # shape (n, d)
    ids: Int32  # shape (n,)
    n_classes: int
    weight: Float32 | None = None  # shape (n,), or None

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return int(self.X.shape[1])

    def counts(self) -> Int64:
        """How many rows each class has."""
        return np.bincount(self.ids, minlength=self.n_classes).astype(np.int64)

    def weighted(self) -> Int64:
        """The rows that have a weight above 0."""
        return np.arange(len(self.ids), dtype=np.int64) if self.weight is None else np.flatnonzero(self.weight > 0)

    def only(self, rows: Int64) -> Examples:
        """Some of them, in the order of ``rows``."""
        weight = None if self.weight is None else self.weight[rows]
        X = take_rows(self.X, rows) if isinstance(self.X, Csr) else self.X[rows]
        return Examples(X, self.ids[rows], self.n_classes, weight)

    @classmethod
    def of(
        cls, X: Any, y: Any, sample_weight: Any, class_weight: str | Mapping[Any, float] | None,
        classes: Classes | None = None, *, owner: str, rows: Csr | Float32 | None = None,
        names: Vocabulary | None = None,
    ) -> tuple[Examples, Classes]:  # fmt: skip
        """What ``fit`` or ``partial_fit`` was given, verified, and the classes."""
        verified: Any = validate.dense_features(X) if rows is None else rows
        if verified is None:
            verified = validate.features(X, min_rows=1, owner=owner)
        classes, ids = classes_of(y) if classes is None else (classes, classes.find(y, owner=owner))
        if verified.shape[0] != len(ids):
            has = (len(ids), classes.n) if getattr(y, "ndim", 1) == 2 else (len(ids),)
            raise DataError(
                f"X and y must have the same number of rows, but X has shape {shape_text(verified.shape)} and y has "
                f"shape {shape_text(has)}."
            )
        if not verified.shape[0]:
            raise DataError(f"X has shape {shape_text(verified.shape)}: there is no row to learn from.")
        if isinstance(verified, Csr):
            validate.learnable(verified)
        if rows is None:  # in the form that suits how many of their values are stored
            stored = verified.data.size if isinstance(verified, Csr) else int(np.count_nonzero(verified))
            dense = stored >= _DENSE * verified.shape[0] * verified.shape[1]
            if dense and isinstance(verified, Csr):
                verified = verified.to_scipy().toarray()
            elif not dense and not isinstance(verified, Csr):
                verified = validate.features(verified)
        weight = validate.sample_weight(sample_weight, verified.shape[0])
        return cls(verified, ids, classes.n, _row_weights(class_weight, classes, ids, weight, names)), classes


def _row_weights(
    class_weight: Any, classes: Classes, ids: Int32, weight: Float32 | None, names: Vocabulary | None = None
) -> Float32 | None:
    """The weight of each row: its own times its class's; None where all are 1. With ``names``, classes are called by
    these, ints by their digits."""
    if class_weight is None:
        return weight
    present, place = np.unique(ids, return_inverse=True)  # of all classes there may be very many
    if isinstance(class_weight, str):  # "balanced": each class that occurs weighs as much as any other
        counts = np.bincount(place, weights=weight)
        each = np.divide(counts.sum(), (counts > 0).sum() * counts, out=np.zeros(len(counts)), where=counts > 0)
    else:
        each = np.ones(len(present))
        for label, factor in class_weight.items():
            if (number := classes.id_of(label) if names is None else names.get(str(label))) is None:
                raise ParameterError(
                    f"class_weight names {label!r}, which is none of the {counted(classes.n, 'class')} of y."
                )
            each[present == number] = factor
    with np.errstate(over="ignore"):
        rows: Float32 = (each[place] * (1.0 if weight is None else weight)).astype(np.float32)
    if not np.isfinite(rows).all():
        raise ParameterError("class_weight makes a row's weight larger than a float32 can be: take smaller ones.")
    if not rows.any():
        raise ParameterError("class_weight leaves no row a weight above 0: there is nothing to learn from.")
    return rows


def _refuse_mixed(y: Any, name: str) -> None:
    """Refuse words after numbers; words that come first are refused by the number's row."""
    is_list = isinstance(y, list | tuple) or (isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1)
    for number, row in enumerate(y if is_list else ()):
        if isinstance(row[0] if isinstance(row, list | tuple) and len(row) == 1 else row, str):
            raise DataError(
                f"{name} must name one class in each row, all by strings or all by ints. Got {y[0]!r:.60} in row 0 "
                f"and {row!r:.60} in row {number} instead."
            )


def _one_word(row: Any, number: int, name: str) -> str:
    items = list(row) if hasattr(row, "__iter__") and not isinstance(row, str) else [row]
    if len(items) == 1 and isinstance(items[0], str):
        return str(items[0])
    raise DataError(
        f"{name} must name one class in each row, all by strings or all by ints. Got {row!r:.60} in row {number} "
        "instead."
    )


def _refuse_fractions(y: Any, name: str) -> None:
    """Refuse fractions, which name no class, with the word that scikit-learn has for them; lists of them are refused
    where ids are read."""
    if not isinstance(y, np.ndarray) or y.ndim != 1 or y.dtype.kind != "f" or not np.isfinite(y).all():
        return
    if (fractions := y != np.floor(y)).any():
        row = int(np.argmax(fractions))
        raise DataError(
            f"Unknown label type: continuous. {name} holds {y[row].item()!r} in row {row}, but a class is an int or a "
            "string."
        )
