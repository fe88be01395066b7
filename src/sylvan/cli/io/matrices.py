"""Matrices as input: whole for training, block by block for ranking."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from sylvan import data
from sylvan.arrays.canonical import Csr
from sylvan.cli.io.formats import FORMATS, has_header
from sylvan.cli.session import say_once
from sylvan.data.formats.arrays import label_csr
from sylvan.data.formats.text_matrices import LineFormat, Rows, read_rows, read_svmlight
from sylvan.data.parts.part_folders import is_csr_folder
from sylvan.data.streams import open_read
from sylvan.data.text_rows import MAX_ID
from sylvan.errors import DataError, DataWarning
from sylvan.parallel import resolve_jobs, split_ranges
from sylvan.params.wording import counted

_ROWS = 4096
_WITHOUT_LABELS: dict[str, Callable[[str], Any]] = {"npz": data.load_npz, "npy": data.load_npy, "csr": data.open_csr}


class FileInput:
    """Base of texts and of matrices in a file."""

    path: str
    format: str

    @property
    def words(self) -> str:
        """What the format is, in words."""
        return FORMATS[self.format]

    @property
    def name(self) -> str:
        """How messages call the file."""
        return "stdin" if self.path == "-" else self.path


@dataclass
class MatrixInput(FileInput):
    """A matrix of features in a file, and its labels there or in a file of their own. ``first_feature`` is the number
    of the first feature in an svmlight file, 0 or 1; None to find out. ``as_trained`` says that it is that of the
    file which the model learned from. ``weighted_labels`` says that the labels of a text file are written as
    label:weight."""

    path: str
    format: str
    labels: str | None = None
    first_feature: int | None = None
    n_jobs: int | None = None
    weighted_labels: bool = False
    quiet: bool = False
    as_trained: bool = False

    is_text = False

    def read(self) -> tuple[Any, Any]:
        """Features and labels of all rows."""
        X, Y = self._loaded()
        if Y is None:
            raise self._no_labels()
        if Y.nnz == 0:
            raise DataError(f"{self.labels or self.name}: no row has a label.")
        self._say(X.shape[0], f"{counted(X.shape[1], 'feature')} and {counted(Y.shape[1], 'label')}")
        return X, Y

    def matrices(self) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """Features and labels as sparse matrices; labels without columns where there are none."""
        X, Y = self._loaded()
        if isinstance(X, data.RowParts):
            X, Y = sp.vstack([block.to_scipy() for block in X.blocks()], "csr"), None if Y is None else _scipy(Y)
        X, Y = _scipy(X), _empty(X.shape[0], 0) if Y is None else Y
        self._say(X.shape[0], f"{counted(X.shape[1], 'feature')} and {counted(Y.shape[1], 'label')}")
        return X, Y

    def _loaded(self) -> tuple[Any, Any]:
        """Features and labels of all rows; None for labels that aren't there."""
        X, Y = self._features()
        if self.labels is not None:
            Y = self.read_labels()
            if Y.shape[0] != X.shape[0]:
                raise DataError(f"{self.name} has {counted(X.shape[0], 'row')}, but {self.labels} has {Y.shape[0]}.")
        return X, Y

    def _say(self, n_rows: int, sizes: str) -> None:
        if not self.quiet:
            counted_from = "" if self.format != "svmlight" else f", features counted from {self.first_feature}"
            say_once(f"Read {counted(n_rows, 'row')} from {self.name}: {self.words}{counted_from}, {sizes}.")

    def read_labels(self) -> Any:
        """The labels of a file of their own; None when they stand beside the features."""
        if self.labels is not None:
            folder = is_csr_folder(self.labels)
            return label_csr(_scipy(data.open_csr(self.labels)) if folder else data.load_npz(self.labels), self.labels)
        if self.format in _WITHOUT_LABELS:
            raise self._no_labels()
        return None

    def _no_labels(self) -> DataError:
        return DataError(f"{self.name} is {self.words} and holds no labels: give them with --labels Y.npz.")

    def _features(self) -> tuple[Any, Any]:
        if self.format in _WITHOUT_LABELS:
            return _WITHOUT_LABELS[self.format](self.path), None
        if self.format == "parts":
            return data.open_parts(self.path)
        if self.format == "xmc":
            return data.load_xmc(self.path, weighted_labels=self.weighted_labels, n_jobs=self.n_jobs)
        zero_based: bool | Literal["auto"] = "auto" if self.first_feature is None else self.first_feature == 0
        X, Y, self.first_feature = read_svmlight(
            self.path, zero_based=zero_based, weighted_labels=self.weighted_labels, n_jobs=self.n_jobs
        )
        return X, Y

    def blocks(self, n_features: int) -> Iterator[tuple[Any, sp.csr_matrix | None]]:
        """Features, and labels where the file holds them, a few thousand rows at a time."""
        of_arrays = self.format == "parts" or self.format in _WITHOUT_LABELS
        n_rows = 0
        for X, Y in self._array_blocks(n_features) if of_arrays else self._text_blocks(n_features):
            n_rows += X.shape[0]
            yield X, Y
        self._say(n_rows, counted(n_features, "feature"))

    def _array_blocks(self, n_features: int) -> Iterator[tuple[Any, sp.csr_matrix | None]]:
        X: Any
        X, Y = self._features()
        X = _scipy(X) if self.format == "csr" else X
        self._check_width(X.shape[1], n_features)
        if self.format != "parts" and not X.shape[0]:
            raise DataError(f"{self.name}: the matrix has no rows.")
        for first, last in split_ranges(X.shape[0], _ROWS):
            rows = np.arange(first, last)
            block = X.take(rows).to_scipy() if self.format == "parts" else X[first:last]
            yield block, None if Y is None else Y.take(rows).to_scipy()

    def _check_width(self, width: int, n_features: int) -> None:
        if width != n_features:
            raise DataError(f"{self.name} has {counted(width, 'feature')}, but the model was trained on {n_features}.")

    def _text_blocks(self, n_features: int) -> Iterator[tuple[sp.csr_matrix, sp.csr_matrix]]:
        header = self.format == "xmc" and has_header(self.path)
        with open_read(self.path) as stream:
            blocks = stream.blocks()
            block = next(blocks, b"")
            promised = None
            if header:
                line, _, block = block.partition(b"\n")
                promised, width, _ = (int(word) for word in line.split())
                self._check_width(width, n_features)
            base = self.first_feature = self._first_feature(stream, block, n_features)
            # The file that the model learned from had no feature 0: here there may be one, which it can't know.
            lowest = 0 if self.as_trained else base
            form = LineFormat(lowest, n_features - 1 + base, MAX_ID, self.weighted_labels, self.format == "svmlight")
            lines, n_yielded, waiting = int(header), 0, 0
            while block:
                rows = read_rows(stream, block, iter(()), form, resolve_jobs(self.n_jobs), lines)
                lines += rows.n_lines
                empty = rows.empty_at_end if self.format == "xmc" else 0
                n = rows.n_rows - empty
                if n:  # until a row that is not empty follows, empty lines may be the end of the file
                    n_yielded += n + waiting
                    if lowest < base and rows.min_feature == 0:
                        warnings.warn(
                            f"{self.name} has a feature 0, and the model was trained on a file whose features count "
                            "from 1: it is left out, and the others are as they were there. If this file counts from "
                            "0, say --first-feature 0.", DataWarning, stacklevel=2,
                        )  # fmt: skip
                    yield from _slices(rows, n, n_features, waiting, base - lowest)
                    waiting = 0
                waiting += empty
                block = next(blocks, b"")
        # Only a header can say that the empty lines at the end are rows.
        if promised is None and not n_yielded:
            raise DataError(f"{self.name}: the file holds no instances.")
        if promised is not None and not n_yielded <= promised <= n_yielded + waiting:
            words = f"the header promises {counted(promised, 'row')}, but {n_yielded + waiting} follow"
            raise DataError(f"{self.name}, line 1: {words}.")
        if promised is not None and promised > n_yielded:
            yield _empty(promised - n_yielded, n_features), _empty(promised - n_yielded, 0)

    def _first_feature(self, stream: Any, block: bytes, n_features: int) -> int:
        if self.format != "svmlight" or self.first_feature is not None:
            return self.first_feature or 0
        rows = read_rows(stream, block, iter(()), LineFormat(0, n_features, MAX_ID, self.weighted_labels, True), 1, 0)
        if rows.min_feature == 0:
            return 0
        if rows.max_feature == n_features:
            return 1
        raise DataError(
            f"{self.name} does not show whether its features are counted from 0 or from 1: say it with --first-feature."
        )


def _slices(
    rows: Rows, n: int, n_features: int, before: int, shift: int
) -> Iterator[tuple[sp.csr_matrix, sp.csr_matrix]]:
    cut = shift if rows.min_feature == 0 else 0
    X, Y = rows.matrices(n, n_features + cut, rows.max_label + 1, shift - cut)
    X = X[:, cut:] if cut else X
    if before:
        X, Y = (sp.vstack([_empty(before, matrix.shape[1]), matrix], format="csr") for matrix in (X, Y))
    for first, last in split_ranges(X.shape[0], _ROWS):
        yield X[first:last], Y[first:last]


def _scipy(matrix: Any) -> sp.csr_matrix:
    """A matrix as SciPy's."""
    return matrix.to_scipy() if isinstance(matrix, Csr) else sp.csr_matrix(matrix)


def _empty(n: int, columns: int) -> sp.csr_matrix:
    nothing = np.empty(0, np.float32), np.empty(0, np.int32), np.zeros(n + 1, np.int64)
    return sp.csr_matrix(nothing, shape=(n, columns))


def widened(Y: sp.csr_matrix, columns: int) -> sp.csr_matrix:
    """``Y`` with at least so many columns."""
    if Y.shape[1] >= columns:
        return Y
    return sp.csr_matrix((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], columns))
