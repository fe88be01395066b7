"""Predictions on their way out: JSONL with label names and scores, or one CSR matrix in an ``.npz``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

import numpy as np

from sylvan.data.streams import open_write
from sylvan.topk import TopK

__all__ = ["Writer", "open_predictions"]


class Writer(Protocol):
    """Takes the answers for a block of rows after another."""

    def write(self, top: TopK, names: Sequence[Sequence[str]] | None) -> None:
        """The answers for the next rows, and their labels' names where labels have any."""


class _Lines:
    """One JSON object a row: ``{"labels": [...], "scores": [...]}``, best first; ids where labels have no names."""

    def __init__(self, stream: Any, label_of: Callable[[str], str | None] | None, key: str) -> None:
        self._stream, self._label_of, self._key = stream, label_of, key

    def write(self, top: TopK, names: Sequence[Sequence[str]] | None) -> None:
        rows = top.labels.tolist() if names is None else names
        lines = []
        for row, labels, scores in zip(rows, top.labels, top.scores, strict=True):
            n = int(np.count_nonzero(labels >= 0))
            # Six digits are all that a float32 is sure of, and half the bytes of the seventeen of a double.
            rounded = [float(f"{score:.6g}") for score in scores[:n]]
            results: dict[str, Any] = {"labels": list(row[:n]), self._key: rounded}
            if self._label_of is not None:
                uris = [str(name) for name in row[:n]]
                results = {**results, "labels": [self._label_of(uri) or uri for uri in uris], "uris": uris}
            lines.append(json.dumps(results, ensure_ascii=False))
        self._stream.write(("\n".join(lines) + "\n").encode() if lines else b"")


class _Matrix:
    """All answers as one CSR matrix of shape (n, n_labels)."""

    def __init__(self, n_labels: int) -> None:
        self._n_labels = n_labels
        self._blocks: list[Any] = []

    def write(self, top: TopK, names: Sequence[Sequence[str]] | None) -> None:
        self._blocks.append(top.to_csr(self._n_labels))

    def finish(self, stream: Any) -> None:
        import scipy.sparse as sp

        # Joined as matrices: a rule for when to stop gives each block a width of its own.
        sp.save_npz(stream, sp.vstack(self._blocks, format="csr"), compressed=False)


@contextmanager
def open_predictions(
    path: str, n_labels: int, label_of: Callable[[str], str | None] | None = None, key: str = "scores"
) -> Iterator[Writer]:
    """A writer to ``path``: a matrix when it ends in ``.npz``, JSONL otherwise, stdout for "-".

    With ``label_of``, JSONL holds what it gives for each name as ``labels``, and the names as ``uris``.
    The numbers beside the labels are called ``key``.
    A file takes its name when everything is written; until then whatever stood there stays.

    Raises
    ------
    DataError
        When nothing may be written there.
    """
    with open_write(path) as stream:
        if path.lower().endswith(".npz"):
            matrix = _Matrix(n_labels)
            yield matrix
            matrix.finish(stream)
        else:
            yield cast(Writer, _Lines(stream, label_of, key))
