"""Sparse matrices as text: the XMC repository's format, multi-label svmlight, and filters of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays import canonical, validate
from sylvan.arrays.canonical import Csr
from sylvan.data.streams import InputStream, PathLike, open_read, open_write
from sylvan.data.text_rows import MAX_ID, quoted, text_lines, token, unexpected
from sylvan.errors import DataError, ParameterError
from sylvan.parallel import map_parallel, progress, resolve_jobs
from sylvan.params.fields import Number, check_values
from sylvan.params.wording import counted


class LineFormat(NamedTuple):
    """How lines are to be read; the limits are inclusive and as written in the file."""

    lowest_feature: int
    highest_feature: int
    highest_label: int
    weighted_labels: bool
    svmlight: bool


@dataclass
class Rows:
    """The rows of a block of lines, or of all blocks of a file, in pieces that :meth:`matrices` joins."""

    # by block: row lengths, ids and values
    feature_counts: list[npt.NDArray[np.int64]] = field(default_factory=list)
    features: list[npt.NDArray[np.int32]] = field(default_factory=list)
    values: list[npt.NDArray[np.float32]] = field(default_factory=list)
    label_counts: list[npt.NDArray[np.int64]] = field(default_factory=list)
    labels: list[npt.NDArray[np.int32]] = field(default_factory=list)
    label_weights: list[npt.NDArray[np.float32]] = field(default_factory=list)
    n_rows: int = 0
    n_lines: int = 0
    min_feature: int = -1
    max_feature: int = -1
    max_label: int = -1
    empty_at_end: int = 0
    first_highest: int = -1
    fault: int = 0  # which ended the block, if any, in this line of it
    fault_line: int = 0
    fault_token: bytes = b""

    @classmethod
    def parse(cls, text: bytes, form: LineFormat) -> Rows:
        """Those of one block."""
        buffer = np.frombuffer(text, np.uint8)
        n_rows, n_features, n_labels = kernels.bound_lines(buffer)
        feature_counts, label_counts = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
        features, values = np.empty(n_features, np.int32), np.empty(n_features, np.float32)
        labels, weights = np.empty(n_labels, np.int32), np.empty(n_labels if form.weighted_labels else 0, np.float32)
        result = kernels.parse_lines(buffer, *form, feature_counts, features, values, label_counts, labels, weights)
        n_rows, n_lines, n_features, n_labels, low, high, label, empty, first, fault, line, begin, end = result
        return cls(
            [feature_counts[:n_rows]], [features[:n_features]], [values[:n_features]], [label_counts[:n_rows]],
            [labels[:n_labels]], [weights[:n_labels]], n_rows, n_lines, low, high, label, empty,
            first, fault, line, text[begin:end],
        )  # fmt: skip

    def add(self, block: Rows, lines_before: int) -> None:
        """Take in the next block, whose first line follows ``lines_before`` others."""
        for name in ("feature_counts", "features", "values", "label_counts", "labels", "label_weights"):
            getattr(self, name).extend(getattr(block, name))
        self.empty_at_end = block.empty_at_end + (self.empty_at_end if block.empty_at_end == block.n_rows else 0)
        self.min_feature = min((low for low in (self.min_feature, block.min_feature) if low >= 0), default=-1)
        self.max_feature = max(self.max_feature, block.max_feature)
        self.max_label = max(self.max_label, block.max_label)
        if block.first_highest >= 0 and self.first_highest < 0:
            self.first_highest = lines_before + block.first_highest + 1
        self.n_rows += block.n_rows
        self.n_lines += block.n_lines

    def matrices(
        self, n_rows: int, n_features: int, n_labels: int, shift: int = 0
    ) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """The first ``n_rows`` rows as X and Y, feature ids lowered by ``shift``; the pieces are used up."""
        x_offsets, y_offsets = _offsets(self.feature_counts, n_rows), _offsets(self.label_counts, n_rows)
        self.feature_counts, self.label_counts = [], []
        weighted = any(map(len, self.label_weights))
        x_ids = _concatenated(self.features, np.int32)
        if shift:
            x_ids -= np.int32(shift)
        x = Csr(x_offsets, x_ids, _concatenated(self.values, np.float32), (n_rows, n_features))
        y_ids = _concatenated(self.labels, np.int32)
        relevances = _concatenated(self.label_weights, np.float32) if weighted else np.ones(len(y_ids), np.float32)
        return x.to_scipy(), Csr(y_offsets, y_ids, relevances, (n_rows, n_labels)).to_scipy()


def _offsets(counts: list[npt.NDArray[np.int64]], n_rows: int) -> npt.NDArray[np.int64]:
    joined = np.concatenate([np.zeros(1, np.int64), *counts])[: n_rows + 1]
    return np.cumsum(joined, out=joined)


_Scalar = TypeVar("_Scalar", bound=np.generic)


def _concatenated(pieces: list[npt.NDArray[_Scalar]], dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
    """``np.concatenate`` that gives up each piece once it is copied, so that little is in memory twice."""
    result, end = np.empty(sum(map(len, pieces)), dtype), 0
    for i, piece in enumerate(pieces):
        result[end : end + len(piece)] = piece
        end += len(piece)
        pieces[i] = piece[:0].copy()
    return result


def read_rows(
    stream: InputStream, first: bytes, blocks: Iterator[bytes], form: LineFormat, n_jobs: int, lines_before: int
) -> Rows:
    """Read all rows: the block ``first``, then the blocks that ``blocks`` gives."""
    rows = Rows()
    wave: list[bytes] = [first] if first else []
    size = 1 if n_jobs == 1 else 4 * n_jobs  # blocks read ahead, so that no thread waits long for the last one
    with progress(f"reading {stream.name}", stream.packed_size, "B") as bar:
        while True:
            while len(wave) < size and (block := next(blocks, b"")):
                wave.append(block)
            if not wave:
                return rows
            for block_rows in map_parallel(lambda text: Rows.parse(text, form), wave, n_jobs):
                before = lines_before + rows.n_lines
                if block_rows.fault:
                    place = f"{stream.name}, line {before + block_rows.fault_line + 1}"
                    raise DataError(f"{place}: {_sentence(block_rows, form)}.")
                rows.add(block_rows, before)
            wave.clear()
            stream.report(bar)


def _sentence(block: Rows, form: LineFormat) -> str:
    """What is wrong with the line that ended a block."""
    got = token(block.fault_token)
    features = f"[{form.lowest_feature}, {form.highest_feature}]"
    labels = f"[0, {form.highest_label}]"
    repeated = "the values of a repeated feature sum to no finite float32"
    return {
        1: f"label ids must be ints in {labels}, parted by commas. Got {got} instead",
        2: f"label ids must be in {labels}. Got {got} instead",
        3: f"a label's weight must be a finite number of at least 0. Got {got} instead",
        4: f"{got} gives labels weights, which is read with weighted_labels=True (--weighted-labels) only",
        5: (
            f"the line starts with {got} where its labels should stand. A line without labels starts with a "
            "blank; labels with weights are read with weighted_labels=True (--weighted-labels)"
        ),
        6: f"a feature must be written as id:value. Got {got} instead",
        7: f"feature ids must be in {features}. Got {got} instead",
        8: f"a feature's value must be a number. Got {got} instead",
        9: f"values must be finite float32 numbers. Got {got} instead" if block.fault_token else repeated,
    }[block.fault]


_ENTRIES_A_BLOCK = 1 << 19
_BYTES_AN_ENTRY = 32
_SIZES = dict.fromkeys(("n_features", "n_labels"), Number(int, 0, MAX_ID + 1, optional=True))


def load_xmc(
    path: PathLike, *, header: bool | Literal["auto"] = "auto", n_features: int | None = None,
    n_labels: int | None = None, weighted_labels: bool = False, n_jobs: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix]:  # fmt: skip
    """Read features and labels in the text format of the extreme classification repository.

    The file may start with a header line ``rows features labels``. Every further line is an instance:
    ``1,5,7 3:0.5 9:1.25``, label ids parted by commas, a blank, and ``feature:value`` pairs; all ids count
    from 0. A line that starts with a blank has no labels. Ids may stand in any order; the values of a
    repeated feature are summed, a repeated label counts once.

    Parameters
    ----------
    path : path-like
        The file, gzip or xz unpacked on the way; "-" reads stdin.
    header : bool or "auto"
        Whether there is a header line; "auto" takes a first line of three bare numbers as one.
    n_features, n_labels : int, optional
        Sizes to use instead of the header's; without either, one more than the greatest id found. Give a test
        file the training file's sizes.
    weighted_labels : bool
        Read the first token as ``label:weight,label:weight``; a label without a weight has weight 1, and the
        weights of a repeated label are summed.
    n_jobs : int, optional
        Number of threads; None for every core. The result does not depend on it.

    Returns
    -------
    X : csr_matrix of float32, shape (n, n_features)
    Y : csr_matrix of float32, shape (n, n_labels)
        Relevance, 1 without weights. Both have sorted ids without repetition.

    Raises
    ------
    DataError
        For the first line that can't be read, naming file, line, what stands there and what may; when the
        header promises other sizes than the lines have; when the file is missing, empty or damaged.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("2 4 3\\n0,2 1:0.5 3:2\\n 0:1\\n")
    >>> X, Y = data.load_xmc(path)
    >>> X.toarray().tolist(), Y.toarray().tolist()
    ([[0.0, 0.5, 0.0, 2.0], [1.0, 0.0, 0.0, 0.0]], [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])

    References
    ----------
    K. Bhatia et al., The extreme classification repository: multi-label datasets and code, 2016.
    """
    if header not in (True, False, "auto"):
        raise ParameterError(f"The 'header' parameter must be True, False or 'auto'. Got {header!r} instead.")
    check_values(_SIZES, n_features=n_features, n_labels=n_labels)
    jobs = resolve_jobs(n_jobs)
    with open_read(path) as stream:
        blocks = stream.blocks()
        first = next(blocks, b"")
        if not first:
            raise DataError(f"{stream.name}: the file is empty.")
        promised, first = _take_header(stream.name, first, header)
        n_features = n_features if n_features is not None else promised[1] if promised else None
        n_labels = n_labels if n_labels is not None else promised[2] if promised else None
        form = LineFormat(0, _highest(n_features), _highest(n_labels), weighted_labels, False)
        rows = read_rows(stream, first, blocks, form, jobs, 1 if promised else 0)
        n_rows = _count_rows(stream, rows, promised[0] if promised else None)
    n_features = rows.max_feature + 1 if n_features is None else n_features
    n_labels = rows.max_label + 1 if n_labels is None else n_labels
    return rows.matrices(n_rows, n_features, n_labels)


def load_svmlight(
    path: PathLike, *, zero_based: bool | Literal["auto"] = "auto", n_features: int | None = None,
    n_labels: int | None = None, weighted_labels: bool = False, n_jobs: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix]:  # fmt: skip
    """Read features and labels in the multi-label svmlight (libsvm) format.

    A line is ``1,5,7 3:0.5 9:1.25 # comment``; the labels may be missing, ``qid:…`` is passed over, and
    lines that are empty or hold a comment alone are no instances. The rest is as in :func:`load_xmc`.

    Parameters
    ----------
    path, n_features, n_labels, weighted_labels, n_jobs
        As in :func:`load_xmc`.
    zero_based : bool or "auto"
        Whether the first feature is written as 0 (True) or 1 (False); "auto" takes it as 1 unless a 0 occurs,
        which holds for the whole file only: say it yourself for a file that may leave feature 0 out. Label
        ids count from 0 in any case.

    Returns
    -------
    X : csr_matrix of float32, shape (n, n_features)
    Y : csr_matrix of float32, shape (n, n_labels)

    Raises
    ------
    DataError
        As :func:`load_xmc`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.svm"
    >>> _ = path.write_text("0,2 1:0.5 3:2\\n2:1  # no labels here\\n")
    >>> X, Y = data.load_svmlight(path)
    >>> X.toarray().tolist(), Y.toarray().tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    """
    return read_svmlight(path, zero_based, n_features, n_labels, weighted_labels, n_jobs)[:2]


def read_svmlight(
    path: PathLike, zero_based: bool | Literal["auto"] = "auto", n_features: int | None = None,
    n_labels: int | None = None, weighted_labels: bool = False, n_jobs: int | None = None,
) -> tuple[sp.csr_matrix, sp.csr_matrix, int]:  # fmt: skip
    """What :func:`load_svmlight` gives, and the number that the first feature has in the file."""
    if zero_based not in (True, False, "auto"):
        raise ParameterError(f"The 'zero_based' parameter must be True, False or 'auto'. Got {zero_based!r} instead.")
    check_values(_SIZES, n_features=n_features, n_labels=n_labels)
    jobs = resolve_jobs(n_jobs)
    lowest = 1 if zero_based is False else 0
    # Until a 0 is seen, "auto" must allow the last feature in either way of counting.
    highest = _highest(n_features) + (1 if zero_based is not True and n_features is not None else 0)
    with open_read(path) as stream:
        form = LineFormat(lowest, highest, _highest(n_labels), weighted_labels, True)
        blocks = stream.blocks()
        rows = read_rows(stream, next(blocks, b""), blocks, form, jobs, 0)
        if rows.n_rows == 0:
            raise DataError(f"{stream.name}: the file holds no instances.")
    shift = 0
    if zero_based == "auto":
        shift = 0 if rows.min_feature == 0 else 1
        if not shift and n_features is not None and rows.max_feature >= n_features:
            rule = f"feature ids must be in [0, {n_features - 1}], as the file counts from 0 (feature 0 occurs)"
            raise unexpected(f"{stream.name}, line {rows.first_highest}", rule, str(rows.max_feature))
    base = lowest + shift
    n_features = max(rows.max_feature + 1 - base, 0) if n_features is None else n_features
    n_labels = rows.max_label + 1 if n_labels is None else n_labels
    return *rows.matrices(rows.n_rows, n_features, n_labels, shift), base


def save_xmc(path: PathLike, X: Any, Y: Any, *, header: bool = True, weighted_labels: bool | None = None) -> None:
    """Write features and labels in the text format that :func:`load_xmc` reads back bit by bit.

    Parameters
    ----------
    path : path-like
        Packed when it ends in .gz or .xz; "-" writes to stdout. The file is replaced in one step at the end.
    X : sparse matrix or ndarray, shape (n, n_features)
        Written as float32.
    Y : sparse matrix or ndarray, shape (n, n_labels)
    header : bool
        Whether to write the line ``n n_features n_labels``.
    weighted_labels : bool, optional
        Write labels as ``label:weight``; by default when Y has values other than 1.

    Raises
    ------
    DataError
        When X or Y is no finite matrix, a weight is negative, or their lengths differ.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> data.save_xmc(path, np.array([[0.5, 0], [0, 2]]), np.array([[1, 0, 1], [0, 0, 0]]))
    >>> print(path.read_text(), end="")
    2 2 3
    0,2 0:0.5
     1:2
    """
    _save(path, X, Y, header=header, lowest=0, weighted_labels=weighted_labels)


def save_svmlight(
    path: PathLike, X: Any, Y: Any, *, zero_based: bool = True, weighted_labels: bool | None = None
) -> None:
    """Write features and labels as multi-label svmlight, which :func:`load_svmlight` reads back bit by bit.

    Parameters
    ----------
    path, X, Y, weighted_labels
        As in :func:`save_xmc`.
    zero_based : bool
        Whether the first feature is written as 0 or as 1.

    Raises
    ------
    DataError
        As :func:`save_xmc`.
    """
    _save(path, X, Y, header=False, lowest=0 if zero_based else 1, weighted_labels=weighted_labels)


def _highest(size: int | None) -> int:
    return MAX_ID if size is None else int(size) - 1


def _take_header(name: str, block: bytes, header: bool | Literal["auto"]) -> tuple[tuple[int, int, int] | None, bytes]:
    """The header's three numbers, if there is one, and the block without it."""
    line, _, remainder = block.partition(b"\n")
    line = line.removesuffix(b"\r")
    fields = line.split()
    sound = len(fields) == 3 and all(field.isdigit() and len(field) < 20 for field in fields)
    if header == "auto" and not sound and len(fields) > 1 and b":" not in line:  # no instance, but a header of a kind
        rule = "must be a header of three ints (rows, features, labels) or an instance with features as id:value"
        raise unexpected(f"{name}, line 1", rule, token(line))
    if header is False or (header == "auto" and not sound):
        return None, block
    if not sound:
        raise unexpected(f"{name}, line 1", "a header must be three ints: rows, features, labels", token(line))
    n, d, n_labels = (int(field) for field in fields)
    if d > MAX_ID + 1 or n_labels > MAX_ID + 1:
        rule = f"the header's numbers of features and labels must be at most {MAX_ID + 1}"
        raise unexpected(f"{name}, line 1", rule, token(line))
    return (n, d, n_labels), remainder


def _count_rows(stream: InputStream, rows: Rows, promised: int | None) -> int:
    """How many rows count: empty lines at the end are none unless the header promises them."""
    least = rows.n_rows - rows.empty_at_end
    if promised is None:
        if least == 0:
            raise DataError(f"{stream.name}: the file holds no instances.")
        return least
    if not least <= promised <= rows.n_rows:
        line, follow = (1, rows.n_rows) if promised > rows.n_rows else (promised + 2, least)
        raise DataError(
            f"{stream.name}, line {line}: the header promises {counted(promised, 'row')}, but {follow} follow."
        )
    return promised


def _save(path: PathLike, X: Any, Y: Any, *, header: bool, lowest: int, weighted_labels: bool | None) -> None:
    x = canonical.matrix(X, "X", "features")
    n = x.shape[0]
    y = validate.labels(canonical.matrix(Y, "Y", "labels"), n_rows=n)
    if weighted_labels is None:
        weighted_labels = bool((y.data != 1).any())
    # Row i begins with entry work[i]; blocks are cut where the entries reach their share.
    work = x.indptr + y.indptr + np.arange(n + 1)
    cuts = np.unique(np.searchsorted(work, np.arange(0, int(work[-1]), _ENTRIES_A_BLOCK)))
    with open_write(path) as stream, progress("writing", n, "row") as bar:
        if header:
            stream.write(f"{n} {x.shape[1]} {y.shape[1]}\n".encode())
        for first, last in pairwise((*cuts.tolist(), n)):
            out = np.empty(_BYTES_AN_ENTRY * int(work[last] - work[first]), np.uint8)
            size = kernels.format_lines(
                first, last, x.indptr, x.indices, x.data, y.indptr, y.indices, y.data, weighted_labels, lowest, out
            )
            stream.write(out[:size].data)
            bar.update(last - first)


def load_filter_labels(path: PathLike, shape: tuple[int, int] | None = None) -> sp.csr_matrix:
    """Read which labels don't count as answers for which rows: ``filter_labels_test.txt`` of the XMC repository.

    Sets in which rows and labels are the same things (titles of products, say) have pairs whose answer is the row
    itself or its mirror image. The file holds a row and a label a line, both from 0.

    Parameters
    ----------
    path : path-like
        The file, gzip or xz unpacked on the way; "-" reads stdin. An empty one names no pair.
    shape : (int, int), optional
        Rows and labels there are; by default one more than the greatest in the file.

    Returns
    -------
    csr_matrix of float32, shape (n, n_labels)
        1 where a label doesn't count.

    Raises
    ------
    DataError
        For the first line that is no such pair or lies outside ``shape``, naming file and line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "filter_labels_test.txt"
    >>> _ = path.write_text("0 3\\n2 1\\n")
    >>> data.load_filter_labels(path, shape=(3, 4)).toarray().astype(int).tolist()
    [[0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]
    """
    highest = (MAX_ID, MAX_ID) if shape is None else (shape[0] - 1, shape[1] - 1)
    pairs: list[tuple[int, int]] = []
    with open_read(path) as stream:
        for place, line in text_lines(stream):
            if not (words := line.split()):
                continue
            if len(words) != 2 or not all(word.isascii() and word.isdecimal() for word in words):
                raise unexpected(place, "a line must be a row and a label, both ints from 0", quoted(line))
            pair = int(words[0]), int(words[1])
            for number, limit, axis in zip(pair, highest, ("row", "label"), strict=True):
                if number > limit:
                    raise DataError(f"{place}: a {axis} must be in [0, {limit}]. Got {number} instead.")
            pairs.append(pair)
    rows, labels = zip(*pairs, strict=True) if pairs else ((), ())
    size = shape or (max(rows, default=-1) + 1, max(labels, default=-1) + 1)
    result = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, labels)), shape=size)
    result.sum_duplicates()
    result.data[:] = 1
    return result


def save_filter_labels(path: PathLike, pairs: sp.csr_matrix) -> None:
    """Write the stored entries of a matrix as a row and a label a line, which :func:`load_filter_labels` reads."""
    result = sp.csr_matrix(pairs)
    result.sort_indices()
    rows = np.repeat(np.arange(result.shape[0]), np.diff(result.indptr))
    with open_write(path) as stream:
        for row, label in zip(rows.tolist(), result.indices.tolist(), strict=True):
            stream.write(f"{row} {label}\n".encode())
