"""What the two text forms of sparse matrices share: blocks through the native reader, faults as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.data.streams import InputStream
from sylvan.errors import DataError
from sylvan.parallel import map_parallel, progress

MAX_ID = 2**31 - 2  # the greatest id that leaves the number of ids within int32
_EXCERPT = 60


class LineFormat(NamedTuple):
    """How lines are to be read; the limits are inclusive and as written in the file."""

    lowest_feature: int
    highest_feature: int
    highest_label: int
    weighted_labels: bool
    svmlight: bool


def token(text: bytes) -> str:
    """How messages quote a piece of a file: escaped, and cut when it is long."""
    short, rest = text[:_EXCERPT], "…" if len(text) > _EXCERPT else ""
    try:
        return repr(short.decode("utf-8") + rest)
    except UnicodeDecodeError:
        return f"'{repr(short)[2:-1]}{rest}'"


class _Block(NamedTuple):
    """The content of one block of lines: row lengths, ids and values, and the fault that ended it, if any."""

    feature_counts: npt.NDArray[np.int64]
    features: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    label_counts: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    label_weights: npt.NDArray[np.float32]
    lines: int
    min_feature: int
    max_feature: int
    max_label: int
    empty_at_end: int
    first_highest: int
    fault: int
    fault_line: int
    fault_token: bytes


def _parse(text: bytes, form: LineFormat) -> _Block:
    buffer = np.frombuffer(text, np.uint8)
    n_rows, n_features, n_labels = kernels.bound_lines(buffer)
    feature_counts, label_counts = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    features, values = np.empty(n_features, np.int32), np.empty(n_features, np.float32)
    labels, weights = (np.empty(n_labels, np.int32), np.empty(n_labels if form.weighted_labels else 0, np.float32))
    result = kernels.parse_lines(buffer, *form, feature_counts, features, values, label_counts, labels, weights)
    rows, lines, n_features, n_labels, low, high, label, empty, first, fault, line, begin, end = result
    return _Block(
        feature_counts[:rows], features[:n_features], values[:n_features], label_counts[:rows], labels[:n_labels],
        weights[:n_labels], lines, low, high, label, empty, first, fault, line, text[begin:end],
    )  # fmt: skip


@dataclass
class Rows:
    """All rows of a file, in pieces that :meth:`matrices` joins."""

    blocks: list[_Block] = field(default_factory=list)
    n_rows: int = 0
    n_lines: int = 0
    empty_at_end: int = 0
    min_feature: int = -1
    max_feature: int = -1
    max_label: int = -1
    first_highest: int = -1

    def add(self, block: _Block, lines_before: int) -> None:
        """Take in the next block, whose first line follows ``lines_before`` others."""
        rows = len(block.feature_counts)
        self.empty_at_end = block.empty_at_end + (self.empty_at_end if block.empty_at_end == rows else 0)
        self.min_feature = min((low for low in (self.min_feature, block.min_feature) if low >= 0), default=-1)
        self.max_feature = max(self.max_feature, block.max_feature)
        self.max_label = max(self.max_label, block.max_label)
        if block.first_highest >= 0 and self.first_highest < 0:
            self.first_highest = lines_before + block.first_highest + 1
        self.n_rows += rows
        self.n_lines += block.lines
        self.blocks.append(block)

    def matrices(
        self, n_rows: int, n_features: int, n_labels: int, shift: int = 0
    ) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """The first ``n_rows`` rows as X and Y, feature ids lowered by ``shift``; the pieces are used up."""
        blocks, self.blocks = self.blocks, []
        x_offsets = _offsets([block.feature_counts for block in blocks], n_rows)
        y_offsets = _offsets([block.label_counts for block in blocks], n_rows)
        features, values = [block.features for block in blocks], [block.values for block in blocks]
        labels, weights = [block.labels for block in blocks], [block.label_weights for block in blocks]
        blocks.clear()  # each list now owns its arrays alone, and gives them up while they are joined
        x_ids = _concatenated(features, np.int32)
        if shift:
            x_ids -= np.int32(shift)
        x = _csr(_concatenated(values, np.float32), x_ids, x_offsets, n_features)
        y_ids = _concatenated(labels, np.int32)
        weighted = any(map(len, weights))
        relevances = _concatenated(weights, np.float32) if weighted else np.ones(len(y_ids), np.float32)
        return x, _csr(relevances, y_ids, y_offsets, n_labels)


def _offsets(counts: list[npt.NDArray[np.int64]], n_rows: int) -> npt.NDArray[np.int64]:
    joined = np.concatenate([np.zeros(1, np.int64), *counts])[: n_rows + 1]
    return np.cumsum(joined, out=joined)


_Scalar = TypeVar("_Scalar", bound=np.generic)


def _concatenated(pieces: list[npt.NDArray[_Scalar]], dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
    """``np.concatenate`` that gives up each piece once it is copied, so that little is in memory twice."""
    whole, end = np.empty(sum(map(len, pieces)), dtype), 0
    for i, piece in enumerate(pieces):
        whole[end : end + len(piece)] = piece
        end += len(piece)
        pieces[i] = piece[:0].copy()
    return whole


def _csr(
    data: npt.NDArray[np.float32], ids: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], n: int
) -> sp.csr_matrix:
    # Offsets and ids of one type are taken as they are; a mixture would be copied.
    narrow = offsets.astype(np.int32) if len(ids) <= np.iinfo(np.int32).max else offsets
    matrix = sp.csr_matrix((data, ids, narrow), shape=(len(offsets) - 1, n))
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def read_rows(
    stream: InputStream, first: bytes, rest: Iterator[bytes], form: LineFormat, n_jobs: int, lines_before: int
) -> Rows:
    """Read all rows: the block ``first``, then the blocks that ``rest`` gives."""
    rows = Rows()
    wave: list[bytes] = [first] if first else []
    size = 1 if n_jobs == 1 else 4 * n_jobs  # blocks read ahead, so that no thread waits long for the last one
    with progress(f"reading {stream.name}", stream.packed_size, "B") as bar:
        while True:
            while len(wave) < size and (block := next(rest, b"")):
                wave.append(block)
            if not wave:
                return rows
            for block_rows in map_parallel(lambda text: _parse(text, form), wave, n_jobs):
                before = lines_before + rows.n_lines
                if block_rows.fault:
                    place = f"{stream.name}, line {before + block_rows.fault_line + 1}"
                    raise DataError(f"{place}: {_sentence(block_rows, form)}.")
                rows.add(block_rows, before)
            wave.clear()
            stream.report(bar)


def _sentence(block: _Block, form: LineFormat) -> str:
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
