"""Files of labels: those of ``--allowed`` and ``--denied``, names a line each, and pairs of ``--filter-labels``."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan import data, metrics
from sylvan.arrays.topk import TopK
from sylvan.data.streams import open_read
from sylvan.errors import DataError, ParameterError
from sylvan.labels.lookup import ids_of_names
from sylvan.labels.vocabulary import Numbers
from sylvan.params.wording import counted


def read_lists(model: Any, allowed: str | None, denied: str | None, input_: str) -> dict[str, Any]:
    """What ``rank`` is to be given besides: the label ids of the files that were named."""
    if [allowed, denied, input_].count("-") > 1:
        raise ParameterError("Only one of INPUT, --allowed and --denied can be read from stdin.")
    given = {"allowed": allowed, "denied": denied}
    return {name: read_labels(path, model) for name, path in given.items() if path is not None}


def read_labels(path: str, model: Any) -> list[Any]:
    """The labels that a file names, one a line, as the model's ``rank`` takes them; ``"-"`` for stdin."""
    source, result = "stdin" if path == "-" else path, []
    with open_read(path) as stream:
        for number, line in stream.lines():
            where = f"{source}, line {number}"
            try:
                word = line.decode().rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise DataError(f"{where}: the label is not UTF-8.") from error
            if not word.strip():
                continue
            if model.vocabulary_ is None:
                result.append(_id(word.strip(), where, model.n_labels_))
            else:
                (label,) = ids_of_names([word], model.vocabulary_, f"{where}: the list")
                result.append(model.vocabulary_[label])
    return result


def _id(word: str, where: str, n_labels: int) -> int:
    if not word.isascii() or not word.isdigit() or int(word) >= n_labels:
        raise DataError(f"{where}: a label of this model is an id in [0, {n_labels - 1}]. Got {word!r:.60} instead.")
    return int(word)


def read_names(path: str) -> list[str]:
    """The names in a file, one a line."""
    with open_read(path) as stream:
        return [line.decode("utf-8", "replace") for _, line in stream.lines()]


class FilteredPairs:
    """The pairs of a file, as the labels of a model; none without a file."""

    def __init__(self, path: str | None, model: Any) -> None:
        self.path = path
        pairs: Any = sp.csr_matrix(np.zeros((0, 0), np.float32)) if path is None else data.load_filter_labels(path)
        self._n_rows = pairs.shape[0]
        rows, labels = (ids.astype(np.int64) for ids in pairs.nonzero())
        if model.takes_texts or isinstance(model.vocabulary_, Numbers):  # numbers in the file are names too
            known = [model.vocabulary_.get(str(label)) for label in labels.tolist()]
            labels = np.array([-1 if label is None else label for label in known], np.int64)
        known_ids = (labels >= 0) & (labels < model.n_labels_)
        ones = np.ones(int(known_ids.sum()), np.float32)
        pairs = ones, (rows[known_ids], labels[known_ids])
        self._pairs = sp.csr_matrix(pairs, shape=(self._n_rows, model.n_labels_))
        self.most = int(np.diff(self._pairs.indptr).max(initial=0))

    def apply(self, top: TopK, first: int, k: int) -> TopK:
        """The first ``k`` answers that count of the rows from ``first`` on."""
        if not self.most:
            return top
        pairs: Any = self._pairs[first : first + len(top)]
        pairs.resize((len(top), self._pairs.shape[1]))
        counting = metrics.filter_answers(top, pairs)
        return TopK(counting.labels[:, :k], counting.scores[:, :k])

    def check(self, n_rows: int) -> None:
        """Refuse a file that names rows beyond the last."""
        if self._n_rows > n_rows:
            raise DataError(
                f"{self.path} names row {self._n_rows - 1}, but there are {counted(n_rows, 'row')}, counted from 0."
            )
