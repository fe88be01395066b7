"""Predictions on their way out: JSONL with label names and scores, or one CSR matrix in an ``.npz``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, top: TopK, names: Sequence[Sequence[str]] | None) -> None:
        rows = top.labels.tolist() if names is None else names
        lines = []
        for row, labels, scores in zip(rows, top.labels, top.scores, strict=True):
            n = int(np.count_nonzero(labels >= 0))
            # Six digits are all that a float32 is sure of, and half the bytes of the seventeen of a double.
            found = {"labels": list(row[:n]), "scores": [float(f"{score:.6g}") for score in scores[:n]]}
            lines.append(json.dumps(found, ensure_ascii=False))
        self._stream.write(("\n".join(lines) + "\n").encode() if lines else b"")


class _Matrix:
    """All answers as one CSR matrix of shape (n, n_labels)."""

    def __init__(self, n_labels: int) -> None:
        self._n_labels = n_labels
        self._blocks: list[TopK] = []

    def write(self, top: TopK, names: Sequence[Sequence[str]] | None) -> None:
        self._blocks.append(top)

    def finish(self, stream: Any) -> None:
        import scipy.sparse as sp

        labels = np.concatenate([block.labels for block in self._blocks])
        scores = np.concatenate([block.scores for block in self._blocks])
        sp.save_npz(stream, TopK(labels, scores).to_csr(self._n_labels), compressed=False)


@contextmanager
def open_predictions(path: str, n_labels: int) -> Iterator[Writer]:
    """A writer to ``path``: a matrix when it ends in ``.npz``, JSONL otherwise, stdout for "-".

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
            yield cast(Writer, _Lines(stream))
