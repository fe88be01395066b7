"""The XMC repository's files of pairs that an evaluation skips."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sylvan.data.lines import MAX_ID
from sylvan.data.streams import PathLike, open_read, open_write
from sylvan.data.text_rows import quoted, text_lines
from sylvan.errors import DataError


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
    rows: list[int] = []
    labels: list[int] = []
    with open_read(path) as stream:
        for place, line in text_lines(stream):
            words = line.split()
            if not words:
                continue
            if len(words) != 2 or not all(word.isascii() and word.isdecimal() for word in words):
                raise DataError(
                    f"{place}: a line must be a row and a label, both ints from 0. Got {quoted(line)} instead."
                )
            pair = int(words[0]), int(words[1])
            for number, limit, what in zip(pair, highest, ("row", "label"), strict=True):
                if number > limit:
                    raise DataError(f"{place}: a {what} must be in [0, {limit}]. Got {number} instead.")
            rows.append(pair[0])
            labels.append(pair[1])
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
